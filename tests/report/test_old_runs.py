"""Run folders as earlier versions wrote them, real ones: each still gives its report, with the values that it had.

``tests/recorded/runs`` holds what version 0.1.0 wrote at commit 908d709 (format 1), with two tables of that time.
"""

import csv
import tarfile
from pathlib import Path

import pytest

from virtoll.experiment.parse import parse_experiment
from virtoll.report import build_report
from virtoll.run.preview import catalogue
from virtoll.runfolder.store import RunFolder

RECORDED = Path(__file__).resolve().parents[1] / "recorded" / "runs"
LABELS = {
    "models": ["model", "model-again", "model-cost-25"],
    "containers": ["native", "native-again", "netns-cgroup", "runc", "model-that-dies"],
    "density": ["netns", "runc"],
}
CELL = ("block", "platform", "workload", "metric", "unit", "status", "value")
COUNT = ("platform", "step", "status", "guests", "available_bytes", "processes_bytes")


@pytest.fixture(params=sorted(LABELS))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """One of them, unpacked."""
    with tarfile.open(RECORDED / f"{request.param}.tar.xz") as packed:
        packed.extractall(tmp_path)
    return tmp_path / str(request.param)


def rows(table: Path, columns: tuple[str, ...]) -> list[tuple[str, ...]]:
    """A table's rows, of these columns alone, sorted."""
    with table.open(encoding="utf-8", newline="") as lines:
        return sorted(tuple(row[column] for column in columns) for row in csv.DictReader(lines))


def test_an_old_run_gives_its_report_with_the_values_that_it_had(old: Path) -> None:
    build_report(old)
    page = (old / "report" / "index.html").read_text(encoding="utf-8")
    assert [label for label in LABELS[old.name] if label not in page] == []
    for name, now, columns in (("cells", "cells", CELL), ("density", "consolidation", COUNT)):
        before = old / "tables" / f"{name}.csv"
        if before.is_file():
            expected, reported = rows(before, columns), rows(old / "report" / "tables" / f"{now}.csv", columns)
            assert [row[:-1] for row in reported] == [row[:-1] for row in expected]
            for new, was in zip(reported, expected, strict=True):
                if new[-1] != was[-1]:
                    assert was[3] == "maximum_forwarded_rate", "since then at most the frames by the time of the point"
                    assert 0.99 * float(was[-1]) < float(new[-1]) < float(was[-1])


def test_the_experiment_of_an_old_run_still_parses(old: Path) -> None:
    experiment = parse_experiment(RunFolder.open(old).manifest.experiment["text"], old, catalogue())
    assert [choice.label for choice in experiment.platforms] == LABELS[old.name]
