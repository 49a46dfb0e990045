"""Models find what values were made of, and say that they do not fit where values were made of something else."""

import math

import pytest
from tests.support.facts import assert_facts

from virtoll.advise.models import MOST_HELD_OUT, Model, fit, held_out_of_blocks, predicted

SIZES = (64.0, 256.0, 512.0, 1024.0, 1518.0)
GUESTS = (1.0, 2.0, 4.0, 8.0, 16.0)


def law(n: float, sigma: float, kappa: float, t: float = 100.0) -> float:
    return t * (1 + sigma * (n - 1) + kappa * n * (n - 1))


def test_the_cost_of_a_frame_is_found() -> None:
    found = fit(Model.FRAME_COST, {size: 900 + 0.7 * size for size in SIZES})
    assert found.fits
    assert list(found.coefficients.values()) == pytest.approx([900, 0.7])
    assert found.residual == pytest.approx(0, abs=1e-9)
    assert found.held_out == pytest.approx(0, abs=1e-9)
    assert found.at(800) == pytest.approx(900 + 0.7 * 800)
    assert found.between(800)
    assert not found.between(1600)


def test_the_scalability_law_is_found() -> None:
    found = fit(Model.SCALABILITY, {n: law(n, 0.2, 0.01) for n in GUESTS})
    assert found.fits
    assert list(found.coefficients.values()) == pytest.approx([100, 20, 1])
    assert found.at(12) == pytest.approx(law(12, 0.2, 0.01))


def test_guests_that_share_nothing_take_no_more_time() -> None:
    found = fit(Model.SCALABILITY, dict.fromkeys(GUESTS, 5.0))
    assert list(found.coefficients.values()) == pytest.approx([5, 0, 0], abs=1e-9)


def test_noise_is_in_the_residuals_and_in_the_error_on_what_was_not_seen() -> None:
    noise = (1.02, 0.99, 1.01, 0.98, 1.01)
    found = fit(Model.FRAME_COST, {size: (900 + 0.7 * size) * one for size, one in zip(SIZES, noise, strict=True)})
    assert found.fits
    assert found.residual is not None
    assert found.held_out is not None
    assert 0.005 < found.residual < found.held_out < MOST_HELD_OUT


def test_a_step_is_no_line() -> None:
    """As where frames above a page need a second buffer."""
    found = fit(Model.FRAME_COST, {size: 1000.0 if size < 600 else 2500.0 for size in SIZES})
    assert not found.fits
    assert found.why_not
    assert found.held_out is not None
    assert found.held_out > MOST_HELD_OUT


def test_idle_cpus_are_not_in_the_law() -> None:
    """Two guests on two CPUs take no longer than one: the law has no CPUs that are idle before."""
    found = fit(Model.SCALABILITY, {n: 100 * max(1.0, n / 2) for n in GUESTS})
    assert not found.fits


@pytest.mark.parametrize(("model", "values"), [(Model.FRAME_COST, 2), (Model.SCALABILITY, 3)])
def test_a_model_needs_one_value_more_than_it_has_coefficients(model: Model, values: int) -> None:
    found = fit(model, {n: law(n, 0.1, 0.0) for n in GUESTS[:values]})
    assert not found.fits
    assert_facts(found.why_not, values, values + 1)
    assert found.held_out is None


def test_the_error_of_each_value_is_of_a_fit_without_it() -> None:
    values = {1.0: 10.0, 2.0: 20.0, 3.0: 33.0}
    found = fit(Model.FRAME_COST, values)
    without = [
        abs(predicted(Model.FRAME_COST, {x: y for x, y in values.items() if x != left}, left) / values[left] - 1)
        for left in values
    ]
    assert found.held_out == pytest.approx(max(without))


def test_a_factors_error_is_that_of_each_block_against_the_others() -> None:
    assert held_out_of_blocks([math.log(0.5)]) is None
    assert held_out_of_blocks([math.log(0.5)] * 3) == pytest.approx(0)
    assert held_out_of_blocks([0.0, 0.0, math.log(1.5)]) == pytest.approx(0.5)
