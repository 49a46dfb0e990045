"""Paired comparison with the baseline, the A/A control, and the verdict in words.

Everything is in *shares*: performance as a share of the baseline's, 1 = the same, below 1 = slower, whichever way the
metric goes (rate / baseline's rate; baseline's duration / duration). Pairs are of the same block. Differences are taken
on logarithms, because a cost is a factor.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from virtoll.runfolder.records import MetricRecord
from virtoll.stats.intervals import CONFIDENCE, EXACT_TEST_FROM, Interval, holm, log_ratio_estimate
from virtoll.stats.moderation import Prior, estimate_prior, moderated_p
from virtoll.stats.summaries import CellSummary, block_values
from virtoll.stats.values import Task

LEVEL = 1 - CONFIDENCE


class Verdict(StrEnum):
    """What may be said of one comparison."""

    SLOWER = "slower"
    FASTER = "faster"
    NONE = "no difference detectable"
    UNDECIDED = "not decided"
    FUNCTIONAL = "functional only"
    NOT_MEASURED = "not measured"


class Obstacle(StrEnum):
    """What keeps a comparison, whose own interval leaves out 100 %, from being a difference."""

    CORRECTION = "lost in correction"
    CONTROL = "inside the A/A limit"


@dataclass(frozen=True)
class Comparison:
    """One platform against the baseline on one task: `share` with its interval, and the verdict with its reason.

    `pairs` is (block, share) for each block that has both; `p_adjusted` is Holm's over the family. `caveat`: the
    platform's or the baseline's (`stats/caveats.py`); a comparison with a caveat is never tested and has no verdict but
    that.
    """

    platform: str
    task: Task
    verdict: Verdict
    pairs: tuple[tuple[int, float], ...] = ()
    share: float | None = None
    interval: Interval | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    reason: str = ""
    caveat: str | None = None
    obstacle: Obstacle | None = None

    @property
    def is_open(self) -> bool:
        """No difference may be said to be there, and yet the interval by itself leaves out that there is none."""
        return self.obstacle is not None


@dataclass(frozen=True)
class Detectable:
    """The smallest difference that the campaign can see in a metric, as a factor >= 1, and where it comes from."""

    metric: MetricRecord
    factor: float
    noise_factor: float
    worst_factor: float
    tasks: int
    pairs: int

    @property
    def low(self) -> float:
        """The share below which a platform is visibly slower."""
        return 1 / self.factor


def paired_shares(task: Task, platform: CellSummary, baseline: CellSummary) -> tuple[tuple[int, float], ...]:
    """(block, share of the baseline's performance) for every block that has both."""
    own, base = block_values(platform.observations), block_values(baseline.observations)
    higher = task.metric.better == "higher"
    return tuple(
        (block, own[block] / base[block] if higher else base[block] / own[block]) for block in own if block in base
    )


def compare(
    task: Task,
    platform: str,
    own: CellSummary | None,
    baseline: CellSummary | None,
    why_not: str,
    caveat: str | None = None,
) -> Comparison:
    """One comparison before correction; `why_not` is the reason to give when there is nothing to compare.

    With a `caveat` there is no test: the ratio is reported, and that it is no result.
    """
    pairs = paired_shares(task, own, baseline) if own and baseline else ()
    if not pairs:
        reason = why_not or "no block has both a valid value of the platform and one of the baseline"
        return Comparison(platform, task, Verdict.NOT_MEASURED, reason=reason, caveat=caveat)
    found = log_ratio_estimate([math.log(share) for _, share in pairs])
    interval = found.interval and Interval(
        math.exp(min(found.interval.low, 700.0)),
        math.exp(min(found.interval.high, 700.0)),
        found.interval.coverage,
        found.interval.method,
    )
    compared = Comparison(platform, task, Verdict.NONE, pairs, math.exp(found.value), interval, caveat=caveat)
    if caveat is not None:
        reason = f"{caveat}: it shows that this works; the ratio is no result"
        return replace(compared, verdict=Verdict.FUNCTIONAL, reason=reason)
    if interval is None:
        reason = "only one block has both values: no interval, no verdict"
        return replace(compared, verdict=Verdict.UNDECIDED, reason=reason, p_value=found.p_value)
    return replace(compared, p_value=found.p_value)


def moderate(comparisons: Sequence[Comparison], prior: Prior) -> list[Comparison]:
    """The same comparisons with moderated p-values where there are two to eleven blocks; exact ones stay."""
    return [
        replace(one, p_value=moderated_p(_logs(one), prior))
        if one.caveat is None and 2 <= len(one.pairs) < EXACT_TEST_FROM
        else one
        for one in comparisons
    ]


def prior_of(comparisons: Sequence[Comparison]) -> Prior:
    """What all comparisons of a run together say about the noise of one log ratio; those with a caveat say nothing."""
    return estimate_prior([_logs(one) for one in comparisons if one.caveat is None])


def _logs(comparison: Comparison) -> list[float]:
    return [math.log(share) for _, share in comparison.pairs]


def smallest_detectable(
    control: Sequence[Comparison], comparisons: Sequence[Comparison], prior: Prior
) -> dict[MetricRecord, Detectable]:
    """The smallest visible difference by metric, from the A/A shares (baseline against itself) of all its tasks.

    Not by resource: a database's tail latency says nothing of how well a compiler's duration is seen. With d the N
    paired log shares of all A/A tasks of the metric, n the median number of pairs of the comparisons by it, and m the
    number of all comparisons: `max(q * sqrt(sum(d^2) / N) / sqrt(n), max |A/A estimate|)`, as a
    factor by exp(). q is the largest of t(0.975, n - 1), which a comparison's own interval needs to leave out "no
    difference"; t(1 - 0.05 / 2m) with the moderated degrees of freedom, which the hardest step of the correction needs;
    and t(0.975, N), for what the A/A itself does not know. The true difference of an A/A is zero, so d^2 is taken about
    zero. All N pairs estimate one variance, and a lasting bias of one entry counts as noise instead of hiding in a
    mean. The second term says that a difference no larger than one seen between two identical platforms proves nothing.
    A true difference of just this size is seen in about half of all campaigns.
    Only tasks with two pairs or more count: with one there is no verdict to set a limit to.
    """
    metrics: dict[MetricRecord, list[Comparison]] = {}
    for comparison in control:
        if len(comparison.pairs) > 1 and comparison.caveat is None:
            metrics.setdefault(comparison.task.metric, []).append(comparison)
    family = sum(one.p_value is not None for one in comparisons)
    result = {}
    for metric, own in metrics.items():
        plain = [one for one in comparisons if one.caveat is None and len(one.pairs) > 1]
        others = [one for one in plain if one.task.metric == metric]
        pairs = sorted(len(one.pairs) for one in others or own)
        result[metric] = _detectable(metric, own, pairs[len(pairs) // 2], prior, family)
    return result


def _detectable(metric: MetricRecord, own: Sequence[Comparison], blocks: int, prior: Prior, family: int) -> Detectable:
    from scipy.special import stdtrit

    logs = [value for comparison in own for value in _logs(comparison)]
    deviation = math.sqrt(math.fsum(value * value for value in logs) / len(logs))
    by_interval = float(stdtrit(blocks - 1, 1 - LEVEL / 2))
    by_correction = float(stdtrit(prior.total_df(blocks - 1), 1 - LEVEL / (2 * max(family, 1))))
    by_control = float(stdtrit(len(logs), 1 - LEVEL / 2))
    noise = max(by_interval, by_correction, by_control) * deviation / math.sqrt(blocks)
    worst = max(abs(math.log(comparison.share)) for comparison in own if comparison.share is not None)
    factor, noise_factor = math.exp(min(max(noise, worst), 700.0)), math.exp(min(noise, 700.0))
    return Detectable(metric, factor, noise_factor, math.exp(worst), len(own), len(logs))


def correct(family: Sequence[Comparison]) -> list[Comparison]:
    """The same comparisons with Holm's p-values over the family of those that have one."""
    tested = [comparison for comparison in family if comparison.p_value is not None]
    adjusted = iter(holm([comparison.p_value for comparison in tested if comparison.p_value is not None]))
    return [
        comparison if comparison.p_value is None else replace(comparison, p_adjusted=next(adjusted))
        for comparison in family
    ]


def judge(comparison: Comparison, detectable: Mapping[MetricRecord, Detectable] | None, family: int) -> Comparison:
    """The verdict of a corrected comparison; `family` is the number of comparisons it was corrected for.

    `detectable` is None for the A/A control itself, which is judged by its own interval only.
    """
    share, interval, p_adjusted = comparison.share, comparison.interval, comparison.p_adjusted
    if share is None or interval is None or p_adjusted is None:
        return comparison
    limit = (detectable or {}).get(comparison.task.metric)
    if interval.low <= 1 <= interval.high:
        return replace(comparison, verdict=Verdict.NONE, reason="the interval holds 100 %")
    if p_adjusted >= LEVEL:
        reason = f"its own interval leaves out 100 %, but it does not survive correction for {family} comparisons"
        return replace(comparison, verdict=Verdict.NONE, reason=reason, obstacle=Obstacle.CORRECTION)
    if limit is not None and abs(math.log(share)) <= math.log(limit.factor):
        reason = "smaller than the smallest difference that the A/A control lets the campaign see"
        return replace(comparison, verdict=Verdict.NONE, reason=reason, obstacle=Obstacle.CONTROL)
    verdict = Verdict.SLOWER if share < 1 else Verdict.FASTER
    reason = f"p = {p_adjusted:.2g} after correction for {family} comparisons"
    if limit is None and detectable is not None:
        reason += "; there is no A/A control to set it against"
    return replace(comparison, verdict=verdict, reason=reason)
