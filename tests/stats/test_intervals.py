"""Intervals cover what they say, by simulation; exact ones against published tables."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtoll.stats.intervals import Interval, holm, median_interval, student

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
    hits = sum(covered(student([dice.gauss(0.3, 0.1) for _ in range(n)]).interval, 0.3) for _ in range(ROUNDS))
    assert hits / ROUNDS == pytest.approx(0.95, abs=0.02)


def test_holm_against_a_worked_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_never_lowers_a_p_and_keeps_their_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(after >= before for before, after in zip(p_values, adjusted, strict=True))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert all(adjusted[a] <= adjusted[b] for a, b in itertools.pairwise(order))
