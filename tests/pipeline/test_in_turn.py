"""Which guests of a round are measured together, and whose trial has what was measured of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support import experiments

from virtoll.experiment.plan import Trial
from virtoll.pipeline import in_turn
from virtoll.pipeline.fleet import Fleet
from virtoll.pipeline.in_turn import measured_in_turn
from virtoll.pipeline.live_guest import LiveGuest
from virtoll.pipeline.session import RunSession
from virtoll.workloads.base import Bench, Measurement

LABELS = ("native", "netns", "runc", "nspawn")
EXPERIMENT = experiments.parsed(platforms=list(LABELS), workloads=[{"workload": "forward"}])
PLATFORMS = {choice.label: choice for choice in EXPERIMENT.platforms}
(FORWARD,) = EXPERIMENT.workloads
SESSION = cast("RunSession", SimpleNamespace(pinning=None, tags=None))


class Turns:
    """A workload whose guests take turns, but for those whose first round says otherwise."""

    def __init__(self) -> None:
        self.together: list[list[str]] = []

    def takes_turns(self, bench: str, first: Measurement) -> bool:
        assert bench in LABELS
        return first.problem is None

    def measure_in_turn(self, benches: Sequence[str]) -> list[Measurement]:
        self.together.append(list(benches))
        return [Measurement(result={"of": bench, "at": len(self.together)}) for bench in benches]


class Block:
    """A fleet with a guest of each platform and the trials of a block: each platform once a round."""

    def __init__(self, rounds: int, sites: dict[str, str] | None = None) -> None:
        self.block = [
            Trial(number * len(LABELS) + place, 0, PLATFORMS[label], FORWARD, number, later=number > 0)
            for number in range(rounds)
            for place, label in enumerate(LABELS)
        ]
        self.guests: dict[str, Any] = {label: self.guest(label, (sites or {}).get(label, "here")) for label in LABELS}

    def guest(self, label: str, site: str) -> Any:
        first_rounds = {FORWARD: Measurement()}
        return SimpleNamespace(label=label, site=site, first_rounds=first_rounds, in_turn={}, bench=lambda *_: label)

    def up(self, label: str) -> list[Any]:
        return [self.guests[label]] if label in self.guests else []


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    made = Turns()
    monkeypatch.setattr(in_turn, "workload_of", lambda _: made)
    monkeypatch.setattr(in_turn, "running", lambda *_, **__: nullcontext())
    return made


def measure(block: Block, trial: Trial) -> dict[str, Any] | None:
    """What a trial has, if it was measured with others."""
    label = trial.platform.label
    live, bench, fleet = cast("LiveGuest", block.guests[label]), cast("Bench", label), cast("Fleet", block)
    measured = measured_in_turn(trial, live, bench, fleet, SESSION)
    return None if measured is None else measured.result


def later(block: Block) -> list[Trial]:
    return [trial for trial in block.block if trial.later]


def test_the_first_trial_of_a_round_measures_all_and_each_has_its_own(turns: Turns) -> None:
    block = Block(3)
    found = [measure(block, trial) for trial in later(block)]
    assert turns.together == [list(LABELS)] * 2, "once a round"
    assert found == [{"of": label, "at": number} for number in (1, 2) for label in LABELS]


def test_what_a_trial_left_is_not_taken_for_another_rounds(turns: Turns) -> None:
    """A trial that was refused takes nothing, and the round after measures its guest anew."""
    block = Block(3)
    refused = later(block)[1]
    found = {trial.number: measure(block, trial) for trial in later(block) if trial is not refused}
    assert turns.together == [list(LABELS)] * 2
    assert found[refused.number + len(LABELS)] == {"of": "netns", "at": 2}


def test_who_is_not_up_or_elsewhere_or_takes_no_turns_is_left_out(turns: Turns) -> None:
    block = Block(2, sites={"runc": "another host"})
    del block.guests["netns"]
    first = later(block)[0]
    assert measure(block, first) == {"of": "native", "at": 1}
    assert turns.together == [["native", "nspawn"]]
    block.guests["nspawn"].first_rounds = {}
    block.guests["native"].in_turn.clear()
    assert measure(block, first) is None, "nobody is left to take turns with"
    block.guests["native"].first_rounds = {FORWARD: Measurement(problem="overload did harm")}
    assert measure(block, first) is None


def test_a_resumed_round_goes_on_with_those_that_are_left(turns: Turns) -> None:
    block = Block(2)
    *_, third, fourth = later(block)
    block.block = [third, fourth]
    assert [measure(block, trial) for trial in (third, fourth)] == [{"of": "runc", "at": 1}, {"of": "nspawn", "at": 1}]
    assert turns.together == [["runc", "nspawn"]]


def test_other_blocks_and_workloads_are_no_part_of_a_round(turns: Turns) -> None:
    block = Block(2)
    first, second, *others = later(block)
    block.block = [first, replace(second, block=1), *(replace(trial, round=2) for trial in others)]
    assert measure(block, first) is None
    assert turns.together == []
