"""Real guests that take all memory, hang or are killed beside others, or when all are to begin: what each costs."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments, guests, machine
from tests.support.facts import assert_facts
from tests.support.present import present

from virtoll.agent.client import AgentClient
from virtoll.agent.operations.programs import ProgressRequest
from virtoll.agent.timekeeper import TimedJob
from virtoll.experiment.plan import Trial
from virtoll.host.guest_usage import available_bytes
from virtoll.lab.inside import wait_until
from virtoll.pipeline import neighbours, scale
from virtoll.pipeline.execution import measure
from virtoll.pipeline.live_guest import LiveGuest
from virtoll.pipeline.progress import SilentProgress
from virtoll.pipeline.session import RunSession
from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.scale import ScalePoint
from virtoll.runfolder.store import RunFolder
from virtoll.workloads.base import Bench, Measurement
from virtoll.workloads.forkwait import ForkWait
from virtoll.workloads.loads import PROGRAM_LOADS, ProgramLoad

INSIDE_LAB = True
LAB_SECONDS_PER_TEST = 20.0
pytestmark = [pytest.mark.lab]

MIB = 2**20
JOB = {"workload": "forkwait", "processes": 200}
GUEST_MIB = 128
PATIENCE = 1 / 30
"""How much of a deadline a guest is given that stands still for good; who is well has all of it."""


def lab_of(item: pytest.Function) -> str:
    """Each run has a lab of its own: guests of two in one would have the same names."""
    return item.name


def run(into: Path, **asked: Any) -> RunFolder:
    """An experiment from its first trial to its last, in this lab."""
    common = {
        "baseline": asked["platforms"][0],
        "blocks": 1,
        "guest": {"memory": f"{GUEST_MIB}MiB"},
        "workloads": [JOB],
    }
    measure(experiments.parsed(**{**common, **asked}), into, ["virtoll"], SilentProgress())
    return RunFolder.open(into)


def family_of(live: LiveGuest) -> machine.Family:
    """A guest's processes."""
    found = present(live.guest.host_processes())
    return machine.family(found.started, *filter(None, [found.inner]))


def loads() -> list[int]:
    """Every process of ``stress`` in this lab."""
    return [one.pid for one in machine.family(os.getpid()).processes if one.argv[:1] == ("stress",)]


@pytest.fixture
def under_load(monkeypatch: pytest.MonkeyPatch) -> list[tuple[LiveGuest, ...]]:
    """The guests beside of the trial that is measured now, as the last in the list; nothing where it is alone."""
    guests.full_image()
    found: list[tuple[LiveGuest, ...]] = []
    loaded = neighbours.Neighbours.loaded

    def seen(self: neighbours.Neighbours, beside: tuple[LiveGuest, ...], condition: Condition | None) -> Any:
        found.append(tuple(beside) if condition is not None else ())
        return loaded(self, beside, condition)

    monkeypatch.setattr(neighbours.Neighbours, "loaded", seen)
    return found


def once_under_load(
    monkeypatch: pytest.MonkeyPatch, beside: list[tuple[LiveGuest, ...]], happens: Callable[[LiveGuest], None]
) -> None:
    """It happens to the first guest that is beside another under a load, and no load is there where it is alone."""
    own = ForkWait.measure
    happened: list[LiveGuest] = []

    def measured(self: ForkWait, bench: Bench) -> Measurement:
        if not beside[-1]:
            assert loads() == [], "a load outlived its trial"
        elif not happened:
            happened.append(beside[-1][0])
            happens(beside[-1][0])
        return own(self, bench)

    monkeypatch.setattr(ForkWait, "measure", measured)


def freeze(live: LiveGuest) -> None:
    """It stands still, and is waited for no longer than it takes to see that."""
    assert isinstance(live.guest.agent, AgentClient)
    live.guest.agent.patience = PATIENCE
    for one in family_of(live).processes:
        os.kill(one.pid, signal.SIGSTOP)


def split(folder: RunFolder) -> tuple[list[TrialRecord], list[TrialRecord]]:
    """The trials that are right, and the others."""
    right: list[TrialRecord] = []
    wrong: list[TrialRecord] = []
    for one in folder.latest_trials():
        (right if guests.right_or_disturbed(one) else wrong).append(one)
    assert right
    return right, wrong


@pytest.mark.root
def test_a_neighbour_that_takes_all_memory_costs_its_own_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, under_load: list[tuple[LiveGuest, ...]]
) -> None:
    """It has what it was given and no more (``test_guests.py``): a kernel ends the load and nothing else."""
    greedy = ProgramLoad(lambda _: ("stress", "--vm", "1", "--vm-bytes", str(2 * GUEST_MIB * MIB)))
    monkeypatch.setattr(neighbours, "PROGRAM_LOADS", {**PROGRAM_LOADS, "heavy": greedy})
    own = ForkWait.measure

    def measured(self: ForkWait, bench: Bench) -> Measurement:
        """The job, and as long as the load takes memory."""
        done = own(self, bench)
        for live in under_load[-1]:
            program = ProgressRequest(name="load")
            ended = partial(_no_process_of, live, program)
            wait_until(ended, guests.HANG_SECONDS, "the end of a load that takes all memory")
        return done

    monkeypatch.setattr(ForkWait, "measure", measured)
    folder = run(tmp_path / "run", scenario="neighbours", platforms=["runc"], neighbours=["heavy"])
    right, wrong = split(folder)
    (invalid,) = wrong
    assert (invalid.platform, invalid.status) == ("runc", "invalid")
    assert invalid.condition is not None
    assert_facts(invalid.reason or "", "heavy load, same CPUs", "stress")
    assert all(one.condition is None for one in right)
    assert Counter(boot.platform for boot in folder.boots()) == {"runc": 2}, "no guest was lost"


def _no_process_of(live: LiveGuest, program: ProgressRequest) -> bool:
    return live.guest.agent.ask(program, guests.HANG_SECONDS).processes == 0


def test_a_neighbour_that_hangs_costs_its_own_trial_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, under_load: list[tuple[LiveGuest, ...]]
) -> None:
    once_under_load(monkeypatch, under_load, freeze)
    asked: dict[str, Any] = {"platforms": ["netns"], "neighbours": ["light"], "rounds": 2}
    folder = run(tmp_path / "run", scenario="neighbours", **asked)
    right, wrong = split(folder)
    (failed,) = wrong
    assert failed.status == "failed"
    assert_facts(failed.reason or "", "light load, same CPUs", "beside-netns/0/2")
    assert {one.condition is None for one in right} == {True, False}, "the next trial has a new neighbour"
    assert {one.boot for one in folder.latest_trials()} == {"netns/0"}


def test_a_measured_guest_that_is_killed_takes_the_loads_of_others_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, under_load: list[tuple[LiveGuest, ...]]
) -> None:
    def kill_the_other(beside: LiveGuest) -> None:
        assert loads()
        its = {one.pid for one in family_of(beside).processes}
        lab = machine.family(os.getpid()).processes
        agents = [one for one in lab if one.argv[:3] == ("/init", "--role", "guest")]
        (measured,) = (one for one in agents if one.pid not in its)
        os.kill(measured.pid, signal.SIGKILL)

    once_under_load(monkeypatch, under_load, kill_the_other)
    asked: dict[str, Any] = {"platforms": ["netns"], "neighbours": ["light"], "rounds": 2}
    folder = run(tmp_path / "run", scenario="neighbours", **asked)
    assert loads() == []
    right, wrong = split(folder)
    (failed,) = wrong
    assert (failed.status, failed.boot) == ("failed", "netns/0")
    after = [one for one in right if one.trial > failed.trial]
    assert {one.condition is None for one in after} == {True, False}
    assert len({one.boot for one in after}) == 1, "one new guest, beside the same one"


def test_a_guest_that_misses_the_start_fails_the_trial_of_all_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands still when all are told to begin; the others do not wait for ever, and all are started anew."""
    own = scale.measure_at_once
    frozen: list[LiveGuest] = []

    def at_once(trial: Trial, point: ScalePoint, lives: Sequence[LiveGuest], session: RunSession) -> scale.Outcome:
        if not frozen:
            frozen.append(lives[1])
            keeper = lives[1].timekeeper
            timed = keeper.time_job

            def misses(
                job: str, parameters: Mapping[str, object], deadline_seconds: float, repeats: int = 1
            ) -> TimedJob:
                freeze(lives[1])
                return timed(job, parameters, min(60, deadline_seconds), repeats)

            monkeypatch.setattr(keeper, "time_job", misses)
        return own(trial, point, lives, session)

    monkeypatch.setattr(scale, "measure_at_once", at_once)
    folder = run(tmp_path / "run", scenario="scale", scale={"guests": [3]}, platforms=["netns"], rounds=2)
    right, wrong = split(folder)
    (failed,) = wrong
    assert failed.status == "failed"
    # Which of those that start together is counted first is as it comes; the second is named as the second.
    assert re.search(r"\bof-3-002-netns/0(/[23])?\b", failed.reason or "")
    assert_facts(failed.reason or "", "guest 2 of 3", "'run'")
    assert failed.evidence
    assert all(one.trial > failed.trial for one in right)
    assert {one.boot for trial in right for one in trial.members} == {"netns/0/4", "netns/0/5", "netns/0/6"}


def test_more_guests_than_fit_into_memory_are_skipped(tmp_path: Path) -> None:
    available = present(available_bytes())
    folder = run(
        tmp_path / "run",
        scenario="scale",
        scale={"guests": [1, 16]},
        platforms=["netns"],
        guest={"memory": f"{available // 8 // MIB}MiB"},
    )
    right, wrong = split(folder)
    (skipped,) = wrong
    assert (skipped.status, skipped.boot) == ("skipped", None)
    assert_facts(skipped.reason or "", "16 guests", "memory")
    fitting = re.findall(r"(\d+) guests", skipped.reason or "")
    assert 1 <= int(fitting[-1]) < 16
    assert {one.scale.guests for one in right if one.scale is not None} == {1}
    assert [one.instance for one in folder.boots()] == [0]
