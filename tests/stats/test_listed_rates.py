"""Sweeps over a list of rates: means over blocks in Mbit/s on the wire, and the largest rate by number of sources."""

import json
import statistics
from dataclasses import replace

import pytest
from scipy import stats
from tests.support.specifications import panels_of
from tests.support.synthetic_run import Truth, run_data

from virtoll.report.figures.sources import draw
from virtoll.report.figures.style import Width
from virtoll.runfolder.frame_shape import FrameShape
from virtoll.stats.analysis import Analysis, analyse

RATES = (10.0, 100.0, 400.0, 1000.0)
COSTS: dict[str, dict[str, float]] = {"native": {}, "native-again": {}, "netns": {"packet path": 3.0}}
LISTED = Truth(COSTS, blocks=4, rounds=2, frame_sizes=(68, 1504), rates_mbit_per_second=RATES, sources=(1, 3))


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return analyse(run_data(LISTED))


def test_there_is_a_curve_for_each_platform_and_task_with_every_rate_and_flat_out(analysis: Analysis) -> None:
    found = [(one.platform, one.shape.frame_size_bytes, one.shape.sources) for one in analysis.listed_rates.curves]
    assert found == [(label, size, sources) for size in (68, 1504) for sources in (1, 3) for label in COSTS]
    for curve in analysis.listed_rates.curves:
        assert [point.target_mbit_per_second for point in curve.points] == [*RATES, None]
        assert {point.blocks for point in curve.points} == {4}


def test_what_is_forwarded_whole_is_the_list_times_the_sources(analysis: Analysis) -> None:
    """A bare host that forwards all: offered and forwarded are the target of each source, in Mbit/s on the wire."""
    for curve in analysis.listed_rates.curves:
        first = curve.points[0]
        assert first.offered.value == pytest.approx(10.0 * curve.shape.sources, rel=0.01)
        assert first.forwarded.value == pytest.approx(10.0 * curve.shape.sources, rel=0.01)


def test_a_point_is_the_mean_of_the_blocks_means_with_its_t_interval(analysis: Analysis) -> None:
    curve = next(one for one in analysis.listed_rates.curves if (one.platform, one.shape.sources) == ("netns", 1))
    shape = FrameShape(frame_size_bytes=68)
    own = [
        one
        for one in analysis.points
        if (one.platform, one.parameters) == ("netns", curve.task.parameters) and one.flat_out
    ]
    blocks = {one.block for one in own}
    assert len(own) == 2 * len(blocks)
    means = [
        statistics.fmean(shape.mbit_per_second(one.forwarded_rate or 0.0) for one in own if one.block == block)
        for block in blocks
    ]
    forwarded = curve.points[-1].forwarded
    assert forwarded.value == pytest.approx(statistics.fmean(means))
    assert forwarded.interval is not None
    expected = stats.t.interval(0.95, len(means) - 1, loc=statistics.fmean(means), scale=stats.sem(means))
    assert (forwarded.interval.low, forwarded.interval.high) == pytest.approx(expected)


def test_the_largest_rate_is_the_cells_own_by_number_of_sources(analysis: Analysis) -> None:
    found = analysis.listed_rates.accumulated
    assert {(one.platform, one.shape.frame_size_bytes, one.shape.sources) for one in found} == {
        (label, size, sources) for label in COSTS for size in (68, 1504) for sources in (1, 3)
    }
    assert len({one.group for one in found}) == 2, "one group a frame size"
    for one in found:
        assert "sources" not in json.loads(one.group)
        most = [
            max(point.forwarded_rate or 0.0 for point in analysis.points if point.trial == value.trial)
            for value in analysis.cells[one.platform, one.task].observations
        ]
        assert one.rate.value == pytest.approx(one.shape.mbit_per_second(statistics.fmean(most)))


def test_sources_that_share_an_egress_link_are_not_among_those_with_one_each() -> None:
    """Neither in one group of bars nor in one curve."""
    both = analyse(run_data(replace(LISTED, frame_sizes=(68,), egress=("one", "each"))))
    groups: dict[str, list[tuple[str, int]]] = {}
    for one in both.listed_rates.accumulated:
        groups.setdefault(one.group, []).append((one.shape.egress, one.shape.sources))
    assert sorted(map(sorted, groups.values())) == [
        [(egress, sources) for sources in (1, 3) for _ in COSTS] for egress in ("each", "one")
    ]
    curves = [(one.platform, one.shape.egress, one.shape.sources) for one in both.listed_rates.curves]
    assert len(curves) == len(set(curves)) == 2 * 2 * len(COSTS)
    panels = panels_of(draw(both, Width.PAGE))
    assert {panel["title"] for panel in panels} == {"68 B frames", "68 B frames, an egress link each"}


def test_one_block_has_means_and_no_intervals() -> None:
    one = analyse(run_data(Truth(COSTS, blocks=1, frame_sizes=(68,), rates_mbit_per_second=RATES)))
    assert one.listed_rates.curves
    assert all(point.forwarded.interval is None for curve in one.listed_rates.curves for point in curve.points)
    assert one.listed_rates.accumulated == (), "one number of sources is nothing to compare"


def test_another_sweep_has_no_such_curves() -> None:
    rising = analyse(run_data(Truth(COSTS, sources=(1, 3), frame_sizes=(68,))))
    assert rising.curves
    assert rising.listed_rates.curves == ()
    assert rising.listed_rates.accumulated == ()
