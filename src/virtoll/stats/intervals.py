"""Intervals that say what they cover, and the papers' own summaries.

All functions take values of one cell, one a block, in any order, and are exact where they say so. An interval that
cannot be computed (n < 2) is None, never a guess. The bootstrap is not here on purpose: at n = 9 the BCa bootstrap of a
mean covers 81 % where 95 % is claimed (simulated).
"""

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

CONFIDENCE = 0.95
EXACT_FROM = 6  # blocks: the smallest n at which the exact signed-rank interval reaches 95 % (1 - 2/2^6 = 96.9 %)
EXACT_TEST_FROM = 12  # blocks: see `log_ratio_estimate`


@dataclass(frozen=True)
class Interval:
    """`low <= high` in the unit of the values; `coverage` is what is reached, not what was asked; `method` names it."""

    low: float
    high: float
    coverage: float
    method: str


@dataclass(frozen=True)
class Estimate:
    """A location with its interval and the two-sided p-value of "the location is zero" (None where n < 2)."""

    value: float
    interval: Interval | None
    p_value: float | None
    method: str


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Exact order-statistic interval of the median: [x(k), x(n+1-k)] covers 1 - 2 P(Bin(n, 1/2) <= k - 1).

    Takes the largest k that still covers `confidence`. Where not even k = 1 does (n < 6 at 95 %) it is the range, with
    the coverage that the range has: 75 % at n = 3. (David and Nagaraja, Order Statistics, 7.1.)
    """
    ordered, n = sorted(values), len(values)
    if n < 2:
        return None
    best, coverage = 1, 1 - 2 * 0.5**n
    for k in range(2, n // 2 + 1):
        reached = 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n
        if reached < confidence:
            break
        best, coverage = k, reached
    name = "range" if best == 1 else f"order statistics {best} and {n + 1 - best}"
    return Interval(ordered[best - 1], ordered[n - best], coverage, name)


def student(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Mean with Student's t interval and test against zero; assumes that the values are normal. n >= 1."""
    from scipy.special import stdtr, stdtrit

    n, mean = len(values), statistics.fmean(values)
    if n < 2:
        return Estimate(mean, None, None, "one value: no interval")
    error = statistics.stdev(values) / math.sqrt(n)
    half = float(stdtrit(n - 1, (1 + confidence) / 2)) * error
    certain = 1.0 if mean == 0 else 0.0
    p_value = 2 * float(stdtr(n - 1, -abs(mean) / error)) if error > 0 else certain
    method = "Student t"
    return Estimate(mean, Interval(mean - half, mean + half, confidence, method), p_value, method)


def hodges_lehmann(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Median of the Walsh averages with the exact signed-rank interval and sign-flip test; assumes symmetry. n >= 1.

    With M = n(n+1)/2 sorted Walsh averages A, [A(k), A(M+1-k)] covers 1 - 2 P(W <= k - 1), W being the signed-rank
    statistic whose distribution comes from flipping every sign (Hollander and Wolfe, Nonparametric Statistical
    Methods, 3.1 to 3.3).
    """
    n = len(values)
    walsh = sorted((values[i] + values[j]) / 2 for i in range(n) for j in range(i, n))
    centre, total = statistics.median(walsh), len(walsh)
    cumulative = _signed_rank_cumulative(n)
    best, coverage = 1, 1 - 2 * cumulative[0]
    for k in range(2, total // 2 + 1):
        if 1 - 2 * cumulative[k - 1] < confidence:
            break
        best, coverage = k, 1 - 2 * cumulative[k - 1]
    below = sum(1 for average in walsh if average < 0)
    above = sum(1 for average in walsh if average > 0)
    zeros = total - below - above
    smaller = min(total, math.ceil(min(below, above) + zeros / 2))
    method = "exact signed-rank (Hodges-Lehmann)"
    interval = Interval(walsh[best - 1], walsh[total - best], coverage, method) if n > 1 else None
    return Estimate(centre, interval, min(1.0, 2 * cumulative[smaller]) if n > 1 else None, method)


@functools.cache
def _signed_rank_cumulative(n: int) -> tuple[float, ...]:
    """P(W <= w) for w = 0..n(n+1)/2: subsets of the ranks 1..n counted by their sum, each of the 2^n equally likely."""
    counts = [1]
    for rank in range(1, n + 1):
        longer = counts + [0] * rank
        for total, ways in enumerate(counts):
            longer[total + rank] += ways
        counts = longer
    result, running = [], 0
    for ways in counts:
        running += ways
        result.append(running / 2**n)
    return tuple(result)


def log_ratio_estimate(log_ratios: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Location of paired log ratios, one a block, with an interval and a p-value. n >= 1.

    Interval: below six blocks Student's t. No distribution-free interval reaches 95 % there, so an assumption is needed
    (normal log ratios) and named. From six on it is the exact signed-rank interval. p-value: the exact one cannot be
    smaller than 2 / 2^n. So below twelve blocks nothing could survive the correction for a hundred comparisons, not
    even a factor of twenty; Student's t stands in, refined by `moderation`.
    """
    n, by_student = len(log_ratios), student(log_ratios, confidence)
    if n >= EXACT_FROM:
        exact = hodges_lehmann(log_ratios, confidence)
        return exact if n >= EXACT_TEST_FROM else replace(exact, p_value=by_student.p_value)
    if by_student.interval is None:
        return by_student
    method = "Student t on log ratios (assumes them normal)"
    return replace(by_student, method=method, interval=replace(by_student.interval, method=method))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment (Holm 1979): reject at level a where the adjusted value is below a, in any family."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, running = [0.0] * len(p_values), 0.0
    for place, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = running
    return adjusted
