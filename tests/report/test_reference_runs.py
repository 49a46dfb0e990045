"""Real runs of the studies' experiments, in `reference/runs`: each draws its page and gives the ledger that it gave."""

import csv
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import in_process
from tests.support.repository import ROOT

RUNS = ROOT / "reference" / "runs"
NAMES = sorted(packed.name.removesuffix(".tar.xz") for packed in RUNS.glob("*.tar.xz"))


@pytest.fixture(scope="module", params=NAMES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of them, unpacked, with its page."""
    folder = tmp_path_factory.mktemp("reference")
    with tarfile.open(RUNS / f"{request.param}.tar.xz") as packed:
        packed.extractall(folder)
    told = in_process("report", folder / request.param)
    assert told.returncode == 0, told.stderr
    return folder / str(request.param)


@pytest.fixture(scope="module")
def ledger(run: Path) -> list[dict[str, Any]]:
    """What `virtoll claims` says of it, claim by claim."""
    told = in_process("claims", run, "--json")
    assert told.returncode == 0, told.stderr
    found: list[dict[str, Any]] = json.loads(told.stdout)["claims"]
    return found


def test_no_bit_of_it_has_changed(run: Path) -> None:
    assert in_process("verify", run).returncode == 0


def test_its_ledger_is_the_one_on_record(run: Path, ledger: list[dict[str, Any]]) -> None:
    with (RUNS / "outcomes.csv").open(encoding="utf-8", newline="") as lines:
        recorded = {row["claim"]: row["outcome"] for row in csv.DictReader(lines) if row["run"] == run.name}
    assert {one["claim"]["id"]: one["outcome"] for one in ledger} == recorded


def test_its_page_has_every_platform_its_study_and_every_claim(run: Path, ledger: list[dict[str, Any]]) -> None:
    page = (run / "report" / "index.html").read_text(encoding="utf-8")
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    assert [one for one in manifest["platforms"] if one["label"] not in page] == []
    assert [one["claim"]["id"] for one in ledger if one["claim"]["id"] not in page] == []
    with (run / "report" / "tables" / "then_and_now.csv").open(encoding="utf-8", newline="") as lines:
        assert run.name in {row["paper"] for row in csv.DictReader(lines)}
