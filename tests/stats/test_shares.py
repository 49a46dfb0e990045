"""A comparison before its test, on values by hand: shares of blocks and of hosts, and why there is no verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.by_hand import task
from tests.support.facts import assert_facts

from virtoll.stats.compare import Comparison, Verdict, by_host, compare
from virtoll.stats.values import Observation

TASK = task("w", "marks")


def observed(platform: str, *values: float) -> list[Observation]:
    """One observation a block, of durations."""
    return [Observation(TASK, platform, 0, block, 0, value, round=0) for block, value in enumerate(values)]


def compared(*durations: float, why_not: str = "", caveat: str | None = None) -> Comparison:
    """Blocks of a platform whose baseline takes 10 each."""
    return compare(TASK, "p", observed("p", *durations), observed("native", *[10.0] * len(durations)), why_not, caveat)


@pytest.mark.parametrize("caveat", [None, "emulated"])
def test_without_a_pair_nothing_is_measured(
    caveat: str | None,
) -> None:
    """The reason is the platform's own where it has one."""
    nothing = compared(caveat=caveat)
    assert nothing == Comparison("p", TASK, Verdict.NOT_MEASURED, reason=nothing.reason, caveat=caveat)
    assert_facts(nothing.reason, "no round", "baseline")
    assert compared(why_not="it failed", caveat=caveat) == replace(nothing, reason="it failed")


def test_a_share_is_the_geometric_mean_of_blocks() -> None:
    """Half and an eighth of the baseline's speed: a quarter."""
    two = compared(20, 80)
    assert (two.platform, two.task, two.verdict, two.reason) == ("p", TASK, Verdict.UNKNOWN, "")
    assert dict(two.pairs) == pytest.approx({0: 1 / 2, 1: 1 / 8})
    assert two.share == pytest.approx(1 / 4)
    one = compared(20)
    assert one == replace(two, pairs=two.pairs[:1], share=one.share, reason=one.reason)
    assert one.share == pytest.approx(1 / 2)
    assert_facts(one.reason, "one block", "no verdict")
    marked = compared(20, 80, caveat="emulated")
    assert_facts(marked.reason, "emulated", "no result")
    functional = replace(two, verdict=Verdict.FUNCTIONAL, caveat="emulated", reason=marked.reason)
    assert marked == functional
    assert compared(20, caveat="emulated") == replace(functional, pairs=one.pairs, share=one.share)


def test_each_host_counts_once() -> None:
    """One host has shares of 1/2 and 1/8, the other 1: geometric means of 1/4 and 1, and of both 1/2."""
    three = compared(20, 80, 10)
    found = by_host(three, {0: "a", 1: "a", 2: "b"})
    assert dict(found.hosts) == pytest.approx({"a": 1 / 4, "b": 1})
    assert found == replace(three, hosts=found.hosts, share=found.share)
    assert found.share == pytest.approx(1 / 2)
    assert found.independent == found.hosts
    assert by_host(three, {}) == three
    assert three.independent == three.pairs


@pytest.mark.parametrize("caveat", [None, "emulated"])
def test_of_one_host_there_is_no_verdict(caveat: str | None) -> None:
    two = compared(20, 80, caveat=caveat)
    found = by_host(two, {0: "a", 1: "a"})
    assert dict(found.hosts) == pytest.approx({"a": 1 / 4})
    assert found.verdict == two.verdict
    assert_facts(found.reason, "one host" if caveat is None else caveat)
    slower = by_host(replace(two, verdict=Verdict.SLOWER), {0: "a", 1: "a"})
    assert slower.reason == two.reason
    several = by_host(two, {0: "a", 1: "b"})
    assert several.reason == two.reason
    nothing = compared()
    assert by_host(nothing, {0: "a"}) == nothing
