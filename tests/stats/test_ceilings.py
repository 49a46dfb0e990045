"""The instrument's own limits by hand: which calibrations are one ceiling, the floor, and cells held against it."""

from __future__ import annotations

from typing import Any, Literal

from tests.support.by_hand import distribution, plain, point, sink, source, task, trial

from virtoll.runfolder.frame_shape import FrameShape
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import CalibrationRecord, Point
from virtoll.stats.ceilings import Ceiling, Floor, Headroom, ceiling_of, ceilings, headrooms, shape_of
from virtoll.stats.summaries import CellSummary, summarise
from virtoll.stats.values import Observation, Task

SMALL: dict[str, Any] = {"frame_size_bytes": 64}
LARGE: dict[str, Any] = {"frame_size_bytes": 1518}


def shaped(parameters: dict[str, Any]) -> FrameShape:
    found = shape_of(parameters)
    assert found is not None
    return found


def calibrated(
    *points: Point, parameters: dict[str, Any] = SMALL, status: Literal["ok", "failed"] = "ok"
) -> CalibrationRecord:
    return CalibrationRecord("start", 0, parameters, status, None, points)


def flat(rate: int, **more: Any) -> Point:
    """Flat out so many frames in the second; the last arrives at its end, so that the rate is one less."""
    return plain(None, rate, **more)


def delayed(rate: float, *delays: tuple[int, int, int, int] | None) -> Point:
    """Paced, and of each source the delay's minimum, median, 99th percentile and maximum; None: not measured."""
    sinks = [
        sink(
            number,
            forwarded=9,
            delay_ns=own and distribution(9, minimum=own[0], p50=own[1], p99=own[2], maximum=own[3]),
        )
        for number, own in enumerate(delays)
    ]
    return point(rate, [source(number, intended=9) for number in range(len(delays))], sinks)


def test_a_shape_counts_each_guest_that_is_sent_to_and_no_link_out() -> None:
    assert shape_of({"digits": 3}) is None
    assert shape_of(SMALL) == FrameShape(frame_size_bytes=64, sources=1)
    many = {"frame_size_bytes": 64, "sources": 2, "routers": 3, "egress": "each"}
    assert shape_of(many) == FrameShape(frame_size_bytes=64, sources=6, egress="one")


def test_a_ceiling_is_of_one_shape_back_end_and_sink() -> None:
    found = ceilings(
        [
            calibrated(flat(301), flat(101, backend="af-packet"), flat(201, sink="xdp")),
            calibrated(flat(401), parameters=LARGE),
            calibrated(flat(11), parameters={"digits": 3}),
            calibrated(flat(12), status="failed"),
            calibrated(plain(5.0, 50), flat(251), plain(None, 0), plain(None, 1)),
            calibrated(plain(7.0, 70), parameters={"frame_size_bytes": 128}),
        ]
    )
    small = shaped(SMALL)
    assert found == (
        Ceiling(small, "live-frames", None, (300, 250), None),
        Ceiling(small, "af-packet", None, (100,), None),
        Ceiling(small, "live-frames", "xdp", (200,), None),
        Ceiling(shaped(LARGE), "live-frames", None, (400,), None),
    )
    assert [one.rate for one in found] == [250, 100, 200, 400]
    assert ceiling_of(found, small, flat(9, backend="af-packet")) is found[1]
    assert ceiling_of(found, small, flat(9, sink="xdp")) is found[2]
    assert ceiling_of(found, shaped(LARGE), flat(9)) is found[3]
    assert ceiling_of(found, None, flat(9)) is None
    assert ceiling_of(found, small, flat(9, backend="xdp")) is None


def test_the_floor_is_the_smallest_the_medians_and_the_largest() -> None:
    """Medians of 20, 30 and 70, and of 90, 80 and 200. A source without a delay is left out."""
    points = [
        delayed(4.0, None),
        delayed(5.0, None, None, (4, 20, 90, 300)),
        delayed(6.0, (3, 30, 80, 100), (9, 70, 200, 250)),
        flat(101),
    ]
    (found,) = ceilings([calibrated(*points)])
    assert found.floor == Floor(5.0, 3, 30, 90, 300)


def test_flat_out_and_unmeasured_delays_are_no_floor() -> None:
    full = delayed(5.0, (1, 2, 3, 4)).sink
    own = point(None, [source(intended=101)], [sink(forwarded=101, delay_ns=full.per_source[0].delay_ns)])
    (found,) = ceilings([calibrated(own, delayed(5.0, None))])
    assert found.floor is None


def cell(task: Task, *trials: TrialRecord, platform: str = "p") -> CellSummary:
    return summarise([Observation(task, platform, one.trial, place, 0, 1.0) for place, one in enumerate(trials)])


def test_a_cell_is_held_against_the_ceiling_of_what_forwarded_most() -> None:
    """Of 1000: 900, 500 and 100 flat out; the median is half. One whose best point is of another back end is out."""
    found = ceilings(
        [calibrated(flat(1001), flat(2001, backend="af-packet")), calibrated(flat(3001), parameters=LARGE)]
    )
    small, large, other = (task("forward", "points", {"frame_size_bytes": size}) for size in (64, 1518, 128))
    job = task("job", "marks")
    single = plain(50.0, 1)
    trials = [
        trial(3, plain(100.0, 100), flat(901), single),
        trial(4, flat(501), flat(401, backend="af-packet")),
        trial(5, flat(101)),
        trial(6, flat(101), flat(701, backend="xdp")),
        trial(7, flat(2701)),
        trial(8, single),
    ]
    cells = {
        ("p", job): cell(job, trials[0]),
        ("p", small): cell(small, *trials[:4]),
        ("q", large): cell(large, trials[4]),
        ("p", other): cell(other, trials[2]),
        ("r", small): cell(small, trials[5]),
    }
    held = headrooms(found, cells, trials)
    assert held == {
        ("p", small): Headroom(0.5, found[0]),
        ("q", large): Headroom(0.9, found[2]),
        ("p", other): Headroom(None, None),
        ("r", small): Headroom(0.0, found[0]),
    }
    assert [one.generator_bound for one in held.values()] == [False, True, False, False]
    assert not Headroom(0.899, found[0]).generator_bound
