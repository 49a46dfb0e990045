"""Real runs of the studies' experiments, in `reference/runs`: each draws its page and gives the ledger that it gave."""

import csv
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import in_process
from tests.support.facts import assert_facts
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


IN_PART: dict[str, dict[str, tuple[str, ...]]] = {
    "mattos2012": {"Figure 5": ("65 536", "4 194 304"), "Figure 8": ("2 of 4 senders", "20 of 130 kpackets/s")},
    "schlosser2011": {"Figure 4": ("1 of 3 sources",)},
    "suresh2014": {"Figure 5": ("400 of 1600 requests/s", "idle"), "Table 2": ("1 of 8 threads",)},
    "camargos2008": {"Figure 5": ("1 of 100 clients",), "Figure 12": ("1 of 32 guests",)},
}


def test_its_studys_page_says_what_of_each_figure_is_absent(run: Path, tmp_path: Path) -> None:
    told = in_process("reproduce", run.name, "--from", run, "--into", tmp_path, "--json")
    assert told.returncode == 0, told.stderr
    document = json.loads(told.stdout)
    for name, facts in IN_PART[run.name].items():
        assert_facts(document["replayed"][name], "in part", *facts)
    assert document["sizes"]
    assert {one["fitness"]["level"] for one in document["runs"]} <= {"fit", "degraded", "unfit"}
    assert all("native-again against native" in one["control"] for one in document["runs"])
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert [one for one in document["replayed"].values() if one[1:] not in page] == []
