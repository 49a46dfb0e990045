"""The noise of the comparisons of one family of one run, from how each varies from block to block.

With three blocks a comparison's own variance has two degrees of freedom, and Student's t then finds next to nothing
after correction for a family of thirty. But a family holds dozens of comparisons. Their variances share a structure: a
workload is noisy on all platforms, a platform is noisy in all workloads. So the variance of task t on platform p is
expected to be tau_t * phi_p, and its own variance is drawn towards that (moderated t: Smyth 2004), as far as all
variances together say that the structure holds. Where it does not, each falls back to its own Student's t.

Smyth, G. K. (2004): Linear models and empirical Bayes methods for assessing differential expression in microarray
experiments. Statistical Applications in Genetics and Molecular Biology 3(1), article 3. The expected variance that
differs from case to case is Sartor et al. (2006), BMC Bioinformatics 7:538, and `limma`'s trend.

Main function: `moderated`. Arrays are [tasks, platforms, blocks] of log shares; nan is a block without the pair. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

TINY = 1e-14  # variance of a log share: 1e-7 of the value, which no clock here resolves
TURNS = 30
SURE = 1e9  # degrees of freedom that stand for "all there is to know"


@dataclass(frozen=True)
class Noise:
    """By task and platform: variance of one block's log share and its degrees of freedom; nan below two blocks."""

    variance: Array
    df: Array


def moderated(logs: Array) -> Noise:
    """Variance and degrees of freedom of every comparison; `logs` is [tasks, platforms, blocks]."""
    from scipy.special import polygamma

    count = np.isfinite(logs).sum(axis=2)
    own_df = np.where(count >= 2, count - 1.0, 0.0)
    known = own_df > 0
    centred = np.where(np.isfinite(logs), logs - _mean(logs)[:, :, None], 0.0)
    own = np.where(known, np.maximum((centred**2).sum(axis=2) / np.maximum(own_df, 1), TINY), 0.0)
    tasks, platforms = int(known.any(axis=1).sum()), int(known.any(axis=0).sum())
    if tasks * platforms == 0 or known.sum() < 2:
        return Noise(np.where(known, own, np.nan), np.where(known, own_df, np.nan))
    expected, fit_df = _structure(own, own_df)
    log_ratio = np.log(own[known] / expected[known])
    used = 1 - (tasks + platforms - 1) / known.sum()
    spread = float((log_ratio - log_ratio.mean()) @ (log_ratio - log_ratio.mean())) / known.sum() / max(used, 0.4)
    excess = spread - float(np.mean(polygamma(1, own_df[known] / 2)))
    prior = 2 * inverse_trigamma(excess) if excess > 0 else SURE
    prior_df = 1 / (1 / prior + 1 / np.maximum(fit_df, 1e-9))
    with np.errstate(invalid="ignore"):
        variance = (prior_df * expected + own_df * own) / (prior_df + own_df)
    return Noise(np.where(known, variance, np.nan), np.where(known, prior_df + own_df, np.nan))


def _mean(logs: Array) -> Array:
    known = np.isfinite(logs)
    total = np.where(known, logs, 0.0).sum(axis=2)
    mean: Array = total / np.maximum(known.sum(axis=2), 1)
    return mean


def _structure(own: Array, df: Array) -> tuple[Array, Array]:
    """tau_t * phi_p by maximum likelihood of the variances (gamma), by turns; and its degrees of freedom."""
    tau, phi = np.ones((own.shape[0], 1)), np.ones((1, own.shape[1]))
    by_task, by_platform = df.sum(axis=1, keepdims=True), df.sum(axis=0, keepdims=True)
    for _ in range(TURNS):
        tau = np.maximum((df * own / phi).sum(axis=1, keepdims=True) / np.maximum(by_task, 1e-9), TINY)
        phi = np.maximum((df * own / tau).sum(axis=0, keepdims=True) / np.maximum(by_platform, 1e-9), 1e-6)
        phi = phi / np.exp(np.log(phi).mean())
    fit_df = 1 / (1 / np.maximum(by_task, 1e-9) + 1 / np.maximum(by_platform, 1e-9) - 1 / max(df.sum(), 1e-9))
    return tau * phi, fit_df


def inverse_trigamma(value: float) -> float:
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
