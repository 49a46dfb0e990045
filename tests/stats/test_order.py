"""Reordering is added up over a cell before anything is divided, and what a sink does not measure stays unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.by_hand import plain, task, trial
from tests.support.made_up_run import Made, made_up_run

from virtoll.report.page import render_page
from virtoll.report.report_input import ReportInput
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import Point, Reordering
from virtoll.stats.analysis import analyse
from virtoll.stats.order import OrderRow, order_rows

ORDER: dict[str, Any] = {
    "extent_frames": {"count": 4, "sum": 10, "maximum": 5, "histogram": [[1, 2], [3, 1], [5, 1]], "unknown_frames": 1},
    "n_reordering": {"count": 3, "sum": 7, "maximum": 5, "histogram": [[0, 1], [2, 1], [5, 1]], "unknown_frames": 2},
    "late_time_ns": {"sum": 9000, "maximum": 4000},
    "displacement": None,
    "buffer_occupancy": None,
}
DENSITY = {"threshold_frames": 64, "histogram": [[-1, 10], [0, 60], [5, 2]], "beyond_frames": 3}
FORWARD = task("forward", "points", {"size": 64})


def reordered(point: Point, **changed: Any) -> Point:
    """The point whose sink reported 5 reordered frames, of these extents, degrees and times."""
    reported = Reordering.from_json(ORDER | changed)
    arrived = tuple(one.replace(reordered_frames=5, reordering=reported) for one in point.sink.per_source)
    return point.replace(sink=point.sink.replace(per_source=arrived))


def row_of(*points: Point) -> OrderRow:
    """Of these points in one trial, and as many in another without reordering."""
    (row,) = order_rows((FORWARD,), [trial(1, *points), trial(2, plain(10.0, 10), platform="q")])
    return row


def test_counts_are_added_before_they_are_divided() -> None:
    """Three points of 100, 50 and 50 frames, of which one saw none reordered: 10 of 200, and a mean extent of 20/8."""
    row = row_of(reordered(plain(10.0, 100)), reordered(plain(20.0, 60, 10)), plain(None, 50))
    assert (row.platform, row.task, row.arrived_frames) == ("p", FORWARD, 200)
    assert (row.reordered_frames, row.known_frames, row.ratio) == (10, 8, 0.05)
    assert (row.mean_extent, row.largest_extent, row.largest_late_ns) == (2.5, 5, 4000)
    assert row.three_reordered_share == 2 / 200
    assert (row.displaced_share, row.largest_displacement) == (None, None)


def test_where_no_extent_is_known_none_is_told() -> None:
    """The sink's memory is bounded: it may know of no reordered frame how far it was from its place."""
    unknown = {"count": 0, "sum": 0, "maximum": 0, "histogram": [], "unknown_frames": 5}
    row = row_of(reordered(plain(10.0, 100), extent_frames=unknown))
    assert (row.known_frames, row.mean_extent, row.largest_extent, row.largest_late_ns) == (0, None, None, None)


def test_three_places_late_are_what_tcp_takes_for_a_loss() -> None:
    """RFC 4737, 5.4: n-reordering of 3 and more, not of 2."""
    degrees = {"count": 4, "sum": 9, "maximum": 3, "histogram": [[2, 3], [3, 1]], "unknown_frames": 1}
    assert row_of(reordered(plain(10.0, 100), n_reordering=degrees)).three_reordered_share == 1 / 100


def test_displacement_where_the_sink_measures_it() -> None:
    row = row_of(reordered(plain(10.0, 100), displacement=DENSITY), reordered(plain(None, 100)))
    assert (row.displaced_share, row.largest_displacement) == (12 / 72, 5)


def test_the_report_tells_it() -> None:
    given = made_up_run({"native": {}}, [Made("native", "forward", {"frame_size_bytes": 64}, 1e5)], blocks=2)

    def disordered(one: TrialRecord) -> TrialRecord:
        return one.replace(points=tuple(reordered(point, displacement=DENSITY) for point in one.points or ()))

    assert 'id="reordering"' not in render_page(ReportInput(analyse(given)), {})
    shuffled = replace(given, trials=tuple(map(disordered, given.trials)))
    page = render_page(ReportInput(analyse(shuffled)), {})
    assert 'id="reordering"' in page
    assert "RFC 5236" in page
