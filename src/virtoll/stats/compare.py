"""Paired comparison with the host, round by round, and what may be said of it.

Everything is in *shares*: performance as a share of the baseline's, 1 = the same, below 1 = slower, whichever way the
metric goes (rate / baseline's rate; baseline's duration / duration). A pair is of one block: the median over its rounds
of the platform against the host's entries of the same round (`ends`). Differences are taken on logarithms, because a
cost is a factor. Main types: `Verdict`, `Comparison`. The tests are in `verdicts`, the noise in `noise`. Pure.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from virtoll.stats.ends import mean_step, round_bases
from virtoll.stats.intervals import Interval, median
from virtoll.stats.like_with_like import choices
from virtoll.stats.values import Observation, Task

LEVEL = 0.05
_Key = TypeVar("_Key", int, str, int | str)


class Verdict(StrEnum):
    """What may be said of one comparison."""

    SLOWER = "slower"
    FASTER = "faster"
    ALIKE = "alike"
    UNKNOWN = "not known"
    FUNCTIONAL = "functional only"
    NOT_MEASURED = "not measured"


DIFFERENT = frozenset({Verdict.SLOWER, Verdict.FASTER})
DECIDED = DIFFERENT | {Verdict.ALIKE}


@dataclass(frozen=True)
class Pair:
    """Which platform of the first run is compared with which of the second, by label.

    `builds`: they are two builds of one platform, whose name is the first's.
    """

    first: str
    second: str
    builds: bool = False

    @property
    def name(self) -> str:
        """'runc', or 'runc-new against runc'."""
        alike = self.builds or self.first == self.second
        return self.first if alike else f"{self.second} against {self.first}"


@dataclass(frozen=True)
class Comparison:
    """One platform against the baseline on one task: `share` with its interval, and the verdict with its reason.

    `pairs` is (block, share) for each block that has both. `interval` is at 95 %, of this comparison alone, from the
    standard error of the test. `simultaneous` is the same for a family of m (Bonferroni), with level / 2m on each side,
    and ends at 1 where Holm's test has proved the side: it holds 1 unless slower or faster (an A/A control, which needs
    a smaller p for an alarm, may lack it). `at_least`: a factor >= 1, its near end of max(share, 1/share); None unless
    slower or faster. `gap`: the factor by which both intervals are widened for two speeds of the host, or for a step of
    it; 1: by nothing. `step`: by how much the host changed on average from before its turn to after it, as a logarithm.
    `p_adjusted` is Holm's over the family: the primary metrics, or the rest. `margin`: the smallest within which it is
    alike (0.1 = 10 %); None unless alike. `smallest`: the smallest difference that it would detect, as a factor above 1
    (80 % power), None where unknown. `condition`: what it was measured under, in words, None: alone. `against`: what it
    is compared with, in words: under a condition the same guest alone, of several guests as many of the baseline's.
    `caveat`: the platform's or the baseline's
    (`stats/caveats.py`); a comparison with a caveat is never tested and has no verdict but that.
    `hosts`: (host, share) for each host, the geometric mean of its blocks; empty in a run of one host.
    """

    platform: str
    task: Task
    verdict: Verdict
    pairs: tuple[tuple[int, float], ...] = ()
    share: float | None = None
    interval: Interval | None = None
    simultaneous: Interval | None = None
    at_least: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    margin: float | None = None
    smallest: float | None = None
    gap: float = 1.0
    step: float = 0.0
    reason: str = ""
    caveat: str | None = None
    condition: str | None = None
    against: str = "the baseline"
    hosts: tuple[tuple[str, float], ...] = ()

    @property
    def independent(self) -> Sequence[tuple[int | str, float]]:
        """(block, share), or (host, share) in a run of several hosts: what scatters independently, and is tested."""
        return self.hosts or self.pairs


def round_values(observations: Iterable[Observation]) -> dict[tuple[int, int], float]:
    """The median of the log values of each block and round, by (block, round)."""
    rounds: dict[tuple[int, int], list[float]] = {}
    for observation in observations:
        rounds.setdefault((observation.block, observation.round), []).append(math.log(observation.value))
    return {key: median(values) for key, values in rounds.items()}


def paired_shares(
    task: Task, platform: Sequence[Observation], host: Sequence[Observation]
) -> tuple[tuple[int, float], ...]:
    """(block, share of the host's performance) for every block with a round that has both, by block.

    A round's share is the platform's value against the host's entries of that round, in blocks of few rounds against
    those at both ends of its turn (`ends.round_bases`); a block's is the median over its rounds. Medians are of
    logarithms, so that of two entries is their geometric mean. Like is compared with like (`like_with_like.choices`): a
    block without a near round counts by its far ones, less by how much far rounds differ from near ones in the blocks
    that have both; and one without either by all that it has.
    """
    near, *others = (_block_logs(task, *like) for like in choices(platform, host))
    if others:
        far, every = others
        shift = _mean_difference(near, far)
        for block, log in far.items():
            near.setdefault(block, log + shift)
        near = every | near
    return tuple((block, math.exp(log)) for block, log in sorted(near.items()))


def _block_logs(task: Task, platform: Sequence[Observation], host: Sequence[Observation]) -> dict[int, float]:
    """By block, the median over its rounds of the log share."""
    values, base = round_values(platform), round_bases(platform, host)
    blocks: dict[int, list[float]] = {}
    for key, value in values.items():
        if key in base:
            blocks.setdefault(key[0], []).append(task.sign * (value - base[key]))
    return {block: median(logs) for block, logs in blocks.items()}


def _mean_difference(near: Mapping[int, float], far: Mapping[int, float]) -> float:
    """By how much near log shares are larger than far ones, over the blocks that have both; 0 without any."""
    differences = [near[block] - far[block] for block in near.keys() & far.keys()]
    return statistics.fmean(differences) if differences else 0.0


def compare(
    task: Task,
    platform: str,
    observations: Sequence[Observation],
    host: Sequence[Observation],
    why_not: str | None,
    caveat: str | None = None,
) -> Comparison:
    """One comparison before any test; `why_not` is the reason to give when there is nothing to compare, where known.

    `share` is the geometric mean over blocks. With a `caveat` the ratio is reported, and that it is no result.
    """
    pairs = paired_shares(task, observations, host)
    if not pairs:
        reason = why_not or "no round has both a valid value of the platform and one of the baseline"
        return Comparison(platform, task, Verdict.NOT_MEASURED, reason=reason, caveat=caveat)
    share = math.exp(statistics.fmean(logs_of(pairs).values()))
    step = mean_step(*next(choices(observations, host)))
    compared = Comparison(platform, task, Verdict.UNKNOWN, pairs, share, step=step, caveat=caveat)
    if caveat is not None:
        reason = f"{caveat}: it shows that this works; the ratio is no result"
        return replace(compared, verdict=Verdict.FUNCTIONAL, reason=reason)
    if len(pairs) == 1:
        return replace(compared, reason="only one block has both values: no interval, no verdict")
    return compared


def logs_of(pairs: Sequence[tuple[_Key, float]]) -> Mapping[_Key, float]:
    """The log share of each block, or of each host."""
    return {key: math.log(share) for key, share in pairs}


def by_host(comparison: Comparison, host_of: Mapping[int, str]) -> Comparison:
    """The comparison with its hosts' shares, and their geometric mean as its share; as it is in a run of one host.

    ``host_of``: which host measured each block, none in a run of one host. Each host counts once, however many blocks
    it has: what makes a host unlike others is in all of its blocks.
    """
    if not host_of or not comparison.pairs:
        return comparison
    means = means_by_host(logs_of(comparison.pairs), host_of)
    hosts = tuple((host, math.exp(mean)) for host, mean in means.items())
    over_hosts = replace(comparison, hosts=hosts, share=math.exp(statistics.fmean(means.values())))
    if len(hosts) == 1 and over_hosts.verdict is Verdict.UNKNOWN and over_hosts.caveat is None:
        return replace(over_hosts, reason="only one host has both values: no interval over hosts, no verdict")
    return over_hosts


def means_by_host(logs: Mapping[int, float], host_of: Mapping[int, str]) -> dict[str, float]:
    """Of logarithms by block, the mean of each host's."""
    return {host: statistics.fmean(values) for host, values in logs_by_host(logs, host_of).items()}


def logs_by_host(logs: Mapping[int, float], host_of: Mapping[int, str]) -> dict[str, list[float]]:
    """Of logarithms by block, those of each host."""
    groups: dict[str, list[float]] = {}
    for block, value in logs.items():
        groups.setdefault(host_of[block], []).append(value)
    return groups


def family_size(comparisons: Iterable[Comparison], *, primary: bool = True) -> int:
    """How many comparisons of primary metrics, or of the others, were tested, and so corrected for."""
    tested = [comparison.task.metric.primary for comparison in comparisons if comparison.p_value is not None]
    return tested.count(primary)


def by_cell(comparisons: Sequence[Comparison]) -> dict[tuple[str, Task, str | None], Comparison]:
    """The first of each platform, task and condition."""
    return {(entry.platform, entry.task, entry.condition): entry for entry in reversed(comparisons)}
