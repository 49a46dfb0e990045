"""Idle guests are counted until something is gone: when a series ends, what is stored, and that the host is spared."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.commands import in_process
from tests.support.experiments import fake
from tests.support.facts import assert_facts, assert_refused, refused
from tests.support.model_runs import interrupted_but_replaced, measured

from virtoll.errors import UsageError
from virtoll.lab import interrupts
from virtoll.pipeline.consolidation import MemoryReading, Series
from virtoll.pipeline.execution import resume
from virtoll.pipeline.progress import SilentProgress
from virtoll.platforms import platform_of
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.fake.driver import Fake, FakeGuest
from virtoll.platforms.host import Site
from virtoll.report.build import load
from virtoll.runfolder.store import RunFolder
from virtoll.stats.analysis import analyse
from virtoll.stats.consolidation import consolidations

GIB, MIB = 2**30, 2**20
FULL = MemoryReading(20 * GIB, 0, 0, 0)


def consolidation(**changed: Any) -> dict[str, Any]:
    """The keys of an experiment that counts guests."""
    return {"scenario": "consolidation", "workloads": None, "consolidation": {"memory": "1GiB", "guests": 3}, **changed}


def counted(into: Path, *platforms: dict[str, Any]) -> RunFolder:
    """A run that counts guests of these platforms."""
    return measured(experiments.parsed(**consolidation(platforms=list(platforms))), into)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host whose memory nobody else uses: what others start or end meanwhile would end a series."""
    monkeypatch.setattr("virtoll.pipeline.consolidation.available_bytes", lambda: FULL.available)
    monkeypatch.setattr("virtoll.pipeline.consolidation.swapped_out_pages", lambda: FULL.swapped_out_pages)


@pytest.fixture
def series(tmp_path: Path) -> Series:
    """A series of models of which none has been started."""
    experiment = experiments.parsed(**consolidation(platforms=[fake("model")]))
    (choice,) = experiment.platforms
    assert experiment.consolidation is not None
    folder = measured(experiment, tmp_path / "run")
    made = Series(
        choice,
        experiment,
        experiment.consolidation,
        folder,
        None,  # type: ignore[arg-type]
        platform_of(choice),
    )
    made.first = FULL
    return made


@pytest.mark.parametrize(
    ("now", "fact"),
    [
        (FULL, None),
        (dataclasses.replace(FULL, available=19 * GIB), "1024 MiB"),
        (dataclasses.replace(FULL, processes=GIB), "1024 MiB"),
        (dataclasses.replace(FULL, swapped_out_pages=1), "swap"),
        (dataclasses.replace(FULL, swapped_out_pages=None), None),
        (dataclasses.replace(FULL, available=None), "available"),
    ],
)
def test_a_series_ends_for_a_reason(series: Series, now: MemoryReading, fact: str | None) -> None:
    reason = series.why_no_more(now)
    assert (reason is None) == (fact is None)
    assert_facts(reason or "", *([fact] if fact else []))


@pytest.mark.parametrize(
    ("left", "largest_step", "safe"), [(1025, 0, True), (1023, 0, False), (1025, 300, False), (1113, 300, True)]
)
def test_the_host_keeps_a_reserve_whatever_the_budget(series: Series, left: int, largest_step: int, safe: bool) -> None:
    """Before a start: the guest's own 256 MiB and its monitor's, or twice what the largest took, above 512 MiB."""
    series.budget = series.budget.model_copy(update={"memory": 100 * GIB})
    series.largest_step = largest_step * MIB
    reason = series.why_no_more(dataclasses.replace(FULL, available=left * MIB))
    assert (reason is None) == safe
    assert_facts(reason or "512 MiB", "512 MiB")


@pytest.mark.usefixtures("alone")
def test_every_step_is_stored_and_a_failure_costs_its_own_series_only(tmp_path: Path) -> None:
    failing = [fake("dumb", failure="never-ready"), fake("absent", failure="unavailable")]
    folder = counted(tmp_path / "run", fake("model"), *failing)
    reported = [(one.platform, one.step, one.status, one.guests) for one in folder.consolidation()]
    assert reported == [
        ("model", 1, "ok", 1),
        ("model", 2, "ok", 2),
        ("model", 3, "ok", 3),
        ("model", 4, "stopped", 3),
        ("dumb", 1, "failed", 0),
        ("absent", 1, "stopped", 0),
    ]
    reasons = {one.platform: one.reason for one in folder.consolidation() if one.status != "ok"}
    assert_facts(reasons["model"] or "", 3)
    assert_facts(reasons["dumb"] or "", "guest 1", "dumb/consolidation/1")
    assert_facts(reasons["absent"] or "", "'failure: none'")
    assert (folder.path / "evidence/consolidation-dumb/console.txt").is_file()
    assert folder.state().state == "complete"
    assert folder.trials() == ()
    rows = {one.platform: one for one in analyse(load(folder.path)).consolidations}
    assert (rows["model"].guests, rows["dumb"].guests) == (3, 0)
    assert rows["model"].processes is None, "a model has no process on the host: missing, not zero"


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("dies", [1, 3])
def test_a_guest_that_ends_by_itself_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: int) -> None:
    start = Fake.start

    def numbered(driver: Fake, request: GuestRequest, site: Site) -> FakeGuest:
        number = int(request.name.rpartition("/")[2])
        return start(driver, dataclasses.replace(request, instance=number), site)

    monkeypatch.setattr(Fake, "start", numbered)
    failing = fake("dying", failure="dies-at-rest", failing_instance=dies)
    folder = counted(tmp_path / "run", failing, fake("model"))
    own = [(one.step, one.status, one.guests) for one in folder.consolidation() if one.platform == "dying"]
    assert own == [*((step, "ok", step) for step in range(1, dies)), (dies, "failed", dies - 1)]
    (reason,) = [one.reason for one in folder.consolidation() if one.status == "failed"]
    assert_facts(reason or "", f"guest {dies} of {dies}", "died")
    rows = {one.platform: one.guests for one in consolidations(folder.consolidation())}
    assert rows == {"dying": dies - 1, "model": 3}


@pytest.mark.usefixtures("alone")
def test_a_series_that_was_broken_off_is_begun_anew(tmp_path: Path) -> None:
    folder = counted(tmp_path / "run", fake("one"), fake("two"))
    path = tmp_path / "run" / "consolidation.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:6]) + lines[6][:20])
    resume(tmp_path / "run", SilentProgress())
    found = [(one.platform, one.step) for one in folder.consolidation()]
    assert found == [("one", step) for step in (1, 2, 3, 4)] + [("two", step) for step in (1, 2, 1, 2, 3, 4)]
    assert [one.guests for one in consolidations(folder.consolidation())] == [3, 3]


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({"workloads": ["superpi"]}, ["'workloads'"]),
        ({"consolidation": {"memory": "much"}}, ["'consolidation.memory'"]),
        ({"consolidation": {"guests": 0}}, ["'consolidation.guests'"]),
        (
            {"scenario": "dense", "workloads": ["superpi"], "consolidation": None},
            ["dedicated, neighbours, scale, consolidation"],
        ),
    ],
)
def test_a_mistake_in_the_file_is_refused(changed: dict[str, Any], facts: list[str]) -> None:
    with refused(*facts, error=UsageError):
        experiments.parsed(**{**consolidation(), **changed})


def test_a_mistake_on_the_command_line_exits_with_2(tmp_path: Path) -> None:
    for arguments, fact in ((["nativ"], "'nativ'"), (["netns", "--memory", "much"], "consolidation.memory")):
        assert_refused(in_process("consolidation", *arguments, runs=tmp_path), fact)
    assert not any(tmp_path.iterdir())


@pytest.mark.lab
@pytest.mark.root
@pytest.mark.timeout(1800)
def test_real_guests_are_counted_and_gone_afterwards(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The number ends each series, and no budget: what others take of the host's memory meanwhile is no guest's."""
    wanted = ("--limit", "3", "--memory", "1000GiB", "--into", tmp_path / "run")
    finished = in_process("consolidation", "netns:limits=cgroup", "runc", *wanted)
    assert finished.returncode == 0, finished.stderr
    assert_facts(finished.stdout + capfd.readouterr().out, "runc", "3 idle guests")
    folder = RunFolder.open(tmp_path / "run")
    assert [(one.guests, one.status) for one in folder.consolidation()] == 2 * [
        (1, "ok"),
        (2, "ok"),
        (3, "ok"),
        (3, "stopped"),
    ]
    for one in folder.consolidation():
        assert one.available_bytes is not None
        assert one.processes_bytes is not None
        assert one.processes_bytes > one.guests * 100 * 1024
    for found in analyse(load(folder.path)).consolidations:
        assert found.processes is not None
        assert found.processes.bytes_per_guest.value > 0


@pytest.mark.usefixtures("alone")
def test_an_interrupt_that_is_lost_at_a_start_stores_no_failed_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the series would end with a platform's failure that was none."""
    monkeypatch.setattr(Fake, "start", lambda *_: interrupted_but_replaced())
    with interrupts.interruptible(), pytest.raises(KeyboardInterrupt):
        counted(tmp_path / "run", fake("model"))
    assert RunFolder.open(tmp_path / "run").consolidation() == ()
