"""The noise of the comparisons of one family of one run, from how each varies from block to block.

With three blocks a comparison's own variance has two degrees of freedom, and Student's t then finds next to nothing
after correction for a family of thirty. But a family holds dozens of variances, and they have a structure: a workload
is noisy on all platforms, a platform is noisy in all workloads. So the variance of task t on platform p is expected to
be tau_t * phi_p. Variances are drawn towards what is expected as far as all of them together say that it holds (the
moderated t of Smyth 2004, `limma`'s squeezeVar), twice: the tasks' towards a common one, then each comparison's own
towards tau_t * phi_p. Where nothing is alike, or the family is small (`LEAST`), each falls back to its own Student's t.

A comparison whose blocks all agree (a rate of a list, a share of frames that is 1, a search on its grid) shows no noise
of its own: its instrument resolves none. It says nothing of what variances have in common, and its own variance is
taken to be the expected one, never less. Where no comparison of a family varies, the noise is at most what the bounds
of its rates hide; of rates without bounds it is not known (`UNKNOWN`).

Smyth, G. K. (2004): Linear models and empirical Bayes methods for assessing differential expression in microarray
experiments. Statistical Applications in Genetics and Molecular Biology 3(1), article 3. An expected variance that
differs from case to case: Sartor et al. (2006), BMC Bioinformatics 7:538.

Main function: `moderated`. Arrays are [tasks, platforms, blocks] of log shares; nan is a block without the pair. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from virtoll.stats.arrays import digamma, np, polygamma

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

TINY = 1e-14  # keeps quotients of variances and of degrees of freedom finite
CONSTANT = 1e-12  # variance of a log share below which all blocks agree: 1e-6 of the value
LEAST_RATIO = 1e-3  # of the median s² / (tau * phi), below which blocks all but agree: by chance one of 3 in a thousand
UNKNOWN = 1e12  # variance of a log share that leaves everything possible
TURNS = 30
CAUTION = 0.5  # standard errors by which unlikeness is taken to be more than it looks: few variances say little of it
SHARED = 0.25  # least correlation of the variances of two platforms on one task: half of each is the host's
LEAST = 6  # (tasks - 1) * (platforms - 1): below, a family says too little of what its variances have in common
_ALIKE = 1e9  # degrees of freedom that stand for "all the same"


@dataclass(frozen=True)
class Noise:
    """By task and platform: variance of one block's log share and its degrees of freedom; nan below two blocks."""

    variance: Array
    df: Array


@dataclass(frozen=True)
class Prior:
    """What variances have in common: `variance`, worth `df` degrees of freedom."""

    variance: float
    df: float


def moderated(logs: Array, hidden: Array | None = None) -> Noise:
    """Variance and degrees of freedom of every comparison; `logs` is [tasks, platforms, blocks].

    `hidden`: by task and platform, how far apart the bounds are between which each log share lies; 0: it has none.
    """
    count = np.isfinite(logs).sum(axis=2)
    own_df = np.maximum(count - 1.0, 0.0)
    known = own_df > 0
    variances = (_residuals(logs) ** 2).sum(axis=2) / np.maximum(own_df, 1)
    varying = known & (variances >= CONSTANT)
    if not varying.any():
        largest = _largest_hidden(np.zeros_like(own_df) if hidden is None else hidden, count)
        return Noise(np.where(known, largest, np.nan), np.where(known, own_df, np.nan))
    if _free(varying) < LEAST:
        tau, phi = _structure(variances, np.where(varying, own_df, 0.0))
        expected, prior_df = tau[:, None] * phi, np.zeros_like(own_df)
    else:
        varying, tau, phi = _common_structure(variances, own_df, varying)
        shared = _shared(_residuals(logs) / np.sqrt(tau[:, None] * phi)[:, :, None], varying)
        expected, prior_df = _prior(variances, np.where(varying, own_df, 0.0), (tau, phi), shared)
    squares, df = own_df * np.where(varying, variances, expected), prior_df + own_df
    variance = (prior_df * expected + squares) / np.maximum(df, 1)
    return Noise(np.where(known, variance, np.nan), np.where(known, df, np.nan))


def _largest_hidden(hidden: Array, count: Array) -> Array:
    """The largest variance of so many blocks that agree within their bounds: half of them at either end."""
    largest: Array = np.where(hidden > 0, (hidden / 2) ** 2 * count / np.maximum(count - 1, 1), UNKNOWN)
    return largest


def _prior(variances: Array, own_df: Array, structure: tuple[Array, Array], shared: float) -> tuple[Array, Array]:
    """The expected variance of each comparison and the degrees of freedom that it is worth.

    `own_df` is 0 for comparisons that say nothing; `structure`: tau and phi; `shared` as `_shared` has it.
    """
    tau, phi = structure
    varying = own_df > 0
    tasks, platforms = varying.any(axis=1), varying.any(axis=0)
    of_task, of_platform = own_df.sum(axis=1), own_df.sum(axis=0)
    task_df = of_task / (1 + shared * np.maximum(varying.sum(axis=1) - 1, 0))
    among_tasks = common(tau[tasks], task_df[tasks], int(tasks.sum()) - 1)
    among_df = min(among_tasks.df, float(task_df.sum()))
    drawn = (among_df * among_tasks.variance + task_df * tau) / np.maximum(among_df + task_df, TINY)
    of_platform = np.where(platforms, of_platform, of_platform[platforms].min())
    expected_df = 1 / (1 / np.maximum(among_df + task_df, TINY)[:, None] + 1 / of_platform)
    ratios = variances[varying] / (tau[:, None] * phi)[varying]
    prior_df = 1 / (1 / common(ratios, own_df[varying], _free(varying)).df + 1 / expected_df)
    return drawn[:, None] * phi, prior_df


def common(variances: Array, df: Array, free: int) -> Prior:
    """What variances with `df` degrees of freedom each have in common (Smyth 2004, section 6.2), cautiously.

    The scatter of their logarithms beyond that of their own degrees of freedom is how unlike they are; `CAUTION` of its
    standard errors are added. `free`: how many of them say something of it; below one nothing is known.
    """
    if free < 1:
        return Prior(float(variances.mean()), TINY)
    logs = np.log(variances) - digamma(df / 2) + np.log(df / 2)
    second, fourth = polygamma(1, df / 2), polygamma(3, df / 2)
    scatter = float(((logs - logs.mean()) ** 2).sum()) / free
    error = math.sqrt(float((fourth + 2 * second**2).mean()) / free)
    excess = scatter - float(second.mean()) + CAUTION * error
    if excess <= 0:
        return Prior(math.exp(logs.mean()), _ALIKE)
    prior_df = min(2 * inverse_trigamma(excess), _ALIKE)
    return Prior(math.exp(float(logs.mean() + digamma(prior_df / 2) - math.log(prior_df / 2))), prior_df)


def _residuals(logs: Array) -> Array:
    """How far each block is from the mean of its comparison; 0 where it has none."""
    known = np.isfinite(logs)
    mean = np.where(known, logs, 0.0).sum(axis=2) / np.maximum(known.sum(axis=2), 1)
    residuals: Array = np.where(known, logs - mean[:, :, None], 0.0)
    return residuals


def _shared(residuals: Array, varying: NDArray[np.bool_]) -> float:
    """The median correlation of the variances of two platforms on one task, from their residuals; at least `SHARED`.

    It is the square of the residuals' own correlation, which is found of each two platforms over all tasks: a host that
    is noisier than its platforms is in all log shares alike.
    """
    flat = np.where(varying[:, :, None], residuals, 0.0).transpose(1, 0, 2).reshape(residuals.shape[1], -1)
    products = flat @ flat.T
    scales = np.sqrt(np.maximum(np.outer(np.diag(products), np.diag(products)), TINY))
    others = ~np.eye(len(products), dtype=bool)
    squares = (products / scales)[others] ** 2
    if not squares.size:
        return SHARED
    return float(min(max(np.median(squares), SHARED), 1.0))


def _free(varying: NDArray[np.bool_]) -> int:
    """How many variances are left to tell how alike they are, after one for each task and platform."""
    return int(varying.sum() - varying.any(axis=1).sum() - varying.any(axis=0).sum() + 1)


def _common_structure(
    variances: Array, df: Array, varying: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], Array, Array]:
    """Which comparisons vary, tau and phi: what all but agrees is left out and the rest fitted again, to the end."""
    while True:
        tau, phi = _structure(variances, np.where(varying, df, 0.0))
        ratios = variances / (tau[:, None] * phi)
        least = LEAST_RATIO ** np.maximum(2 / np.maximum(df, 1), 1)  # of one degree of freedom smaller ones are chance
        still = varying & (ratios >= least * np.median(ratios[varying]))
        if (still == varying).all():
            return varying, tau, phi
        varying = still


def _structure(variances: Array, df: Array) -> tuple[Array, Array]:
    """tau by task and phi by platform (geometric mean 1): maximum likelihood of gamma variances, by turns.

    A task without degrees of freedom has the mean tau of the others, and such a platform the mean phi.
    """
    of_task, of_platform = df.sum(axis=1), df.sum(axis=0)
    tasks, platforms = of_task > 0, of_platform > 0
    tau, phi = np.ones(len(of_task)), np.ones(len(of_platform))
    weighed = df * variances
    for _ in range(TURNS):
        tau[tasks] = np.maximum((weighed / phi).sum(axis=1)[tasks] / of_task[tasks], TINY)
        phi[platforms] = np.maximum((weighed / tau[:, None]).sum(axis=0)[platforms] / of_platform[platforms], 1e-9)
        phi[platforms] /= math.exp(np.log(phi[platforms]).mean())
    tau[~tasks] = tau[tasks].mean()
    return tau, phi


def inverse_trigamma(value: float) -> float:
    """x with trigamma(x) = value > 0, by Newton's method on 1 / trigamma (Smyth 2004, appendix)."""
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
