"""What is drawn over which parameter, from nothing but the parameters that were asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.runfolder.conditions import ALONE
from virtoll.runfolder.records import MetricRecord
from virtoll.stats.analysis import analyse
from virtoll.stats.intervals import Interval
from virtoll.stats.over_parameters import OverParameter, over_parameters
from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Task, canonical

METRIC = MetricRecord(
    workload="some",
    name="latency_p99",
    unit="ns",
    better="lower",
    source="figures",
    title="Some: latency p99",
    resource="kernel",
    primary=False,
)


def cell(median: float) -> CellSummary:
    return CellSummary((), 3, median, Interval(median / 2, median * 2, 0.75, "range"), frozenset())


def task(size: str = "", metric: MetricRecord = METRIC, **parameters: Any) -> Task:
    return Task(metric.workload, metric, canonical(parameters), size)


def found(*tasks: Task, condition: str = ALONE) -> tuple[OverParameter, ...]:
    cells = {("host", one, condition): cell(number + 1.0) for number, one in enumerate(tasks)}
    return over_parameters(tasks, cells, ["host"], [condition])


def places(panels: tuple[OverParameter, ...]) -> list[tuple[str, tuple[float, ...], str]]:
    return [(one.parameter, one.values, one.others) for one in panels]


def test_a_runs_threads_are_curves_with_the_medians_and_intervals_of_its_cells() -> None:
    analysis = analyse(run_data(Truth(REALISTIC, threads=(4, 1, 2))))
    panels = analysis.over_parameters
    assert [(one.metric.name, one.parameter, one.values, one.condition) for one in panels] == [
        (name, "threads", (1, 2, 4), ALONE) for name in ("copy_rate", "latency_p99")
    ], "the duration of a job that tells rates is not drawn"
    for one in panels:
        assert [curve.platform for curve in one.curves] == list(analysis.platforms)
        for curve in one.curves:
            tasks = [task for task in analysis.tasks if task.metric == one.metric]
            assert [point.cell for point in curve.points] == [analysis.cells[curve.platform, task] for task in tasks]


def test_two_values_are_no_curve() -> None:
    assert analyse(run_data(Truth(REALISTIC, threads=(1, 2)))).over_parameters == ()
    assert analyse(run_data(Truth(REALISTIC))).over_parameters == (), "sizes of frames have figures of their own"


def test_the_longer_side_of_a_grid_is_the_axis_and_the_other_tells_its_panels_apart() -> None:
    grid = [
        task(f"{size} KiB, {count} processes", processes=count, working_set_bytes=size << 10)
        for size in (0, 16, 64)
        for count in (2, 8, 16, 64)
    ]
    assert places(found(*grid)) == [("processes", (2, 8, 16, 64), f"{size} KiB") for size in (0, 16, 64)]


def test_two_parameters_that_change_one_at_a_time_have_a_curve_each() -> None:
    cross = [task(threads=count, rows=100) for count in (1, 2, 4)] + [task(threads=1, rows=n) for n in (200, 300)]
    assert places(found(*cross)) == [("rows", (100, 200, 300), ""), ("threads", (1, 2, 4), "")]


def test_what_is_no_number_is_no_axis() -> None:
    assert found(*(task(pattern=one) for one in ("read", "write", "both"))) == ()
    assert found(*(task(flag=one, other=one) for one in (True, False))) == ()
    limited = [task(link_rate_bits_per_second=one) for one in (0, 10, 20)]
    assert found(*limited) == (), "0 is no limit, and two are left"
    assert found(*(task(frame_size_bytes=one) for one in (64, 512, 1518))) == ()


def test_a_value_that_nothing_was_measured_at_does_not_count() -> None:
    tasks = [task(threads=count) for count in (1, 2, 4)]
    cells = {("host", one, ALONE): cell(1.0) for one in tasks[:2]}
    assert over_parameters(tasks, cells, ["host"], [ALONE]) == ()


def test_conditions_have_a_panel_each_and_a_missing_point_is_no_zero() -> None:
    tasks = [task(rate_requests_per_second=rate) for rate in (100, 200, 400)]
    cells = {(label, one, under): cell(5.0) for label in ("a", "b") for one in tasks for under in (ALONE, "heavy load")}
    del cells["b", tasks[1], "heavy load"]
    panels = over_parameters(tasks, cells, ["b", "a", "gone"], [ALONE, "light load", "heavy load"])
    assert [one.condition for one in panels] == [ALONE, "heavy load"], "nothing ran beside a light load"
    assert [curve.platform for curve in panels[1].curves] == ["b", "a"]
    assert [point.cell is None for point in panels[1].curves[0].points] == [False, True, False]


def test_a_workload_without_figures_is_drawn_by_its_duration() -> None:
    duration = replace(METRIC, name="duration", source="marks", primary=True)
    assert places(found(*(task(metric=duration, jobs=jobs) for jobs in (1, 2, 8)))) == [("jobs", (1, 2, 8), "")]
