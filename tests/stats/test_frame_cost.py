"""CPU time of a frame by hand: slopes of pairs of points, over which CPUs they are, and what comes off."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

import pytest
from tests.support.by_hand import boot_record, point, sink, source, trial
from tests.support.facts import assert_facts

from virtoll.runfolder.guest_records import Forwarding
from virtoll.runfolder.traffic_records import CalibrationRecord, Cpu, Point, ProcessorIdle
from virtoll.stats.frame_cost import MODEL, FrameCost, frame_costs, slope

SHAPE: dict[str, Any] = {"frame_size_bytes": 64}


def busy(
    frames: int,
    by_cpu: Mapping[int, int] | None,
    lost: int = 0,
    *,
    cores: tuple[int | None, ...] | None = (7,),
    sink_core: int | None = 8,
    **more: Any,
) -> Point:
    """A point of so many frames, of each CPU how long it was busy; None: not read."""
    read = tuple(ProcessorIdle(cpu, 10**6, 10**6 - own, "timer_list") for cpu, own in (by_cpu or {}).items())
    cpu = Cpu(0, 0, 0, 0, generator_cores=cores, sink_core=sink_core, idle=None if by_cpu is None else read)
    return point(None, [source(intended=frames)], [sink(forwarded=frames - lost, lost=lost)], cpu=cpu, **more)


def pair(cost: Mapping[int, int], **more: Any) -> tuple[Point, Point]:
    """100 frames and 1100, at which each CPU is busy for 500 besides."""
    few, many = ({cpu: 500 + count * own for cpu, own in cost.items()} for count in (100, 1100))
    return busy(100, few, **more), busy(1100, many, **more)


FEW = busy(100, {0: 1000, 1: 500})


@pytest.mark.parametrize(
    ("points", "cpus", "expected"),
    [
        ((FEW, busy(1100, {0: 11_000, 1: 900})), {0}, 10),
        ((FEW, busy(1100, {0: 11_000, 1: 900})), {1}, 0.4),
        ((FEW, busy(1100, {0: 11_000, 1: 900})), {0, 1}, 10.4),
        ((FEW, busy(1100, {0: 11_000})), {0, 1}, None),
        ((FEW, busy(1100, {0: 11_000})), {0, 2}, None),
        ((FEW, busy(1100, {0: 11_000})), set(), None),
        ((FEW, busy(1100, None)), {0}, None),
        ((busy(100, None), busy(1100, {0: 11_000})), {0}, None),
        ((FEW, point(None, [source(intended=200)], [sink(forwarded=200)])), {0}, None),
        ((FEW, busy(1000, {0: 11_000}, lost=50)), {0}, 10_000 / 850),
        ((FEW, busy(1000, {0: 11_000}, lost=51)), {0}, None),
        ((busy(100, {0: 1000}, lost=6), busy(1100, {0: 11_000})), {0}, None),
        ((FEW, busy(100, {0: 11_000})), {0}, None),
        ((FEW, busy(99, {0: 11_000})), {0}, None),
        ((*pair({0: 3}), *pair({0: 9}), *pair({0: 4})), {0}, 4),
        ((*pair({0: 3}), FEW, busy(1100, None), *pair({0: 9})), {0}, 6),
        ((), {0}, None),
    ],
)
def test_a_slope_is_what_the_cpus_did_more_by_the_frames_that_were_more(
    points: tuple[Point, ...], cpus: Collection[int], expected: float | None
) -> None:
    assert slope(points, cpus) == (None if expected is None else pytest.approx(expected))


def calibrated(
    *points: Point, parameters: dict[str, Any] = SHAPE, status: Literal["ok", "failed"] = "ok"
) -> CalibrationRecord:
    return CalibrationRecord("start", 0, parameters, status, None, (), cpu_points=points or None)


def cost_of(
    points: tuple[Point, ...], *calibrations: CalibrationRecord, forwarding: Forwarding | None = None
) -> FrameCost:
    own = trial(5, parameters=SHAPE, cpu_points=points, boot="b")
    where = {"a": Forwarding((7,), None, None), "b": forwarding}
    boots = [boot_record(None, boot=name, forwarding=one) for name, one in where.items()]
    return frame_costs([own], boots, calibrations)[5]


GUESTS = Forwarding((0,), "threaded NAPI", None)


def test_what_generator_and_sink_take_comes_off() -> None:
    """On CPUs 0 and 1 a frame took 9 and 2 ns; with nothing between 3 and 1, the median over all pairs of its kind."""
    own, bare = pair({0: 9, 1: 2}), calibrated(*pair({0: 3, 1: 1}))
    assert cost_of(own, bare) == FrameCost(7, own=11, instrument=4)
    assert cost_of(own, bare, forwarding=GUESTS) == FrameCost(6, own=9, instrument=3)
    more = [calibrated(*pair({0: 5, 1: 1}), *pair({0: 7, 1: 1})), calibrated(*pair({0: 6, 1: 1}))]
    assert cost_of(own, bare, *more, forwarding=GUESTS) == FrameCost(3.5, own=9, instrument=5.5)
    others = [
        calibrated(),
        calibrated(*pair({0: 100, 1: 100}), status="failed"),
        calibrated(*pair({0: 100, 1: 100}), parameters={"frame_size_bytes": 128}),
        calibrated(*pair({0: 100, 1: 100}, backend="af-packet")),
        calibrated(*pair({0: 100, 1: 100}, sink="xdp")),
    ]
    assert cost_of(own, *others, bare) == FrameCost(7, own=11, instrument=4)
    uncalibrated = cost_of(own, *others)
    assert (uncalibrated.value, uncalibrated.own, uncalibrated.instrument) == (None, 11, None)
    assert_facts(uncalibrated.none_because, "generator", "sink")


def test_a_model_has_no_instrument_and_a_frame_that_costs_nothing_no_value() -> None:
    assert cost_of(pair({0: 9}, backend=MODEL)) == FrameCost(9, own=9, instrument=0)
    assert cost_of(pair({0: 9}), calibrated(*pair({0: 8}))) == FrameCost(1, own=9, instrument=8)
    for instrument in (9, 10):
        free = cost_of(pair({0: 9}), calibrated(*pair({0: instrument})))
        assert (free.value, free.own, free.instrument) == (None, 9, instrument)
        assert_facts(free.none_because, "generator", "sink")
    for unread in (busy(1100, None), point(None, [source(intended=1100)], [sink(forwarded=1100)])):
        found = cost_of((FEW, unread), calibrated(*pair({0: 1})))
        assert found == FrameCost(None, found.none_because)
        assert_facts(found.none_because, "5 %", "lost", "CPU")


@pytest.mark.parametrize(
    ("forwarding", "cores", "sink_core", "value"),
    [
        (GUESTS, (7,), 8, 9),
        (GUESTS, (None, 7), None, 9),
        (GUESTS, None, 8, 9),
        (GUESTS, (7, 0), 8, 11),
        (GUESTS, (7,), 0, 11),
        (Forwarding((0, 5), "threaded NAPI", None), (7,), 8, 11),
        (Forwarding(None, None, "refused"), (7,), 8, 11),
        (None, (7,), 8, 11),
    ],
)
def test_the_guests_cpus_count_alone_where_they_are_known_and_its_own(
    forwarding: Forwarding | None, cores: tuple[int | None, ...] | None, sink_core: int | None, value: int
) -> None:
    """Where generator or sink have one of them, or one was not read, all CPUs that were read are summed up.

    The last point says what was used.
    """
    where: dict[str, Any] = {"cores": cores, "sink_core": sink_core, "backend": MODEL}
    few, _ = first = pair({0: 9, 1: 2})
    _, many = pair({0: 9, 1: 2}, **where)
    assert cost_of((*first, few, many), forwarding=forwarding) == FrameCost(value, own=value, instrument=0)


def test_only_trials_that_can_be_believed_and_have_such_points_have_a_cost() -> None:
    points = pair({0: 9}, backend=MODEL)
    trials = [
        trial(1, parameters=SHAPE, cpu_points=points),
        trial(2, parameters=SHAPE, cpu_points=points, status="invalid"),
        trial(3, parameters=SHAPE, cpu_points=()),
        trial(4, parameters=SHAPE),
    ]
    assert frame_costs(trials, [], []) == {1: FrameCost(9, own=9, instrument=0)}
