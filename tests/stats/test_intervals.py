"""Intervals cover what they say, by simulation; exact ones against published tables."""

import itertools
import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from virtoll.stats.intervals import Interval, hodges_lehmann, holm, log_ratio_estimate, median_interval, student
from virtoll.stats.moderation import NO_PRIOR, estimate_prior, moderated_p

ROUNDS = 2000


def covered(interval: Interval | None, truth: float) -> bool:
    assert interval is not None
    return interval.low <= truth <= interval.high


@pytest.mark.parametrize(("n", "coverage"), [(2, 0.5), (3, 0.75), (5, 0.9375), (6, 0.96875), (9, 0.9609375)])
def test_the_order_statistic_interval_states_its_coverage(n: int, coverage: float) -> None:
    """n = 9: x(2) to x(8), 1 - 2 * (1 + 9) / 512; n = 3: the range, 75 %, never 95 %."""
    interval = median_interval(list(range(n)))
    assert interval is not None
    assert interval.coverage == pytest.approx(coverage)
    assert (interval.low, interval.high) == ((1, 7) if n == 9 else (0, n - 1))


def test_one_value_has_no_interval() -> None:
    assert median_interval([1.0]) is None
    assert student([1.0]).interval is None
    assert hodges_lehmann([1.0]).interval is None


@pytest.mark.parametrize("n", [3, 9, 15])
def test_the_order_statistic_interval_covers_skewed_values(n: int) -> None:
    dice = random.Random(n)
    hits = 0
    for _ in range(ROUNDS):
        values = [dice.expovariate(1.0) for _ in range(n)]
        hits += covered(median_interval(values), math.log(2))
    claimed = median_interval(list(range(n)))
    assert claimed is not None
    assert hits / ROUNDS == pytest.approx(claimed.coverage, abs=0.025)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_student_covers_normal_log_ratios(n: int) -> None:
    dice = random.Random(n)
    hits = sum(
        covered(log_ratio_estimate([dice.gauss(0.3, 0.1) for _ in range(n)]).interval, 0.3) for _ in range(ROUNDS)
    )
    assert hits / ROUNDS == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("n", [6, 9, 14])
def test_the_exact_interval_covers_heavy_tails(n: int) -> None:
    """Symmetric, with one value in ten ten times as far out: where Student's t is no longer exact."""
    dice, hits = random.Random(n), 0
    for _ in range(ROUNDS):
        values = [dice.gauss(0, 1.0 if dice.random() < 0.9 else 10.0) for _ in range(n)]
        hits += covered(log_ratio_estimate(values).interval, 0.0)
    claimed = log_ratio_estimate([float(value) for value in range(n)]).interval
    assert claimed is not None
    assert claimed.coverage >= 0.95
    assert hits / ROUNDS == pytest.approx(claimed.coverage, abs=0.02)


def test_the_signed_rank_test_against_the_table() -> None:
    """Hollander and Wolfe, table A.4: n = 6, W = 21 has P = 0.016 one-sided; n = 5 gives at best 2/32."""
    assert hodges_lehmann([1, 2, 3, 4, 5, 6]).p_value == pytest.approx(2 / 64)
    assert hodges_lehmann([1, 2, 3, 4, 5]).p_value == pytest.approx(2 / 32)
    assert hodges_lehmann([-1, 2, 3, 4, 5, 6]).p_value == pytest.approx(4 / 64)
    assert hodges_lehmann([0.0] * 6).p_value == 1.0


@given(st.lists(st.floats(-10, 10), min_size=6, max_size=12))
@settings(max_examples=100, deadline=None)
def test_the_estimate_lies_in_its_interval_and_signs_flip_it(values: list[float]) -> None:
    found, flipped = hodges_lehmann(values), hodges_lehmann([-value for value in values])
    assert covered(found.interval, found.value)
    assert flipped.value == pytest.approx(-found.value)
    assert flipped.p_value == found.p_value


def test_holm_against_a_worked_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_never_lowers_a_p_and_keeps_their_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(after >= before for before, after in zip(p_values, adjusted, strict=True))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert all(adjusted[a] <= adjusted[b] for a, b in itertools.pairwise(order))


@pytest.mark.parametrize("spread", [0.0, 0.7])
def test_moderated_t_keeps_its_level_with_even_and_uneven_noise(spread: float) -> None:
    """Families of 30 comparisons of three blocks; `spread`: SD of the log of the noise between comparisons."""
    dice, below, families = random.Random(7), 0, 120
    for _ in range(families):
        family = []
        for _ in range(30):
            noise = 0.02 * math.exp(dice.gauss(0, spread))
            family.append([dice.gauss(0, noise) for _ in range(3)])
        prior = estimate_prior(family)
        below += sum(moderated_p(values, prior) < 0.05 for values in family)
    assert below / (30 * families) == pytest.approx(0.05, abs=0.015)


def test_moderated_t_sees_what_student_cannot() -> None:
    """A cost of a fifth at 2 % noise, three blocks, corrected for thirty comparisons, in fifty campaigns."""
    seen = seen_by_student = 0
    for seed in range(50):
        dice = random.Random(seed)
        prior = estimate_prior([[dice.gauss(0, 0.02) for _ in range(3)] for _ in range(30)])
        costly = [math.log(0.8) + dice.gauss(0, 0.02) for _ in range(3)]
        seen += moderated_p(costly, prior) * 30 < 0.05
        seen_by_student += moderated_p(costly, NO_PRIOR) * 30 < 0.05
    assert seen >= 45
    assert seen_by_student <= 25


def test_too_few_comparisons_are_not_moderated() -> None:
    values = [0.1, 0.2, 0.15]
    assert estimate_prior([values] * 3) == NO_PRIOR
    assert moderated_p(values, NO_PRIOR) == pytest.approx(student(values).p_value)
    assert moderated_p([0.0, 0.0], NO_PRIOR) == 1.0
    assert moderated_p([0.5, 0.5], NO_PRIOR) == 0.0
    assert statistics.fmean(values) == pytest.approx(student(values).value)
