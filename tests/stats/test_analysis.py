"""The whole analysis on runs of known truth: an injected cost is found, an A/A finds nothing, failures are said."""

from dataclasses import replace

import pytest
from tests.support.facts import assert_facts
from tests.support.made_up_run import Made, made_up_run
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.report.headline import headline_tasks, platform_words
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.compare import DIFFERENT, Verdict

FLAT: dict[str, dict[str, float]] = {"native": {}, "native-again": {}}
FOUR = {"packet path": 1.25, "cpu": 1.25, "memory": 1.25, "kernel": 1.25}


def run(truth: Truth) -> Analysis:
    return analyse(run_data(truth))


@pytest.mark.parametrize("blocks", [3, 5, 7, 12])
def test_an_injected_cost_of_a_fifth_is_found(blocks: int) -> None:
    """Performance is 80 % of native's in every task, noise 1 %: slower everywhere, near 80 %, at any n."""
    analysis = run(Truth(FLAT | {"costly": FOUR}, blocks=blocks, noise=0.01))
    own = [one for one in analysis.comparisons if one.platform == "costly"]
    assert [one.verdict for one in own] == [Verdict.SLOWER] * 7, [(one.task.label, one.reason) for one in own]
    for one in own:
        assert one.share == pytest.approx(0.8, rel=0.05)
        assert one.interval is not None
        assert one.interval.low < one.interval.high < 1
    assert not analysis.alarms


@pytest.mark.parametrize("blocks", [3, 9])
def test_equal_platforms_are_not_told_apart_beyond_the_nominal_level(blocks: int) -> None:
    """Of 60 campaigns of two platforms that cost nothing families with any false verdict stay at 5 % or below.

    That is of analyses as a whole; of many more simulated runs it is in ``test_promises.py``.
    """
    false_verdicts = false_alarms = 0
    campaigns = 60
    for seed in range(campaigns):
        truth = Truth(FLAT | {"a": {}, "b": {}}, seed=seed, blocks=blocks, noise=0.03, frame_sizes=(64,))
        analysis = run(truth)
        false_verdicts += any(one.verdict in DIFFERENT for one in analysis.comparisons)
        false_alarms += bool(analysis.alarms)
    assert false_verdicts / campaigns <= 0.05 + 0.03
    assert false_alarms / campaigns <= 0.01 + 0.03


def test_drift_is_seen_and_does_not_make_differences() -> None:
    """The host slows down by 30 % over the run; platforms are equal."""
    analysis = run(Truth(FLAT | {"a": {}}, drift=0.3, blocks=9, noise=0.01))
    assert analysis.drift is not None
    assert analysis.drift.p_value < 0.001
    assert analysis.drift.over_run == pytest.approx(1 / 1.3 - 1, abs=0.05)
    assert {one.verdict for one in analysis.comparisons} <= {Verdict.ALIKE, Verdict.UNKNOWN}
    assert [one.verdict for one in analysis.comparisons].count(Verdict.ALIKE) >= 4


def test_what_is_noisy_hides_nothing_of_what_is_not() -> None:
    """One platform whose trials are disturbed everywhere costs the others no verdict."""
    data = run_data(Truth(FLAT | {"a": {"cpu": 1.3}, "b": {}, "wild": {}}, noise=0.01, blocks=5))
    trials = tuple(
        one.replace(repeats=1 + one.trial % 3) if one.platform == "wild" and one.clock else one for one in data.trials
    )
    analysis = analyse(replace(data, trials=trials))
    own = {(one.platform, one.task.workload): one for one in analysis.comparisons}
    assert own["a", "superpi"].verdict is Verdict.SLOWER
    assert own["b", "superpi"].verdict is Verdict.ALIKE


def test_failures_leave_their_pair_out_and_are_counted() -> None:
    truth = Truth(
        REALISTIC,
        failures={("runc", "masr", 1): "failed", ("netns", "superpi", 0): "invalid"},
        unavailable={"qemu-tcg-e1000": "qemu is not installed"},
    )
    analysis = run(truth)
    masr = next(task for task in analysis.tasks if task.workload == "masr")
    compared = analysis.comparison("runc", masr)
    assert compared is not None
    assert [block for block, _ in compared.pairs] == [0, 2]
    missing = analysis.comparison("qemu-tcg-e1000", masr)
    assert missing is not None
    assert missing.verdict is Verdict.NOT_MEASURED
    assert_facts(missing.reason, "qemu-tcg-e1000", "qemu is not installed")
    assert analysis.statuses["runc"]["failed"] == 1
    assert analysis.statuses["qemu-tcg-e1000"]["skipped"] == 21


@pytest.mark.parametrize(
    "truth",
    [
        Truth(REALISTIC, all_fail=True),
        Truth(REALISTIC, stop_after=0),
        Truth(REALISTIC, baseline=None, control=None),
        Truth(REALISTIC, unavailable={"native": "no"}),
    ],
    ids=["all failed", "nothing run", "no baseline", "baseline unavailable"],
)
def test_without_a_measured_baseline_there_are_no_ratios(truth: Truth) -> None:
    analysis = run(truth)
    assert analysis.baseline is None
    assert all(one.share is None for one in (*analysis.comparisons, *analysis.control))
    assert analysis.detectable == ()


def test_values_are_what_was_injected() -> None:
    """No noise: the largest rate and the duration come out as the generator's formula has them."""
    analysis = run(Truth({"native": {}}, control=None, noise=0.0))
    by_name = {task.label: analysis.cells["native", task].median for task in analysis.tasks}
    assert by_name["Super Pi 16384 digits"] == pytest.approx(180e6, rel=1e-3)
    assert by_name["IPv4 forwarding 68 B"] == pytest.approx(480e3 * (1 - 64 / 6000), rel=0.02)
    assert all(point.offered_frames == point.forwarded_frames + point.lost_frames for point in analysis.points)


def test_the_metrics_of_one_workload_are_told_apart() -> None:
    """Each has its own phrase, in its own direction; the terminal shows the first of them."""
    made = [
        Made(
            label,
            "mariadb-oltp",
            {},
            1e9,
            {"transactions_per_second": 200 / cost, "latency_p95": 4e6 * cost},
            spread=0.01,
        )
        for label, cost in (("native", 1.0), ("netns", 4.0))
    ]
    analysis = analyse(made_up_run({"native": {}, "netns": {}}, made))
    netns = platform_words(analysis)["netns"]
    titles = {task.metric.name: task.metric.title for task in analysis.tasks}
    for name in ("transactions_per_second", "latency_p95"):
        (phrase,) = (one for one in netns if titles[name] in one)
        assert_facts(phrase, "4.0")
    assert [task.metric.name for task in headline_tasks(analysis)] == ["duration"]
