"""Where the frames' sums are checked: a point whose books do not balance is no result, by however little."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.facts import Fact, assert_facts
from tests.support.made_up_points import Rates, made_up_point

from virtoll.runfolder.traffic_records import Point
from virtoll.workloads.traffic import unbalanced

SECOND = 1_000_000_000


def point(*rates: tuple[float, float], late: int = 0, drained: bool = True) -> Point:
    """One second of these rates (offered, forwarded) of each source."""
    made = made_up_point(64, SECOND, None, [Rates(*one) for one in rates])
    sink = made.sink.replace(late_trial_frames=late, drained=drained)
    return made.replace(sink=sink)


def with_source(of: Point, number: int, **changed: Any) -> Point:
    sources = tuple(one.replace(**changed) if one.source == number else one for one in of.sources)
    return of.replace(sources=sources)


def with_sink(of: Point, number: int, **changed: Any) -> Point:
    arrived = tuple(one.replace(**changed) if one.source == number else one for one in of.sink.per_source)
    return of.replace(sink=of.sink.replace(per_source=arrived))


def assert_no_result(points: list[Point], *facts: Fact) -> None:
    reason = unbalanced(points)
    assert reason is not None
    assert_facts(reason, *facts)


def test_what_balances_is_a_result() -> None:
    assert unbalanced([]) is None
    assert unbalanced([point((1000, 900), (500, 500)), point((1000, 10), (2000, 0))]) is None


def test_frames_that_were_not_sent_are_in_the_books_too() -> None:
    fine = point((1000, 900))
    assert unbalanced([with_source(fine, 0, intended_frames=1003, unsent_frames=3)]) is None
    assert unbalanced([with_source(fine, 0, intended_frames=997, unsent_frames=3)]) is not None


@pytest.mark.parametrize("more", [-1, 1])
@pytest.mark.parametrize("number", [0, 1])
def test_one_frame_is_enough(number: int, more: int) -> None:
    fine = point((1000, 900), (500, 400))
    sent, arrived = fine.sources[number], fine.sink.per_source[number]
    at_source, at_sink = (f"source {number}", "intended"), (f"source {number}", "lost")
    assert_no_result([with_source(fine, number, intended_frames=sent.intended_frames + more)], *at_source)
    assert_no_result([with_source(fine, number, unsent_frames=sent.unsent_frames + more)], *at_source)
    assert_no_result([with_sink(fine, number, forwarded_frames=arrived.forwarded_frames + more)], *at_sink)
    assert_no_result([with_sink(fine, number, lost_frames=arrived.lost_frames + more)], *at_sink)
    both = {"offered_frames": sent.offered_frames + more, "intended_frames": sent.intended_frames + more}
    assert_no_result([with_source(fine, number, **both)], *at_sink)
    last = with_sink(fine, number, lost_frames=arrived.lost_frames + more)
    assert_no_result([fine, fine, last], *at_sink)


def test_a_source_that_the_sink_does_not_know_is_no_result() -> None:
    assert_no_result([with_sink(point((1000, 900), (5, 5)), 1, source=7)], "source 1", "sink")


def test_frames_that_still_arrive_when_the_wait_is_over_are_no_result() -> None:
    assert_no_result([point((1000, 900), drained=False)], "5 s")


def test_of_all_that_was_offered_some_must_arrive() -> None:
    assert_no_result([point((1000, 0), (500, 0))], "1500 frames", "5 s")
    assert unbalanced([point((1000, 0), (500, 2))]) is None
    idle = with_source(point((1000, 0)), 0, offered_frames=0, unsent_frames=0, intended_frames=0)
    assert unbalanced([with_sink(idle, 0, lost_frames=0)]) is None, "nothing was offered"


def test_the_next_point_shows_frames_that_came_too_late() -> None:
    """As many late as in time may be a queue; one more is not."""
    first = point((1000, 100), (500, 50))
    assert unbalanced([first, point((1000, 900), late=150)]) is None
    assert_no_result([first, point((1000, 900), late=151)], "150 frames", 151)
    assert unbalanced([point((1000, 900), late=9999), first]) is None, "before the first point nothing was counted"
    assert unbalanced([first, first, point((1000, 900), late=151)]) is not None
