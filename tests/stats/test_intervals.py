"""Intervals cover what they say, by simulation; exact ones against published tables."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtoll.stats.intervals import Estimate, Interval, holm, median, median_interval, student

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


def test_the_interval_of_a_median_is_named_by_what_it_is() -> None:
    """Of 9 values the second and the eighth, of 3 the smallest and the largest (David and Nagaraja, 7.1)."""
    assert median_interval([5.0, 3.0, 4.0]) == Interval(3.0, 5.0, 0.75, "range")
    nine = median_interval([9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0, 5.0])
    assert nine == Interval(2.0, 8.0, 1 - 2 * 10 / 512, "order statistics 2 and 8")


def test_the_median_of_an_even_number_is_between_the_two_in_the_middle() -> None:
    assert median([7.0]) == 7.0
    assert median([4.0, 1.0]) == 2.5
    assert median([3.0, 1.0, 2.0]) == 2.0


def test_one_value_has_no_interval() -> None:
    assert median_interval([1.0]) is None
    assert student([1.0]) == Estimate(1.0, None)


def test_students_interval_of_nine_values_by_hand() -> None:
    """Mean 10, s = sqrt(12 / 8); t(0.975, 8) = 2.306004 and t(0.995, 8) = 3.355387 of any table."""
    nine = [10.0, 11, 12, 9, 10, 11, 10, 9, 8]
    for confidence, quantile in ((0.95, 2.306004), (0.99, 3.355387)):
        found = student(nine, confidence)
        assert found.value == 10
        assert found.interval is not None
        half = quantile * math.sqrt(12 / 8) / 3
        assert (found.interval.low, found.interval.high) == pytest.approx((10 - half, 10 + half), abs=1e-5)
        assert (found.interval.coverage, found.interval.method) == (confidence, "Student t")
    assert student(nine) == student(nine, 0.95)


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
    assert holm([0.6, 0.7]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_never_lowers_a_p_and_keeps_their_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(after >= before for before, after in zip(p_values, adjusted, strict=True))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert all(adjusted[a] <= adjusted[b] for a, b in itertools.pairwise(order))
