"""Points of sweeps as values, and curves over blocks, on counts few enough to add by hand."""

from __future__ import annotations

import pytest
from tests.support.by_hand import SECOND, plain, point, sink, source, trial

from virtoll.runfolder.traffic_records import Point
from virtoll.stats.sweeps import Curve, CurvePoint, PointValue, Spread, curves, point_values

TWO_SOURCES = point(
    7.0,
    [source(0, intended=11, offered=9, refused_frames=3), source(1, intended=21)],
    [
        sink(0, forwarded=6, lost=3).replace(duplicate_frames=1, reordered_frames=2),
        sink(1, forwarded=16, lost=5).replace(duplicate_frames=10, reordered_frames=20),
    ],
).replace(
    frame_size_bytes=128,
)


def test_a_points_counts_are_sums_over_its_sources() -> None:
    seen = TWO_SOURCES.sink.replace(foreign_frames=4, late_trial_frames=5, forged_frames=6, kernel_dropped_frames=7)
    (first, second) = point_values([trial(3, plain(None, 2), TWO_SOURCES.replace(sink=seen), block=8)])
    assert (first.place, first.flat_out, first.intended_frames, first.refused_frames) == (0, True, 2, 0)
    assert second == PointValue(
        trial=3,
        block=8,
        platform="p",
        parameters='{"size": 64}',
        frame_size_bytes=128,
        place=1,
        intended_rate=7.0,
        duration_ns=SECOND,
        offered_rate=8 + 20,
        forwarded_rate=5 + 15,
        intended_frames=32,
        offered_frames=30,
        unsent_frames=2,
        refused_frames=3,
        forwarded_frames=22,
        lost_frames=8,
        duplicate_frames=11,
        reordered_frames=22,
        foreign_frames=4,
        late_trial_frames=5,
        forged_frames=6,
        kernel_dropped_frames=7,
    )
    assert not second.flat_out
    assert (second.loss, second.turned_away) == (8 / 30, 11 / 33)


def test_only_trials_that_can_be_believed_have_points() -> None:
    trials = [
        trial(1, plain(1.0, 2), status="invalid"),
        trial(2, points=None),
        trial(3, plain(1.0, 3)),
    ]
    assert [one.trial for one in point_values(trials)] == [3]


def test_of_no_frames_there_is_no_share() -> None:
    (none, refused) = point_values(
        [trial(1, plain(1.0, 0), point(1.0, [source(intended=0, refused_frames=5)], [sink(forwarded=0)]))]
    )
    assert (none.loss, none.turned_away) == (None, None)
    assert (refused.loss, refused.turned_away) == (None, 1.0)


def sweep(number: int, *points: Point, platform: str = "p", size: int = 64) -> tuple[PointValue, ...]:
    return point_values([trial(number, *points, platform=platform, size=size, block=number)])


def test_a_curve_has_median_and_range_of_the_blocks_by_rate() -> None:
    """Offered 10, 20 and 60 frames/s paced, of which 0, 2 and 3 frames of 11, 21 and 61 were lost."""
    values = [
        *sweep(0, plain(None, 101, 50), plain(20.0, 21), plain(10.0, 11)),
        *sweep(1, plain(10.0, 21, 2), plain(None, 101, 51)),
        *sweep(2, plain(10.0, 61, 3)),
        *sweep(2, plain(10.0, 31, 3), platform="q", size=1500),
        *sweep(3, plain(10.0, 0), plain(5.0, 1), plain(5.0, 9, 8)),
    ]
    first, second = curves(values)
    assert (first.platform, first.parameters, first.frame_size_bytes) == ("p", '{"size": 64}', 64)
    assert (second.platform, second.parameters) == ("q", '{"size": 1500}')
    assert [(one.intended_rate, one.blocks) for one in first.points] == [(10.0, 3), (20.0, 1), (None, 2)]
    assert first.points[0] == CurvePoint(10.0, 3, Spread(20, 10, 60), Spread(18, 10, 57), Spread(3 / 61, 0, 2 / 21)), (
        "what has no rate is in none"
    )
    assert first.points[2].forwarded == Spread(49.5, 49, 50)
    (twice,) = curves([*sweep(0, plain(10.0, 11)), *sweep(0, plain(10.0, 21))])
    assert (twice.points[0].blocks, twice.points[0].offered) == (1, Spread(15, 10, 20)), "of one block"


def flat_out(*lost: int, refused: int = 0, platform: str = "p") -> tuple[PointValue, ...]:
    """1000 frames flat out in each block, and so many of 100 lost where they were paced: all of them."""
    return tuple(
        value
        for number, one in enumerate(lost)
        for value in sweep(
            number,
            plain(10.0, 100, 90),
            point(None, [source(intended=1000, refused_frames=refused)], [sink(forwarded=1000 - one, lost=one)]),
            platform=platform,
        )
    )


@pytest.mark.parametrize(
    ("lost", "refused", "apart", "senders", "lossless"),
    [
        ((5, 5, 900), 0, (), (), True),
        ((5, 6, 6), 0, (), (), False),
        ((0, 0), 0, (), ("{}",), True),
        ((0, 0), 0, (), ('{"size": 64}',), False),
        ((0, 0), 100, (), (), True),
        ((0, 0), 100, ("q",), (), True),
        ((0, 0), 100, ("p",), (), False),
        ((4, 4), 1, ("p",), (), True),
        ((), 0, (), (), None),
    ],
    ids=[
        "half a percent by the median",
        "more",
        "others send",
        "guests send",
        "refused before",
        "refused where another is apart",
        "turned away",
        "5 of 1001",
        "no points",
    ],
)
def test_lossless_is_half_a_percent_flat_out(
    lost: tuple[int, ...], refused: int, apart: tuple[str, ...], senders: tuple[str, ...], lossless: bool | None
) -> None:
    found = curves(flat_out(*lost, refused=refused), apart, senders)
    assert [one.lossless for one in found] == ([] if lossless is None else [lossless])


def test_without_a_point_flat_out_nothing_is_said_to_be_lossless() -> None:
    (one,) = curves(sweep(0, plain(10.0, 11)))
    assert one == Curve("p", '{"size": 64}', 64, one.points, lossless=False)
