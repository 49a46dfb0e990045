"""Verdicts of comparisons whose truth is known: words, bounds, families, margins, and one state of the host or two."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from tests.support.facts import assert_facts
from tests.support.made_up_run import Made, made_up_run
from tests.support.synthetic_run import Truth, run_data
from tests.support.trials import WORLDS, Kind, simulate

from virtoll.runfolder.records import MetricRecord
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.compare import Comparison, Verdict, compare, paired_shares
from virtoll.stats.intervals import Interval
from virtoll.stats.states import TwoStates
from virtoll.stats.values import Observation, Task
from virtoll.stats.verdicts import (
    METHOD,
    METHOD_OF_HOSTS,
    Rules,
    decide,
    decide_families,
    judge,
    judge_two,
    standard_errors,
)

METRIC = MetricRecord("w", "duration", "ns", "lower", "marks", title="a job", resource="cpu")
TASK = Task("w", METRIC, "{}", "")
FLAT: dict[str, dict[str, float]] = {"native": {}, "native-again": {}}


def observed(platform: str, *values: tuple[int, int, float]) -> list[Observation]:
    """One observation for each (block, round, value)."""
    return [Observation(TASK, platform, 0, block, 0, value, round=turn) for block, turn, value in values]


def with_logs(*logs: float, platform: str = "p", task: Task = TASK) -> Comparison:
    """A comparison of these log shares, one a block."""
    host = observed("native", *((block, 0, 1e9) for block in range(len(logs))))
    own = observed(platform, *((block, 0, 1e9 * math.exp(-one)) for block, one in enumerate(logs)))
    return compare(task, platform, own, host, "")


def interval_of(one: Comparison) -> Interval:
    assert one.interval is not None
    return one.interval


def test_a_share_is_of_the_same_round_and_the_median_of_its_block() -> None:
    host = observed("native", (0, 0, 10), (0, 0, 40), (0, 1, 100), (0, 2, 10), (1, 0, 10))
    host += observed("native-again", (0, 0, 20))
    own = observed("p", (0, 0, 40), (0, 1, 400), (0, 2, 1000), (0, 3, 1), (2, 0, 1))
    assert dict(paired_shares(TASK, own, host)) == pytest.approx({0: 0.25})
    rate = replace(TASK, metric=METRIC.replace(better="higher"))
    assert dict(paired_shares(rate, own, host)) == pytest.approx({0: 4.0})


def test_of_two_entries_the_host_is_their_geometric_mean() -> None:
    host = [*observed("native", (0, 0, 10)), *observed("native-again", (0, 0, 40))]
    assert dict(paired_shares(TASK, observed("p", (0, 0, 20)), host)) == pytest.approx({0: 1.0})


@pytest.mark.parametrize(
    "world",
    ["even", "outliers, slowest in one round", "host in two states", "machine's speed in time", "grid of 2 %"],
)
def test_values_one_by_one_and_arrays_give_the_same(world: str) -> None:
    """What the simulations judge is what an analysis of such trials says."""
    trials = simulate(
        Kind(world, (4, 5), 4, 0.05, False, 1).dice(), WORLDS[world], (4, 5), blocks=4, cv=0.05, equal=False
    )
    judged = trials.judged(Rules())
    comparisons, control, states = trials.comparisons(Rules())
    gaps = [[state.gap(f"p{place}") for place in range(5)] for state in states]
    found = trials.gaps()[:, :-1]
    assert found[(found > 0).any(axis=1)] == pytest.approx(np.array([of for of in gaps if any(of)]).reshape(-1, 5))
    if world == "host in two states":
        assert (found > 0).any(axis=1).sum() >= 3
    for place, one in enumerate([*comparisons, *control]):
        at = (place // 5, place % 5) if place < 20 else (place - 20, 5)
        assert one.share == pytest.approx(math.exp(judged.mean[at]))
        assert one.p_adjusted == pytest.approx(judged.p_adjusted[at])
        assert interval_of(one).low == pytest.approx(math.exp(judged.low[at]))
        assert (one.verdict in (Verdict.SLOWER, Verdict.FASTER)) == judged.different[at]
        assert (one.at_least is not None) == judged.different[at]


def test_interval_and_test_agree() -> None:
    """One standard error: alone in its family, a comparison is different just where its interval leaves out 100 %."""
    seen = set()
    for seed in range(60):
        logs = np.random.default_rng(seed).normal(-0.06, 0.05, 4)
        (one,), _ = decide([with_logs(*logs)], [], Rules())
        assert (one.verdict is Verdict.SLOWER) == (interval_of(one).high < 1), (seed, one)
        seen.add(one.verdict)
    assert {Verdict.SLOWER, Verdict.UNKNOWN} <= seen


def test_what_is_not_known_may_be_no_difference() -> None:
    """In a family, an own interval may leave out 100 % where the corrected test finds nothing; what is said may not."""
    contradictions = 0
    for seed in range(40):
        logs = np.random.default_rng(seed).normal(-0.05, 0.05, (12, 4))
        found, _ = decide([with_logs(*own, platform=f"p{number}") for number, own in enumerate(logs)], [], Rules())
        for one in found:
            assert one.simultaneous is not None
            if one.verdict is Verdict.UNKNOWN:
                assert one.simultaneous.low < 1 < one.simultaneous.high, (seed, one)
                assert_facts(one.reason, one.against, 12)
                contradictions += not interval_of(one).low <= 1 <= interval_of(one).high
            if one.at_least is not None and one.at_least > 1:
                near = min(one.simultaneous.low, 1 / one.simultaneous.high, key=lambda end: abs(math.log(end)))
                assert one.at_least == pytest.approx(max(near, 1 / near))
    assert contradictions > 0


def test_at_least_is_between_one_and_the_estimate() -> None:
    slow, fast = with_logs(-2.3, -2.25, -2.35, -2.3), with_logs(0.7, 0.72, 0.69, 0.71, platform="q")
    (one, other), _ = decide([slow, fast], [], Rules())
    assert (one.verdict, other.verdict) == (Verdict.SLOWER, Verdict.FASTER)
    assert one.at_least is not None
    assert other.at_least is not None
    assert 8 < one.at_least < math.exp(2.3)
    assert 1.8 < other.at_least < math.exp(0.705)
    assert (one.margin, other.margin) == (None, None)


@pytest.mark.parametrize(("margin", "told"), [(0.05, None), (0.10, 0.10), (0.12, 0.10), (0.50, 0.10)])
def test_alike_names_the_smallest_margin_that_holds(margin: float, told: float | None) -> None:
    """A mean of -1 % with a standard error of 1.5 % and 3 degrees of freedom leaves 4.5 % at most, one-sided 5 %."""
    logs = np.array([-0.03, 0.03, -0.03, 0.03]) * math.sqrt(3) / 2 - 0.02
    (one,), _ = decide([with_logs(*logs)], [], Rules(margin=margin))
    assert one.verdict is (Verdict.ALIKE if told else Verdict.UNKNOWN)
    assert one.margin == told


def test_one_block_and_a_caveat_have_no_verdict() -> None:
    single, marked = with_logs(-3.0), replace(with_logs(-3.0, -3.1, -3.0), verdict=Verdict.FUNCTIONAL, caveat="nested")
    told, _ = decide([single, marked], [], Rules())
    assert told == [single, marked]
    assert single.verdict is Verdict.UNKNOWN
    assert_facts(single.reason, "one block")


def test_the_control_vetoes_nothing_and_raises_an_alarm_when_it_differs() -> None:
    four = {"packet path": 1.25, "cpu": 1.25, "memory": 1.25, "kernel": 1.25}
    truth = Truth({"native": {}, "native-again": four, "a": {"cpu": 9.0}}, noise=0.01, rounds=3)
    analysis = analyse(run_data(truth))
    assert len(analysis.alarms) == len(analysis.control) == 7
    task = next(task for task in analysis.tasks if task.workload == "superpi")
    found = analysis.comparison("a", task)
    assert found is not None
    assert found.verdict is Verdict.SLOWER
    quiet = analyse(run_data(Truth(FLAT | {"a": {"cpu": 9.0}}, noise=0.01, rounds=3)))
    assert quiet.alarms == ()
    assert all(one.share is not None for one in quiet.control)


def test_figures_of_the_same_trials_are_a_second_family() -> None:
    """Three figures of one workload change no verdict and no number of the primary metrics."""

    def of(**figures: float) -> Analysis:
        made = [
            Made(label, "mariadb-oltp", {}, 1e9 * cost, {name: value * cost for name, value in figures.items()})
            for label, cost in (("native", 1.0), ("netns", 1.5), ("runc", 1.0))
        ]
        return analyse(made_up_run({"native": {}, "netns": {}, "runc": {}}, made))

    plain, more = of(), of(latency_average=1e6, latency_p95=2e6, latency_p99=3e6)
    measured = [one for one in more.comparisons if one.share is not None]
    assert (more.family, plain.second_family, more.second_family) == (plain.family, 0, 3 * 2)
    assert [one for one in measured if one.task.metric.primary] == [one for one in plain.comparisons if one.share]
    others = {(one.platform, one.verdict) for one in measured if not one.task.metric.primary}
    assert others == {("netns", Verdict.SLOWER), ("runc", Verdict.ALIKE)}


def test_where_the_host_has_two_speeds_no_less_than_their_gap_is_said() -> None:
    """The gap widens tests, intervals and bounds, so that they hold against either speed."""
    logs = np.log(np.array([[[0.98, 0.99, 1.0], [0.7, 0.71, 0.69], [0.1, 0.101, 0.099]]]))
    gap = np.array([math.log(1.45)])
    steady, unsteady = judge(logs, Rules()), judge(logs, Rules(), gaps=gap)
    assert steady.different.tolist() == [[False, True, True]]
    assert unsteady.different.tolist() == [[False, False, True]]
    assert unsteady.p_value[0, 1] > 0.05 > steady.p_value[0, 1]
    assert unsteady.p_value[0, 0] == 1
    assert (unsteady.within > math.log(1.25)).all()
    assert unsteady.smallest - steady.smallest == pytest.approx(np.full((1, 3), gap[0]))
    assert judge(logs, Rules(), gaps=np.array([[gap[0], 0, 0]])).different.tolist() == [[False, True, True]]
    assert steady.at_least[0, 2] - unsteady.at_least[0, 2] == pytest.approx(gap[0])
    assert steady.low - unsteady.low == pytest.approx(np.full((1, 3), gap[0]))


T3 = 3.182446  # t(0.975, 3) of any table
FOUR_LOGS = [-0.10, -0.14, -0.09, -0.15]


def test_alone_in_its_family_it_is_students_test_of_scipy() -> None:
    """Interval and p by `scipy.stats.ttest_1samp`; two one-sided tests by the same, at the bound of the verdict."""
    judged = judge(np.array([[FOUR_LOGS]]), Rules())
    expected = scipy.stats.ttest_1samp(FOUR_LOGS, 0.0)
    low, high = expected.confidence_interval(0.95)
    assert judged.mean[0, 0] == pytest.approx(-0.12)
    assert judged.df[0, 0] == expected.df == 3
    assert judged.p_value[0, 0] == judged.p_adjusted[0, 0] == pytest.approx(expected.pvalue)
    assert (judged.low[0, 0], judged.high[0, 0]) == pytest.approx((low, high))
    assert judged.reach[0, 0] == pytest.approx(high + 0.12)
    assert judged.at_least[0, 0] == pytest.approx(-high)
    one_sided = scipy.stats.ttest_1samp(FOUR_LOGS, -judged.within[0, 0], alternative="greater")
    assert one_sided.pvalue == pytest.approx(0.05)
    quantiles = scipy.stats.t.ppf([0.975, 0.80], 3)
    assert judged.smallest[0, 0] == pytest.approx(quantiles.sum() * np.std(FOUR_LOGS, ddof=1) / 2)


def test_families_are_corrected_apart_and_the_alarm_has_its_own_level() -> None:
    """Of three platforms and a control, Bonferroni's interval is at 5 % / 6 of each side, the control's at 5 % / 2.

    The control is shown at the level of its neighbours, and is an alarm below 1 %.
    """
    logs = np.array([[FOUR_LOGS, [-0.02, 0.02, 0.01, -0.01], [0.3, 0.31, 0.29, 0.3], FOUR_LOGS]])
    judged = judge(logs, Rules(), np.array([False, False, False, True]))
    expected = scipy.stats.ttest_1samp(logs[0], 0.0, axis=1).pvalue
    assert judged.p_value[0] == pytest.approx(expected)
    assert judged.p_adjusted[0].tolist() == pytest.approx([2 * expected[0], expected[1], 3 * expected[2], expected[3]])
    wide = judged.reach[0] / judged.error[0]
    assert wide == pytest.approx(scipy.stats.t.ppf([1 - 0.05 / 6] * 3 + [1 - 0.05 / 2], 3))
    assert judged.different[0].tolist() == [True, False, True, expected[3] < 0.01]
    assert judged.at_least[0, 1] == 0


def test_one_block_is_no_test() -> None:
    judged = judge(np.array([[[-0.1, np.nan], [-0.1, -0.12]]]), Rules())
    assert np.isnan(judged.mean[0]).tolist() == [True, False]
    assert judged.p_adjusted[0, 1] == judged.p_value[0, 1], "a family of one"
    assert judged.mean[0, 1] == pytest.approx(-0.11)


def test_what_is_told_of_a_comparison() -> None:
    expected = scipy.stats.ttest_1samp(FOUR_LOGS, 0.0)
    low, high = expected.confidence_interval(0.95)
    (one,), control = decide([with_logs(*FOUR_LOGS)], [], Rules())
    assert control == []
    assert one.share == pytest.approx(math.exp(-0.12))
    assert one.interval is not None
    assert one.simultaneous is not None
    for interval in (one.interval, one.simultaneous):
        assert (interval.low, interval.high) == pytest.approx((math.exp(low), math.exp(high)))
        assert (interval.coverage, interval.method) == (0.95, METHOD)
    assert one.p_value == one.p_adjusted == pytest.approx(expected.pvalue)
    assert one.at_least == pytest.approx(math.exp(-high))
    assert one.smallest == pytest.approx(math.exp(scipy.stats.t.ppf([0.975, 0.8], 3).sum() * (high - low) / 2 / T3))
    assert_facts(one.reason, f"p = {expected.pvalue:.2g}", 1)
    (same,), _ = decide([with_logs(0.001, -0.001, 0.002)], [], Rules(alike_level=0.01))
    assert_facts(same.reason, 0.01, "5.00 %")
    (strict,), _ = decide([with_logs(*FOUR_LOGS)], [], Rules(level=0.001))
    assert (strict.verdict, strict.interval) == (Verdict.UNKNOWN, one.interval)
    assert strict.simultaneous is not None
    assert strict.simultaneous.coverage == 0.999
    assert_facts(strict.reason, strict.against, 1)
    assert re.search(r"\b7\d\b.*%", strict.reason), "the interval's lower end"


def test_a_share_that_no_number_holds_is_told_as_the_largest_that_one_does() -> None:
    """Two blocks so unlike that the interval reaches beyond any float: nothing overflows."""
    (one,), _ = decide([with_logs(-300.0, 300.0)], [], Rules())
    assert (interval_of(one).low, interval_of(one).high) == (math.exp(-700), math.exp(700))


def test_standard_errors_are_those_of_the_verdicts() -> None:
    single, marked = with_logs(-3.0, platform="q"), replace(with_logs(-3.0, -3.1, platform="r"), caveat="nested")
    found = standard_errors([with_logs(*FOUR_LOGS), single, marked], [])
    assert list(found) == [("p", TASK)]
    assert list(found["p", TASK]) == pytest.approx([np.std(FOUR_LOGS, ddof=1) / 2, 3.0])
    assert standard_errors([single, marked], []) == {}


def test_two_runs_have_families_and_states_as_one_has() -> None:
    """Each platform's blocks are its own; a gap widens both ends."""
    first = np.array([[FOUR_LOGS, [0.0, 0.1, 0.2, np.nan]]])
    second = np.array([[[0.02, 0.03, 0.01], [0.5, 0.7, 0.6]]])
    plain = judge_two(first, second, Rules())
    for place, own in enumerate(([*FOUR_LOGS], [0.0, 0.1, 0.2])):
        expected = scipy.stats.ttest_ind(second[0, place], own, equal_var=False)
        assert plain.p_value[0, place] == pytest.approx(expected.pvalue)
    gaps = np.array([0.1])
    told = judge_two(first, second, Rules(), np.array([False, True]), gaps)
    assert told.low == pytest.approx(plain.low - 0.1)
    assert told.high == pytest.approx(plain.high + 0.1)
    quantiles = [scipy.stats.t.ppf(1 - 0.05 / 2, df) for df in plain.df[0]]
    assert (told.reach - 0.1) / told.error == pytest.approx(np.array([quantiles]))


@pytest.mark.parametrize("sign", [-1, 1])
def test_where_holm_proves_the_side_the_interval_ends_at_1(sign: int) -> None:
    """The second p-value is below 5 %, and Bonferroni's interval of two holds 1: verdict and interval are one."""
    small = [sign * log for log in (0.05, 0.19, 0.07, 0.17)]
    large = [sign * log for log in (3.0, 3.01, 3.02, 3.0)]
    found, _ = decide([with_logs(*small), with_logs(*large, platform="q")], [], Rules())
    logs = np.array([[small, large]])
    judged = judge(logs, Rules())
    assert abs(judged.mean[0, 0]) < judged.reach[0, 0]
    for one in found:
        assert one.verdict is (Verdict.SLOWER if sign < 0 else Verdict.FASTER)
        joint = interval_of(replace(one, interval=one.simultaneous))
        assert (joint.high < 1) if sign < 0 else (joint.low > 1)
    assert found[0].at_least == 1


def test_a_control_between_both_levels_is_no_alarm() -> None:
    """p is 0.02: the interval leaves out 1, and the reason says why that is no alarm."""
    logs = (-0.10, -0.20, -0.06, -0.18)
    _, (control,) = decide([with_logs(*FOUR_LOGS)], [with_logs(*logs, platform="again")], Rules())
    assert control.p_adjusted is not None
    assert 0.01 < control.p_adjusted < 0.05
    assert control.verdict is Verdict.UNKNOWN
    assert control.simultaneous is not None
    assert control.simultaneous.high < 1
    assert_facts(control.reason, "alarm", 0.01)


def test_what_is_told_where_the_host_has_two_states() -> None:
    """Of its task alone, in both families; what cannot be tested stays as it was."""
    states = [TwoStates(TASK, 1.45, 0.3)]
    single = with_logs(-3.0, platform="q")
    (one, other), _ = decide([with_logs(*FOUR_LOGS), single], [], Rules(), states)
    assert other is single
    assert one.verdict is Verdict.UNKNOWN
    assert_facts(one.reason, "two speeds", 1.45)
    rate = replace(TASK, metric=METRIC.replace(name="rate", primary=False))
    second = with_logs(*FOUR_LOGS, platform="r", task=rate)
    found, _ = decide_families([with_logs(*FOUR_LOGS), second], [], Rules(), states)
    assert [one.verdict for one in found] == [Verdict.UNKNOWN, Verdict.SLOWER]
    assert found[0].interval is not None
    assert found[0].interval.high > math.exp(-0.12 + math.log(1.45))


def test_a_control_is_shown_as_its_neighbours_are_and_shares_are_the_tests() -> None:
    own = replace(with_logs(*FOUR_LOGS), share=None)
    (one,), (beside,) = decide([own], [with_logs(0.01, -0.01, 0.0, platform="again")], Rules())
    assert one.share == pytest.approx(math.exp(-0.12))
    assert one.simultaneous is not None
    assert beside.simultaneous is not None
    assert (one.simultaneous.coverage, beside.simultaneous.coverage) == (0.95, 0.95)


def test_of_several_hosts_each_is_one_value() -> None:
    """Blocks 0 and 3 of one host have the mean of their logs; what is tested are three hosts, of the control too."""
    hosts = {0: "a", 1: "b", 2: "c", 3: "a"}
    found, control = decide([with_logs(*FOUR_LOGS)], [with_logs(*FOUR_LOGS, platform="q")], Rules(host_of=hosts))
    expected = scipy.stats.ttest_1samp([-0.125, -0.14, -0.09], 0.0)
    for (one,) in (found, control):
        assert one.p_value == pytest.approx(expected.pvalue)
        assert one.interval is not None
        assert one.interval.method == METHOD_OF_HOSTS
        assert [host for host, _ in one.hosts] == ["a", "b", "c"]
