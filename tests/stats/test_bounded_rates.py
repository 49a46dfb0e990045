"""Which rates a sweep's points place the largest rate within bounds between, on points whose losses are known."""

import pytest
from tests.support.by_hand import distribution, through
from tests.support.made_up_points import Rates, made_up_point

from virtoll.runfolder.store import parse_record
from virtoll.runfolder.traffic_records import Point
from virtoll.stats.bounded_rates import Bracket, RateBounds, bracket

SECOND_NS = 1_000_000_000
TENTH = RateBounds(loss=0.001)


def point(offered: float, lost: float = 0.0, *, ns: int = SECOND_NS, delay_ns: int | None = None) -> Point:
    """Frames/s offered by one source, of which a share is lost inside the guest."""
    made = made_up_point(64, ns, offered, [Rates(offered, offered * (1 - lost))])
    found = parse_record(Point, made.to_json())
    (sink,) = found.sink.per_source
    delay = None if delay_ns is None else distribution(1000, p50=delay_ns // 2, p99=delay_ns)
    found = found.replace(sink=found.sink.replace(per_source=(sink.replace(delay_ns=delay),)))
    return found.replace(hops=through(found.sources[0].offered_frames, sink.forwarded_frames))


def found(*points: Point, bounds: RateBounds = TENTH, apart: bool = False) -> Bracket:
    return bracket(points, bounds, apart=apart)


def both(one: Bracket) -> list[float | None]:
    return [one.within, one.beyond]


def test_the_rate_is_between_the_last_within_and_the_first_beyond() -> None:
    one = found(point(1e5), point(2e5), point(4e5, 0.2), point(8e5, 0.6))
    assert both(one) == pytest.approx([2e5, 4e5], rel=1e-4)


def test_without_a_loss_there_is_no_upper_end_and_without_success_no_lower() -> None:
    assert found(point(1e5), point(2e5)).beyond is None
    assert found(point(1e5, 0.5)).within is None
    assert found(point(1e5, 0.5)).beyond == pytest.approx(1e5, rel=1e-4)
    assert found() == Bracket(None, None)


def test_rates_that_go_up_and_down_count_against_the_platform_and_for_it() -> None:
    """A hiccup at a low rate: what is within above it says nothing for the platform, and the hiccup nothing against."""
    one = found(point(1e5), point(2e5, 0.01), point(4e5), point(8e5, 0.5))
    assert both(one) == pytest.approx([1e5, 8e5], rel=1e-4)


def test_of_too_few_frames_none_lost_shows_nothing() -> None:
    assert found(point(1e5, ns=SECOND_NS // 100)).within is None, "1000 frames are not enough to see one in a thousand"
    assert found(point(1e5, ns=SECOND_NS // 10)).within == pytest.approx(1e5, rel=1e-3)
    nothing = RateBounds(loss=0.0)
    assert found(point(1e5, ns=SECOND_NS // 100), bounds=nothing).within == pytest.approx(1e5, rel=1e-2)
    assert found(point(1e5, 0.001), bounds=nothing).within is None


def test_frames_refused_by_an_interface_that_receives_apart_are_lost() -> None:
    refusing = point(1e5)
    refusing = refusing.replace(sources=(refusing.sources[0].replace(refused_frames=100_000),))
    assert found(refusing).within == pytest.approx(1e5, rel=1e-4)
    assert found(refusing, apart=True).within is None
    assert found(refusing, apart=True).beyond == pytest.approx(2e5, rel=1e-4)


def test_the_largest_rate_that_came_through_is_kept_whatever_was_lost() -> None:
    assert found(point(1e5), point(4e5, 0.2), point(8e5, 0.7)).most == pytest.approx(3.2e5, rel=1e-4)
    assert found(point(1e5), bounds=RateBounds(p99_ns=1e6)).most == pytest.approx(1e5, rel=1e-4)
    uneven = several((9000, 0, 0), (9000, 3000, 0))
    assert bracket([uneven], TENTH, apart=False, each=True).most == pytest.approx(6000, rel=1e-3)


def test_points_for_the_cpu_time_speak_for_a_platform_and_never_against_it() -> None:
    """Their frames come in bursts."""
    one = bracket([point(8e5, 0.7)], TENTH, apart=False, metered=[point(1e4), point(2e5)])
    assert both(one) == pytest.approx([2e5, 8e5], rel=1e-4)
    lossy = bracket([point(8e5, 0.7)], TENTH, apart=False, metered=[point(1e4), point(2e5, 0.1)])
    assert both(lossy) == pytest.approx([1e4, 8e5], rel=1e-4)


def test_what_the_platform_did_not_lose_is_not_held_against_it() -> None:
    lost = point(1e5, 0.2)
    unlocated = lost.replace(hops=None)
    assert both(found(unlocated)) == [None, None], "nobody knows who lost these"
    sent = lost.sources[0].offered_frames
    (sink,) = lost.sink.per_source
    at_the_sink = lost.replace(hops=through(sent, sent))
    assert sink.lost_frames == 20_000
    assert both(found(at_the_sink)) == [None, None], "the sink lost them"


def test_a_delay_is_bounded_as_a_loss_is() -> None:
    bounds = RateBounds(loss=0.001, p99_ns=1e6)
    one = found(point(1e5, delay_ns=400_000), point(2e5, delay_ns=3_000_000), bounds=bounds)
    assert both(one) == pytest.approx([1e5, 2e5], rel=1e-4)
    assert both(found(point(1e5), bounds=bounds)) == [None, None], "no delay was measured"
    half = RateBounds(p50_ns=2e5)
    assert found(point(1e5, 0.5, delay_ns=400_000), bounds=half).within == pytest.approx(5e4, rel=1e-3)


def test_of_several_guests_the_one_of_which_least_came_through_counts() -> None:
    made = made_up_point(64, SECOND_NS, 1e5, [Rates(1e5, 1e5), Rates(1e5, 1e5)])
    even = parse_record(Point, made.to_json())
    assert bracket([even], TENTH, apart=False).within == pytest.approx(2e5, rel=1e-4)
    assert bracket([even], TENTH, apart=False, each=True).within == pytest.approx(1e5, rel=1e-4)
    made = made_up_point(64, SECOND_NS, 1e5, [Rates(1e5, 8e4), Rates(1e5, 4e4)])
    uneven = parse_record(Point, made.to_json())
    assert bracket([uneven], RateBounds(), apart=False, each=True).within == pytest.approx(4e4, rel=1e-3)


def several(*counts: tuple[int, int, int | None], apart_from: int = 0) -> Point:
    """A second of sources of (offered, lost, refused): what is lost vanishes at the sink's ring but `apart_from`."""
    made = made_up_point(64, SECOND_NS, 1.0, [Rates(sent, sent - lost) for sent, lost, _ in counts])
    read = parse_record(Point, made.to_json())
    sources = [one.replace(refused_frames=own[2]) for one, own in zip(read.sources, counts, strict=True)]
    sent, came = sum(own[0] for own in counts), sum(own[0] - own[1] for own in counts)
    hops = through(sent, came + apart_from) if len(counts) == 1 else None
    return read.replace(sources=tuple(sources), hops=hops)


@pytest.mark.parametrize(
    ("counts", "at_the_sink", "loss", "holds"),
    [
        ([(100, 10, None)], 0, 0.1, True),
        ([(100, 11, None)], 0, 0.1, False),
        ([(100, 11, None)], 1, 0.1, None),
        ([(100, 15, None)], 10, 0.1, None),
        ([(6, 1, None)], 0, 0.5, True),
        ([(5, 1, None)], 0, 0.5, None),
        ([(6, 0, None)], 0, 0.0, True),
        ([(6, 0, 0)], 0, 0.0, True),
        ([(100, 0, 10)], 0, 0.1, True),
        ([(100, 0, 12)], 0, 0.1, False),
        ([(100, 0, None), (100, 0, 12)], 0, 0.1, False),
        ([(100, 12, None), (100, 0, 12)], 0, 0.1, False),
        ([(100, 12, None), (100, 0, None)], 0, 0.1, None),
    ],
)
def test_a_loss_is_held_against_its_bound_to_the_frame(
    counts: list[tuple[int, int, int | None]], at_the_sink: int, loss: float, holds: bool | None
) -> None:
    """Of what was given, refused frames among it; three of the bound or more must have been sent to show anything.

    What an interface refused is the platform's. Whose are lost frames of which nobody counted, none knows.
    """
    one = bracket([several(*counts, apart_from=at_the_sink)], RateBounds(loss=loss), apart=True)
    assert (one.within is not None, one.beyond is not None) == (holds is True, holds is False)


def test_what_was_refused_is_given_only_where_it_was_turned_away() -> None:
    """100 000 frames/s and as many refused: 200 000 where they were turned away, which is above 150 000."""
    refusing = point(1e5)
    refusing = refusing.replace(sources=(refusing.sources[0].replace(refused_frames=100_000),))
    assert both(found(refusing, point(1.5e5, 0.5))) == pytest.approx([1e5, 1.5e5], rel=1e-4)
    lossy = bracket([several((10, 5, None))], RateBounds(loss=0.1), apart=True)
    assert lossy.beyond == pytest.approx(10), "what nobody read was not refused"


def test_points_without_a_rate_are_passed_over() -> None:
    """Of a single frame offered, and of a single frame forwarded, no rate is known."""
    single = several((2, 0, None))
    single = single.replace(sources=(single.sources[0].replace(offered_frames=1),))
    arrived = several((100_000, 0, None))
    (sink,) = arrived.sink.per_source
    arrived = arrived.replace(sink=arrived.sink.replace(per_source=(sink.replace(forwarded_frames=1),)))
    assert found(single) == found(arrived) == Bracket(None, None)
    one = found(point(1e5), single, arrived, point(2e5, 0.5))
    assert both(one) == pytest.approx([1e5, 2e5], rel=1e-4)


def test_a_rate_that_held_once_and_once_not_is_neither() -> None:
    assert both(found(point(1e5), point(1e5, 0.5))) == [None, None]
    assert found(point(5e4), point(1e5), point(1e5, 0.5), point(2e5, 0.5)).within == pytest.approx(5e4, rel=1e-4)
    assert found(point(0.5, 1.0, ns=10 * SECOND_NS), bounds=RateBounds(loss=0.5)).beyond == pytest.approx(0.5)


def test_rates_of_each_source_are_set_against_each_other() -> None:
    """Two sources at 1000, 2000 and 4000 each, the last with a loss: a source had 4000 that it lost, not 8000."""
    sweep = [several((rate, 0, 0), (rate, 0, 0)) for rate in (4000, 8000)]
    lossy = several((9000, 0, 0), (9000, 0, 900))
    one = bracket([*sweep, lossy], TENTH, apart=True, each=True)
    assert both(one) == pytest.approx([8000, 9450], rel=1e-3)
    together = bracket([*sweep, lossy], TENTH, apart=True)
    assert both(together) == pytest.approx([16000, 18900], rel=1e-3)
    starved = several((4000, 4000, 0), (4000, 0, 0))
    assert bracket([starved], RateBounds(), apart=False, each=True).within == 0
    nothing = several((4000, 4000, 0), (4000, 4000, 0))
    assert bracket([nothing], RateBounds(), apart=False, each=True).within == 0
    unseen = nothing.replace(sink=nothing.sink.replace(per_source=()))
    assert bracket([unseen], RateBounds(), apart=False, each=True).within == 0
    assert bracket([], TENTH, apart=False, each=True) == Bracket(None, None)


def test_each_percentile_has_its_own_bound() -> None:
    """A median of 200 us and a 99th percentile of 400 us; a delay at its bound is within it."""
    own = point(1e5, delay_ns=400_000)
    for bounds, within in (
        (RateBounds(p50_ns=2e5), True),
        (RateBounds(p50_ns=199_999), False),
        (RateBounds(p99_ns=4e5), True),
        (RateBounds(p99_ns=399_999), False),
        (RateBounds(p50_ns=1e5, p99_ns=4e5), False),
    ):
        one = found(own, bounds=bounds)
        assert (one.within is not None, one.beyond is not None) == (within, not within), bounds
