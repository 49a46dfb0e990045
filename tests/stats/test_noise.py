"""The noise of a family: what is alike is pooled, what is not stays its own, and too little is Student's t."""

import math

import numpy as np
import pytest

from virtoll.stats.noise import LEAST, common, inverse_trigamma, moderated


def logs(sigma: np.ndarray, blocks: int, seed: int = 1) -> np.ndarray:
    """Normal values about -0.5, [tasks, platforms, blocks], of these standard deviations."""
    noise: np.ndarray = np.random.default_rng(seed).normal(-0.5, 1, (*sigma.shape, blocks)) * sigma[:, :, None]
    return noise


def test_a_small_family_has_students_own_variance() -> None:
    values = logs(np.full((3, 3), 0.05), 4)
    assert LEAST > (3 - 1) * (3 - 1)
    noise = moderated(values)
    assert noise.variance == pytest.approx(values.var(axis=2, ddof=1))
    assert (noise.df == 3).all()


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


def test_missing_blocks_and_cells_are_left_out() -> None:
    values = logs(np.full((6, 6), 0.05), 4)
    values[0, 0] = np.nan
    values[1, 1, 1:] = np.nan
    values[2, 2, 3] = np.nan
    noise = moderated(values)
    without = np.isnan(noise.variance)
    assert without.sum() == 2
    assert without[0, 0]
    assert without[1, 1]
    assert (noise.df[~without] > 2).all()


def test_values_without_any_scatter_are_no_division_by_zero() -> None:
    noise = moderated(np.full((5, 5, 3), -0.5))
    assert np.isfinite(noise.variance).all()
    assert (noise.variance > 0).all()


def test_the_common_prior_is_found() -> None:
    """20 000 variances of 4 degrees of freedom, of a scaled inverse chi-square with 10 and 0.04 (Smyth 2004)."""
    dice = np.random.default_rng(5)
    truth = 0.04 * 10 / dice.chisquare(10, 20_000)
    found = common(truth * dice.chisquare(4, 20_000) / 4, np.full(20_000, 4.0), 19_999)
    assert found.df == pytest.approx(10, rel=0.15)
    assert found.variance == pytest.approx(0.04, rel=0.05)


@pytest.mark.parametrize("x", [1e-3, 0.5, 1.0, 7.0, 1e3])
def test_the_inverse_of_trigamma(x: float) -> None:
    from scipy.special import polygamma

    assert inverse_trigamma(float(polygamma(1, x))) == pytest.approx(x, rel=1e-5)
