"""Of what a reader of forwarding results is warned, and from which number on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.support.by_hand import task
from tests.support.facts import assert_facts

from virtoll.stats.cautions import Caution, Warned, cautions, shared_cores
from virtoll.stats.ceilings import Headroom
from virtoll.stats.hops import Owner
from virtoll.stats.sweeps import Curve
from virtoll.stats.values import Task
from virtoll.stats.wire import BackendUse, LossRow, PaceRow


def sized(size: int) -> Task:
    own = task("forward", "points", {"size": size})
    return Task(own.workload, own.metric, own.parameters, f"{size} B")


SMALL, LARGE = sized(64), sized(1500)
CLEAR = {("p", SMALL): Headroom(0.5, None)}


def warned(headrooms: Mapping[tuple[str, Task], Headroom] = CLEAR, **more: Any) -> list[tuple[Caution, str]]:
    nothing: dict[str, Any] = {
        "forged": (),
        "paces": (),
        "uses": (),
        "tasks": (SMALL, LARGE),
        "pinning": None,
        "calibrated": True,
    }
    given = {"curves": (), "losses": ()} | nothing | more
    found = cautions(headrooms, given.pop("curves"), given.pop("losses"), **given)
    assert all(isinstance(one, Warned) for one in found)
    return [(one.caution, one.concerns) for one in found]


def curve(platform: str, own: Task, *, lossless: bool = True) -> Curve:
    return Curve(platform, own.parameters, 64, (), lossless)


def lost(own: Task, *, flat_out: bool = False, platform: str = "p", **frames: int) -> LossRow:
    """Of 10 000 frames so many by owner."""
    by_owner = {Owner[name]: count for name, count in frames.items()}
    return LossRow(platform, own, flat_out, 10_000, by_owner=by_owner, by_segment={}, counters={})


def pace(own: Task, error: float | None, rate: float = 1000.4) -> PaceRow:
    unknown: dict[str, Any] = dict.fromkeys(
        ("median_rate", "worst_error", "gap_variation", "longest_gap_ns", "batch_frames")
    )
    return PaceRow(own, "live-frames", rate, held=1, missed=0, unsent_share=0.0, median_error=error, **unknown)


def test_without_traffic_there_is_nothing_to_be_warned_of() -> None:
    assert warned({}, curves=[curve("p", SMALL)], pinning={"generator_cpu": 1, "sink_cpu": 1}) == []
    assert warned() == []


def test_a_cell_near_its_ceiling_is_generator_bound_and_not_lossless_too() -> None:
    headrooms = {
        ("p", SMALL): Headroom(0.9, None),
        ("q", SMALL): Headroom(0.95, None),
        ("p", LARGE): Headroom(1.0, None),
        ("q", LARGE): Headroom(0.89, None),
    }
    curves = [
        curve("p", SMALL),
        curve("q", LARGE),
        curve("r", SMALL, lossless=False),
        Curve("r", "{}", 64, (), lossless=True),
    ]
    bound, lossless = warned(headrooms, curves=curves)
    assert (bound[0], lossless[0]) == (Caution.GENERATOR_BOUND, Caution.LOSSLESS)
    assert_facts(bound[1], "64 B, 1500 B", "q (64 B)")
    assert bound[1].startswith("p (")
    assert_facts(lossless[1], "q (1500 B)", "r")
    assert "p (" not in lossless[1]


def test_without_a_ceiling_it_is_not_known_where_the_run_calibrated_at_all() -> None:
    unknown = {("p", SMALL): Headroom(None, None), ("q", LARGE): Headroom(0.1, None)}
    assert warned(unknown) == [(Caution.UNCALIBRATED, "p (64 B)")]
    assert warned(unknown, calibrated=False) == []


def test_losses_are_the_hosts_from_a_thousandth_on_where_frames_are_paced() -> None:
    losses = [
        lost(SMALL, HOST=10, PLATFORM=999),
        lost(LARGE, HOST=11),
        lost(SMALL, HOST=500, flat_out=True),
        lost(SMALL, PLATFORM=500, platform="q"),
        replace(lost(LARGE, PLATFORM=5, platform="q"), offered_frames=100),
    ]
    assert warned(losses=losses) == [(Caution.HOST_LOSS, "p (1500 B)")]


def test_losses_that_no_counter_saw_are_told_once_for_each_cell() -> None:
    losses = [lost(SMALL, UNLOCATED=1), lost(SMALL, UNLOCATED=7, flat_out=True), lost(LARGE, UNLOCATED=0), lost(LARGE)]
    assert warned(losses=losses) == [(Caution.UNLOCATED, "p (64 B)")]


def test_forged_frames_missed_paces_and_back_ends_are_told_by_name() -> None:
    paces = [pace(SMALL, -0.00011), pace(LARGE, 0.0002, 2e6), pace(SMALL, 1e-4), pace(SMALL, None)]
    uses = [
        BackendUse("generator", "af-packet", 9, ("p",), "no root"),
        BackendUse("generator", "live-frames", 9, ("q",), None),
        BackendUse("generator", "af-packet", 9, ("r",), None),
        BackendUse("sink", "xdp", 9, ("p",), None),
    ]
    found = dict(warned(forged=[("p", "64 B"), ("q", "64 B")], paces=paces, uses=uses))
    both = dict(warned(uses=[*uses, BackendUse("sink", "af-packet", 1, ("p",), "old kernel")]))
    assert list(found) == [Caution.FORGED, Caution.PACE_MISSED, Caution.MIXED_BACKENDS, Caution.FALLBACK]
    assert list(both) == [Caution.MIXED_BACKENDS, Caution.FALLBACK]
    assert_facts(found[Caution.FORGED], "p (64 B)", "q (64 B)")
    assert_facts(found[Caution.PACE_MISSED], "64 B", "1000 frames/s", "1500 B", "2000000 frames/s")
    assert_facts(found[Caution.MIXED_BACKENDS], "generator", "af-packet, live-frames")
    assert_facts(found[Caution.FALLBACK], "af-packet", "generator", "no root")
    assert_facts(both[Caution.MIXED_BACKENDS], "generator", "af-packet, live-frames", "sink", "xdp, af-packet")
    assert_facts(both[Caution.FALLBACK], "generator", "no root", "sink", "old kernel")


@pytest.mark.parametrize(
    ("pinning", "shared"),
    [
        (None, []),
        ({}, []),
        ({"guest_cpus": [0, 1], "generator_cpu": 2, "sink_cpu": 3}, []),
        ({"guest_cpus": [0], "generator_cpu": 1, "sink_cpu": 1}, ["generator sink 1"]),
        ({"guest_cpus": [0, 1], "generator_cpu": 1, "sink_cpu": 0}, ["guest sink 0", "guest generator 1"]),
        ({"guest_cpus": [0], "generator_cpu": 0, "sink_cpu": 0}, ["guest generator sink 0"]),
        ({"guest_cpus": None, "generator_cpu": None, "sink_cpu": None}, []),
        ({"generator_cpu": 0}, []),
    ],
)
def test_a_core_that_two_use_is_told(pinning: dict[str, Any] | None, shared: list[str]) -> None:
    text = shared_cores(pinning)
    told = [re.findall(r"guest|generator|sink|\d+", one) for one in text.split(";") if text]
    assert told == [one.split() for one in shared]
    assert warned(pinning=pinning) == ([(Caution.SHARED_CORE, text)] if shared else [])


def test_every_caution_has_words_and_advice() -> None:
    assert all(one.title and one.meaning and one.advice for one in Caution)
