"""Which points a sweep takes, on curves of what a router forwards: the maximum is found with few of them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from pydantic import ValidationError
from tests.support.agents import recorded_reply
from tests.support.facts import Fact, assert_facts
from tests.support.made_up_points import point_of

from virtoll.runfolder.traffic_records import Point, TrafficReply
from virtoll.workloads.sweep import (
    SweepParameters,
    first_point,
    point_seconds,
    preferred_rate,
    source_rate,
    sweep,
    sweep_seconds,
)
from virtoll.workloads.traffic import RESIDUAL_NS

REPLY = TrafficReply.from_json(recorded_reply("traffic"))
DURATION_NS = 1_000_000_000
GENERATOR = 4e6  # frames/s that it can offer

FROM_FLAT_OUT = SweepParameters(sweep="from-flat-out", first_rate_frames_per_second=1000)

Curve = Callable[[float], float]
"""Forwarded frames/s at so many that are offered."""


def keeps(capacity: float) -> Curve:
    """A router that forwards what it can, however much is offered."""
    return lambda offered: min(offered, capacity)


def chokes(capacity: float, flat_out: float) -> Curve:
    """A router that forwards less of more, down to so much when a generator sends as fast as it can."""

    def curve(offered: float) -> float:
        if offered <= capacity:
            return offered
        return capacity - (capacity - flat_out) * min(1.0, (offered - capacity) / (20 * capacity))

    return curve


def measure(
    curve: Curve, generator: float = GENERATOR, wanted: SweepParameters = FROM_FLAT_OUT
) -> tuple[list[Point], list[float | None]]:
    """The points of a sweep on this router, and the rates that were asked for."""
    asked: list[float | None] = []

    def point(rate: float | None) -> Point:
        asked.append(rate)
        intended = generator if rate is None else rate
        offered = min(intended, generator)
        forwarded = curve(offered)
        source = REPLY.sources[0].replace(
            intended_frames=int(intended), offered_frames=int(offered), unsent_frames=int(intended) - int(offered)
        )
        arrived = REPLY.sink.per_source[0].replace(
            forwarded_frames=int(forwarded), lost_frames=int(offered) - int(forwarded)
        )
        sink = REPLY.sink.replace(per_source=(arrived,))
        return point_of(rate, DURATION_NS, REPLY.replace(sources=(source,), sink=sink))

    return sweep(wanted, point), asked


@pytest.mark.parametrize("capacity", [300.0, 40_000.0, 343_000.0, 992_000.0, 3_900_000.0, 1e9])
def test_the_maximum_takes_two_points_where_more_frames_do_no_harm(capacity: float) -> None:
    points, asked = measure(keeps(capacity))
    most = min(capacity, GENERATOR)
    assert asked[0] is None
    assert len(points) == (2 if most > GENERATOR / 4 else 3), "the second would offer what the generator did flat out"
    assert max(map(source_rate, points)) == pytest.approx(most, abs=1)


@pytest.mark.parametrize("generator", [GENERATOR, 1e6, 1.3e6])
@pytest.mark.parametrize("capacity", [330_000.0, 343_000.0, 992_000.0])
def test_the_last_point_is_a_preferred_rate_below_the_maximum(capacity: float, generator: float) -> None:
    points, asked = measure(keeps(capacity), generator)
    below = asked[-1]
    assert below in (251_000.0, 708_000.0, 794_000.0)
    assert 0.7 * min(capacity, generator) < below <= 0.8 * min(capacity, generator)
    assert source_rate(points[-1]) == below, "nothing is lost"


def drops(from_rate: float, share: float) -> Curve:
    """A router that forwards the more of more, but loses such a share of all that comes at this rate or above."""
    return lambda offered: min(offered, 1e6) * (1 - share if offered >= from_rate else 1)


@pytest.mark.parametrize(
    ("from_rate", "share", "below"),
    [
        (700_000.0, 0.01, [708_000.0, 631_000.0]),
        (500_000.0, 0.002, [794_000.0, 631_000.0, 501_000.0, 398_000.0]),
        (500_000.0, 0.0009, [794_000.0]),
        (1.0, 0.01, [708_000.0, 631_000.0, 501_000.0, 398_000.0]),
    ],
)
def test_rates_go_down_until_a_point_comes_through_but_for_a_thousandth(
    from_rate: float, share: float, below: list[float]
) -> None:
    _, asked = measure(drops(from_rate, share))
    assert asked[0] is None
    assert asked[-len(below) :] == below
    assert len(asked) == len(below) + 2, "flat out, and more than twice that"


def test_a_platform_that_chokes_has_one_point_below_its_maximum() -> None:
    """Such a platform waits half a second for frames of each point that loses some."""
    lossy = chokes(21_000.0, 300.0)
    _, asked = measure(lambda offered: 0.99 * lossy(offered))
    rates = [rate for rate in asked[1:] if rate is not None]
    assert sum(rate < 0.85 * 21_000 and math.log2(rate / 1000) % 0.5 > 0.01 for rate in rates) == 1


def test_preferred_rates_are_twenty_to_a_decade() -> None:
    rates = sorted({preferred_rate(1000 * 1.01**step) for step in range(231)})
    assert len(rates) == 20
    assert rates[:4] == [1000, 1120, 1260, 1410]
    assert preferred_rate(1e5) == 1e5


@pytest.mark.parametrize("capacity", [9_000.0, 21_000.0, 31_999.0, 32_001.0, 150_000.0])
@pytest.mark.parametrize("flat_out", [0.0, 300.0, 4_300.0])
def test_the_top_is_found_where_more_frames_choke_a_platform(capacity: float, flat_out: float) -> None:
    """The fall from the capacity is gentle, so a grid that doubles sees nine tenths of it, with a point between."""
    points, asked = measure(chokes(capacity, flat_out))
    rates = [source_rate(point) for point in points]
    assert asked[0] is None
    assert len(set(asked)) == len(asked)
    assert len(asked) <= 6 + math.log2(capacity / 1000), (
        "flat out, each doubling up to the capacity, two above, between, below"
    )
    assert capacity * 0.9 <= max(rates) <= capacity
    on_grid = {1000.0 * 2**step for step in range(24)}
    between, below = asked[-2:]
    assert set(asked[1:-2]) <= on_grid
    assert between is not None
    assert math.log2(between / 1000.0) % 1 == pytest.approx(0.5), "of the best and its better neighbour"
    assert below == preferred_rate(0.8 * max(rates))


def test_what_forwards_nothing_ends_the_sweep() -> None:
    points, asked = measure(lambda _: 0.0)
    assert asked == [None, 1000.0]
    assert [source_rate(point) for point in points] == [0.0, 0.0]


def test_a_generator_that_cannot_offer_more_ends_the_climb() -> None:
    """What a router forwards of a burst falls, and the generator cannot offer as many at a steady rate."""
    points, asked = measure(chokes(60_000, 1_000), generator=50_000)
    assert max(map(source_rate, points)) == 50_000
    assert len(asked) <= 4


def test_a_platform_below_the_grid_is_climbed_down_to() -> None:
    """The first probe, above twice the rate flat out, can be beyond the top."""
    curve = {1000.0: 1000.0, 2000.0: 1950.0, 4000.0: 1400.0, 8000.0: 1200.0}
    points, asked = measure(lambda offered: curve.get(offered, 1000.0))
    assert asked == [None, 4000.0, 8000.0, 2000.0, pytest.approx(2000.0 * 2**0.5), 1410.0]
    assert max(map(source_rate, points)) == 1950


def test_the_warm_up_is_the_first_point_of_either() -> None:
    for sweep_from, first in (("rising", 4000.0), ("from-flat-out", None)):
        asked: list[float | None] = []

        def point(rate: float | None, asked: list[float | None] = asked) -> Point:
            asked.append(rate)
            return point_of(rate, DURATION_NS, REPLY)

        first_point(SweepParameters.model_validate({"sweep": sweep_from}), point)
        assert asked == [first]


RISING = SweepParameters(first_rate_frames_per_second=1000)


@pytest.mark.parametrize(("capacity", "generator"), [(5000.0, GENERATOR), (GENERATOR, 5000.0)])
def test_rates_rise_until_less_than_a_share_is_forwarded_or_offered(capacity: float, generator: float) -> None:
    """Of 7000 frames 5000 are more than 0.7, of 8000 they are less."""
    _, asked = measure(keeps(capacity), generator, RISING)
    assert asked == [1000.0, 2000.0, 4000.0, 8000.0, None]
    third = SweepParameters(first_rate_frames_per_second=1000, rate_factor=7, stop_below_share=0.7)
    assert measure(keeps(capacity), generator, third)[1] == [1000.0, 7000.0, 49000.0, None]


def test_rates_rise_24_times_at_most() -> None:
    wanted = SweepParameters(first_rate_frames_per_second=1000, rate_factor=1.01)
    assert len(measure(keeps(1e9), wanted=wanted)[1]) == 25


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"sweep": "rates", "rates_mbit_per_second": 10}, ("[10, 100, 1000]", 10)),
        ({"sweep": "rates", "rates_mbit_per_second": [0, 10]}, (0, 1_000_000)),
        ({"sweep": "rates", "rates_mbit_per_second": [10, 1_000_001]}, (1_000_000, "1e+06")),
        ({"sweep": "rates", "rates_mbit_per_second": [10, 10]}, ("ascend",)),
        ({"sweep": "rates", "rates_mbit_per_second": [20, 10]}, ("ascend",)),
        ({"sweep": "rates", "rates_mbit_per_second": list(range(1, 34))}, (33, 32)),
        ({"sweep": "rising", "rates_mbit_per_second": [10]}, ("rates_mbit_per_second", "sweep: rates")),
        ({"sweep": "rates"}, ("rates_mbit_per_second", "'rates'")),
        ({"sweep": "rates", "rates_mbit_per_second": [10], "rate_factor": 3}, ("rate_factor", "sweep: rising")),
    ],
)
def test_lists_that_cannot_be_swept_are_refused(given: dict[str, object], facts: tuple[Fact, ...]) -> None:
    with pytest.raises(ValidationError) as raised:
        SweepParameters.model_validate(given)
    assert_facts(str(raised.value), *facts)


def test_a_list_may_have_32_rates_up_to_1_tbit_per_second() -> None:
    most = {"sweep": "rates", "rates_mbit_per_second": [*range(1, 32), 1_000_000]}
    assert len(SweepParameters.model_validate(most).listed_rates) == 32


LIST = (10.0, 100.0, 400.0, 1000.0)


def listed(**changed: object) -> SweepParameters:
    return SweepParameters.model_validate(
        {"sweep": "rates", "rates_mbit_per_second": LIST, "frame_size_bytes": 68, **changed}
    )


@pytest.mark.parametrize("curve", [keeps(1e9), keeps(100.0), chokes(20_000.0, 300.0), lambda _: 0.0])
def test_every_rate_of_a_list_is_offered_whatever_is_lost(curve: Curve) -> None:
    """In frames/s of 88 bytes on the wire each, and then flat out."""
    points, asked = measure(curve, wanted=listed())
    assert asked == [pytest.approx(rate * 1e6 / (8 * 88)) for rate in LIST] + [None]
    assert [point.intended_rate_frames_per_second for point in points] == asked


def test_the_warm_up_of_a_list_is_its_first_rate() -> None:
    asked: list[float | None] = []

    def point(rate: float | None) -> Point:
        asked.append(rate)
        return point_of(rate, DURATION_NS, REPLY)

    first_point(listed(), point)
    assert asked == [pytest.approx(10e6 / (8 * 88))]


def test_the_estimate_of_a_list_has_every_point_and_its_waits() -> None:
    """A slow platform forwards 20 000 frames/s by the estimate, which 100 Mbit/s of small frames are above, 10 not."""
    point = point_seconds(listed())
    assert sweep_seconds(listed(), 1.0) == pytest.approx(5 * point)
    assert sweep_seconds(listed(), 10.0) == pytest.approx(5 * point + 4 * RESIDUAL_NS / 1e9)
    large = listed(frame_size_bytes=1504)
    assert sweep_seconds(large, 10.0) == pytest.approx(5 * point + 3 * RESIDUAL_NS / 1e9), "from 400 Mbit/s on"
    assert sweep_seconds(listed(frame_size_bytes=1504, sources=3), 10.0) > sweep_seconds(large, 10.0)
