"""Two runs of known truth compared: what is found, what is left open, and how seldom something false is said.

The rates are the shortened form of benches/compare.py; seeds are fixed.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest
from scipy.stats import binom
from tests.support.made_up_run import Made, made_up_run
from tests.support.synthetic_run import Truth, run_data
from tests.support.two_runs import Pairing, tried

from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.between_runs import Between, between_runs, common_pairs, why_no_cost
from virtoll.stats.compare import DIFFERENT, Verdict


@cache
def synthetic(seed: int, cost: float = 1.0, host: float = 1.0) -> Analysis:
    """Five blocks; runc takes `cost` times as long in all it does, and the host, with all on it, `host` times."""
    resources = ("cpu", "memory", "packet path")
    costs = {label: dict.fromkeys(resources, host) for label in ("native", "native-again", "netns")}
    costs["runc"] = dict.fromkeys(resources, host * cost)
    return analyse(run_data(Truth(costs, seed=seed, blocks=5, rounds=3)))


def compared(first: Analysis, second: Analysis, by: Any = "cost") -> Between:
    return between_runs(first, second, common_pairs(first, second, by), by)


def verdicts(between: Between, label: str) -> set[Verdict]:
    return {one.verdict for one in between.comparisons if one.platform == label and one.task.metric.primary}


def test_two_runs_of_one_build_have_no_difference() -> None:
    between = compared(synthetic(1), synthetic(2))
    assert {one.platform for one in between.comparisons} == {"netns", "runc"}
    assert not [one for one in between.comparisons if one.verdict in DIFFERENT]


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


def test_runs_without_a_common_baseline_are_compared_by_values() -> None:
    def of(baseline: str | None, **durations: float) -> Analysis:
        made = [Made(label, "superpi", value=value) for label, value in durations.items()]
        return analyse(made_up_run({label: {} for label in durations}, made, baseline=baseline))

    first, second = of("native", native=1e7, netns=1.1e7, runc=1.2e7), of(None, netns=1.1e7, runc=2e7)
    assert why_no_cost(first, second) is not None
    between = compared(first, second, "values")
    assert (verdicts(between, "runc"), verdicts(between, "netns")) == ({Verdict.SLOWER}, {Verdict.ALIKE})


@pytest.mark.parametrize("blocks", [(3, 3), (5, 5), (3, 9)])
@pytest.mark.parametrize("world", ["even", "uneven, outliers", "noise of each cell its own"])
def test_false_verdicts_are_rare(world: str, blocks: tuple[int, int]) -> None:
    runs = 120
    kept = tried(Pairing(world, blocks, runs))
    assert kept.errors <= binom.isf(0.001, runs, 0.06) / runs
    assert kept.alarms <= binom.isf(0.001, runs, 0.02) / runs


def test_twenty_percent_are_found() -> None:
    assert tried(Pairing("even", (5, 5), 60), math.log(1.2)).found >= 0.9
