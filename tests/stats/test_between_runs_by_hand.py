"""Two runs compared, against sums by hand and scipy's tests: each number of a comparison."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from tests.support.by_hand import clock
from tests.support.facts import assert_facts
from tests.support.made_up_run import Made, made_up_run
from tests.support.runs_by_hand import (
    AGAIN,
    COST,
    LATER,
    LATER_AGAIN,
    LATER_NETNS,
    MASR,
    NATIVE,
    NETNS,
    PI,
    RUNC,
    SLOW,
    SLOWER,
    VALUES,
    bounds,
    logs,
    merged,
    only,
    run,
    with_manifest,
)
from tests.support.small_run import task_of

from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.between_runs import FIRST, between_runs, common_pairs, side_by_side
from virtoll.stats.compare import Comparison, Pair, Verdict
from virtoll.stats.states import TwoStates
from virtoll.stats.verdicts import Judged, Rules, judge_two

SHORT = (PI, "bzip2", "forkwait", "ipc-bandwidth")
MEMORY = {"native": [50.0, 52, 51, 49], "netns": [55.0, 54, 57, 53], "runc": [70.0, 71, 69, 73]}
LATER_MEMORY = {"native": [50.0, 51, 52], "netns": [53.0, 58, 62], "runc": [90.0, 96, 93]}
A, B, C = "a" * 64, "b" * 64, "c" * 64


def assert_welch(one: Comparison, first: Sequence[float], second: Sequence[float], verdict: Verdict) -> None:
    """The numbers of a comparison that is alone in its family."""
    expected = scipy.stats.ttest_ind(second, first, equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert one.share == pytest.approx(math.exp(statistics.fmean(second) - statistics.fmean(first)))
    assert bounds(one.interval) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert bounds(one.simultaneous) == pytest.approx(bounds(one.interval))
    assert one.p_value == one.p_adjusted == pytest.approx(expected.pvalue)
    assert (one.verdict, one.against, one.pairs) == (verdict, FIRST, ())


def test_by_cost_the_shares_of_the_baseline_are_compared_by_welchs_test() -> None:
    """Of four blocks and of three; the host's own values are beside them, and no control."""
    first = run({"native": {PI: NATIVE}, "runc": {PI: SLOW}})
    second = run({"native": {PI: LATER}, "runc": {PI: SLOWER}})
    between = between_runs(first, second, [RUNC], COST)
    one = only(between.comparisons)
    assert_welch(one, logs(SLOW, NATIVE), logs(SLOWER, LATER), Verdict.SLOWER)
    assert (one.platform, one.task) == ("runc", task_of(second))
    assert_facts(one.reason, f"p = {one.p_value:.2g}", 1)
    assert_welch(only(between.host), logs(NATIVE), logs(LATER), Verdict.SLOWER)
    assert only(between.host).platform == "native"
    assert (between.control, between.alarms) == ((), ())
    assert (between.first, between.second, between.pairs) == (first, second, (RUNC,))
    assert (between.paired, between.by, between.level, between.whole) == (False, COST, 0.05, False)
    assert (between.tasks, between.pair("runc")) == ((task_of(second),), RUNC)
    mine, theirs = between.samples(one)
    told = [each.estimates["runc", task_of(each)] for each in (first, second)]
    assert [mine.value, theirs.value] == told
    assert [mine.share, theirs.share] == pytest.approx(
        [math.exp(statistics.fmean(logs(*own))) for own in ((SLOW, NATIVE), (SLOWER, LATER))]
    )
    assert (mine.blocks, theirs.blocks) == (4, 3)


@pytest.mark.parametrize(("better", "verdict"), [("lower", Verdict.SLOWER), ("higher", Verdict.FASTER)])
def test_by_values_a_platforms_own_performance_is_compared(better: str, verdict: Verdict) -> None:
    """Without a host beside it: more of what is better is faster. The baseline is a platform as any other."""
    told = {PI: {"better": better}}
    sign = 1 if better == "lower" else -1
    first, second = run({"native": {PI: NATIVE}}, metric=told), run({"native": {PI: LATER}}, metric=told)
    between = between_runs(first, second, [Pair("native", "native")], VALUES)
    expected = [[sign * one for one in logs(own)] for own in (NATIVE, LATER)]
    assert_welch(only(between.comparisons), expected[0], expected[1], verdict)
    assert (between.by, between.host, between.control) == (VALUES, (), ())


def test_both_sides_fit_the_ratio_between_them() -> None:
    """By values the means over blocks do; of two platforms of one run the second is the first times their ratio."""
    first = run({"native": {PI: NATIVE}, "netns": {PI: NETNS}, "runc": {PI: SLOW}})
    second = run({"native": {PI: LATER}, "netns": {PI: NETNS}, "runc": {PI: SLOWER}})
    for between in (between_runs(first, second, [RUNC], VALUES), side_by_side(first, [Pair("netns", "runc")])):
        one = only(between.comparisons)
        mine, theirs = between.samples(one)
        assert mine.value is not None
        assert theirs.value is not None
        assert mine.value.value / theirs.value.value == pytest.approx(one.share)
        assert (mine.share, theirs.share) == (None, None)
    reported, _ = side_by_side(first, [Pair("netns", "runc")]).samples(one)
    assert reported.value is not None
    assert reported.value.value == first.estimates["netns", task_of(first)].value


def test_a_block_counts_once_however_many_trials_it_has() -> None:
    """By values the median of a block's trials counts: two rounds of 100 and 300 ms are 200."""
    data = made_up_run({"native": {}}, [Made("native", PI)], blocks=3, rounds=2)
    own = [[100, 300], [190, 208], [150, 260]]
    trials = tuple(one.replace(clock=clock(own[one.block][one.round] * 1_000_000)) for one in data.trials)
    first = analyse(replace(data, trials=trials))
    between = between_runs(first, run({"native": {PI: LATER}}), [Pair("native", "native")], VALUES)
    assert_welch(only(between.comparisons), logs([200, 199, 205]), logs(LATER), Verdict.FASTER)


def coverage(one: Comparison) -> float:
    assert one.simultaneous is not None
    return one.simultaneous.coverage


def assert_judged(one: Comparison, judged: Judged, at: tuple[int, int]) -> None:
    """The numbers of a comparison are those of its place in the arrays that a family was written down as."""
    assert one.share == pytest.approx(math.exp(judged.mean[at]))
    assert bounds(one.interval) == pytest.approx((math.exp(judged.low[at]), math.exp(judged.high[at])))
    mean, reach = judged.mean[at], judged.reach[at]
    assert bounds(one.simultaneous) == pytest.approx((math.exp(mean - reach), math.exp(mean + reach)))
    assert [one.p_value, one.p_adjusted] == pytest.approx([judged.p_value[at], judged.p_adjusted[at]])


def test_primary_and_other_metrics_are_families_and_the_control_is_apart() -> None:
    """Both families as arrays [tasks, platforms and the control, blocks] of log shares, written down by hand."""
    second_metric = {MASR: {"primary": False}}
    first = run(
        {
            "native": {PI: NATIVE, MASR: MEMORY["native"]},
            "again": {PI: AGAIN},
            "netns": {PI: NETNS, MASR: MEMORY["netns"]},
            "runc": {PI: SLOW, MASR: MEMORY["runc"]},
        },
        metric=second_metric,
    )
    second = run(
        {
            "native": {PI: LATER, MASR: LATER_MEMORY["native"]},
            "again": {PI: LATER_AGAIN},
            "netns": {PI: LATER_NETNS, MASR: LATER_MEMORY["netns"]},
            "runc": {PI: SLOWER, MASR: LATER_MEMORY["runc"]},
        },
        metric=second_metric,
    )
    pairs = common_pairs(first, second, COST)
    assert pairs == (Pair("netns", "netns"), RUNC)
    between = between_runs(first, second, pairs, COST)
    both = [NATIVE, AGAIN], [LATER, LATER_AGAIN]
    of_pi = [
        np.array([[logs(own, *base) for own in each] + [logs(base[1], base[0])]])
        for each, base in zip(([NETNS, SLOW], [LATER_NETNS, SLOWER]), both, strict=True)
    ]
    of_memory = [
        np.array([[logs(own[label], own["native"]) for label in ("netns", "runc")]]) for own in (MEMORY, LATER_MEMORY)
    ]
    primary = judge_two(of_pi[0], of_pi[1], Rules(), np.array([False, False, True]))
    others = judge_two(of_memory[0], of_memory[1], Rules())
    assert [(one.platform, one.task.workload) for one in between.comparisons] == [
        (label, workload) for label in ("netns", "runc") for workload in (PI, MASR)
    ]
    for one in between.comparisons:
        at = 0, ["netns", "runc"].index(one.platform)
        assert_judged(one, primary if one.task.workload == PI else others, at)
        assert coverage(one) == 0.95
    told = {(one.platform, one.task.workload): one for one in between.comparisons}
    assert [told[key].verdict for key in told] == [Verdict.ALIKE, Verdict.UNKNOWN, Verdict.SLOWER, Verdict.SLOWER]
    assert_facts(told["netns", MASR].reason, FIRST, 2)
    control = {one.task.workload: one for one in between.control}
    assert set(control) == {PI, MASR}
    assert_judged(control[PI], primary, (0, 2))
    assert coverage(control[PI]) == 0.95
    assert control[PI].platform == "again"
    assert control[MASR].verdict is Verdict.NOT_MEASURED
    assert_facts(control[MASR].reason, "again", "first run")
    assert {one.platform for one in between.host} == {"native"}
    assert [one.task.workload for one in between.host] == [PI, MASR]
    assert [one.share for one in between.host] == pytest.approx(
        [
            math.exp(statistics.fmean(logs(later)) - statistics.fmean(logs(own)))
            for own, later in ((NATIVE, LATER), (MEMORY["native"], LATER_MEMORY["native"]))
        ]
    )


def test_the_control_alarms_at_its_own_level() -> None:
    """It is 20 % slower than the baseline in the second run: less than 1 % by chance. A missing one is not told."""
    first = run({"native": {PI: NATIVE}, "again": {PI: AGAIN}})
    second = run({"native": {PI: LATER}, "again": {PI: [one * 1.2 for one in LATER_AGAIN]}})
    between = between_runs(first, second, [], COST)
    (alarm,) = between.alarms
    assert_judged(
        alarm,
        judge_two(
            np.array([[logs(AGAIN, NATIVE)]]),
            np.array([[logs([one * 1.2 for one in LATER_AGAIN], LATER)]]),
            Rules(),
            np.array([True]),
        ),
        (0, 0),
    )
    assert_facts(alarm.reason, f"p = {alarm.p_value:.2g}", 1)
    assert (alarm.verdict, alarm.platform) == (Verdict.SLOWER, "again")
    assert between.control == (alarm,)
    assert between_runs(first, second, [], VALUES).control == ()
    alone = run({"native": {PI: NATIVE}})
    assert between_runs(first, alone, [], COST).control == ()
    assert between_runs(alone, second, [], COST).control == ()


def test_the_level_is_shared_and_the_stricter_run_counts() -> None:
    looks = {"looks": [[3, 0.02], [9, 0.03]]}
    durations, later = (
        {"native": {PI: NATIVE[:3]}, "runc": {PI: SLOW[:3]}},
        {"native": {PI: LATER}, "runc": {PI: SLOWER}},
    )
    plain, second = run(durations), run(later)
    looked = [with_manifest(one, experiment=one.data.manifest.experiment | looks) for one in (plain, second)]
    for first, last, shared, level in (
        (plain, second, 1, 0.05),
        (plain, second, 5, 0.01),
        (looked[0], second, 2, 0.01),
        (plain, looked[1], 1, 0.02),
    ):
        between = between_runs(first, last, [RUNC], COST, shared)
        assert between.level == level
        one = only(between.comparisons)
        assert coverage(one) == 1 - level
        expected = judge_two(
            np.array([[logs(SLOW[:3], NATIVE[:3])]]), np.array([[logs(SLOWER, LATER)]]), Rules(level=level)
        )
        assert_judged(one, expected, (0, 0))
        assert side_by_side(first, [Pair("native", "runc")], shared).level == first.level / shared


def test_alike_is_told_at_the_level_too_and_by_the_smaller_margin() -> None:
    """What one-sided 5 % leave is 2.2 %, what 1 % leave 3.4 %; each margin is the smaller run's."""
    first, second = (
        {"native": {PI: NATIVE}, "runc": {PI: [one * 1.3 * (1 + place * 1e-5) for place, one in enumerate(NATIVE)]}},
        {
            "native": {PI: [100.0, 100, 100]},
            "runc": {PI: [130.0, 128, 132]},
        },
    )
    runs = [run(first), run(second)]
    narrow = [with_manifest(one, experiment=one.data.manifest.experiment | {"margin": 0.03}) for one in runs]
    for mine, theirs in ((narrow[0], runs[1]), (runs[0], narrow[1])):
        one = only(between_runs(mine, theirs, [RUNC], COST).comparisons)
        assert one.margin == 0.03
    one = only(between_runs(runs[0], runs[1], [RUNC], COST).comparisons)
    assert (one.verdict, one.margin) == (Verdict.ALIKE, 0.05)
    assert_facts(one.reason, 0.05, "5.00 %")
    strict = only(between_runs(narrow[0], runs[1], [RUNC], COST, 50).comparisons)
    assert strict.verdict is Verdict.UNKNOWN


def with_states(analysis: Analysis, *same: str) -> Analysis:
    """Its first task at two speeds of the host, and of these platforms."""
    return replace(analysis, two_states=(TwoStates(task_of(analysis), 1.5, 0.3, frozenset(same)),))


def test_the_states_of_either_host_widen_what_is_told_of_their_task() -> None:
    """Both gaps add up. A task of an older run, whose title was another one, is the same task."""
    first = run({"native": {PI: NATIVE, MASR: NATIVE}, "runc": {PI: SLOW, MASR: SLOW}})
    second = run({"native": {PI: LATER, MASR: LATER}, "runc": {PI: SLOWER, MASR: SLOWER}})
    older = run(
        {"native": {PI: NATIVE, MASR: NATIVE}, "runc": {PI: SLOW, MASR: SLOW}}, metric={PI: {"title": "Digits of pi"}}
    )

    def told(mine: float | None, theirs: float | None, of: Analysis) -> dict[str, Comparison]:
        sides = [
            replace(one, two_states=() if factor is None else (TwoStates(task_of(one), factor, 0.3),))
            for one, factor in ((of, mine), (second, theirs))
        ]
        return {one.task.workload: one for one in between_runs(sides[0], sides[1], [RUNC], COST).comparisons}

    plain = told(None, None, first)
    for mine, theirs, of in ((1.5, None, first), (None, 1.5, first), (1.25, 1.2, first), (1.5, None, older)):
        found = told(mine, theirs, of)
        gap = (mine or 1) * (theirs or 1)
        low, high = bounds(plain[PI].interval)
        assert bounds(found[PI].interval) == pytest.approx((low / gap, high * gap))
        assert found[PI].verdict is Verdict.UNKNOWN
        assert_facts(found[PI].reason, "two speeds")
        assert found[MASR] == plain[MASR]
    same, also = with_states(first, "runc"), with_states(second, "runc")
    assert between_runs(same, also, [RUNC], COST).comparisons == between_runs(first, second, [RUNC], COST).comparisons
    one_of_both = between_runs(same, with_states(second), [RUNC], COST).comparisons[0]
    assert bounds(one_of_both.interval) == pytest.approx(bounds(told(None, 1.5, first)[PI].interval))
    hosts = between_runs(replace(first, two_states=(TwoStates(task_of(first), 1.5, 0.3),)), second, [RUNC], COST).host
    assert ["two speeds" in one.reason for one in hosts] == [True, False]


def test_of_several_hosts_each_hosts_mean_is_a_value() -> None:
    """Blocks 0 and 2 are of one host, 1 and 3 of another; in the second run each has one."""
    first = merged(run({"native": {PI: NATIVE}, "runc": {PI: SLOW}}), A, B, A, B)
    second = merged(run({"native": {PI: LATER}, "runc": {PI: SLOWER}}), C, B, A)
    for by, mine, theirs in (
        (COST, logs(SLOW, NATIVE), logs(SLOWER, LATER)),
        (VALUES, logs(SLOW), logs(SLOWER)),
    ):
        means = [(mine[0] + mine[2]) / 2, (mine[1] + mine[3]) / 2]
        one = only(between_runs(first, second, [RUNC], by).comparisons)
        assert_judged(one, judge_two(np.array([[means]]), np.array([[theirs]]), Rules()), (0, 0))
    pairs = [Pair("native", "runc")]
    paired = only(side_by_side(first, pairs).comparisons)
    own = logs(SLOW, NATIVE)
    assert dict(paired.hosts) == pytest.approx(
        {"host-a": math.exp((own[0] + own[2]) / 2), "host-b": math.exp((own[1] + own[3]) / 2)}
    )
    alone = only(between_runs(merged(first, A, A, A, A), second, [RUNC], COST).comparisons)
    assert (alone.verdict, alone.interval) == (Verdict.SLOWER, alone.interval), "one host: its blocks count"
    assert alone.interval is not None


def test_one_block_of_either_run_has_a_share_and_no_verdict() -> None:
    first = run({"native": {PI: NATIVE, MASR: NATIVE}, "runc": {PI: SLOW, MASR: SLOW}})
    single = run({"native": {PI: NATIVE, MASR: LATER}, "runc": {PI: [150.0], MASR: SLOWER}})
    for mine, theirs, sign in ((first, single, 1), (single, first, -1)):
        one, full = between_runs(mine, theirs, [RUNC], COST).comparisons
        assert one.share == pytest.approx(
            math.exp(sign * (math.log(NATIVE[0] / 150) - statistics.fmean(logs(SLOW, NATIVE))))
        )
        assert (one.verdict, one.interval, one.p_value) == (Verdict.UNKNOWN, None, None)
        assert_facts(one.reason, "one block", "one host")
        assert full.interval is not None
        assert "one block" not in full.reason
    two = run({"native": {PI: LATER[:2]}, "runc": {PI: SLOWER[:2]}})
    assert only(between_runs(two, two, [RUNC], COST).comparisons).interval is not None


def test_guests_of_one_run_are_paired_by_block_as_with_the_host() -> None:
    """Two platforms: scipy's test of one sample. The control is the run's own."""
    analysis = run({"native": {PI: NATIVE}, "again": {PI: AGAIN}, "netns": {PI: NETNS}, "runc": {PI: SLOW}})
    pair = Pair("netns", "runc")
    between = side_by_side(analysis, [pair])
    one = only(between.comparisons)
    own = logs(SLOW, NETNS)
    expected = scipy.stats.ttest_1samp(own, 0.0)
    interval = expected.confidence_interval(0.95)
    assert dict(one.pairs) == pytest.approx(dict(enumerate(map(math.exp, own))))
    assert one.p_value == pytest.approx(expected.pvalue)
    assert bounds(one.interval) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert (one.platform, one.verdict, one.against) == ("runc against netns", Verdict.SLOWER, FIRST)
    assert (between.first, between.second, between.pairs) == (analysis, analysis, (pair,))
    assert (between.paired, between.by, between.host, between.level) == (True, VALUES, (), 0.05)
    assert between.control == analysis.control
    assert len(between.control) == 1
    assert only(side_by_side(with_states(analysis), [pair]).comparisons).verdict is Verdict.UNKNOWN
    for labels, verdict in ((["runc"], Verdict.UNKNOWN), (["netns", "runc"], Verdict.SLOWER)):
        same = with_states(analysis, *labels)
        assert only(side_by_side(same, [pair]).comparisons).verdict is verdict
        with_host = only(side_by_side(same, [Pair("native", "runc")]).comparisons)
        assert with_host.gap == 1.0, "as the run itself compares them"
    margin = analysis.data.manifest.experiment | {"margin": 0.3}
    wide = side_by_side(with_manifest(analysis, experiment=margin), [Pair("native", "netns")])
    assert only(wide.comparisons).verdict in (Verdict.SLOWER, Verdict.ALIKE)


def test_what_variances_have_in_common_is_of_one_family_and_its_control() -> None:
    """Four primary metrics of two platforms and the control are enough to say something of each other; a fifth, which
    is not primary, is a family of its own.
    """
    labels, workloads = ("native", "again", "netns", "runc"), (*SHORT, MASR)
    dice = np.random.default_rng(7)
    sides = [
        {label: {workload: dice.normal(100, 2, blocks).tolist() for workload in workloads} for label in labels}
        for blocks in (4, 3)
    ]
    first, second = (run(one, metric={MASR: {"primary": False}}) for one in sides)
    between = between_runs(first, second, common_pairs(first, second, COST), COST)

    def shares(side: Mapping[str, Mapping[str, list[float]]], of: Sequence[str]) -> list[list[list[float]]]:
        return [
            [
                *(logs(side[label][one], side["native"][one], side["again"][one]) for label in ("netns", "runc")),
                logs(side["again"][one], side["native"][one]),
            ]
            for one in of
        ]

    beside = np.array([False, False, True])
    for primary, of in ((True, list(SHORT)), (False, [MASR])):
        arrays = [np.array(shares(side, of)) for side in sides]
        judged = judge_two(arrays[0], arrays[1], Rules(), beside)
        for one in (*between.comparisons, *between.control):
            if one.task.metric.primary is primary and one.task.metric.source == "marks":
                assert_judged(
                    one, judged, (of.index(one.task.workload), ["netns", "runc", "again"].index(one.platform))
                )
    alone = scipy.stats.ttest_ind(
        *(logs(side["again"][PI], side["native"][PI]) for side in reversed(sides)), equal_var=False
    )
    found = next(one for one in between.control if one.task.workload == PI)
    assert found.p_value != pytest.approx(alone.pvalue, rel=0.01), "so much does it matter here"
