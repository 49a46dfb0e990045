"""Where series change, against sums by hand and plain searches: each number that is told of a change."""

from __future__ import annotations

import math
import random
import statistics

import numpy as np
import pytest

from virtoll.stats.change_points import (
    _chance,
    _correlation,
    _likeliest,
    _near,
    _possible,
    _scan,
    change_points,
    fewest,
    shift_between,
)


def step(*levels: tuple[int, float]) -> np.ndarray:
    """So many values of each level."""
    return np.concatenate([np.full(count, level) for count, level in levels])


def test_the_statistic_by_hand() -> None:
    """Five of 0 and five of 1: s^2 = 2.5 / 9, and 1 / sqrt(s^2 (1/5 + 1/5)) = 3. Six of each: sqrt(11).

    Four of twelve are too few: at the place before, 0.8 / sqrt(8/33 (1/7 + 1/5)).
    A level that lasts for five of fifteen is seen by an end before the last: s^2 = 5/21, and 1 / sqrt(s^2 2/5).
    """
    for values, statistic, place in (
        (step((5, 0), (5, 1)), 3.0, 5),
        (step((5, 1), (5, 0)), 3.0, 5),
        (step((6, 0), (6, 1)), math.sqrt(11), 6),
        (step((5, 0), (5, 1), (5, 0)), math.sqrt(10.5), 5),
        (step((7, 0), (5, 2)), math.sqrt(11), 7),
        (step((8, 0), (4, 1)), math.sqrt(7.7), 7),
        (step((4, 1), (8, 0)), math.sqrt(7.7), 5),
    ):
        found, best = _scan(values[None, :])
        assert (found[0], best[0]) == (pytest.approx(statistic), place), values
    assert _scan(np.ones((2, 12)))[0].tolist() == [0.0, 0.0]
    assert _likeliest(step((20, 0), (5, 1), (20, 0))) == 20


def test_chance_is_the_share_of_orders_that_look_as_much_like_a_change() -> None:
    """Of 252 orders of five zeros and five ones two are as extreme: all ones last, or first."""
    assert _chance(step((5, 0), (5, 1)), 1e4) == pytest.approx(2 / 252, rel=0.4)
    assert _chance(np.ones(10), 100.0) == 1.0
    assert _chance(step((12, 0), (12, 1)), 10.0) == 1 / 201, "none of 20 x 10 orders: no p-value is smaller than that"


@pytest.mark.parametrize(("series", "least"), [(1, 11), (30, 14)])
def test_how_many_values_can_tell_a_change(series: int, least: int) -> None:
    """One in the middle of 10 is as extreme as 2 of 252, of 13 as 2 of 1716; of 12 2 of 924 exceed 5 % / 30."""
    assert fewest(series) == least


def test_what_is_far_out_counts_as_three_robust_deviations() -> None:
    """Median 0 and a median distance of 1: 3 x 1.4826."""
    assert _near(np.array([-1.0, -1, 0, 1, 100, -7])).tolist() == pytest.approx(
        [-1, -1, 0, 1, 3.9479, -4.9479], abs=1e-3
    )
    assert _near(np.array([0.0, 0, 0, 9])).tolist() == [0, 0, 0, 9], "more than half are the same"


def test_places_that_the_values_leave_possible() -> None:
    """Those whose squares within exceed the least by 7.35 times the noise at most, by a plain reckoning."""
    dice = random.Random(3)
    values = [dice.gauss(1.0 if night >= 14 else 0.0, 0.6) for night in range(30)]

    def within(own: list[float]) -> float:
        return sum((value - statistics.fmean(own)) ** 2 for value in own)

    left = {place: within(values[:place]) + within(values[place:]) for place in range(1, 30)}
    least = min(left.values())
    possible = [place for place, squares in left.items() if squares - least <= 7.35 * least / 28]
    assert len(possible) > 3
    assert _possible(np.array(values), 14) == (min(possible[0], 14), max(possible[-1], 14))
    assert _possible(step((5, 0), (5, 1)), 5) == (5, 5)
    assert _possible(np.array(values), 29)[1] == 29, "the place itself is among them"


def test_the_correlation_of_neighbours_by_hand() -> None:
    """Of eight values about their one level: r = -7/8 and 5/8; Kendall's correction adds (1 + r + 2 r) / 8."""
    assert _correlation(np.array([1.0, -1.0] * 4)) == pytest.approx(-7 / 8 + (1 - 3 * 7 / 8) / 8)
    assert _correlation(step((4, 11), (4, 9))) == pytest.approx(5 / 8 + (1 + 3 * 5 / 8) / 8)
    assert _correlation(np.ones(8)) == 1 / 8, "equal values: the correction alone"


def test_the_size_of_a_shift_at_another_confidence_and_of_few_values() -> None:
    """5 x 5 at 80 %: floor(12.5 - 1.2816 sqrt(25 x 11 / 12)) = 6, and of 6 7 7 8 8 8 ... the sixth is 8."""
    _, interval = shift_between([0.0, 1.0, 2.0, 3.0, 4.0], [10.0, 11.0, 12.0, 13.0, 14.0], 0.8)
    assert (interval.low, interval.high, interval.coverage, interval.method) == (8, 12, 0.8, "Hodges and Lehmann")
    shift, interval = shift_between([0.0, 1.0], [5.0, 7.0])
    assert (shift, interval.low, interval.high, interval.coverage) == (5.5, 4, 7, 0.95)


def test_each_change_is_told_by_its_own_stretches() -> None:
    """Levels of twelve nights each: what is told of a change is of the nights from the one before to the one after."""
    dice = random.Random(9)
    levels = [0.0, 0.3, 0.1, 0.4]
    series = [dice.gauss(level, 0.01) for level in levels for _ in range(12)]
    (found,) = change_points([series])
    assert found.changes is not None
    assert [round(one.shift, 1) for one in found.changes] == [0.3, -0.2, 0.3]
    for one in found.changes:
        own = shift_between(series[one.place - 12 : one.place], series[one.place : one.place + 12])
        assert (one.shift, one.interval) == own
        assert one.between == (one.place, one.place)
        assert 0 < one.p_adjusted <= 0.05
