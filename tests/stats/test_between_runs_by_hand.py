"""Two runs compared, against sums by hand and scipy's tests: each number, each sentence, and where there is none."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.stats
from tests.support.by_hand import clock
from tests.support.made_up_run import Made, made_up_run

from virtoll.runfolder.campaign_records import HostRecord
from virtoll.runfolder.guest_records import Forwarding
from virtoll.runfolder.records import Manifest
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.between_runs import (
    FIRST,
    Between,
    By,
    Pair,
    Sample,
    between_runs,
    common_pairs,
    side_by_side,
    unlike_runs,
    why_no_cost,
)
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.intervals import Interval
from virtoll.stats.states import TwoStates
from virtoll.stats.values import Task
from virtoll.stats.verdicts import Judged, Rules, judge_two

Durations = Mapping[str, Mapping[str, Sequence[float]]]
"""By label and workload what the job took in each block, ms."""

COST: By = "cost"
VALUES: By = "values"
PI, MASR = "superpi", "masr"
SHORT = (PI, "bzip2", "forkwait", "ipc-bandwidth")
RUNC = Pair("runc", "runc")
NONE = Sample(None, None, 0)


def run(
    durations: Durations, *, baseline: str | None = "native", metric: Mapping[str, Any] | None = None, **changed: Any
) -> Analysis:
    """The run that measured just that. `metric`: by workload what its metric has instead; `changed`: the manifest."""
    made = [
        Made(label, workload, blocks=len(own)) for label, each in durations.items() for workload, own in each.items()
    ]
    kinds: dict[str, dict[str, Any]] = {
        label: {"platform": "native-again"} if label == "again" else {} for label in durations
    }
    blocks = max(len(own) for each in durations.values() for own in each.values())
    data = made_up_run(kinds, made, baseline=baseline, blocks=blocks)
    trials = (
        replace(one, clock=clock(round(durations[one.platform][one.workload][one.block] * 1e6))) for one in data.trials
    )
    metrics = tuple(replace(one, **(metric or {}).get(one.workload, {})) for one in data.manifest.metrics)
    manifest = replace(data.manifest, metrics=metrics, **changed)
    return analyse(replace(data, trials=tuple(trials), manifest=manifest))


def with_manifest(analysis: Analysis, **changed: Any) -> Analysis:
    return analyse(replace(analysis.data, manifest=replace(analysis.data.manifest, **changed)))


def task_of(analysis: Analysis, workload: str = PI) -> Task:
    return next(one for one in analysis.tasks if one.workload == workload)


def only(comparisons: Sequence[Comparison]) -> Comparison:
    (one,) = comparisons
    return one


def logs(durations: Sequence[float], *base: Sequence[float]) -> list[float]:
    """Of each block, the log of the share of the performance of `base`, whose geometric mean counts; of the job's own
    performance without.
    """
    means = [statistics.fmean(math.log(value) for value in each) for each in zip(*base, strict=True)]
    return [mean - math.log(value) for mean, value in zip(means or [0.0] * len(durations), durations, strict=True)]


def bounds(interval: Interval | None) -> tuple[float, float]:
    assert interval is not None
    return interval.low, interval.high


NATIVE, AGAIN, SLOW = [100.0, 104, 98, 101], [103.0, 99, 100, 102], [120.0, 126, 119, 121]
LATER, LATER_AGAIN, SLOWER = [110.0, 109, 112], [108.0, 111, 110], [151.0, 149, 155]


def assert_welch(one: Comparison, first: Sequence[float], second: Sequence[float], verdict: Verdict) -> None:
    """The numbers of a comparison that is alone in its family."""
    expected = scipy.stats.ttest_ind(second, first, equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert one.share == pytest.approx(math.exp(statistics.fmean(second) - statistics.fmean(first)))
    assert bounds(one.interval) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert bounds(one.simultaneous) == pytest.approx(bounds(one.interval))
    assert one.p_value == one.p_adjusted == pytest.approx(expected.pvalue)
    assert (one.verdict, one.against, one.pairs) == (verdict, "the first", ())


def test_by_cost_the_shares_of_the_baseline_are_compared_by_welchs_test() -> None:
    """Of four blocks and of three; the host's own values are beside them, and no control."""
    first = run({"native": {PI: NATIVE}, "runc": {PI: SLOW}})
    second = run({"native": {PI: LATER}, "runc": {PI: SLOWER}})
    between = between_runs(first, second, [RUNC], COST)
    one = only(between.comparisons)
    assert_welch(one, logs(SLOW, NATIVE), logs(SLOWER, LATER), Verdict.SLOWER)
    assert (one.platform, one.task) == ("runc", task_of(second))
    assert one.reason == f"p = {one.p_value:.2g} after correction for 1 comparisons"
    assert_welch(only(between.host), logs(NATIVE), logs(LATER), Verdict.SLOWER)
    assert only(between.host).platform == "native"
    assert (between.control, between.alarms) == ((), ())
    assert (between.first, between.second, between.pairs) == (first, second, (RUNC,))
    assert (between.paired, between.by, between.level, between.whole) == (False, COST, 0.05, False)
    assert (between.tasks, between.pair("runc")) == ((task_of(second),), RUNC)
    mine, theirs = between.samples(one)
    assert (mine.cell, theirs.cell) == (first.cells["runc", task_of(first)], second.cells["runc", task_of(second)])
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


def test_a_block_counts_once_however_many_trials_it_has() -> None:
    """By values the median of a block's trials counts: two rounds of 100 and 300 ms are 200."""
    data = made_up_run({"native": {}}, [Made("native", PI)], blocks=3, rounds=2)
    own = [[100, 300], [190, 208], [150, 260]]
    trials = tuple(replace(one, clock=clock(own[one.block][one.round] * 1_000_000)) for one in data.trials)
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


NETNS, LATER_NETNS = [110.0, 112, 109, 111], [119.0, 120, 121]
MEMORY = {"native": [50.0, 52, 51, 49], "netns": [55.0, 54, 57, 53], "runc": [70.0, 71, 69, 73]}
LATER_MEMORY = {"native": [50.0, 51, 52], "netns": [53.0, 58, 62], "runc": [90.0, 96, 93]}


def test_families_of_primary_and_of_other_metrics_and_the_control_beside_them() -> None:
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
    assert told["netns", MASR].reason.endswith(
        "of the first agrees with what was measured (2 comparisons taken together)"
    )
    control = {one.task.workload: one for one in between.control}
    assert set(control) == {PI, MASR}
    assert_judged(control[PI], primary, (0, 2))
    assert coverage(control[PI]) == 0.99
    assert control[PI].platform == "again"
    assert (control[MASR].verdict, control[MASR].reason) == (
        Verdict.NOT_MEASURED,
        "no value of again in the first run: no round has both a valid value of the platform and one of the baseline",
    )
    assert {one.platform for one in between.host} == {"native"}
    assert [one.task.workload for one in between.host] == [PI, MASR]
    assert [one.share for one in between.host] == pytest.approx(
        [
            math.exp(statistics.fmean(logs(later)) - statistics.fmean(logs(own)))
            for own, later in ((NATIVE, LATER), (MEMORY["native"], LATER_MEMORY["native"]))
        ]
    )


def test_the_control_of_another_label_is_the_same_thing_and_alarms_at_its_own_level() -> None:
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
    assert alarm.reason == f"p = {alarm.p_value:.2g} after correction for 1 comparisons"
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
        {"native": {PI: NATIVE}, "runc": {PI: [one * 1.3 for one in NATIVE]}},
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
    assert (one.verdict, one.margin, one.reason) == (
        Verdict.ALIKE,
        0.05,
        "two one-sided tests at 0.05 leave less than 5.00 %",
    )
    strict = only(between_runs(narrow[0], runs[1], [RUNC], COST, 50).comparisons)
    assert strict.verdict is Verdict.UNKNOWN


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
        assert found[PI].reason.startswith("the host ran this in two states")
        assert found[MASR] == plain[MASR]
    hosts = between_runs(replace(first, two_states=(TwoStates(task_of(first), 1.5, 0.3),)), second, [RUNC], COST).host
    assert ["two states" in one.reason for one in hosts] == [True, False]


def test_what_is_compared_may_be_chosen() -> None:
    """Workloads by name; by cost no platform is compared with the baseline, which is the measure."""
    first = run({"native": {PI: NATIVE, MASR: NATIVE}, "runc": {PI: SLOW, MASR: SLOW}})
    second = run({"native": {PI: LATER, MASR: LATER}, "runc": {PI: SLOWER, MASR: SLOWER}})
    pairs = [RUNC, Pair("native", "runc"), Pair("runc", "native")]
    for by, platforms in ((COST, ["runc"]), (VALUES, ["runc", "runc against native", "native against runc"])):
        for workloads, chosen in (((), [PI, MASR]), ((MASR,), [MASR]), ((PI, MASR), [PI, MASR])):
            between = between_runs(first, second, pairs, by, workloads=workloads)
            assert [(one.platform, one.task.workload) for one in between.comparisons] == [
                (platform, workload) for platform in platforms for workload in chosen
            ]
            assert [one.task.workload for one in between.host] == (chosen if by == COST else [])
            assert [one.workload for one in between.tasks] == chosen
            assert between.pairs == tuple(pairs)
    paired = side_by_side(first, pairs, workloads=[MASR])
    assert [(one.platform, one.task.workload) for one in paired.comparisons] == [(one.name, MASR) for one in pairs]
    assert len(side_by_side(first, pairs).comparisons) == 6


def test_a_pairs_name() -> None:
    assert Pair("runc", "runc").name == "runc"
    assert Pair("runc", "runc-new").name == "runc-new against runc"
    assert Pair("runc", "runc-new", builds=True).name == "runc"


def test_labels_that_both_runs_have() -> None:
    """In the second's order, without controls, and by cost without baselines; what one has alone is told."""
    one = {PI: NATIVE}
    first = run({"runc": one, "native": one, "netns": one, "crun": one, "again": one})
    second = run({"netns": one, "again": one, "native": one, "runc": one, "lxc": one})
    for by, labels in ((COST, ["netns", "runc"]), (VALUES, ["native", "netns", "runc"])):
        assert common_pairs(first, second, by) == tuple(Pair(label, label) for label in labels)
    between = between_runs(first, second, [RUNC], COST)
    assert (between.alone_in_first, between.alone_in_second) == (("crun",), ("lxc",))
    bare = run({"native": one, "runc": one, "netns": one, "lxc": one}, control=None)
    controlled = between_runs(first, bare, [RUNC], COST)
    assert (controlled.alone_in_first, controlled.alone_in_second) == (("crun",), ("lxc",))
    plain = between_runs(bare, first, [RUNC], COST)
    assert (plain.alone_in_first, plain.alone_in_second) == (("lxc",), ("crun",))
    other = run({"netns": one, "native": one, "runc": one}, baseline="netns")
    assert common_pairs(first, other, COST) == common_pairs(other, first, COST) == (RUNC,)
    marked = run({"native": one, "runc": one, "again": one}, baseline=None, control="runc")
    assert common_pairs(first, marked, VALUES) == common_pairs(marked, first, VALUES) == (Pair("native", "native"),)


def test_why_runs_cannot_be_compared_by_cost() -> None:
    one = {PI: NATIVE}
    native, runc = run({"native": one, "runc": one}), run({"native": one, "runc": one}, baseline="runc")
    none = run({"native": one, "runc": one}, baseline=None)
    assert why_no_cost(native, native) is None
    assert why_no_cost(native, runc) == "their baselines differ: native and runc"
    for pair in ((native, none), (none, native), (none, none)):
        assert why_no_cost(*pair) == "a run has no baseline, or nothing of it was measured"


def test_unlike_units_and_directions_are_refused_and_told() -> None:
    """Of the first task that differs; each is left out, and what is alike is compared."""
    durations = {"native": {PI: NATIVE, MASR: NATIVE}, "runc": {PI: SLOW, MASR: SLOW}}
    first = run(durations)
    for changed, why in (
        ({"unit": "us"}, "not comparable: other unit (ns against us)"),
        ({"better": "higher"}, "not comparable: better is lower in one and higher in the other"),
    ):
        other = run(durations, metric={MASR: changed})
        assert unlike_runs(first, other) == {"unit": f"{task_of(other, MASR).label}: {why}"}
        one, refused = between_runs(first, other, [RUNC], COST).comparisons
        assert one.verdict is Verdict.ALIKE
        assert (refused.verdict, refused.reason, refused.share) == (Verdict.NOT_MEASURED, why, None)
        assert (refused.platform, refused.against, refused.task) == ("runc", FIRST, task_of(other, MASR))
    both = run(durations, metric={workload: {"unit": "us"} for workload in (PI, MASR)})
    assert unlike_runs(first, both)["unit"].startswith(task_of(both).label)
    new = run({"native": {MASR: NATIVE}})
    assert unlike_runs(run({"native": {PI: NATIVE}}), new) == {}, "no task in common"


def test_other_agents_and_hosts_are_told_by_what_is_known() -> None:
    one = run({"native": {PI: NATIVE}})
    host, agent = one.data.manifest.host, one.data.manifest.agent
    assert agent is not None
    other = with_manifest(one, agent={**agent, "sha256": "b" * 64}, host={**host, "fingerprint": "f" * 64})
    assert unlike_runs(one, other) == {
        "host": f"not comparable: other host ({host['fingerprint'][:12]} against {'f' * 12})",
        "agent": f"not comparable: other build of the agent ({'a' * 12} against {'b' * 12})",
    }
    assert unlike_runs(other, one)["agent"].endswith(f"({'b' * 12} against {'a' * 12})")
    unknown = with_manifest(one, agent=None, host={})
    assert unlike_runs(unknown, one) == unlike_runs(one, unknown) == unlike_runs(other, unknown) == {}


def of_hosts(manifest: Manifest, *fingerprints: str) -> tuple[HostRecord, ...]:
    """One for each block, by its fingerprint."""
    names = {fingerprint: f"host-{fingerprint[0]}" for fingerprint in fingerprints}
    return tuple(
        HostRecord(
            names[each],
            {**manifest.host, "fingerprint": each},
            tuple(block for block, own in enumerate(fingerprints) if own == each),
        )
        for each in dict.fromkeys(fingerprints)
    )


def merged(analysis: Analysis, *fingerprints: str) -> Analysis:
    """The run as if each of its blocks were of the host with such a fingerprint."""
    return with_manifest(analysis, hosts=of_hosts(analysis.data.manifest, *fingerprints))


A, B, C = "a" * 64, "b" * 64, "c" * 64


def test_runs_of_several_hosts_are_of_the_same_ones_or_not() -> None:
    first = run({"native": {PI: NATIVE}, "runc": {PI: SLOW}})
    second = run({"native": {PI: LATER}, "runc": {PI: SLOWER}})
    assert unlike_runs(merged(first, A, B, A, B), merged(second, B, A, A)) == {}
    told = unlike_runs(merged(first, A, B, C, A), merged(second, A, B, B))
    assert told == {"host": "not comparable: other hosts (3 against 2, of which 2 are the same)"}
    single = with_manifest(second, host={**second.data.manifest.host, "fingerprint": A})
    assert unlike_runs(merged(first, A, A, A, A), single) == {}
    assert unlike_runs(merged(first, A, B, B, A), single) == {
        "host": "not comparable: other hosts (2 against 1, of which 1 are the same)"
    }
    assert unlike_runs(single, merged(first, B, B, B, B)) == {
        "host": "not comparable: other hosts (1 against 1, of which 0 are the same)"
    }


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
        assert one.reason == "a run has it in one block, or on one host, alone: no interval, no verdict"
        assert full.interval is not None
        assert "one block" not in full.reason
    two = run({"native": {PI: LATER[:2]}, "runc": {PI: SLOWER[:2]}})
    assert only(between_runs(two, two, [RUNC], COST).comparisons).interval is not None


def test_what_is_missing_says_where() -> None:
    """A task that one run has; a platform that has no value in one, with that run's own reason; nothing else to say."""
    first = run({"native": {PI: NATIVE, MASR: NATIVE}, "runc": {PI: SLOW, MASR: SLOW}})
    second = run({"native": {PI: LATER}, "runc": {PI: SLOWER}})

    def reasons(between: Between) -> list[tuple[str, Verdict, str]]:
        return [
            (one.task.workload, one.verdict, one.reason)
            for one in between.comparisons
            if one.verdict is Verdict.NOT_MEASURED
        ]

    for by in (COST, VALUES):
        only_first = between_runs(first, second, [RUNC], by)
        assert reasons(only_first) == [(MASR, Verdict.NOT_MEASURED, "only the first run has this")]
        assert [one.workload for one in only_first.tasks] == [PI, MASR]
        assert [only_first.is_new(one) for one in only_first.tasks] == [False, False]
        only_second = between_runs(second, first, [RUNC], by)
        assert reasons(only_second) == [(MASR, Verdict.NOT_MEASURED, "only the second run has this")]
        assert [only_second.is_new(one) for one in only_second.tasks] == [False, True]
        assert only_second.samples(only_second.comparisons[1])[0] == NONE
        assert only_second.samples(only_second.comparisons[1])[1].blocks == 4
        (missing,) = {one.against for one in (*only_first.comparisons, *only_second.comparisons)}
        assert missing == FIRST
    without = run({"native": {PI: LATER, MASR: LATER}, "runc": {PI: SLOWER}})
    nothing = "no round has both a valid value of the platform and one of the baseline"
    for by in (COST, VALUES):
        told = [
            reasons(between_runs(first, without, [RUNC], by)),
            reasons(between_runs(without, first, [RUNC], by)),
        ]
        assert [one[0][2] for one in told] == [
            f"no value of runc in the {name} run: {nothing}" for name in ("second", "first")
        ]
    bare = run({"native": {PI: LATER, MASR: LATER}, "runc": {PI: SLOWER}}, baseline=None)
    assert reasons(between_runs(first, bare, [RUNC], VALUES))[0][2] == "no value of runc in the second run"
    gone = between_runs(first, second, [Pair("runc", "gone")], COST)
    assert reasons(gone)[0][2] == "no value of gone in the second run"
    apart = run({"native": {PI: LATER[:1]}, "runc": {PI: SLOWER}})
    failed = tuple(replace(one, status="failed") if one.platform == "native" else one for one in apart.data.trials)
    lost = analyse(replace(apart.data, trials=failed))
    assert reasons(between_runs(first, lost, [RUNC], COST))[0][2] == "no block has both values"
    paired = [one.reason for one in side_by_side(without, [Pair("native", "runc")]).comparisons]
    assert paired[1] == f"no value of runc: {nothing}"
    other_way = [one.reason for one in side_by_side(without, [Pair("runc", "native")]).comparisons]
    assert other_way[1] == f"no value of runc: {nothing}"


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
    states = replace(analysis, two_states=(TwoStates(task_of(analysis), 1.5, 0.3),))
    assert only(side_by_side(states, [pair]).comparisons).verdict is Verdict.UNKNOWN
    margin = analysis.data.manifest.experiment | {"margin": 0.3}
    wide = side_by_side(with_manifest(analysis, experiment=margin), [Pair("native", "netns")])
    assert only(wide.comparisons).verdict in (Verdict.SLOWER, Verdict.ALIKE)


def test_a_platform_with_a_caveat_works_and_is_no_result() -> None:
    """Of either run, and by cost of either baseline; what was not measured has the caveat alone."""
    first = run({"native": {PI: NATIVE, MASR: NATIVE}, "netns": {PI: NETNS}, "runc": {PI: SLOW}})
    second = run({"native": {PI: LATER, MASR: LATER}, "netns": {PI: LATER_NETNS}, "runc": {PI: SLOWER}})
    pair = Pair("netns", "runc")
    for mine, theirs, by in (
        ({"netns": "nested"}, {}, COST),
        ({}, {"runc": "nested"}, COST),
        ({"netns": "nested"}, {}, VALUES),
        ({}, {"runc": "nested"}, VALUES),
        ({"native": "nested"}, {}, COST),
        ({}, {"native": "nested"}, COST),
    ):
        sides = replace(first, caveats=mine), replace(second, caveats=theirs)
        one = between_runs(*sides, [pair], by).comparisons[0]
        assert (one.verdict, one.caveat, one.against) == (Verdict.FUNCTIONAL, "nested", FIRST)
        assert one.reason == "nested: it shows that this works; the ratio is no result"
        assert one.share is not None
        assert (one.interval, one.p_value) == (None, None)
    for mine, theirs, by in (
        ({"runc": "nested"}, {"netns": "nested"}, COST),
        ({"native": "nested"}, {"native": "nested"}, VALUES),
    ):
        sides = replace(first, caveats=mine), replace(second, caveats=theirs)
        one = between_runs(*sides, [pair], by).comparisons[0]
        assert (one.caveat, one.p_value is None) == (None, False)
    own = replace(first, caveats={"runc": "nested"})
    paired, missing = side_by_side(own, [pair]).comparisons
    assert (paired.verdict, paired.caveat, paired.p_value) == (Verdict.FUNCTIONAL, "nested", None)
    assert (missing.verdict, missing.caveat, missing.against) == (Verdict.NOT_MEASURED, "nested", FIRST)
    assert missing.reason.startswith("no value of netns: ")
    assert side_by_side(replace(first, caveats={"native": "nested"}), [pair]).comparisons[0].p_value is not None


def bounded(analysis: Analysis, *labels: str) -> Analysis:
    """The run in which these platforms may do more than was seen."""
    return replace(analysis, lower_bounds=frozenset((label, task_of(analysis)) for label in labels))


TWO = "both lost nothing flat out or reached the generator's limit, so that either may forward more"
UNLIKE = "the baseline reached the generator's limit in one run alone: the shares are of unlike things"
ONE = "one of both lost nothing flat out or reached the generator's limit, so that it may forward more"


def test_rates_that_are_lower_bounds_say_no_more_than_they_bear() -> None:
    """Of the first, *slower* holds; of the second, *faster*; of neither, *alike*. The host's own values and the
    control's are held to the same.
    """
    first = run({"native": {PI: NATIVE}, "again": {PI: AGAIN}, "netns": {PI: NETNS}, "runc": {PI: NETNS}})
    same = {"native": {PI: LATER}, "again": {PI: LATER_AGAIN}, "netns": {PI: LATER_NETNS}}
    slower = run({**same, "runc": {PI: SLOWER}})
    alike = run({**same, "runc": {PI: LATER_NETNS}})
    pair = Pair("netns", "runc")

    def told(mine: Analysis, theirs: Analysis, by: By = COST, of: Pair = pair) -> Comparison:
        return only(between_runs(mine, theirs, [of], by).comparisons)

    back = Pair("runc", "netns")
    assert told(bounded(first, "netns"), slower).verdict is Verdict.SLOWER
    assert told(bounded(first, "runc"), bounded(slower, "netns")).verdict is Verdict.SLOWER, "of other platforms"
    assert told(slower, bounded(first, "netns"), of=back).verdict is Verdict.FASTER
    for one in (
        told(first, bounded(slower, "runc")),
        told(bounded(first, "netns"), alike),
        told(first, bounded(alike, "runc")),
        told(bounded(slower, "runc"), first, of=back),
    ):
        assert (one.verdict, one.margin, one.at_least, one.reason) == (Verdict.UNKNOWN, None, None, ONE)
        assert one.p_value is not None
    assert told(first, alike).verdict is Verdict.ALIKE
    both = told(bounded(first, "netns"), bounded(slower, "runc"))
    assert (both.verdict, both.caveat, both.reason) == (Verdict.UNKNOWN, "two lower bounds", TWO)
    assert (both.against, both.p_value) == (FIRST, None)
    for sides in ((bounded(first, "native"), slower), (first, bounded(slower, "native"))):
        one = told(*sides)
        assert (one.verdict, one.reason, one.p_value) == (Verdict.UNKNOWN, UNLIKE, None)
        assert one.caveat == "the baseline is a lower bound in one run"
        assert told(*sides, by=VALUES).verdict is Verdict.SLOWER
    assert told(bounded(first, "native"), bounded(slower, "native")).verdict is Verdict.SLOWER
    bare = between_runs(first, bounded(slower, "native"), [], COST).host
    assert (only(bare).verdict, only(bare).reason) == (Verdict.UNKNOWN, ONE)
    assert only(between_runs(first, slower, [], COST).host).verdict is Verdict.SLOWER
    late = run({**same, "again": {PI: SLOWER}})
    assert len(between_runs(first, late, [], COST).alarms) == 1
    assert between_runs(first, bounded(late, "again"), [], COST).alarms == ()
    paired = run({"native": {PI: NATIVE}, "netns": {PI: NETNS}, "runc": {PI: [one * 2 for one in NATIVE]}})
    assert only(side_by_side(bounded(paired, "netns"), [pair]).comparisons).verdict is Verdict.SLOWER
    assert only(side_by_side(bounded(paired, "runc"), [pair]).comparisons).reason == ONE
    assert only(side_by_side(bounded(paired, "runc", "netns"), [pair]).comparisons).caveat == "two lower bounds"


def elsewhere(analysis: Analysis, *labels: str) -> Analysis:
    """The run in which these platforms forward on the core that sends."""
    nowhere = Forwarding(None, None, "no threads")
    boots = tuple(replace(one, forwarding=nowhere) if one.platform in labels else one for one in analysis.data.boots)
    return analyse(replace(analysis.data, boots=boots))


def test_rates_that_other_cpus_forward_are_of_unlike_things() -> None:
    """Of one run alone; by cost also where a baseline's rate is of other CPUs in one."""
    rate = {PI: {"name": "ndr", "better": "higher"}}
    durations = {"native": {PI: NATIVE}, "netns": {PI: NETNS}, "runc": {PI: SLOW}}
    later = {"native": {PI: LATER}, "netns": {PI: LATER_NETNS}, "runc": {PI: SLOWER}}
    first, second = run(durations, metric=rate), run(later, metric=rate)
    pair = Pair("netns", "runc")

    def told(mine: Analysis, theirs: Analysis, by: By) -> Comparison:
        return only(between_runs(mine, theirs, [pair], by).comparisons)

    for mine, theirs, by in (
        (("netns",), (), VALUES),
        ((), ("runc",), VALUES),
        (("netns",), (), COST),
        ((), ("runc",), COST),
        (("native",), (), COST),
        ((), ("native",), COST),
        (("native",), ("runc",), COST),
    ):
        one = told(elsewhere(first, *mine), elsewhere(second, *theirs), by)
        assert (one.verdict, one.caveat, one.p_value) == (Verdict.UNKNOWN, "other CPUs forward", None), (mine, theirs)
        assert one.reason == ("the host's kernel forwards on other CPUs in one of both; the rates are of unlike things")
        assert one.against == FIRST
    for mine, theirs, by in (
        (("netns",), ("runc",), VALUES),
        (("native",), (), VALUES),
        (("runc",), ("netns",), VALUES),
        (("netns",), ("runc",), COST),
        (("native",), ("native",), COST),
        ((), (), COST),
    ):
        assert told(elsewhere(first, *mine), elsewhere(second, *theirs), by).caveat is None, (mine, theirs)
    assert told(elsewhere(run(durations), "netns"), run(later), VALUES).caveat is None, "a job forwards nothing"
    paired = side_by_side(elsewhere(first, "runc"), [pair])
    assert only(paired.comparisons).caveat == "other CPUs forward"


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
