"""``virtoll doctor --noise``: what it says of made-up readings, and that it reads on this machine."""

from __future__ import annotations

import json
import os

import pytest
from tests.support.agents import OperationAgent
from tests.support.commands import in_process
from tests.support.facts import assert_facts, assert_refused
from tests.support.hand_overs import BUSY, reading

from virtoll.agent.hand_over import HandOverReader
from virtoll.agent.operations.hand_over import HandOverReply
from virtoll.cli import doctor_noise
from virtoll.cli.doctor_noise import noise_sentences, watched
from virtoll.stats.hand_over import cpu_distances

PINNING = {"guest_cpus": (0,), "generator_cpu": 1, "sink_cpu": 1, "distance": "same L3"}


def sentences(*times: int | None) -> str:
    (distance,) = cpu_distances(map(reading, times))
    return noise_sentences(distance, PINNING)


def test_a_distance_that_changes_is_told_with_what_it_costs() -> None:
    told = sentences(*[52] * 90, *[330] * 10)
    assert_facts(told, "CPU 1", "same L3", "change", "52 ns", "330 ns", "10.0", "a third slower")


def test_a_distance_that_did_not_change_costs_nothing() -> None:
    told = sentences(*[52] * 100)
    assert_facts(told, "CPU 1", "same L3", "52 ns", "100 readings")
    assert "slower" not in told


def test_where_nothing_could_be_read_the_reason_is_told() -> None:
    assert_facts(sentences(None, None), BUSY)


def test_it_reads_again_and_again() -> None:
    agent = OperationAgent(hand_over=HandOverReply((reading(50),)))
    assert len(watched(HandOverReader(agent, (1, 0)), 0.2)) == len(agent.asked) > 1


def test_this_machine_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_noise, "_SECONDS", 0.2)  # a private name: the command reads for ten seconds
    cpus = sorted(os.sched_getaffinity(0))
    finished = in_process("doctor", "--noise", "--json")
    if len(cpus) < 2:
        assert_refused(finished, "two")
        return
    assert finished.returncode == 0, finished.stderr
    pairs = json.loads(finished.stdout)["pairs"]
    assert pairs
    for pair in pairs:
        assert set(pair["cpus"]) <= set(cpus)
        assert pair["readings"] + pair["missing"] > 0
        assert (pair["near_ns"] is None) == (pair["readings"] == 0)


@pytest.mark.parametrize("more", ["--tune", "--reset", "native"])
def test_it_stands_alone(more: str) -> None:
    assert_refused(in_process("doctor", "--noise", more), "--noise")


def test_one_cpu_has_no_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    assert_refused(in_process("doctor", "--noise"), "--noise", "one CPU")
