"""Intervals that say what they cover, and the papers' own summaries.

All functions take values of one cell, one a block, in any order, and are exact where they say so. An interval that
cannot be computed (n < 2) is None, never a guess. The bootstrap is not here on purpose: at n = 9 the BCa bootstrap of a
mean covers 81 % where 95 % is claimed (simulated).
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """`low <= high` in the unit of the values; `coverage` is what is reached, not what was asked; `method` names it."""

    low: float
    high: float
    coverage: float
    method: str


@dataclass(frozen=True)
class Estimate:
    """A value with its interval; None: there is none, as of a single block."""

    value: float
    interval: Interval | None


def ends(interval: Interval | None) -> tuple[float, float] | tuple[None, None]:
    """Low and high; twice None without an interval."""
    return (None, None) if interval is None else (interval.low, interval.high)


def median_interval(values: Sequence[float]) -> Interval | None:
    """Exact order-statistic interval of the median: [x(k), x(n+1-k)] covers 1 - 2 P(Bin(n, 1/2) <= k - 1).

    Takes the largest k that still covers `CONFIDENCE`. Where not even k = 1 does (n < 6 at 95 %) it is the range, with
    the coverage that the range has: 75 % at n = 3. (David and Nagaraja, Order Statistics, 7.1.)
    """
    ordered, n = sorted(values), len(values)
    if n < 2:
        return None
    best, coverage = _rank(n)
    name = "range" if best == 1 else f"order statistics {best} and {n + 1 - best}"
    return Interval(ordered[best - 1], ordered[n - best], coverage, name)


@cache
def _rank(n: int) -> tuple[int, float]:
    """The k of `median_interval` for n values, and what it covers."""
    best, coverage = 1, 1 - 2 * 0.5**n
    for k in range(2, n // 2 + 1):
        reached = 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n
        if reached < CONFIDENCE:
            break
        best, coverage = k, reached
    return best, coverage


def median(values: Sequence[float]) -> float:
    """`statistics.median`, at once where there is one value: most blocks of a large run have one round."""
    return values[0] if len(values) == 1 else statistics.median(values)


def student(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Mean with Student's t interval; assumes that the values are normal. n >= 1."""
    from virtoll.stats.arrays import stdtrit

    n, mean = len(values), statistics.fmean(values)
    if n < 2:
        return Estimate(mean, None)
    half = float(stdtrit(n - 1, (1 + confidence) / 2)) * statistics.stdev(values) / math.sqrt(n)
    return Estimate(mean, Interval(mean - half, mean + half, confidence, "Student t"))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment (Holm 1979): reject at level a where the adjusted value is below a, in any family."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, running = [0.0] * len(p_values), 0.0
    for place, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = running
    return adjusted
