"""Host as a level: verdicts of a merged run rest on hosts, their variance is found, and what stands out is flagged."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from virtoll.runfolder.records import MetricRecord
from virtoll.stats.across_hosts import (
    STAND_OUT_LEVEL,
    AcrossHosts,
    Effects,
    HostBlocks,
    across_hosts,
    random_effects,
    standing_out,
)
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.summaries import CellSummary, summarise
from virtoll.stats.values import Observation, Task
from virtoll.stats.verdicts import Rules, decide, judge

TASKS, PLATFORMS, HOSTS, EACH = 6, 5, 6, 4
METRIC = MetricRecord("superpi", "duration", "ns", "lower", source="marks", title="Super Pi", resource="cpu")
TASK = Task("superpi", METRIC, "{}", "")
HOST_OF = {block: f"host-{block % HOSTS + 1}" for block in range(HOSTS * EACH)}


def families(count: int, between: float, seed: int) -> np.ndarray:
    """Log shares [families, tasks, platforms, hosts, blocks]: no difference, half of each noise is the bare host's."""
    noise = np.random.default_rng(seed)

    def shared(scale: float, *shape: int) -> np.ndarray:
        own = noise.normal(0, scale, (count, TASKS, PLATFORMS, *shape))
        host = noise.normal(0, scale, (count, TASKS, 1, *shape))
        both: np.ndarray = (own + host) / math.sqrt(2)
        return both

    every: np.ndarray = shared(between, HOSTS, 1) + shared(0.03, HOSTS, EACH)
    return every


def false_families(logs: np.ndarray) -> float:
    """The share of families with a false difference."""
    return float(np.mean([judge(one, Rules()).different.any() for one in logs]))


def test_with_variance_between_hosts_blocks_say_too_much_and_hosts_do_not() -> None:
    """2000 families of 30 comparisons without a difference, 6 hosts of 4 blocks, twice as much between as within."""
    logs = families(2000, 0.06, seed=20261127)
    assert false_families(logs.mean(axis=4)) <= 0.06
    assert false_families(logs[:200].reshape(200, TASKS, PLATFORMS, -1)) > 0.5


def test_without_variance_between_hosts_the_promise_holds_as_well() -> None:
    assert false_families(families(2000, 0.0, seed=20261128).mean(axis=4)) <= 0.06


def comparison(shares: dict[int, float], platform: str = "runc") -> Comparison:
    pairs = tuple(sorted(shares.items()))
    share = math.exp(sum(math.log(one) for one in shares.values()) / len(shares))
    return Comparison(platform, TASK, Verdict.UNKNOWN, pairs, share)


def test_a_difference_that_all_hosts_show_is_told() -> None:
    generator = random.Random(3)
    shares = {block: 0.7 * math.exp(generator.gauss(0, 0.02)) for block in HOST_OF}
    (told,), _ = decide([comparison(shares)], [], Rules(host_of=HOST_OF))
    assert (told.verdict, len(told.hosts)) == (Verdict.SLOWER, HOSTS)
    assert told.interval is not None
    assert told.interval.low < 0.7 < told.interval.high


def test_the_variances_are_those_of_the_textbook_formula() -> None:
    """By hand: means 2, 5 and 9, MSW = 2, MSB = 28.4, n0 = (7 - 17 / 7) / 2."""
    groups = [[1.0, 3.0], [4.0, 5.0, 6.0], [8.0, 10.0]]
    among = (2 * (2 - 37 / 7) ** 2 + 3 * (5 - 37 / 7) ** 2 + 2 * (9 - 37 / 7) ** 2) / 2
    within = (2 + 2 + 2) / 4
    found = random_effects(groups)
    assert found.within == pytest.approx(math.sqrt(within))
    assert found.between == pytest.approx(math.sqrt((among - within) / ((7 - 17 / 7) / 2)))
    assert random_effects([[1.0], [2.0]]) == Effects(None, None)
    assert random_effects([[1.0, 2.0]]) == Effects(None, None)
    assert random_effects([[1.0, 3.0], [1.0, 3.0]]).between == 0.0


@pytest.mark.parametrize("between", [0.0, 0.03, 0.1])
def test_the_variance_between_hosts_is_found(between: float) -> None:
    logs = families(40, between, seed=7)
    found = [
        random_effects(logs[family, task, 0].tolist()).between or 0.0 for family in range(40) for task in range(TASKS)
    ]
    assert np.mean(np.square(found)) == pytest.approx(between**2, abs=0.0003 + 0.2 * between**2)


def simulated(seed: int, apart: float) -> dict[str, tuple[float, float | None]]:
    """One quantity by block, of 6 hosts, of which the last is so far from the others."""
    generator = random.Random(seed)
    hosts = {host: generator.gauss(0, 0.02) for host in sorted(set(HOST_OF.values()))}
    hosts["host-6"] += apart
    logs = {block: hosts[host] + generator.gauss(0, 0.02) for block, host in HOST_OF.items()}
    return standing_out(logs, HOST_OF, HOSTS)


def test_a_host_that_stands_out_is_flagged_and_chance_seldom_flags_one() -> None:
    def flagged(apart: float) -> float:
        runs = [simulated(seed, apart) for seed in range(1000)]
        return sum(any((p or 0) < STAND_OUT_LEVEL for _, p in run.values()) for run in runs) / len(runs)

    assert flagged(0.0) <= 0.015
    assert flagged(0.4) > 0.85
    apart, _ = simulated(1, 0.4)["host-6"]
    assert apart == pytest.approx(0.4, abs=0.1)


def test_of_three_hosts_none_stands_out() -> None:
    found = standing_out({0: 0.0, 1: 0.01, 2: 5.0}, {0: "a", 1: "b", 2: "c"}, 3)
    assert [p for _, p in found.values()] == [None, None, None]


def hosts_of(*blocks: int) -> tuple[HostBlocks, ...]:
    """Hosts of so many blocks each, one after another."""
    ends = [sum(blocks[:place]) for place in range(len(blocks) + 1)]
    return tuple(
        HostBlocks(f"host-{place + 1}", "f" * 64, tuple(range(low, high)))
        for place, (low, high) in enumerate(itertools.pairwise(ends))
    )


def cell(task: Task, *values: float) -> CellSummary:
    return summarise([Observation(task, "native", block, block, 0, value) for block, value in enumerate(values)])


def told(found: AcrossHosts) -> list[tuple[str, str | None, float, float | None, bool]]:
    return [(one.host, one.platform, round(one.factor, 9), one.p_adjusted, one.flagged) for one in found.deviations]


RATE = replace(TASK, metric=METRIC.replace(name="rate", better="higher"))
SIDE = replace(TASK, metric=METRIC.replace(name="side", primary=False))


def test_of_two_hosts_it_is_told_how_far_they_are_apart() -> None:
    """A host's job takes twice as long and its rate is a third; of a ratio logs are 0.1 and 0.3, and 0.5 and 0.7.

    Within: (2 x 0.1^2 + 2 x 0.1^2) / 2 = 0.02. Between: 2 x 2 x 0.2^2 = 0.16, and (0.16 - 0.02) / 2 = 0.07.
    """
    logs = {0: 0.1, 1: 0.3, 2: 0.5, 3: 0.7}
    shares = comparison({block: math.exp(value) for block, value in logs.items()})
    others = [
        replace(shares, platform="netns", caveat="emulated"),
        replace(shares, platform="none", pairs=()),
        replace(shares, task=SIDE),
    ]
    cells = {
        ("native", TASK): cell(TASK, 10, 10, 20, 20),
        ("native", RATE): cell(RATE, 9, 9, 3, 3),
        ("native", SIDE): cell(SIDE, 1, 2, 3, 4),
        ("runc", TASK): cell(TASK, 1, 2, 3, 4),
    }
    hosts = hosts_of(2, 2)
    found = across_hosts(hosts, [*others, shares], cells, "native")
    assert found.hosts == hosts
    apart = round(math.exp(0.4), 9)
    assert told(found) == [
        ("host-1", None, 2, None, False),
        ("host-2", None, 0.5, None, False),
        ("host-1", None, 3, None, False),
        ("host-2", None, round(1 / 3, 9), None, False),
        ("host-1", "runc", round(math.exp(-0.4), 9), None, False),
        ("host-2", "runc", apart, None, False),
    ]
    assert [one.task for one in found.deviations] == [TASK, TASK, RATE, RATE, TASK, TASK]
    (varies,) = found.variations
    assert (varies.platform, varies.task, varies.hosts) == ("runc", TASK, 2)
    assert varies.within == pytest.approx(math.expm1(math.sqrt(0.02)))
    assert varies.between == pytest.approx(math.expm1(math.sqrt(0.07)))
    assert found.flagged == ()
    (single,) = across_hosts(hosts_of(1, 1), [comparison({0: 0.5, 1: 0.6})], {}, "native").variations
    assert (single.hosts, single.between, single.within) == (2, None, None)


def test_one_host_or_no_baseline_has_nothing_across() -> None:
    shares = [comparison({0: 0.5, 1: 0.6})]
    cells = {("native", TASK): cell(TASK, 10, 20)}
    assert across_hosts(hosts_of(2), shares, cells, "native") == AcrossHosts(hosts_of(2))
    assert across_hosts(hosts_of(1, 1), shares, cells, None) == AcrossHosts(hosts_of(1, 1))


def test_a_p_value_is_of_what_the_others_predict_over_all_hosts() -> None:
    """Five hosts and two quantities, of which one has four: nine tests; Student's t with three degrees of freedom."""
    logs = [0.0, 0.01, 0.02, 0.01, 0.4]
    few = {block: 1.0 + 0.01 * block for block in range(4)}
    shares = [comparison({block: math.exp(value) for block, value in enumerate(logs)}), comparison(few, "netns")]
    found = across_hosts(hosts_of(1, 1, 1, 1, 1), shares, {}, "native")
    own = [one for one in found.deviations if one.platform == "runc"]
    for place, one in enumerate(own):
        others = [value for number, value in enumerate(logs) if number != place]
        t = (logs[place] - statistics.fmean(others)) / (statistics.stdev(others) * math.sqrt(1 + 1 / 4))
        assert one.p_adjusted == pytest.approx(min(1.0, 9 * 2 * float(scipy.stats.t.sf(abs(t), 3))))
        assert one.factor == pytest.approx(math.exp(logs[place] - statistics.fmean(others)))
    assert [one.p_adjusted for one in own[:4]] == [1.0] * 4
    assert [one.host for one in found.flagged] == ["host-5"]
    assert [one.hosts for one in found.variations] == [5, 4]
    assert len(found.deviations) == 9


def test_a_host_of_fewer_blocks_than_the_others_may_be_further_away() -> None:
    """Of 1, 2, 4 and 4 blocks: for the first the others' harmonic mean is 3, and it may be sqrt(3 + 1/3) s away."""
    hosts = {block: host.name for host in hosts_of(1, 2, 4, 4) for block in host.blocks}
    means = {"host-1": 0.5, "host-2": 0.1, "host-3": 0.2, "host-4": 0.6}
    found = standing_out({block: means[host] for block, host in hosts.items()}, hosts, 1)
    for host, wide in (("host-1", 3.0), ("host-2", 1.0), ("host-3", 1.0), ("host-4", 1.0)):
        others = [mean for name, mean in means.items() if name != host]
        t = (means[host] - statistics.fmean(others)) / (statistics.stdev(others) * math.sqrt(wide + 1 / 3))
        assert found[host][1] == pytest.approx(2 * float(scipy.stats.t.sf(abs(t), 2)))
        assert found[host][0] == pytest.approx(means[host] - statistics.fmean(others))


def test_hosts_that_are_all_alike_are_no_division_by_zero() -> None:
    hosts = {block: host.name for host in hosts_of(1, 1, 1, 1) for block in host.blocks}
    same = standing_out(dict.fromkeys(range(4), 0.3), hosts, 4)
    assert [apart for apart, _ in same.values()] == pytest.approx([0] * 4)
    assert [p_value for _, p_value in same.values()] == [1.0] * 4
    one = standing_out({0: 0.3, 1: 0.3, 2: 0.3, 3: 0.4}, hosts, 1)["host-4"]
    t = 0.1 / (1e-7 * math.sqrt(1 + 1 / 3))
    assert one[1] == pytest.approx(2 * float(scipy.stats.t.sf(t, 2)))
    assert standing_out({0: 0.3}, {0: "host-1"}, 1) == {"host-1": (0.0, None)}
