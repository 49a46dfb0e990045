"""What is drawn over which parameter, from nothing but the parameters that were asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.by_hand import reading, trial
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.experiment.parse import find_experiment, load_experiment
from virtoll.experiment.selection import Selection
from virtoll.pipeline.preview import catalogue
from virtoll.runfolder.conditions import ALONE, Condition
from virtoll.runfolder.guest_records import CpuSpan, HostCpu
from virtoll.runfolder.records import MetricRecord, TrialRecord
from virtoll.stats.analysis import analyse
from virtoll.stats.cpu_over_parameters import cpu_cells
from virtoll.stats.intervals import Interval
from virtoll.stats.over_parameters import OverParameter, over_parameters
from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Observation, Task, canonical

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


def test_a_runs_threads_are_curves_of_its_cells() -> None:
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


def test_cpu_use_is_drawn_over_threads_as_what_was_measured_alone() -> None:
    """One thread takes half a CPU, four take two, in two requests of which one is longer; the trial takes more."""
    data = run_data(Truth({"native": {}, "netns": {}}, control=None, threads=(1, 2, 4), blocks=3))

    def counted(trial: TrialRecord) -> TrialRecord:
        each = trial.parameters.get("threads", 1) * 500_000_000
        spans = (
            CpuSpan(reading(0, 7), reading(10**9, 7 + each)),
            CpuSpan(reading(5 * 10**9, 0), reading(8 * 10**9, 3 * each)),
        )
        return trial.replace(host_cpu=HostCpu(reading(0, 0), reading(10**10, 10**12), spans))

    panels = analyse(replace(data, trials=tuple(map(counted, data.trials)))).over_parameters
    (cpus,) = (one for one in panels if one.metric.name == "host_cpu_use")
    assert (cpus.metric.unit, cpus.parameter, cpus.values) == ("CPUs", "threads", (1, 2, 4))
    for curve in cpus.curves:
        assert [point.cell.median for point in curve.points if point.cell is not None] == [0.5, 1, 2]


def test_cpu_use_is_one_more_metric_of_a_workload_by_trial_block_and_round() -> None:
    """A third and a quarter of a CPU, of trials that can be believed; once, however many metrics the workload has."""
    duration = task(metric=METRIC.replace(name="rate", better="higher", source="marks", primary=True), threads=2)
    idle, third, quarter = (
        HostCpu(reading(0, 0), reading(9, 9), (CpuSpan(reading(0, 0), reading(12, spent)),)) for spent in (0, 4, 3)
    )
    given: dict[str, Any] = {"workload": "some", "parameters": {"threads": 2}, "points": None, "size": None}
    trials = [
        trial(5, host_cpu=third, block=1, round=2, **given),
        trial(6, host_cpu=idle, **given),
        trial(7, host_cpu=third, status="invalid", **given),
        trial(8, host_cpu=third, **given | {"parameters": {}}),
        trial(9, host_cpu=quarter, block=3, **given),
        trial(10, **given),
        trial(11, platform="q", host_cpu=quarter, condition=Condition("idle"), **given),
    ]
    used = cpu_cells((duration, task(threads=2), task(frame_size_bytes=64)), trials)
    (own,) = used.tasks
    assert own.parameters == duration.parameters
    metric = own.metric
    assert (metric.name, metric.unit, metric.better) == ("host_cpu_use", "CPUs", "lower")
    assert (metric.source, metric.primary, metric.title) == ("host_cpu", False, METRIC.title)
    assert list(used.cells) == [("p", own, ALONE), ("q", own, Condition("idle").label)]
    assert used.cells["p", own, ALONE].observations == (
        Observation(own, "p", 5, 1, 0, 4 / 12, round=2),
        Observation(own, "p", 9, 3, 4, 3 / 12, round=0),
    )


def test_two_values_are_no_curve() -> None:
    assert analyse(run_data(Truth(REALISTIC, threads=(1, 2)))).over_parameters == ()
    assert analyse(run_data(Truth(REALISTIC))).over_parameters == (), "sizes of frames have figures of their own"


def test_the_longer_side_of_a_grid_is_the_axis_and_the_other_has_panels() -> None:
    grid = [
        task(f"{size} KiB, {count} processes", processes=count, working_set_bytes=size << 10)
        for size in (0, 16, 64)
        for count in (2, 8, 16, 64)
    ]
    assert places(found(*grid)) == [("processes", (2, 8, 16, 64), f"{size} KiB") for size in (0, 16, 64)]


def test_a_longer_side_is_the_axis_whatever_its_name() -> None:
    grid = [task(f"{rows} rows", rows=rows, threads=count) for rows in (9, 8, 7) for count in (1, 2, 4, 8)]
    assert places(found(*grid)) == [("threads", (1, 2, 4, 8), f"{rows} rows") for rows in (9, 8, 7)], "as asked"


def test_two_parameters_that_change_one_at_a_time_have_a_curve_each() -> None:
    cross = [task(threads=count, rows=100) for count in (1, 2, 4)] + [task(threads=1, rows=n) for n in (200, 300)]
    assert places(found(*cross)) == [("rows", (100, 200, 300), ""), ("threads", (1, 2, 4), "")]


def test_what_a_study_did_by_one_to_eight_threads_is_drawn_over_them() -> None:
    study = load_experiment(find_experiment("suresh2014"), catalogue(), Selection(size="full"))
    metric = METRIC.replace(name="duration", unit="ns")
    tasks = [
        Task(one.workload, metric, canonical(one.parameters.model_dump(mode="json")), "") for one in study.workloads
    ]
    drawn = {
        (workload, one.parameter)
        for workload in {task.workload for task in tasks}
        for one in found(*(task for task in tasks if task.workload == workload))
        if one.values == (1.0, 2.0, 4.0, 8.0)
    }
    assert drawn == {
        ("bonnie", "processes"),
        ("context-switch", "workers"),
        ("fio", "jobs"),
        ("forkwait", "workers"),
        ("ipc-bandwidth", "workers"),
        ("kernel-compile", "jobs"),
        ("kernel-operations", "workers"),
        ("mariadb-oltp-outside", "threads"),
        ("povray", "threads"),
        ("stream", "threads"),
        ("tcp-request-response", "connections"),
        ("tcp-stream", "connections"),
    }


def test_what_is_no_number_is_no_axis() -> None:
    assert found(*(task(pattern=one) for one in ("read", "write", "both"))) == ()
    assert found(*(task(flag=one, other=one) for one in (True, False))) == ()
    limited = [task(link_rate_bits_per_second=one) for one in (0, 10, 20)]
    assert found(*limited) == (), "0 is no limit, and two are left"
    panels = found(*limited, task(link_rate_bits_per_second=5))
    assert [one.values for one in panels] == [(5, 10, 20)]
    drawn = [point for panel in panels for curve in panel.curves for point in curve.points]
    assert [(point.value, point.cell and point.cell.median) for point in drawn] == [
        (5, 4.0),
        (10, 2.0),
        (20, 3.0),
    ]
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
    duration = METRIC.replace(name="duration", source="marks", primary=True)
    assert places(found(*(task(metric=duration, jobs=jobs) for jobs in (1, 2, 8)))) == [("jobs", (1, 2, 8), "")]
