"""Host as a level of a merged run: how ratios vary from host to host and within one, and which hosts stand out. Pure.

A comparison's log shares are taken as mean + host + block, both random (one-way random effects; Searle, Casella and
McCulloch 1992, chapter 3). The variances are those of the method of moments, for any numbers of blocks. Verdicts rest
on the hosts' means (`compare.by_host`), so that hosts and not blocks are counted. What is here is told beside them.

Main types: `AcrossHosts`, `Variation` (of one comparison), `Deviation` (of one host in one comparison). Main functions:
`across_hosts`, `random_effects`, `standing_out`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from virtoll.stats.compare import Comparison, logs_by_host, logs_of
from virtoll.stats.summaries import CellSummary, block_values
from virtoll.stats.values import Task

STAND_OUT_FROM = 4  # hosts: of three, the other two say next to nothing of how far hosts are apart
STAND_OUT_LEVEL = 0.01
_TINY = 1e-7  # of a logarithm: what no clock here resolves


@dataclass(frozen=True)
class Effects:
    """Standard deviations of one-way random effects, of logarithms: `between` hosts, and `within` one between blocks.

    Both are None where no host has two blocks: then they cannot be told apart.
    """

    between: float | None
    within: float | None


@dataclass(frozen=True)
class Variation:
    """How one comparison's ratio varies: `between` and `within` as shares (0.02 = 2 %), one standard deviation each."""

    platform: str
    task: Task
    hosts: int
    between: float | None
    within: float | None


@dataclass(frozen=True)
class Deviation:
    """One host against the others: `factor` is its performance by theirs, 1 = as they are.

    `platform`: whose ratio to the baseline it is; None: the bare host's own speed. `p_adjusted`: Bonferroni over all
    hosts and quantities of the run; None below `STAND_OUT_FROM` hosts. `flagged`: that is below `STAND_OUT_LEVEL`.
    """

    host: str
    platform: str | None
    task: Task
    factor: float
    p_adjusted: float | None
    flagged: bool


@dataclass(frozen=True)
class HostBlocks:
    """A host of a merged run: its stand-in name, its fingerprint, and the blocks that it measured, from 0."""

    name: str
    fingerprint: str
    blocks: tuple[int, ...]


@dataclass(frozen=True)
class AcrossHosts:
    """The hosts of a merged run; nothing but these where it is of one host, and none in any other run."""

    hosts: tuple[HostBlocks, ...] = ()
    variations: tuple[Variation, ...] = ()
    deviations: tuple[Deviation, ...] = ()

    @property
    def flagged(self) -> tuple[Deviation, ...]:
        """What stands out."""
        return tuple(deviation for deviation in self.deviations if deviation.flagged)


def across_hosts(
    hosts: Sequence[HostBlocks],
    comparisons: Iterable[Comparison],
    cells: Mapping[tuple[str, Task], CellSummary],
    baseline: str | None,
) -> AcrossHosts:
    """Of the primary comparisons that have no caveat, and of the bare host's own primary values."""
    host_of = {block: host.name for host in hosts for block in host.blocks}
    if len(hosts) < 2 or baseline is None:
        return AcrossHosts(tuple(hosts))
    quantities = _quantities(comparisons, cells, baseline)
    variations, deviations = [], []
    tests = sum(len(set(map(host_of.__getitem__, logs))) for logs in quantities.values())
    for (label, task), logs in quantities.items():
        distances = standing_out(logs, host_of, tests)
        for host, (apart, p_value) in distances.items():
            flagged = p_value is not None and p_value < STAND_OUT_LEVEL
            deviations.append(Deviation(host, label, task, math.exp(apart), p_value, flagged))
        if label is not None:
            effects = random_effects(list(logs_by_host(logs, host_of).values()))
            between, within = _share(effects.between), _share(effects.within)
            variations.append(Variation(label, task, len(distances), between, within))
    return AcrossHosts(tuple(hosts), tuple(variations), tuple(deviations))


def _quantities(
    comparisons: Iterable[Comparison], cells: Mapping[tuple[str, Task], CellSummary], baseline: str
) -> dict[tuple[str | None, Task], Mapping[int, float]]:
    """The logs by block of what hosts may differ in, by platform (None: the bare host's own speed) and task."""
    quantities: dict[tuple[str | None, Task], Mapping[int, float]] = {}
    for (platform, task), cell in cells.items():
        if platform == baseline and task.metric.primary:
            values = block_values(cell.observations).items()
            quantities[None, task] = {block: task.sign * math.log(value) for block, value in values}
    for comparison in comparisons:
        if comparison.task.metric.primary and comparison.caveat is None and comparison.pairs:
            quantities[comparison.platform, comparison.task] = logs_of(comparison.pairs)
    return quantities


def _share(deviation: float | None) -> float | None:
    """A standard deviation of logarithms, as a share."""
    return None if deviation is None else math.expm1(deviation)


def random_effects(groups: Sequence[Sequence[float]]) -> Effects:
    """The method of moments: within = MSW, between = (MSB - MSW) / n0, not below 0.

    n0 = (N - sum n_i^2 / N) / (H - 1) for H groups of n_i values, N in all (Searle, Casella and McCulloch 1992, 3.6).
    """
    every = [value for group in groups for value in group]
    hosts, count = len(groups), len(every)
    if hosts < 2 or count == hosts:
        return Effects(None, None)
    grand = statistics.fmean(every)
    squares = sum((value - statistics.fmean(group)) ** 2 for group in groups for value in group)
    among = sum(len(group) * (statistics.fmean(group) - grand) ** 2 for group in groups)
    within = squares / (count - hosts)
    each = (count - sum(len(group) ** 2 for group in groups) / count) / (hosts - 1)
    return Effects(math.sqrt(max((among / (hosts - 1) - within) / each, 0.0)), math.sqrt(within))


def standing_out(
    logs: Mapping[int, float], host_of: Mapping[int, str], tests: int
) -> dict[str, tuple[float, float | None]]:
    """By host, how far its mean is from the mean of the others' means, and Bonferroni's p-value over so many tests.

    The t of an observation that the others predict (externally studentised; Grubbs' test is the same of the largest):
    d / (s sqrt(c + 1 / (H - 1))) with H - 2 degrees of freedom, s being the others' standard deviation. c = max(1, n /
    n_h): a host of fewer blocks than the others (their harmonic mean n) may be further away. None below four hosts.
    """
    groups = logs_by_host(logs, host_of)
    means = {host: statistics.fmean(group) for host, group in groups.items()}
    distances: dict[str, tuple[float, float | None]] = {}
    for host, mean in means.items():
        others = {name: value for name, value in means.items() if name != host}
        if not others:
            return {host: (0.0, None)}
        apart = mean - statistics.fmean(others.values())
        if len(means) < STAND_OUT_FROM:
            distances[host] = apart, None
            continue
        from virtoll.stats.arrays import stdtr

        usual = statistics.harmonic_mean([len(groups[name]) for name in others])
        spread = max(statistics.stdev(others.values()), _TINY)
        wide = spread * math.sqrt(max(1.0, usual / len(groups[host])) + 1 / len(others))
        p_value = 2 * float(stdtr(len(others) - 1, -abs(apart) / wide))
        distances[host] = apart, min(1.0, p_value * tests)
    return distances
