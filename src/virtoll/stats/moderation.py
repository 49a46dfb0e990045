"""Moderated t: borrowing knowledge of the noise from the other comparisons of the same run (Smyth 2004).

With three blocks a comparison's own variance has two degrees of freedom: Student's t then finds nothing after
correction for a family of thirty, not even a cost of a fifth at 2 % noise. But a run holds dozens of comparisons with
noise of much the same size. Their variances are taken as draws from a scaled inverse chi-square distribution. Its two
numbers are estimated from all of them. Each variance is drawn towards the common one as far as the data say that there
is one. Where platforms differ much in noise the estimate sees it, and each falls back to its own Student's t.

Smyth, G. K. (2004): Linear models and empirical Bayes methods for assessing differential expression in microarray
experiments. Statistical Applications in Genetics and Molecular Biology 3(1), article 3, section 6.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MODERATE_FROM = 6  # comparisons: below, there is not enough to learn from
_TINY = 1e-18  # log-ratio variance of a difference of one nanosecond in a second


@dataclass(frozen=True)
class Prior:
    """The common noise: `variance` of one log ratio, worth `df` degrees of freedom; `pooled_df` caps the sum."""

    df: float
    variance: float
    pooled_df: float

    def total_df(self, own: int) -> float:
        """Degrees of freedom of a test with `own` of its own."""
        return min(self.df + own, max(self.pooled_df, own))


NO_PRIOR = Prior(0.0, 0.0, 0.0)


def estimate_prior(samples: Sequence[Sequence[float]]) -> Prior:
    """Prior from the log ratios of all comparisons, each with n >= 2 (others are left out); NO_PRIOR from too few."""
    from scipy.special import digamma, polygamma

    own = [(statistics.variance(values), len(values) - 1) for values in samples if len(values) >= 2]
    if len(own) < MODERATE_FROM:
        return NO_PRIOR
    centred = [math.log(max(variance, _TINY)) - float(digamma(df / 2)) + math.log(df / 2) for variance, df in own]
    mean = statistics.fmean(centred)
    excess = statistics.variance(centred) - statistics.fmean(float(polygamma(1, df / 2)) for _, df in own)
    pooled = float(sum(df for _, df in own))
    if excess <= 0:
        return Prior(math.inf, math.exp(mean), pooled)
    df = 2 * _inverse_trigamma(excess)
    return Prior(df, math.exp(mean + float(digamma(df / 2)) - math.log(df / 2)), pooled)


def moderated_p(values: Sequence[float], prior: Prior) -> float:
    """Two-sided p-value of "the mean is zero" with the moderated variance; n >= 2."""
    from scipy.special import stdtr

    n, mean, variance = len(values), statistics.fmean(values), statistics.variance(values)
    if math.isinf(prior.df):
        variance = prior.variance
    elif prior.df > 0:
        variance = (prior.df * prior.variance + (n - 1) * variance) / (prior.df + n - 1)
    if variance <= 0:
        return 1.0 if mean == 0 else 0.0
    return 2 * float(stdtr(prior.total_df(n - 1), -abs(mean) / math.sqrt(variance / n)))


def _inverse_trigamma(value: float) -> float:
    """x with trigamma(x) = value > 0, by Newton's method on 1 / trigamma (Smyth 2004, appendix)."""
    from scipy.special import polygamma

    if value > 1e7:
        return 1 / math.sqrt(value)
    if value < 1e-6:
        return 1 / value
    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if -step / x < 1e-8:
            break
    return x
