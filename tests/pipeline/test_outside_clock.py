"""Whatever the guest's clock says: durations are the outside clock's, and a difference is the platform's clock error.

For the agent's own jobs and for programs of the image alike, on models whose clocks are wrong by a known share.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from tests.support import experiments
from tests.support.facts import assert_facts
from tests.support.model_runs import measured

from virtoll.report.build import load
from virtoll.stats.analysis import Analysis, analyse

JOBS = ["superpi", "masr", "forkwait", "sysbench-cpu", "stream", "context-switch", "ipc-bandwidth", "kernel-operations"]
FIGURES = {
    "sysbench-cpu": "total_seconds",
    "stream": "copy_rate",
    "context-switch": "switch_time",
    "kernel-operations": "operation_time",
}
WRONG = 0.03


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """Models that differ in nothing but their clocks: right, 3 % fast, 3 % slow."""
    into: Path = tmp_path_factory.mktemp("clock") / "run"
    asked = experiments.parsed(
        platforms=[
            {"platform": "fake", "label": "right", "jitter": 0.001},
            {"platform": "fake", "label": "fast", "clock_error": WRONG, "jitter": 0.001, "seed": 2},
            {"platform": "fake", "label": "slow", "clock_error": -WRONG, "jitter": 0.001, "seed": 3},
        ],
        workloads=[*JOBS[:-1], {"workload": "kernel-operations", "operation": ["read", "signal-handle"]}],
        blocks=6,
        baseline="right",
    )
    return analyse(load(measured(asked, into).path))


def test_every_trial_is_right_whatever_its_clock(analysis: Analysis) -> None:
    assert {(trial.status, trial.reason) for trial in analysis.data.trials} == {("ok", None)}
    assert analysis.gaps == ()


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(("platform", "error"), [("fast", WRONG), ("slow", -WRONG)])
def test_a_wrong_clock_is_reported_for_every_kind_of_job(
    analysis: Analysis, job: str, platform: str, error: float
) -> None:
    reported = next(one for one in analysis.clocks if one.platform == platform)
    readings = [one for one in reported.readings if one.workload == job]
    assert readings
    for one in readings:
        assert not one.within
        assert one.error == pytest.approx(error, abs=0.004)
    assert_facts(reported.words, "clock", "wrong")
    assert reported.slope is not None
    assert reported.slope.rate == pytest.approx(error, abs=0.001)


@pytest.mark.parametrize("job", JOBS)
def test_a_right_clock_is_within_its_bound(analysis: Analysis, job: str) -> None:
    reported = next(one for one in analysis.clocks if one.platform == "right")
    assert all(one.within for one in reported.readings if one.workload == job)


def test_no_duration_and_no_rate_follows_the_guests_clock(analysis: Analysis) -> None:
    durations = [task for task in analysis.tasks if task.metric.source == "marks"]
    assert {task.workload for task in durations} == set(JOBS)
    rates = [task for task in analysis.tasks if task.metric.name == "bandwidth"]
    assert {task.workload for task in rates} == {"ipc-bandwidth"}
    for task in durations + rates:
        for platform in ("fast", "slow"):
            found = analysis.comparison(platform, task)
            assert found is not None
            assert found.share == pytest.approx(1.0, abs=0.005), "not 1.02, whatever so little noise lets a test find"


@pytest.mark.parametrize(("job", "figure"), FIGURES.items())
def test_the_tools_own_figure_follows_the_guests_clock(analysis: Analysis, job: str, figure: str) -> None:
    def median(platform: str) -> float:
        own = [t for t in analysis.data.trials if (t.platform, t.workload) == (platform, job)]
        parameters = own[0].parameters
        values: list[float] = [t.result["figures"][figure] for t in own if t.result and t.parameters == parameters]
        assert len(values) == 6
        return float(statistics.median(values))

    ratio = median("fast") / median("right")
    assert ratio == pytest.approx(1 / (1 + WRONG) if figure.endswith("rate") else 1 + WRONG, abs=0.006)
