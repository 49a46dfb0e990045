"""The noise of a family: what is alike is pooled, what is not stays its own, and too little is Student's t."""

import math
import statistics

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

from virtoll.stats.noise import TINY, Prior, common, inverse_trigamma, moderated
from virtoll.stats.verdicts import Rules, judge


def logs(sigma: np.ndarray, blocks: int, seed: int = 1) -> np.ndarray:
    """Normal values about -0.5, [tasks, platforms, blocks], of these standard deviations."""
    noise: np.ndarray = np.random.default_rng(seed).normal(-0.5, 1, (*sigma.shape, blocks)) * sigma[:, :, None]
    return noise


def test_what_is_alike_is_pooled() -> None:
    values = logs(np.full((30, 8), 0.05), 3)
    noise = moderated(values)
    own = values.var(axis=2, ddof=1)
    assert np.log(noise.variance).std() < np.log(own).std() / 4
    assert noise.variance.mean() == pytest.approx(0.05**2, rel=0.2)
    assert (noise.df > 10).all()


def test_noisy_platforms_and_workloads_keep_their_noise() -> None:
    """A product of both, with factors of four: each variance is within a factor of two of its truth in the median."""
    sigma = 0.02 * np.outer(np.geomspace(0.5, 2, 20), np.array([1, 1, 1, 3, 3]))
    noise = moderated(logs(sigma, 5))
    error = np.abs(np.log(noise.variance / sigma**2))
    assert np.median(error) < math.log(1.6)
    assert noise.variance[:, 3:].mean() > 5 * noise.variance[:, :3].mean()


def test_cells_with_nothing_in_common_keep_their_own() -> None:
    sigma = 0.05 * np.exp(np.random.default_rng(3).normal(0, 2, (20, 6)))
    values = logs(sigma, 9)
    own, noise = values.var(axis=2, ddof=1), moderated(values)
    noisy = own > np.median(own)
    assert np.median(np.abs(np.log(noise.variance / own))[noisy]) < 0.25
    assert (noise.df < 9).all()


def test_nothing_is_known_of_noise_where_no_value_varies() -> None:
    """A difference in all blocks is not told from 0: what the instrument resolves is not known."""
    values = np.full((5, 5, 3), -0.5)
    noise = moderated(values)
    assert np.isfinite(noise.variance).all()
    assert not judge(values, Rules()).different.any()


def test_searches_whose_blocks_agree_are_told_apart_by_their_bounds() -> None:
    """Bounds 2 % apart on either side: ten times slower is told, 5 % slower is not, and equal ones never."""
    values = np.log([[0.1, 0.95, 1.0]])[:, :, None].repeat(3, axis=2)
    judged = judge(values, Rules(), hidden=np.full((1, 3), 0.04))
    assert judged.different.tolist() == [[True, False, False]]
    assert math.exp(judged.at_least[0, 0]) > 8
    without = judge(values, Rules(), hidden=np.array([[0.0, 0.04, 0.04]]))
    assert not without.different.any(), "a constant without bounds has a noise that nobody knows"


@pytest.mark.parametrize("cells", [[(4, 2)], [(4, p) for p in range(5)], [(t, 2) for t in range(25)]])
def test_a_constant_cell_is_as_uncertain_as_its_neighbours(cells: list[tuple[int, int]]) -> None:
    """One comparison, a task and a platform; the others keep what they have, and the difference is not told."""
    values = logs(np.full((25, 5), 0.05), 3) + 0.5
    before = moderated(values)
    for number, cell in enumerate(cells):
        values[cell] = -0.02 + 1e-9 * np.arange(3) * (number % 2)
    noise, judged = moderated(values), judge(values, Rules())
    varying = np.ones((25, 5), bool)
    for cell in cells:
        varying[cell] = False
        assert noise.variance[cell] == pytest.approx(0.05**2, rel=0.5)
        assert not judged.different[cell]
        assert judged.smallest[cell] > 0.02
    assert noise.df[varying].min() > 0.8 * before.df.min()
    assert noise.variance[varying] == pytest.approx(before.variance[varying], rel=0.3)


def test_a_cell_that_all_but_agrees_counts_as_constant() -> None:
    values = logs(np.full((25, 5), 0.05), 3)
    values[4, 2] = -0.5 + np.array([0.0, 1e-4, 2e-4])
    noise = moderated(values)
    assert noise.variance[4, 2] > 0.02**2
    assert noise.df.min() > 10


def test_a_constant_cell_of_a_small_family_has_the_variance_of_the_others() -> None:
    """Two platforms: the first is Student's own, the second has no more than its degrees of freedom."""
    values = np.array([[[-0.1, -0.12, -0.14], [-0.02, -0.02, -0.02]]])
    noise = moderated(values)
    assert noise.variance == pytest.approx(np.full((1, 2), 0.02**2))
    assert noise.df == pytest.approx(np.full((1, 2), 2.0))


def test_the_common_prior_is_found() -> None:
    """20 000 variances of 4 degrees of freedom, of a scaled inverse chi-square with 10 and 0.04 (Smyth 2004)."""
    dice = np.random.default_rng(5)
    truth = 0.04 * 10 / dice.chisquare(10, 20_000)
    found = common(truth * dice.chisquare(4, 20_000) / 4, np.full(20_000, 4.0), 19_999)
    assert found.df == pytest.approx(10, rel=0.15)
    assert found.variance == pytest.approx(0.04, rel=0.05)


@pytest.mark.parametrize("x", [1e-3, 2e-3, 5e-3, 0.03, 0.5, 1.0, 7.0, 1e3, 3e5])
def test_the_inverse_of_trigamma(x: float) -> None:
    assert inverse_trigamma(float(polygamma(1, x))) == pytest.approx(x, rel=1e-9)


def test_the_inverse_of_trigamma_where_it_is_its_asymptote() -> None:
    """trigamma(x) is 1 / x^2 next to 0 and 1 / x far out."""
    assert inverse_trigamma(1e8) == pytest.approx(1e-4, rel=1e-9)
    assert inverse_trigamma(1e-8) == pytest.approx(1e8, rel=1e-9)


def in_common(variances: list[float], df: list[float], free: int) -> tuple[float, float]:
    """Smyth's estimate as he writes it, with half a standard error of caution: variance and degrees of freedom."""
    logs = [math.log(one) - float(digamma(d / 2)) + math.log(d / 2) for one, d in zip(variances, df, strict=True)]
    centre = statistics.fmean(logs)
    trigamma = [float(polygamma(1, d / 2)) for d in df]
    of_squares = [float(polygamma(3, d / 2)) + 2 * own**2 for d, own in zip(df, trigamma, strict=True)]
    error = math.sqrt(statistics.fmean(of_squares) / free)
    wanted = sum((one - centre) ** 2 for one in logs) / free - statistics.fmean(trigamma) + error / 2
    if wanted <= 0:
        return math.exp(centre), 1e9
    half = brentq(lambda x: float(polygamma(1, x)) - wanted, 1e-4, 1e8, xtol=1e-12)
    return math.exp(centre + float(digamma(half)) - math.log(half)), 2 * half


def plainly(values: list[list[list[float]]]) -> dict[tuple[int, int], tuple[float, float]]:
    """By task and platform the variance and its degrees of freedom, cell by cell; a block without a pair is out."""
    known = {(t, p): own for t, row in enumerate(values) for p, own in enumerate(row) if len(own) > 1}
    own = {cell: statistics.variance(logs) for cell, logs in known.items()}
    df = {cell: len(logs) - 1 for cell, logs in known.items()}
    tasks, platforms = ({cell[side] for cell in known} for side in (0, 1))
    phi = dict.fromkeys(platforms, 1.0)
    of_task = {t: sum(n for (task, _), n in df.items() if task == t) for t in tasks}
    of_platform = {p: sum(n for (_, platform), n in df.items() if platform == p) for p in platforms}
    for _ in range(200):
        tau = {t: sum(df[c] * own[c] / phi[c[1]] for c in known if c[0] == t) / of_task[t] for t in tasks}
        phi = {p: sum(df[c] * own[c] / tau[c[0]] for c in known if c[1] == p) / of_platform[p] for p in platforms}
        scale = statistics.geometric_mean(phi.values())
        phi = {p: one / scale for p, one in phi.items()}
    task_df = {t: of_task[t] / (1 + 0.25 * (sum(c[0] == t for c in known) - 1)) for t in tasks}
    among, worth = in_common([tau[t] for t in tasks], [task_df[t] for t in tasks], len(tasks) - 1)
    worth = min(worth, sum(task_df.values()))
    free = len(known) - len(tasks) - len(platforms) + 1
    _, of_cells = in_common([own[t, p] / (tau[t] * phi[p]) for t, p in known], [df[c] for c in known], free)
    found = {}
    for (t, p), one in own.items():
        expected = (worth * among + task_df[t] * tau[t]) / (worth + task_df[t]) * phi[p]
        prior = 1 / (1 / of_cells + 1 / (worth + task_df[t]) + 1 / of_platform[p])
        found[t, p] = (prior * expected + df[t, p] * one) / (prior + df[t, p]), prior + df[t, p]
    return found


def uneven(tasks: int, platforms: int, seed: int) -> list[list[list[float]]]:
    """Log shares about -0.5 by task and platform, each with a noise of its own, of two to five blocks."""
    dice = np.random.default_rng(seed)
    sigma = 0.02 * np.exp(dice.normal(0, 0.7, (tasks, 1)) + dice.normal(0, 0.7, (1, platforms)))
    sigma = sigma * np.exp(dice.normal(0, 0.3, sigma.shape))
    return [[dice.normal(-0.5, one, dice.integers(2, 6)).tolist() for one in row] for row in sigma]


def as_array(values: list[list[list[float]]]) -> np.ndarray:
    """nan where a block has no pair, first or last."""
    whole = np.full((len(values), len(values[0]), 5), np.nan)
    for t, row in enumerate(values):
        for p, own in enumerate(row):
            whole[t, p, (t + p) % 2 * (5 - len(own)) :][: len(own)] = own
    return whole


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [(4, 3), (9, 4)])
def test_the_noise_is_that_of_a_plain_reckoning(shape: tuple[int, int], seed: int) -> None:
    """Also with a cell of a single block, a task on one platform alone, and a task and a platform without any."""
    values = uneven(*shape, seed)
    if shape[0] > 4:
        values[2][1] = [-0.5]
        values[3] = [values[3][0], [], [], []]
        values.insert(5, [[]] * 4)
        values = [[*row[:1], [], *row[1:]] for row in values]
    noise = moderated(as_array(values))
    expected = plainly(values)
    cells = {tuple(map(int, cell)) for cell in np.argwhere(np.isfinite(noise.variance))}
    assert cells == expected.keys() == {tuple(map(int, cell)) for cell in np.argwhere(np.isfinite(noise.df))}
    for cell, (variance, df) in expected.items():
        assert noise.variance[cell] == pytest.approx(variance, rel=1e-4), cell
        assert noise.df[cell] == pytest.approx(df, rel=1e-4), cell
        assert noise.variance[cell] != pytest.approx(statistics.variance(values[cell[0]][cell[1]]), rel=1e-3)


def test_a_family_that_says_too_little_is_a_cell_short_of_one_that_does() -> None:
    """Four tasks on three platforms: (4 - 1) (3 - 1) = 6; without one cell 5."""
    values = uneven(4, 3, 1)
    values[1][2] = [-0.5]
    noise = moderated(as_array(values))
    for t, row in enumerate(values):
        for p, own in enumerate(row):
            variance = statistics.variance(own) if len(own) > 1 else math.nan
            assert noise.variance[t, p] == pytest.approx(variance, nan_ok=True)
            assert noise.df[t, p] == pytest.approx(len(own) - 1 if len(own) > 1 else math.nan, nan_ok=True)
    assert noise.variance.dtype == noise.df.dtype == float


def test_what_few_variances_have_in_common() -> None:
    """Of variances that say nothing of it the mean, worth nothing; else Smyth's estimate, however few they are."""
    assert common(np.array([2.0, 4.0]), np.array([3.0, 3.0]), 0) == Prior(3.0, TINY)
    for variances, df, free in (
        ([2.0, 4.0], [3.0, 5.0], 1),
        ([2.0, 400.0], [3.0, 5.0], 1),
        ([1.0, 9.0, 0.1, 4.0], [2.0, 8.0, 3.0, 5.0], 3),
        ([1.0] * 40, [3.0] * 40, 39),
    ):
        found = common(np.array(variances), np.array(df), free)
        assert (found.variance, found.df) == pytest.approx(in_common(variances, df, free))
