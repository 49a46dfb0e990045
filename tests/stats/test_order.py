"""Reordering is added up over a cell before anything is divided, and what a sink does not measure stays unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.report.page import render_page
from virtoll.runfolder import jsonlines
from virtoll.runfolder.traffic_records import Reordering
from virtoll.stats.analysis import RunData, analyse
from virtoll.stats.order import order_rows
from virtoll.stats.values import Task

ORDER: dict[str, Any] = {
    "extent_frames": {"count": 4, "sum": 10, "maximum": 5, "histogram": [[1, 2], [3, 1], [5, 1]], "unknown_frames": 1},
    "n_reordering": {"count": 3, "sum": 7, "maximum": 5, "histogram": [[0, 1], [2, 1], [5, 1]], "unknown_frames": 2},
    "late_time_ns": {"sum": 9000, "maximum": 4000},
    "displacement": None,
    "buffer_occupancy": None,
}
DENSITY = {"threshold_frames": 64, "histogram": [[-1, 10], [0, 60], [5, 2]], "beyond_frames": 3}


def reordered(data: RunData, platform: str, order: dict[str, Any]) -> RunData:
    """The run with 5 reordered frames in each point of a platform."""
    reported = TypeAdapter(Reordering).validate_json(jsonlines.encode(order), strict=True)
    changed = tuple(
        replace(
            trial,
            points=tuple(
                replace(
                    point,
                    sink=replace(
                        point.sink,
                        per_source=tuple(
                            replace(one, reordered_frames=5, reordering=reported) for one in point.sink.per_source
                        ),
                    ),
                )
                for point in trial.points
            ),
        )
        if trial.platform == platform and trial.points
        else trial
        for trial in data.trials
    )
    return replace(data, trials=changed)


@pytest.fixture(scope="module")
def data() -> RunData:
    return run_data(Truth(REALISTIC, wired=True, blocks=3))


def tasks_of(data: RunData) -> tuple[Task, ...]:
    return tuple(analyse(data).tasks)


def test_without_reordering_there_is_no_row(data: RunData) -> None:
    assert order_rows(tasks_of(data), data.trials) == ()


def test_counts_are_added_before_they_are_divided(data: RunData) -> None:
    changed = reordered(data, "netns", ORDER)
    points = [point for trial in changed.trials if trial.platform == "netns" for point in trial.points or ()]
    rows = order_rows(tasks_of(data), changed.trials)
    assert {row.platform for row in rows} == {"netns"}
    assert sum(row.reordered_frames for row in rows) == 5 * len(points)
    assert sum(row.known_frames for row in rows) == 4 * len(points)
    arrived = sum(one.forwarded_frames for point in points for one in point.sink.per_source)
    assert sum(row.arrived_frames for row in rows) == arrived
    for row in rows:
        assert (row.mean_extent, row.largest_extent, row.largest_late_ns) == (2.5, 5, 4000)
        assert row.ratio == pytest.approx(row.reordered_frames / row.arrived_frames)
        assert row.three_reordered_share == pytest.approx(row.ratio / 5)
        assert (row.displaced_share, row.largest_displacement) == (None, None)


def test_where_no_extent_is_known_none_is_told(data: RunData) -> None:
    """The sink's memory is bounded: it may know of no reordered frame how far it was from its place."""
    unknown = {"extent_frames": {"count": 0, "sum": 0, "maximum": 0, "histogram": [], "unknown_frames": 5}}
    rows = order_rows(tasks_of(data), reordered(data, "netns", ORDER | unknown).trials)
    assert rows
    for row in rows:
        assert (row.known_frames, row.mean_extent, row.largest_extent, row.largest_late_ns) == (0, None, None, None)


def test_three_places_late_are_what_tcp_takes_for_a_loss(data: RunData) -> None:
    """RFC 4737, 5.4: n-reordering of 3 and more, not of 2."""
    degrees = {"n_reordering": {"count": 4, "sum": 9, "maximum": 3, "histogram": [[2, 3], [3, 1]], "unknown_frames": 1}}
    for row in order_rows(tasks_of(data), reordered(data, "netns", ORDER | degrees).trials):
        assert row.three_reordered_share == pytest.approx(row.ratio / 5)


def test_displacement_where_the_sink_measures_it(data: RunData) -> None:
    rows = order_rows(tasks_of(data), reordered(data, "netns", ORDER | {"displacement": DENSITY}).trials)
    assert {(row.displaced_share, row.largest_displacement) for row in rows} == {(12 / 72, 5)}


def test_the_report_tells_it(data: RunData) -> None:
    plain = render_page(analyse(data), {})
    assert 'id="reordering"' not in plain
    page = render_page(analyse(reordered(data, "netns", ORDER | {"displacement": DENSITY})), {})
    assert 'id="reordering"' in page
    assert "RFC 5236" in page
