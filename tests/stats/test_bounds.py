"""Rates that are lower bounds or the sender's: which they are, and which verdicts they do not bear."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from tests.support.by_hand import boot_record, point, sink, source, task, trial
from tests.support.facts import assert_facts

from virtoll.runfolder.guest_records import Forwarding
from virtoll.runfolder.traffic_records import Point
from virtoll.stats.bounds import (
    NOT_PINNED,
    TWO_BOUNDS,
    against_lower_bounds,
    forwarded_elsewhere,
    grid_width,
    lower_bounds,
    rate_widths,
    receiving_apart,
    within_search_bounds,
    without_two_bounds,
    without_unpinned,
)
from virtoll.stats.ceilings import Headroom
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.conditional_throughput import BoundFound, GoalFound, ThroughputRow
from virtoll.stats.intervals import Interval
from virtoll.stats.summaries import summarise
from virtoll.stats.sweeps import Curve, point_values
from virtoll.stats.values import Observation, Task

SMALL, LARGE = (task("forward", "points", {"size": size}, name="maximum_forwarding_rate") for size in (64, 1500))
CPU = task("forward", "cpu_points", {"size": 64}, name="cpu_time", unit="ns")
FOUND = task("throughput", "figures", name="ndr", better="higher")

NO_THROUGHPUT: dict[str, Any] = {"conditional_throughput_frames_per_second": None}


def compared(platform: str, task: Task = SMALL, verdict: Verdict = Verdict.UNKNOWN, **more: Any) -> Comparison:
    return Comparison(platform, task, verdict, **more)


def curve(platform: str, parameters: str, *, lossless: bool) -> Curve:
    return Curve(platform, parameters, 64, (), lossless)


def test_a_rate_without_loss_or_at_the_generators_limit_is_a_lower_bound() -> None:
    """Points alone are swept: the CPU time of the same frames is no lower bound of anything."""
    curves = [
        curve("a", SMALL.parameters, lossless=True),
        curve("b", SMALL.parameters, lossless=False),
        curve("b", LARGE.parameters, lossless=True),
    ]
    headrooms = {
        ("c", SMALL): Headroom(0.90, None),
        ("d", SMALL): Headroom(0.89, None),
        ("e", SMALL): Headroom(None, None),
    }
    upper = BoundFound(2e5, 1_000_000_000, (0,))
    open_goal = GoalFound("ndr", 0.0, 0.5, 0.005, 21.0, "done", lower=upper, upper=None, **NO_THROUGHPUT)
    closed = replace(open_goal, upper=upper)
    searches = [
        ThroughputRow("f", FOUND, (open_goal,)),
        ThroughputRow("g", FOUND, (closed,)),
        ThroughputRow("h", FOUND, (closed, replace(closed, ended="time-limit"))),
    ]
    found = lower_bounds((SMALL, LARGE, CPU, FOUND), curves, headrooms, searches)
    assert found == {("a", SMALL), ("b", LARGE), ("c", SMALL), ("f", FOUND), ("h", FOUND)}


def test_two_lower_bounds_have_no_verdict_and_one_has() -> None:
    """Also against a baseline that is none, a verdict or a caveat that was told stays."""
    bounds = {("a", SMALL), ("native", SMALL), ("b", LARGE)}
    both = compared("a")
    kept = [
        compared("b"),
        compared("b", LARGE),
        compared("a", verdict=Verdict.NOT_MEASURED),
        compared("a", caveat="nested"),
    ]
    (told, *others) = without_two_bounds([both, *kept], bounds, "native")
    assert others == kept
    assert (told.caveat, told.verdict) == (TWO_BOUNDS, Verdict.UNKNOWN)
    assert_facts(told.reason, "both", "generator's limit")
    assert without_two_bounds([both], bounds, None) == [both]


def test_against_a_lower_bound_slower_holds_and_no_more() -> None:
    bounds = {("native", SMALL)}
    slower = compared("a", verdict=Verdict.SLOWER, at_least=1.2)
    alike = compared("a", verdict=Verdict.ALIKE, margin=0.1)
    faster = compared("a", verdict=Verdict.FASTER, at_least=1.2)
    first, second, third, fourth = against_lower_bounds(
        [slower, alike, faster, compared("a", LARGE, Verdict.ALIKE, margin=0.1)], bounds, "native"
    )
    assert first == slower
    assert second == third == replace(alike, verdict=Verdict.UNKNOWN, margin=None, reason=second.reason)
    assert_facts(second.reason, alike.against, "generator's limit")
    assert fourth.verdict is Verdict.ALIKE, "the baseline's rate of large frames is no lower bound"
    bounds.add(("a", LARGE))
    alone = against_lower_bounds([faster, compared("a", LARGE, Verdict.FASTER, at_least=2.0)], bounds)
    assert [one.verdict for one in alone] == [Verdict.FASTER, Verdict.UNKNOWN], "against the same platform alone"


def test_what_a_lower_bound_does_not_bear_may_be_slower_by_anything() -> None:
    """*Faster* had proved the side, and its range begins at 1: that falls with the verdict."""
    faster = compared("a", verdict=Verdict.FASTER, at_least=1.0, simultaneous=Interval(1.0, 1.2, 0.95, "t"))
    (found,) = against_lower_bounds([faster], {("native", SMALL)}, "native")
    assert found.simultaneous == Interval(0.0, 1.2, 0.95, "t")


def test_of_a_lower_bound_faster_holds_and_no_more() -> None:
    """The platform may forward more than was seen, and so be as fast as the baseline, or faster."""
    verdicts = (Verdict.SLOWER, Verdict.ALIKE, Verdict.FASTER, Verdict.NOT_MEASURED)
    told = against_lower_bounds([compared("a", LARGE, verdict) for verdict in verdicts], {("a", LARGE)}, "native")
    assert [one.verdict for one in told] == [Verdict.UNKNOWN, Verdict.UNKNOWN, *verdicts[2:]]
    assert_facts(told[0].reason, "a ", "forward more")


def test_who_is_not_forwarded_on_the_guests_cpus() -> None:
    boots = [
        boot_record(None, platform=platform, forwarding=forwarding)
        for platform, forwarding in (
            ("pinned", Forwarding(cpus=(0,), means="threaded NAPI", reason=None)),
            ("sender", Forwarding(cpus=None, means=None, reason="no root")),
            ("threads", Forwarding(cpus=None, means="threaded NAPI", reason=None)),
            ("older", None),
        )
    ]
    elsewhere = forwarded_elsewhere(boots)
    assert list(elsewhere) == ["sender", "threads"]
    assert_facts(elsewhere["sender"], "core", "no root")
    assert_facts(elsewhere["threads"], "CPUs", "kernel's")
    assert receiving_apart(boots) == {"pinned", "threads"}


def test_a_rate_that_another_core_set_has_no_verdict() -> None:
    """Of a rate alone: what a frame costs in CPU time does not hang on where it was forwarded."""
    elsewhere = {"a": "here (no root)", "native": "there (no root)"}
    kept = [
        compared("b"),
        compared("a", CPU),
        compared("a", verdict=Verdict.NOT_MEASURED),
        compared("a", caveat="nested"),
    ]
    told, *others = without_unpinned([compared("a"), *kept], {"a": elsewhere["a"]}, "native")
    assert others == kept
    assert told.caveat == NOT_PINNED
    assert_facts(told.reason, "a", "here (no root)", "CPU time")
    (baseline,) = without_unpinned([compared("b")], elsewhere, "native")
    assert_facts(baseline.reason, "native", "there (no root)")
    (own,) = without_unpinned([compared("a")], elsewhere, "native")
    assert_facts(own.reason, "a", "here (no root)")
    assert without_unpinned([compared("b")], elsewhere, None) == [compared("b")]


def within(
    verdict: Verdict, low: float, high: float, below: float = 0.0, above: float = 0.0, **more: Any
) -> Comparison:
    """A comparison with these ends of both intervals, and what searches of these widths leave of it."""
    interval = Interval(low, high, 0.95, "by hand")
    told = compared("a", FOUND, verdict, share=(low * high) ** 0.5, interval=interval, simultaneous=interval, **more)
    return within_search_bounds(told, math.log1p(below), math.log1p(above), 0.1)


def test_an_interval_of_searches_holds_all_between_their_bounds() -> None:
    """The platform may reach 3 % more than was seen, and the baseline 1 % more."""
    told = within(Verdict.SLOWER, 0.9, 0.95, 0.01, 0.03, at_least=1 / 0.95, smallest=1.02)
    for interval in (told.interval, told.simultaneous):
        assert interval is not None
        assert (interval.low, interval.high) == pytest.approx((0.9 / 1.01, 0.95 * 1.03))
    assert told.verdict is Verdict.SLOWER
    assert told.at_least == pytest.approx(1 / (0.95 * 1.03))
    assert told.smallest == pytest.approx(1.02 * 1.03)


@pytest.mark.parametrize(
    ("verdict", "low", "high", "left"),
    [
        (Verdict.SLOWER, 0.97, 0.979, Verdict.SLOWER),
        (Verdict.SLOWER, 0.97, 1 / 1.02, Verdict.UNKNOWN),
        (Verdict.FASTER, 1.03, 1.04, Verdict.FASTER),
        (Verdict.FASTER, 1.02, 1.04, Verdict.UNKNOWN),
        (Verdict.ALIKE, 0.94, 1.07, Verdict.ALIKE),
        (Verdict.ALIKE, 0.92, 1.07, Verdict.UNKNOWN),
        (Verdict.ALIKE, 0.94, 1.08, Verdict.UNKNOWN),
        (Verdict.UNKNOWN, 0.9, 1.1, Verdict.UNKNOWN),
    ],
)
def test_a_verdict_needs_more_than_the_width_of_both_searches(
    verdict: Verdict, low: float, high: float, left: Verdict
) -> None:
    told = within(verdict, low, high, 0.02, 0.02, at_least=1.0, margin=0.05)
    assert told.verdict is left
    if left is Verdict.UNKNOWN and verdict is not left:
        assert (told.at_least, told.margin) == (None, None)
        assert_facts(told.reason, "bounds", "searches")
    if left is Verdict.ALIKE:
        assert told.margin == 0.1, "5 % is not known any more"


def test_what_is_no_search_or_not_tested_stays() -> None:
    told = compared("a", verdict=Verdict.NOT_MEASURED)
    assert within_search_bounds(told, 0.1, 0.1, 0.1) is told
    kept = within(Verdict.SLOWER, 0.9, 0.95, at_least=1.2)
    assert kept.at_least == 1.2


def tried(rate: float | None, offered: int, forwarded: int) -> Point:
    """A point of a second at which so many frames/s were sent, and so many arrived."""
    return point(rate, [source(intended=offered + 1)], [sink(forwarded=forwarded + 1, lost=offered - forwarded)])


def late(rate: int, *, forwarded: int) -> Point:
    """All arrives, out of a queue that is drained more slowly."""
    arrived = sink(forwarded=rate + 1, last_received_monotonic_ns=round(rate / forwarded * 1e9))
    return point(rate, [source(intended=rate + 1)], [arrived])


FLAT_OUT = tried(None, 900, 10)


@pytest.mark.parametrize(
    ("points", "above"),
    [
        ([FLAT_OUT, tried(80, 80, 80), tried(160, 160, 40)], 160 / 80),
        ([FLAT_OUT, tried(40, 40, 40), tried(80, 80, 80), tried(160, 160, 40), tried(113, 113, 70)], 113 / 80),
        ([FLAT_OUT, tried(80, 80, 80), tried(160, 160, 100)], 160 / 100),
        ([FLAT_OUT, tried(80, 80, 70), tried(160, 160, 75)], 80 / 75),
        ([FLAT_OUT, tried(80, 80, 80), tried(160, 160, 40), late(100, forwarded=60)], 100 / 80),
        ([FLAT_OUT, tried(80, 80, 80)], 900 / 80),
        ([tried(None, 900, 200), tried(160, 160, 150)], 1),
        ([tried(None, 900, 200), tried(400, 400, 219)], 1),
    ],
    ids=["next", "between", "lossy", "lossy-below", "late", "flat-out", "best-flat-out", "no-harm"],
)
def test_a_maximum_on_a_grid_is_known_up_to_the_next_rate_that_lost(points: list[Point], above: float) -> None:
    """Of overload that does harm: a rate that loses nothing is a lower bound, and the next that was tried an upper."""
    width = grid_width(point_values([trial(1, *points)]))
    assert width is not None
    assert math.exp(width) == pytest.approx(above)


def test_a_best_point_that_is_measured_again_has_no_grid_of_its_own() -> None:
    """Its trial does not narrow what the whole ones of its cell leave open."""
    whole = trial(1, FLAT_OUT, tried(80, 80, 80), tried(160, 160, 40), block=0)
    later = trial(2, tried(80, 80, 80), block=0)
    assert grid_width(point_values([later])) is None
    cells = {("p", SMALL): summarise([Observation(SMALL, "p", number, 0, number, 80) for number in (1, 2)])}
    assert rate_widths(cells, point_values([whole, later]), ()) == {("p", SMALL): pytest.approx(math.log(2))}
    assert rate_widths(cells, point_values([later]), ()) == {("p", SMALL): 0.0}


def test_the_width_of_sweeps_is_the_mean_over_trials() -> None:
    trials = [
        trial(1, FLAT_OUT, tried(80, 80, 80), tried(160, 160, 40), block=0),
        trial(2, FLAT_OUT, tried(80, 80, 80), tried(160, 160, 120), block=1),
    ]
    values = [Observation(SMALL, "p", number, number, number, 80) for number in (1, 2)]
    widths = {}
    for counted in (values, values[:1]):
        cells = {("p", task): summarise(counted) for task in (SMALL, CPU)}
        widths[len(counted)] = rate_widths(cells, point_values(trials), ())
    assert widths[2] == {("p", SMALL): pytest.approx((math.log(2) + math.log(160 / 120)) / 2)}
    assert widths[1] == {("p", SMALL): pytest.approx(math.log(2))}, "what is left out of its cell does not count"
