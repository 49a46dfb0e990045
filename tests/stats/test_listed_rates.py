"""Sweeps over a list of rates by hand: frames of 105 B, so that 1000 of them are a megabit on the wire."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.specifications import panels_of
from tests.support.synthetic_run import Truth, run_data

from virtoll.report.figures.style import Width
from virtoll.report.sections.forwarding.sources_figure import draw
from virtoll.runfolder.frame_shape import FrameShape
from virtoll.runfolder.records import MetricRecord
from virtoll.stats.analysis import analyse
from virtoll.stats.listed_rates import Accumulated, ListedCurve, ListedPoint, ListedRates, listed_rates
from virtoll.stats.summaries import CellSummary, summarise
from virtoll.stats.sweeps import PointValue
from virtoll.stats.values import Observation, Task, canonical

RATE = MetricRecord("forward", "rate", "frames/s", "higher", "points", title="forwarding", resource="packet path")
NAMES = ("offered", "unsent", "refused", "forwarded", "lost", "duplicate", "reordered", "foreign", "late_trial")


def task(metric: MetricRecord = RATE, **more: Any) -> Task:
    given = {"frame_size_bytes": 105, "rates_mbit_per_second": [1.0, 4.0], "sources": 1, **more}
    return Task("forward", metric, canonical({key: one for key, one in given.items() if one is not None}), "105 B")


ONE, THREE = task(), task(sources=3)
SHAPE = FrameShape(frame_size_bytes=105)
PLATFORMS = ("p", "q")


def value(
    of: Task, intended: float | None, offered: float | None, forwarded: float | None, *, block: int = 0, on: str = "p"
) -> PointValue:
    counts: dict[str, Any] = {f"{name}_frames": 0 for name in NAMES} | {"intended_frames": 0}
    given: dict[str, Any] = {"trial": 1, "block": block, "platform": on, "parameters": of.parameters, "duration_ns": 1}
    given |= {"frame_size_bytes": 105, "place": 0, "forged_frames": None, "kernel_dropped_frames": None}
    return PointValue(intended_rate=intended, offered_rate=offered, forwarded_rate=forwarded, **given, **counts)


def cell(of: Task, on: str, *values: tuple[int, float]) -> CellSummary:
    return summarise([Observation(of, on, 1, block, 0, one) for block, one in values])


def told(point: ListedPoint) -> tuple[float | None, int, float, float]:
    return point.target_mbit_per_second, point.blocks, point.offered.value, point.forwarded.value


def test_a_point_is_over_the_blocks_that_have_both_its_rates() -> None:
    """Block 0 offered 800 and 1000 and forwarded 500 and 700 frames/s, block 1 1100 and 900; flat out comes last."""
    points = [
        value(ONE, None, 9000.0, 3000.0),
        value(ONE, 1000.0, 800.0, 500.0),
        value(ONE, 1000.0, 1000.0, 700.0),
        value(ONE, 1000.0, 1100.0, 900.0, block=1),
        value(ONE, 1000.0, None, 5000.0, block=1),
        value(ONE, 1000.0, 5000.0, None, block=2),
        value(ONE, 1001.0, 5000.0, 5000.0),
        value(ONE, 4000.0, None, None),
        value(ONE, 1000.0, 600.0, 400.0, on="q"),
        value(THREE, 1000.0, 3000.0, 2000.0),
        value(ONE, 1000.0, 600.0, 400.0, on="unasked"),
    ]
    found = listed_rates([THREE, ONE], points, {}, PLATFORMS)
    assert [(curve.platform, curve.task, curve.shape.sources) for curve in found.curves] == [
        ("p", THREE, 3),
        ("p", ONE, 1),
        ("q", ONE, 1),
    ]
    assert [[told(point) for point in curve.points] for curve in found.curves] == [
        [(1.0, 1, 3.0, 2.0)],
        [(1.0, 2, pytest.approx(1.0), pytest.approx(0.75)), (None, 1, 9.0, 3.0)],
        [(1.0, 1, 0.6, 0.4)],
    ]
    interval = found.curves[1].points[0].forwarded.interval
    assert interval is not None
    assert interval.high - 0.75 == pytest.approx(12.706 * 0.15, rel=1e-3), "t of one degree of freedom, 0.15 apart"
    assert found.curves[1] == ListedCurve("p", ONE, SHAPE, found.curves[1].points)
    assert found.accumulated == ()


def test_only_rates_of_points_have_a_list() -> None:
    others = [
        task(RATE.replace(source="figures")),
        task(rates_mbit_per_second=None),
        task(rates_mbit_per_second=[]),
        task(frame_size_bytes=None),
    ]
    points = [value(one, 1000.0, 800.0, 500.0) for one in others]
    cells = {("p", one): cell(one, "p", (0, 1.0)) for one in others}
    assert listed_rates(others, points, cells, PLATFORMS) == ListedRates((), ())


def test_the_largest_rate_is_of_runs_with_several_numbers_of_sources() -> None:
    """Over block 0 with 1000 and 3000 frames/s and block 1 with 4000: 3 Mbit/s."""
    alone = task(vlan=5)
    cells = {
        ("p", ONE): cell(ONE, "p", (0, 1000.0), (0, 3000.0), (1, 4000.0)),
        ("q", THREE): cell(THREE, "q", (0, 7000.0)),
        ("p", alone): cell(alone, "p", (0, 9000.0)),
        ("unasked", THREE): cell(THREE, "unasked", (0, 7000.0)),
    }
    found = listed_rates([ONE, alone, THREE], [], cells, PLATFORMS)
    group = '{"frame_size_bytes": 105, "rates_mbit_per_second": [1.0, 4.0]}'
    first, second = found.accumulated
    assert first == Accumulated("p", ONE, SHAPE, group, 2, first.rate)
    assert second == Accumulated("q", THREE, SHAPE.model_copy(update={"sources": 3}), group, 1, second.rate)
    assert (first.rate.value, second.rate.value) == (3, 7)
    assert found.curves == ()


def test_sources_with_an_egress_link_each_have_curves_of_their_own() -> None:
    costs: dict[str, dict[str, float]] = {"native": {}, "netns": {"packet path": 3.0}}
    given: dict[str, Any] = {"rates_mbit_per_second": (10.0, 400.0), "sources": (1, 3), "egress": ("one", "each")}
    both = analyse(run_data(Truth(costs, control=None, frame_sizes=(68,), **given)))
    groups: dict[str, list[tuple[str, int]]] = {}
    for one in both.listed_rates.accumulated:
        groups.setdefault(one.group, []).append((one.shape.egress, one.shape.sources))
    assert sorted(groups.values()) == [[(link, n) for n in (1, 3) for _ in costs] for link in ("each", "one")]
    curves = [(one.platform, one.shape.egress, one.shape.sources) for one in both.listed_rates.curves]
    assert len(curves) == len(set(curves)) == 2 * 2 * len(costs)
    shared, apart = sorted(panel["title"] for panel in panels_of(draw(both, Width.PAGE)))
    assert ("each" in shared, "each" in apart) == (False, True)
