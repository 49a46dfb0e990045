"""What guests next to the measured one take from it: injected interference is found, in analysis, page and tables."""

from __future__ import annotations

import csv
import re
from itertools import product
from pathlib import Path

import pytest
from rich.console import Console
from tests.support.experiments import FEW_POINTS, fake
from tests.support.facts import assert_facts
from tests.support.model_runs import run, run_with_neighbours

from virtoll.report.build import build_report, load
from virtoll.report.sections.isolation.page import control_line, isolation_terminal
from virtoll.runfolder.conditions import ALONE
from virtoll.stats.analysis import analyse
from virtoll.stats.compare import Verdict

pytestmark = pytest.mark.usefixtures("undrawn")
JOB = [{"workload": "superpi", "digits": 1000}]
JOB_AND_FORWARD = [*JOB, FEW_POINTS]


def test_a_known_interference_is_found_and_its_absence_too(tmp_path: Path) -> None:
    """Half as much again for each loaded guest beside it; nothing by an idle one; alone against alone is alike."""
    folder = run_with_neighbours(
        tmp_path / "run",
        platforms=[fake("model", interference=0.5), fake("other")],
        neighbours=["idle", "light", {"load": "heavy", "guests": 2}],
        blocks=4,
        rounds=3,
        workloads=JOB_AND_FORWARD,
    )
    analysis = analyse(load(folder.path))
    found = analysis.isolation
    assert [one.label for one in found.conditions] == [
        "idle guest, same CPUs",
        "light load, same CPUs",
        "2 x heavy load, same CPUs",
    ]
    expected = {"idle guest, same CPUs": 1.0, "light load, same CPUs": 1 / 1.5, "2 x heavy load, same CPUs": 0.5}
    for one in found.comparisons:
        assert one.share is not None
        wanted = expected[one.condition or ""] if one.platform == "model" else 1.0
        assert one.share == pytest.approx(wanted, rel=0.03), one
        assert one.verdict is (Verdict.ALIKE if wanted == 1.0 else Verdict.SLOWER), one
    assert found.family == len(found.comparisons) == 2 * 2 * 3
    assert {one.verdict for one in found.control} == {Verdict.ALIKE}
    assert_facts(control_line(analysis), "A/A")
    # What is compared between platforms is both of them alone.
    assert analysis.comparison("other", analysis.tasks[0]).share == pytest.approx(1.0, rel=0.03)  # type: ignore[union-attr]


def test_routers_beside_others_are_in_the_papers_form(tmp_path: Path) -> None:
    folder = run_with_neighbours(
        tmp_path / "run",
        platforms=[fake("model", interference=0.5)],
        neighbours=["idle", "heavy", {"load": "forward", "rate_share": [0.5, 0.95]}],
        blocks=2,
        rounds=2,
        workloads=[
            {**FEW_POINTS, "frame_size_bytes": [64, 1500]},
            {"workload": "throughput", "frame_size_bytes": 64},
            *JOB,
        ],
    )
    rows = analyse(load(folder.path)).neighbour_routers
    labels = [
        "idle guest, same CPUs",
        "heavy load, same CPUs",
        "forwarding at 50 %, same CPUs",
        "forwarding at 95 %, same CPUs",
    ]
    assert [(one.condition.label, one.task.size) for one in rows] == list(product(labels, ("64 B", "1500 B")))
    for one in rows:
        assert one.blocks == 2
        assert one.change.value == pytest.approx(0.0 if one.condition.load == "idle" else -1 / 3, abs=0.02)
        assert one.with_neighbours.value == pytest.approx(one.alone.value * (1 + one.change.value), rel=0.02)
        assert (one.into_other is None) == (one.out_of_other is None) == (one.condition.load != "forward")
    build_report(folder.path)
    page = (folder.path / "report" / "index.html").read_text(encoding="utf-8")
    assert 'id="figure-routers_beside"' in page
    with (folder.path / "report" / "tables" / "routers_beside.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["out_of_other_mean_mbit_per_second"] != "" for row in table] == [False] * 4 + [True] * 4


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run of models with every kind of load, and its folder."""
    folder = tmp_path_factory.mktemp("neighbours") / "run"
    run_with_neighbours(
        folder,
        platforms=[fake("model", interference=0.5), fake("other")],
        neighbours=["idle", "light", {"load": "forward", "rate_share": 0.95}],
        blocks=3,
    )
    build_report(folder)
    return folder / "report"


def test_page_and_tables_have_the_matrix_and_every_load(reported: Path) -> None:
    page = (reported / "index.html").read_text(encoding="utf-8")
    assert 'href="#isolation"' in page
    section = page[page.index('id="isolation"') : page.index('id="clock"')]
    assert_facts(section, "light load, same CPUs", "forwarding at 95", "slower", "alike")
    assert (reported / "figures" / "isolation.svg").exists()
    rows = (reported / "tables" / "isolation.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + 2 * (3 + 1)
    assert sum(f",{ALONE}," in row for row in rows) == 2
    uses = (reported / "tables" / "neighbours.csv").read_text(encoding="utf-8")
    assert uses.count("forwarding at 95 %, same CPUs") == 2


def test_the_terminal_shows_the_matrix(tmp_path: Path) -> None:
    folder = run_with_neighbours(tmp_path / "run", platforms=[fake("model", interference=0.5)])
    console = Console(width=100)
    with console.capture() as captured:
        console.print(*isolation_terminal(analyse(load(folder.path)), 100))
    table = captured.get()
    assert re.search(r"light load, same CPUs +\S+ slower", table), table
    assert_facts(table, "Super Pi 1000 digits", "A/A")


def test_a_run_without_neighbours_has_no_such_section(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", platforms=[fake("model")], workloads=JOB)
    build_report(folder.path)
    assert 'id="isolation"' not in (folder.path / "report" / "index.html").read_text(encoding="utf-8")
    assert not (folder.path / "report" / "tables" / "isolation.csv").exists()
