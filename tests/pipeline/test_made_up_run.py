"""A made-up run is analysed as a real one, and the analysis finds the values that each platform was made with."""

from typing import Any

import pytest
from tests.support.facts import refused
from tests.support.made_up_run import Made, made_up_run

from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.compare import Verdict
from virtoll.stats.values import Task

HOST: dict[str, dict[str, Any]] = {"native": {}, "native-again": {}}
SMALL = {"frame_size_bytes": 68}
HEAVY, FORWARD = Condition("heavy", guests=2), Condition("forward", rate_share=0.5)


def task_of(analysis: Analysis, name: str, workload: str | None = None) -> Task:
    """The one task of a metric."""
    (found,) = (one for one in analysis.tasks if one.metric.name == name and workload in (None, one.workload))
    return found


def test_a_jobs_value_is_its_median_and_its_ratio_to_the_host() -> None:
    values = {"native": 2e9, "native-again": 2e9, "runc": 2.5e9}
    jobs = [Made(label, "kernel-compile", value=value, spread=1e-3) for label, value in values.items()]
    served = [
        Made(label, "mariadb-oltp-outside", {"threads": 4}, 4e11 / value, {"latency_p99": 1e6}, spread=1e-3)
        for label, value in values.items()
    ]
    run = made_up_run({**HOST, "runc": {}}, [*jobs, *served], rounds=2, experiment={"study": "schlosser2011"})
    analysis = analyse(run)
    duration, rate = task_of(analysis, "duration"), task_of(analysis, "transactions_per_second")
    medians = {label: analysis.cells[label, duration].median for label in values}
    assert medians == pytest.approx(values, rel=0.01)
    assert analysis.cells["runc", rate].median == pytest.approx(160.0, rel=0.01)
    assert '"rows": 1000' in rate.parameters  # the workload's own
    for task in (duration, rate):
        found = analysis.comparison("runc", task)
        assert found is not None
        assert found.share == pytest.approx(0.8, rel=0.01)
        assert found.verdict is Verdict.SLOWER
    assert {one.task.metric.name for one in analysis.comparisons if one.verdict is Verdict.NOT_MEASURED} == {
        "latency_average",
        "latency_p95",
    }
    control = {one.task.metric.name: one.verdict for one in analysis.control if one.share is not None}
    assert set(control) == {"duration", "transactions_per_second", "latency_p99"}
    assert set(control.values()) <= {Verdict.ALIKE, Verdict.UNKNOWN}, "no alarm"
    assert analysis.data.manifest.experiment["study"] == "schlosser2011"
    assert analysis.data.manifest.platforms[2].family == "os-level"
    assert analysis.data.manifest.platforms[2].parameters["attachment"] == "bridge"


def test_noise_makes_intervals_and_is_the_same_each_time() -> None:
    measured = [Made(label, "superpi", value=1e9, spread=0.05) for label in (*HOST, "runc")]
    one, again = (analyse(made_up_run({**HOST, "runc": {}}, measured)) for _ in range(2))
    (found,) = one.comparisons
    assert found.interval is not None
    assert found.interval.low < 1 < found.interval.high
    assert found.interval.high / found.interval.low > 1.02
    assert found == again.comparisons[0]
    assert found != analyse(made_up_run({**HOST, "runc": {}}, measured, seed=2)).comparisons[0]
    few = [Made("runc", "superpi", blocks=1), Made("native", "superpi")]
    (found,) = analyse(made_up_run({"native": {}, "runc": {}}, few)).comparisons
    assert (found.verdict, len(found.pairs)) == (Verdict.UNKNOWN, 1)


@pytest.mark.parametrize(
    "sweep", [{}, {"sweep": "from-flat-out"}, {"sweep": "rates", "rates_mbit_per_second": [9, 400]}]
)
def test_a_sweep_comes_to_its_value_and_collapses_on_request(sweep: dict[str, object]) -> None:
    parameters = {**SMALL, **sweep}
    measured = [
        Made("native", "forward", parameters, 1e6, lossless=True, spread=0.0),
        Made("netns", "forward", parameters, 4e5, flat_out=1e5, spread=0.0),
        Made("qemu-tcg", "forward", parameters, 2e4, spread=0.0),
    ]
    platforms: dict[str, dict[str, Any]] = {one.platform: {} for one in measured}
    analysis = analyse(made_up_run(platforms, measured, calibrated_rate=1.05e6))
    task = task_of(analysis, "maximum_forwarding_rate")
    rates = {one.platform: analysis.cells[one.platform, task].median for one in measured}
    assert rates == {"native": pytest.approx(1e6), "netns": pytest.approx(4e5), "qemu-tcg": pytest.approx(2e4)}
    assert [one.platform for one in measured if analysis.generator_bound(one.platform, task)] == ["native"]
    curves = {one.platform: one for one in analysis.curves}
    assert [label for label, one in curves.items() if one.lossless] == ["native"]
    assert curves["netns"].points[-1].forwarded.median == pytest.approx(1e5)
    assert curves["qemu-tcg"].points[-1].forwarded.median == pytest.approx(2e4)
    for trial in analysis.data.trials:
        for point in trial.points or ():
            for sent, arrived in zip(point.sources, point.sink.per_source, strict=True):
                assert sent.offered_frames + sent.unsent_frames == sent.intended_frames
                assert arrived.forwarded_frames + arrived.lost_frames == sent.offered_frames


@pytest.mark.parametrize(
    ("measured", "facts"),
    [
        ([Made("runc", "superpi")], ["runc", "platforms"]),
        ([Made("native", "superpi"), Made("native", "superpi")], ["native", "superpi", "twice"]),
        ([Made("native", "superpi", condition=HEAVY)], ["native", "superpi", "alone"]),
        ([Made("native", "superpi", figures={"speed": 1.0})], ["native", "superpi", "metrics"]),
        ([Made("native", "superpi", flat_out=1.0)], ["flat_out"]),
        ([Made("native", "nginx", scale=ScalePoint(2, 1, 1 << 28))], ["nginx", "duration"]),
        ([Made("native", "forward", {"sources": 2}, by_source=(1.0,))], ["2 shares"]),
        ([Made("native", "forward", {"sweep": "rates", "rates_mbit_per_second": [1]}, 1e5, flat_out=1e4)], ["forward"]),
    ],
)
def test_what_no_run_can_hold_is_refused(measured: list[Made], facts: list[str]) -> None:
    with refused(*facts, error=ValueError):
        made_up_run({"native": {}}, measured)
