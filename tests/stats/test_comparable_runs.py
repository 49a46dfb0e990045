"""Two runs compared: what of them may be, what is left out and why, and rates that bear no verdict."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.support.facts import assert_facts
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
    merged,
    only,
    run,
    with_manifest,
)
from tests.support.small_run import task_of

from virtoll.runfolder.guest_records import Forwarding
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.between_runs import (
    FIRST,
    Between,
    By,
    Sample,
    between_runs,
    common_pairs,
    side_by_side,
    unlike_runs,
    why_no_cost,
)
from virtoll.stats.bounds import TWO_BOUNDS
from virtoll.stats.compare import Comparison, Pair, Verdict

A, B, C = "a" * 64, "b" * 64, "c" * 64
ONE = "one", "generator's limit"  # of both runs is a lower bound: what a reason names


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
    """In the second's order, without controls, and by cost without baselines; labels of one run alone are listed."""
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
    assert_facts(why_no_cost(native, runc) or "", "baselines", "native", "runc")
    for pair in ((native, none), (none, native), (none, none)):
        assert_facts(why_no_cost(*pair) or "", "no baseline")


def test_unlike_units_and_directions_are_refused_and_told() -> None:
    """Of the first task that differs; each is left out, and what is alike is compared."""
    durations = {"native": {PI: NATIVE, MASR: NATIVE}, "runc": {PI: SLOW, MASR: SLOW}}
    first = run(durations)
    for changed, facts in (
        ({"unit": "us"}, ("unit", "ns", "us")),
        ({"better": "higher"}, ("lower", "higher")),
    ):
        other = run(durations, metric={MASR: changed})
        ((kind, why),) = unlike_runs(first, other).items()
        assert kind == "unit"
        assert task_of(other, MASR).label in why
        assert_facts(why, *facts)
        one, refused = between_runs(first, other, [RUNC], COST).comparisons
        assert one.verdict is Verdict.ALIKE
        assert (refused.verdict, refused.share) == (Verdict.NOT_MEASURED, None)
        assert_facts(refused.reason, *facts)
        assert (refused.platform, refused.against, refused.task) == ("runc", FIRST, task_of(other, MASR))
    both = run(durations, metric={workload: {"unit": "us"} for workload in (PI, MASR)})
    assert task_of(both).label in unlike_runs(first, both)["unit"]
    new = run({"native": {MASR: NATIVE}})
    assert unlike_runs(run({"native": {PI: NATIVE}}), new) == {}, "no task in common"


def test_other_agents_and_hosts_are_told_by_what_is_known() -> None:
    one = run({"native": {PI: NATIVE}})
    host, agent = one.data.manifest.host, one.data.manifest.agent
    assert agent is not None
    other = with_manifest(one, agent={**agent, "sha256": "b" * 64}, host={**host, "fingerprint": "f" * 64})
    told = unlike_runs(one, other)
    assert list(told) == ["host", "agent"]
    assert_facts(told["host"], host["fingerprint"][:12], "f" * 12)
    assert_facts(told["agent"], "a" * 12, "b" * 12)
    assert told["agent"].index("a" * 12) < told["agent"].index("b" * 12)
    unknown = with_manifest(one, agent=None, host={})
    assert unlike_runs(unknown, one) == unlike_runs(one, unknown) == unlike_runs(other, unknown) == {}


def test_runs_of_several_hosts_are_of_the_same_ones_or_not() -> None:
    first = run({"native": {PI: NATIVE}, "runc": {PI: SLOW}})
    second = run({"native": {PI: LATER}, "runc": {PI: SLOWER}})
    assert unlike_runs(merged(first, A, B, A, B), merged(second, B, A, A)) == {}
    single = with_manifest(second, host={**second.data.manifest.host, "fingerprint": A})
    assert unlike_runs(merged(first, A, A, A, A), single) == {}
    for mine, theirs, counts in (
        (merged(first, A, B, C, A), merged(second, A, B, B), ["3", "2", "2"]),
        (merged(first, A, B, B, A), single, ["2", "1", "1"]),
        (single, merged(first, B, B, B, B), ["1", "1", "0"]),
    ):
        ((kind, why),) = unlike_runs(mine, theirs).items()
        assert (kind, re.findall(r"\d+", why)) == ("host", counts), "hosts of each, and those in common"


def assert_reason(between: Between, workload: str, *facts: str) -> None:
    """Of this workload nothing was measured, with these facts in the reason."""
    (one,) = (each for each in between.comparisons if each.task.workload == workload)
    assert one.verdict is Verdict.NOT_MEASURED
    assert_facts(one.reason, *facts)


def test_what_is_missing_says_where() -> None:
    """A task that one run has; a platform that has no value in one, with that run's own reason; nothing else to say."""
    first = run({"native": {PI: NATIVE, MASR: NATIVE}, "runc": {PI: SLOW, MASR: SLOW}})
    second = run({"native": {PI: LATER}, "runc": {PI: SLOWER}})
    for by in (COST, VALUES):
        only_first = between_runs(first, second, [RUNC], by)
        assert_reason(only_first, MASR, "first run")
        assert [one.workload for one in only_first.tasks] == [PI, MASR]
        assert [only_first.is_new(one) for one in only_first.tasks] == [False, False]
        only_second = between_runs(second, first, [RUNC], by)
        assert_reason(only_second, MASR, "second run")
        assert [only_second.is_new(one) for one in only_second.tasks] == [False, True]
        assert only_second.samples(only_second.comparisons[1])[0] == Sample(None, None, 0)
        assert only_second.samples(only_second.comparisons[1])[1].blocks == 4
        (missing,) = {one.against for one in (*only_first.comparisons, *only_second.comparisons)}
        assert missing == FIRST
    without = run({"native": {PI: LATER, MASR: LATER}, "runc": {PI: SLOWER}})
    for by in (COST, VALUES):
        assert_reason(between_runs(first, without, [RUNC], by), MASR, "runc", "second run", "no round")
        assert_reason(between_runs(without, first, [RUNC], by), MASR, "runc", "first run", "no round")
    bare = run({"native": {PI: LATER, MASR: LATER}, "runc": {PI: SLOWER}}, baseline=None)
    assert_reason(between_runs(first, bare, [RUNC], VALUES), MASR, "runc", "second run")
    assert_reason(between_runs(first, second, [Pair("runc", "gone")], COST), PI, "gone", "second run")
    apart = run({"native": {PI: LATER[:1]}, "runc": {PI: SLOWER}})
    failed = tuple(one.replace(status="failed") if one.platform == "native" else one for one in apart.data.trials)
    lost = analyse(replace(apart.data, trials=failed))
    assert_reason(between_runs(first, lost, [RUNC], COST), PI, "no block")
    for pair in (Pair("native", "runc"), Pair("runc", "native")):
        assert_reason(side_by_side(without, [pair]), MASR, "runc", "no round")


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
        assert_facts(one.reason, "nested", "no result")
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
    assert_facts(missing.reason, "netns")
    assert side_by_side(replace(first, caveats={"native": "nested"}), [pair]).comparisons[0].p_value is not None


def bounded(analysis: Analysis, *labels: str) -> Analysis:
    """The run in which these platforms may do more than was seen."""
    return replace(analysis, lower_bounds=frozenset((label, task_of(analysis)) for label in labels))


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
        assert (one.verdict, one.margin, one.at_least) == (Verdict.UNKNOWN, None, None)
        assert_facts(one.reason, *ONE)
        assert one.p_value is not None
    assert told(first, alike).verdict is Verdict.ALIKE
    both = told(bounded(first, "netns"), bounded(slower, "runc"))
    assert (both.verdict, both.caveat) == (Verdict.UNKNOWN, TWO_BOUNDS)
    assert_facts(both.reason, "both", "generator's limit")
    assert (both.against, both.p_value) == (FIRST, None)
    for sides in ((bounded(first, "native"), slower), (first, bounded(slower, "native"))):
        one = told(*sides)
        assert (one.verdict, one.p_value) == (Verdict.UNKNOWN, None)
        for text in (one.reason, one.caveat or ""):
            assert_facts(text, "baseline", "one run")
        assert told(*sides, by=VALUES).verdict is Verdict.SLOWER
    assert told(bounded(first, "native"), bounded(slower, "native")).verdict is Verdict.SLOWER
    bare = only(between_runs(first, bounded(slower, "native"), [], COST).host)
    assert bare.verdict is Verdict.UNKNOWN
    assert_facts(bare.reason, *ONE)
    assert only(between_runs(first, slower, [], COST).host).verdict is Verdict.SLOWER
    late = run({**same, "again": {PI: SLOWER}})
    assert len(between_runs(first, late, [], COST).alarms) == 1
    assert between_runs(first, bounded(late, "again"), [], COST).alarms == ()
    paired = run({"native": {PI: NATIVE}, "netns": {PI: NETNS}, "runc": {PI: [one * 2 for one in NATIVE]}})
    assert only(side_by_side(bounded(paired, "netns"), [pair]).comparisons).verdict is Verdict.SLOWER
    assert_facts(only(side_by_side(bounded(paired, "runc"), [pair]).comparisons).reason, *ONE)
    assert only(side_by_side(bounded(paired, "runc", "netns"), [pair]).comparisons).caveat == TWO_BOUNDS


def elsewhere(analysis: Analysis, *labels: str) -> Analysis:
    """The run in which these platforms forward on the core that sends."""
    nowhere = Forwarding(None, None, "no threads")
    boots = tuple(one.replace(forwarding=nowhere) if one.platform in labels else one for one in analysis.data.boots)
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
        assert (one.verdict, one.p_value) == (Verdict.UNKNOWN, None), (mine, theirs)
        for text in (one.caveat or "", one.reason):
            assert_facts(text, "other CPUs")
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
    assert_facts(only(paired.comparisons).caveat or "", "other CPUs")
