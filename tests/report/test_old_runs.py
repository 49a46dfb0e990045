"""Run folders as earlier versions wrote them, real ones: each still gives its report, with the values that it had.

``tests/recorded/runs`` holds what version 0.1.0 wrote at commit 908d709 (format 1), with two tables of that time.
"""

import csv
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.repository import RECORDED

from virtoll.campaign.preview import catalogue
from virtoll.experiment.parse import parse_experiment
from virtoll.report import build_report
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.traffic_records import Point

RUNS = RECORDED / "runs"
LABELS = {
    "models": ["model", "model-again", "model-cost-25"],
    "containers": ["native", "native-again", "netns-cgroup", "runc", "model-that-dies"],
    "density": ["netns", "runc"],
}
CELL = ("trial", "block", "platform", "workload", "metric", "unit", "status", "value")
COUNT = ("platform", "step", "status", "guests", "available_bytes", "processes_bytes")


@pytest.fixture(params=sorted(LABELS))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """One of them, unpacked."""
    with tarfile.open(RUNS / f"{request.param}.tar.xz") as packed:
        packed.extractall(tmp_path)
    return tmp_path / str(request.param)


def rows(table: Path, columns: tuple[str, ...]) -> list[tuple[str, ...]]:
    """A table's rows, of these columns alone, sorted."""
    with table.open(encoding="utf-8", newline="") as lines:
        return sorted(tuple(row[column] for column in columns) for row in csv.DictReader(lines))


def with_rates_of_now(run: Path, cells: list[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """The same cells: blocks were counted from 0, and a rate is since then at most a point's frames by its time
    (docs/run-folder.md).
    """
    points = {str(trial.trial): trial.points or () for trial in RunFolder.open(run).trials()}
    for trial, block, *rest in cells:
        cell = (trial, str(int(block) + 1), *rest)
        if cell[4] == "maximum_forwarded_rate" and cell[-1]:
            yield (*cell[:-1], repr(max(map(rate, points[cell[0]]))))
        else:
            yield cell


def rate(point: Point) -> float:
    """Frames/s of one source; 0 where fewer than two arrived."""
    (arrived,) = point.sink.per_source
    frames, first, last = (
        arrived.forwarded_frames,
        arrived.first_received_monotonic_ns,
        arrived.last_received_monotonic_ns,
    )
    if frames < 2 or first is None or last is None:
        return 0.0
    return min((frames - 1) * 1e9 / (last - first), frames * 1e9 / point.duration_ns)


def test_an_old_run_gives_its_report_with_the_values_that_it_had(old: Path) -> None:
    build_report(old)
    page = (old / "report" / "index.html").read_text(encoding="utf-8")
    assert [label for label in LABELS[old.name] if label not in page] == []
    for name, now, columns in (("cells", "cells", CELL), ("density", "consolidation", COUNT)):
        before = old / "tables" / f"{name}.csv"
        if before.is_file():
            expected = rows(before, columns)
            if name == "cells":
                expected = sorted(with_rates_of_now(old, expected))
            assert rows(old / "report" / "tables" / f"{now}.csv", columns) == expected


def test_the_experiment_of_an_old_run_still_parses(old: Path) -> None:
    experiment = parse_experiment(RunFolder.open(old).manifest.experiment["text"], old, catalogue())
    assert [choice.label for choice in experiment.platforms] == LABELS[old.name]
