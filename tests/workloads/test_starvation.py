"""The share of its CPU that the instrument had during a point, and what is no result for want of it."""

from __future__ import annotations

import pytest
from tests.support.facts import assert_facts
from tests.support.starved_points import POINT_MS, point

from virtoll.runfolder.traffic_records import Cpu, Point
from virtoll.workloads.starvation import cpu_share, starved, why_no_result


@pytest.mark.parametrize(
    ("measured", "share"),
    [
        (point((200, 0)), 1.0),
        (point((8, 192)), 0.04),
        (point((8, 792)), 0.01),  # it began late and sent for longer
        (point((100, 50)), 0.75),  # it slept for the rest
        (point((200, None)), None),
        (point((100, 100), (100, 100), cores=(1, 1)), 1.0),  # they had it in turns
        (point((100, 140), (60, 180), cores=(1, 1)), 1 - 80 / 240),
        (point((100, 100), (100, 100), cores=(1, 2)), 0.5),
        (point((190, 10), sink=(10, 190), cores=(1,), sink_core=1), 1.0),
        (point((200, 0), sink=(20, 60), cores=(1,), sink_core=0), 0.7),
        (point((200, 0), sink=(20, 60), cores=(1,), sink_core=0, sink_backend="xdp"), 1.0),  # its kernel counts
        (point((185, 15), sink=(10, 60), cores=(1,), sink_core=1, sink_backend="xdp"), 1 - 5 / 200),
    ],
)
def test_the_share_of_its_cpu_that_the_instrument_had(measured: Point, share: float | None) -> None:
    assert cpu_share(measured) == (None if share is None else pytest.approx(share))


def test_sources_of_one_thread_count_it_once() -> None:
    of_two = point((150, 50), (150, 50), cores=(1, 1))
    of_one = of_two.replace(sources=tuple(source.replace(thread=0) for source in of_two.sources))
    assert cpu_share(of_two) == 1.0
    assert cpu_share(of_one) == pytest.approx(0.75)


def test_what_guests_send_is_theirs() -> None:
    assert cpu_share(point((8, 192)).replace(guests_cpu=(Cpu(),))) is None


@pytest.mark.parametrize(("ran", "is_result"), [(191, True), (190, True), (189, False)])
def test_it_needs_95_percent(ran: int, *, is_result: bool) -> None:
    measured = point((ran, POINT_MS - ran))
    assert (starved(measured) is None) is is_result
    assert (why_no_result([point((200, 0)), measured]) is None) is is_result


def test_the_reason_says_what_the_instrument_had_and_needs() -> None:
    assert_facts(why_no_result([point((8, 192))]) or "", "4%", "95%", "CPU")
