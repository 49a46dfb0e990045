"""Two runs of known truth compared: what is found, what is left open, and how seldom something false is said.

The rates are the shortened form of benches/compare.py; seeds are fixed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import binom
from tests.support.made_up_run import Made, made_up_run
from tests.support.synthetic_run import Truth, run_data
from tests.support.two_runs import Pairing, tried

from virtoll.runfolder.campaign_records import HostRecord
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.between_runs import Between, Pair, between_runs, common_pairs, side_by_side, unlike_runs, why_no_cost
from virtoll.stats.compare import DIFFERENT, Comparison, Verdict

PLATFORMS: dict[str, dict[str, Any]] = {"native": {}, "again": {"platform": "native-again"}, "netns": {}, "runc": {}}


def synthetic(seed: int, cost: float = 1.0, host: float = 1.0, **changed: Any) -> Analysis:
    """Five blocks; runc takes `cost` times as long in all it does, and the host, with all on it, `host` times."""
    resources = ("cpu", "memory", "packet path")
    costs = {label: dict.fromkeys(resources, host) for label in ("native", "native-again", "netns")}
    costs["runc"] = dict.fromkeys(resources, host * cost)
    return analyse(run_data(replace(Truth(costs, seed=seed, blocks=5, rounds=3), **changed)))


def made(runc: float = 1.2e7, *, seed: int = 1, blocks: int = 5, **changed: Any) -> Analysis:
    """Super Pi in 10 ms on the host, and `runc` ns there."""
    values = {"native": 1e7, "again": 1e7, "netns": 1.1e7, "runc": runc} | changed
    jobs = [Made(label, "superpi", value=value, spread=0.01) for label, value in values.items()]
    return analyse(made_up_run(PLATFORMS, jobs, blocks=blocks, seed=seed))


def compared(first: Analysis, second: Analysis, by: Any = "cost") -> Between:
    return between_runs(first, second, common_pairs(first, second, by), by)


def verdicts(between: Between, label: str) -> set[Verdict]:
    return {one.verdict for one in between.comparisons if one.platform == label and one.task.metric.primary}


def only(between: Between, label: str) -> Comparison:
    (found,) = (one for one in between.comparisons if one.platform == label and one.task.metric.primary)
    return found


def test_two_runs_of_one_build_have_no_difference() -> None:
    between = compared(synthetic(1), synthetic(2))
    assert {one.platform for one in between.comparisons} == {"netns", "runc"}
    assert not [one for one in between.comparisons if one.verdict in DIFFERENT]
    assert not between.paired


def test_ten_percent_more_cost_are_found_and_nothing_else() -> None:
    between = compared(synthetic(1), synthetic(3, cost=1.1))
    slower = [one for one in between.comparisons if one.verdict is Verdict.SLOWER]
    assert {one.platform for one in slower} == {"runc"}
    assert len(slower) >= 6  # of seven tasks; fork and wait costs the same
    covered = [one.simultaneous.low < 1 / 1.1 < one.simultaneous.high for one in slower if one.simultaneous]
    assert covered == [True] * len(slower)
    back = compared(synthetic(3, cost=1.1), synthetic(1))
    assert verdicts(back, "runc") <= {Verdict.FASTER, Verdict.ALIKE}


def test_a_host_that_became_slower_is_in_the_values_and_not_in_the_cost() -> None:
    before, after = synthetic(1), synthetic(2, host=1.3)
    by_cost, by_values = compared(before, after), compared(before, after, "values")
    assert verdicts(by_cost, "runc") <= {Verdict.ALIKE, Verdict.UNKNOWN}
    assert Verdict.SLOWER in {one.verdict for one in by_cost.host}
    assert Verdict.SLOWER in verdicts(by_values, "runc")
    assert Verdict.SLOWER in verdicts(by_values, "native")
    assert by_values.host == ()


def test_a_share_is_the_ratio_of_both_runs_shares() -> None:
    between = compared(made(1.2e7), made(1.5e7, seed=2))
    one = only(between, "runc")
    assert one.share == pytest.approx(1.2 / 1.5, rel=0.02)
    first, second = between.samples(one)
    assert first.share is not None
    assert second.share is not None
    assert one.share == pytest.approx(second.share / first.share)
    assert (first.blocks, second.blocks) == (5, 5)


def test_one_block_has_no_verdict() -> None:
    one = only(compared(made(), made(2e7, seed=2, blocks=1)), "runc")
    assert one.verdict is Verdict.UNKNOWN
    assert one.interval is None
    assert "one block" in one.reason


def test_what_one_run_alone_has_is_not_measured() -> None:
    first = made()
    without = analyse(made_up_run(PLATFORMS, [Made(label, "masr", value=1e8) for label in ("native", "runc")]))
    between = compared(first, without)
    reasons = {one.task.workload: one.reason for one in between.comparisons if one.platform == "runc"}
    assert reasons == {"superpi": "only the first run has this", "masr": "only the second run has this"}
    assert {one.verdict for one in between.comparisons} == {Verdict.NOT_MEASURED}
    assert [between.is_new(task) for task in between.tasks] == [task.workload == "masr" for task in between.tasks]


def test_another_unit_is_refused_and_told() -> None:
    first, second = made(), made(seed=2)
    metrics = tuple(replace(one, unit="us") if one.primary else one for one in second.data.manifest.metrics)
    other = analyse(replace(second.data, manifest=replace(second.data.manifest, metrics=metrics)))
    assert set(unlike_runs(first, other)) == {"unit"}
    assert "other unit (ns against us)" in only(compared(first, other), "runc").reason


def test_unlike_hosts_and_agents_are_told() -> None:
    first, second = made(), made(seed=2)
    manifest = second.data.manifest
    host, agent = {**manifest.host, "fingerprint": "f" * 64}, {"sha256": "a" * 64}
    mine = replace(first.data, manifest=replace(first.data.manifest, agent={"sha256": "b" * 64}))
    other = replace(second.data, manifest=replace(manifest, host=host, agent=agent))
    assert set(unlike_runs(analyse(mine), analyse(other))) == {"host", "agent"}
    assert unlike_runs(first, second) == {}


def test_without_a_common_baseline_values_are_all_there_is() -> None:
    first = made()
    bare: dict[str, dict[str, Any]] = {"netns": {}, "runc": {}}
    jobs = [Made("netns", "superpi", value=1.1e7, spread=0.01), Made("runc", "superpi", value=2e7, spread=0.01)]
    second = analyse(made_up_run(bare, jobs, baseline=None))
    assert why_no_cost(first, made(seed=2)) is None
    assert why_no_cost(first, second) is not None
    between = compared(first, second, "values")
    assert only(between, "runc").verdict is Verdict.SLOWER
    assert only(between, "netns").verdict is Verdict.ALIKE


def test_platforms_of_one_run_are_paired_by_block() -> None:
    between = side_by_side(made(1.2e7), [Pair("netns", "runc")])
    one = only(between, "runc against netns")
    assert between.paired
    assert one.verdict is Verdict.SLOWER
    assert one.share == pytest.approx(1.1 / 1.2, rel=0.02)
    assert len(one.pairs) == 5


def test_a_lower_bound_bears_slower_and_no_more() -> None:
    first, second = made(1.2e7), made(1.2e7, seed=2)
    (task,) = [one for one in first.tasks if one.metric.primary]
    bounded = replace(first, lower_bounds=frozenset({("runc", task)}))
    assert only(compared(first, second), "runc").verdict is Verdict.ALIKE
    assert only(compared(bounded, second), "runc").verdict is Verdict.UNKNOWN
    assert only(compared(bounded, made(2e7, seed=2)), "runc").verdict is Verdict.SLOWER
    assert only(compared(bounded, made(1.01e7, seed=2)), "runc").verdict is Verdict.UNKNOWN
    assert only(compared(made(2e7), bounded), "runc").verdict is Verdict.FASTER
    both = replace(second, lower_bounds=frozenset({("runc", task)}))
    assert only(compared(bounded, both), "runc").caveat == "two lower bounds"


def test_a_nested_host_gives_no_verdict() -> None:
    nested = {**PLATFORMS, "runc": {"host": "nested xen", "caveat": "nested: functional only"}}
    jobs = [Made(label, "superpi", value=1e7, spread=0.01) for label in PLATFORMS]
    second = analyse(made_up_run(nested, jobs))
    one = only(compared(made(), second), "runc")
    assert one.verdict is Verdict.FUNCTIONAL
    assert one.p_value is None


def test_the_control_of_both_runs_alarms() -> None:
    assert compared(made(), made(seed=2)).alarms == ()
    assert [one.task.workload for one in compared(made(), made(seed=2, again=1.3e7)).alarms] == ["superpi"]


def test_several_comparisons_share_the_level() -> None:
    first, second = made(), made(seed=2)
    pairs = common_pairs(first, second, "cost")
    assert between_runs(first, second, pairs, "cost", 4).level == pytest.approx(0.05 / 4)


@pytest.mark.parametrize("blocks", [(3, 3), (5, 5), (3, 9)])
@pytest.mark.parametrize("world", ["even", "uneven, outliers", "noise of each cell its own"])
def test_false_verdicts_are_rare(world: str, blocks: tuple[int, int]) -> None:
    runs = 120
    kept = tried(Pairing(world, blocks, runs))
    assert kept.errors <= binom.isf(0.001, runs, 0.06) / runs
    assert kept.alarms <= binom.isf(0.001, runs, 0.02) / runs


def test_twenty_percent_are_found() -> None:
    assert tried(Pairing("even", (5, 5), 60), math.log(1.2)).found >= 0.9


def merged(analysis: Analysis, *fingerprints: str) -> Analysis:
    """The same run as if its blocks were of so many hosts, in turn."""
    manifest = analysis.data.manifest
    count = len({one.block for one in manifest.plan.trials})
    hosts = tuple(
        HostRecord(
            f"host-{place + 1}",
            {**manifest.host, "fingerprint": fingerprint},
            tuple(range(place, count, len(fingerprints))),
        )
        for place, fingerprint in enumerate(fingerprints)
    )
    return analyse(replace(analysis.data, manifest=replace(manifest, hosts=hosts)))


def test_of_runs_of_several_hosts_each_host_counts_once() -> None:
    first, second = made(blocks=8), made(seed=2, blocks=8)
    hosts = "a" * 64, "b" * 64, "c" * 64
    of_blocks, of_hosts = compared(first, second), compared(merged(first, *hosts), merged(second, *hosts))
    wide, narrow = only(of_hosts, "runc").interval, only(of_blocks, "runc").interval
    assert wide is not None
    assert narrow is not None
    assert wide.high / wide.low > narrow.high / narrow.low
    assert only(of_hosts, "runc").share == pytest.approx(only(of_blocks, "runc").share, rel=0.02)
    (paired,) = (
        one
        for one in side_by_side(merged(first, *hosts), [Pair("netns", "runc")]).comparisons
        if one.task.metric.primary
    )
    assert [host for host, _ in paired.hosts] == ["host-1", "host-2", "host-3"]
    assert unlike_runs(merged(first, *hosts), merged(second, *hosts)) == {}
    assert (
        "3 against 2, of which 2 are the same" in unlike_runs(merged(first, *hosts), merged(second, *hosts[:2]))["host"]
    )
