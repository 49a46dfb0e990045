"""A comparison before its test, on values by hand: shares of blocks and of hosts, and why there is no verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from virtoll.runfolder.records import MetricRecord
from virtoll.stats.compare import Comparison, Verdict, by_host, compare
from virtoll.stats.values import Observation, Task

TASK = Task("w", MetricRecord("w", "duration", "ns", "lower", "marks", title="a job", resource="cpu"), "{}", "")
NO_ROUND = "no round has both a valid value of the platform and one of the baseline"
ONE_HOST = "only one host has both values: no interval over hosts, no verdict"


def observed(platform: str, *values: float) -> list[Observation]:
    """One observation a block, of durations."""
    return [Observation(TASK, platform, 0, block, 0, value, round=0) for block, value in enumerate(values)]


def compared(*durations: float, why_not: str = "", caveat: str | None = None) -> Comparison:
    """Blocks of a platform whose baseline takes 10 each."""
    return compare(TASK, "p", observed("p", *durations), observed("native", *[10.0] * len(durations)), why_not, caveat)


@pytest.mark.parametrize("caveat", [None, "emulated"])
def test_with_no_pair_nothing_is_measured_and_the_reason_is_the_platforms_own_where_it_has_one(
    caveat: str | None,
) -> None:
    nothing = Comparison("p", TASK, Verdict.NOT_MEASURED, reason=NO_ROUND, caveat=caveat)
    assert compared(caveat=caveat) == nothing
    assert compared(why_not="it failed", caveat=caveat) == replace(nothing, reason="it failed")


def test_a_share_is_the_geometric_mean_of_blocks_and_no_result_with_a_caveat() -> None:
    """Half and an eighth of the baseline's speed: a quarter."""
    two = compared(20, 80)
    assert (two.platform, two.task, two.verdict, two.reason) == ("p", TASK, Verdict.UNKNOWN, "")
    assert dict(two.pairs) == pytest.approx({0: 1 / 2, 1: 1 / 8})
    assert two.share == pytest.approx(1 / 4)
    one = compared(20)
    assert one == replace(two, pairs=two.pairs[:1], share=one.share, reason=one.reason)
    assert one.share == pytest.approx(1 / 2)
    assert one.reason == "only one block has both values: no interval, no verdict"
    reason = "emulated: it shows that this works; the ratio is no result"
    functional = replace(two, verdict=Verdict.FUNCTIONAL, caveat="emulated", reason=reason)
    assert compared(20, 80, caveat="emulated") == functional
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
    assert (found.verdict, found.reason) == (two.verdict, ONE_HOST if caveat is None else two.reason)
    slower = by_host(replace(two, verdict=Verdict.SLOWER), {0: "a", 1: "a"})
    assert slower.reason == two.reason
    several = by_host(two, {0: "a", 1: "b"})
    assert several.reason == two.reason
    nothing = compared()
    assert by_host(nothing, {0: "a"}) == nothing
