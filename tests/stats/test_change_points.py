"""Where series change: simulated nights of known truth. The whole of what is promised is `benches/history.py`'s."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import numpy as np
import pytest
from tests.support.nights import World, measure, nights

from virtoll.stats.change_points import (
    LEAST,
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


def places(series: list[list[float]]) -> list[list[int] | None]:
    """How many values are before each change, by series."""
    return [None if one.changes is None else [change.place for change in one.changes] for one in change_points(series)]


def test_one_change_of_5_percent_in_60_nights_is_found_at_its_night_and_none_elsewhere() -> None:
    series = nights(World(noise=0.01, change=0.05, place=30), seed=3)
    found = change_points(series)
    assert [[change.place for change in one.changes or ()] for one in found] == [[30]] + [[]] * 29
    (change,) = found[0].changes or ()
    assert change.between[0] <= 30 <= change.between[1]
    assert change.interval.low <= math.log(0.95) <= change.interval.high
    assert change.interval.high < 0
    assert change.p_adjusted <= 0.05


def test_without_a_change_none_is_told() -> None:
    assert places(nights(World(), seed=3)) == [[]] * 30


def test_what_is_found_is_the_same_each_time() -> None:
    series = nights(World(change=0.05, series=4), seed=5)
    assert change_points(series) == change_points(series)


@pytest.mark.parametrize(
    ("world", "most"),
    [
        (World(nights=40, series=6), 4),
        (World(nights=40, series=6, shared=0.5), 4),
        (World(nights=40, series=6, tails="t with 3 degrees of freedom"), 4),
        (World(nights=40, series=6, tails="outliers"), 4),
        (World(nights=16, series=3), 4),
        (World(nights=40, series=6, correlation=0.2), 8),
    ],
    ids=["independent", "the host's noise", "heavy tails", "outliers", "few nights", "alike neighbours"],
)
def test_false_alarms_are_no_more_frequent_than_promised(world: World, most: int) -> None:
    """Of 30 histories: at 5 %, five with an alarm would be seen in 6 % of such tests, and the seed is fixed."""
    assert measure(world, 30).alarmed * 30 <= most


def test_large_changes_are_found_soon_and_small_ones_are_not_invented() -> None:
    soon = measure(World(noise=0.02, change=0.10, place=55, series=10), 10)
    assert (soon.found, soon.near) == (1.0, 1.0)
    assert measure(World(noise=0.04, change=0.001, series=10), 10).found <= 0.1


def test_a_change_that_is_undone_is_two_changes() -> None:
    assert places(nights(World(noise=0.01, change=0.05, place=25, until=35), seed=2))[0] == [25, 35]


def test_one_bad_night_is_no_change() -> None:
    dice = random.Random(4)
    values = [dice.gauss(0, 0.01) for _ in range(40)]
    assert places([[*values[:20], 3.0, *values[20:]]]) == [[]]


def test_a_trend_is_no_single_night_and_its_neighbours_are_seen_to_be_alike() -> None:
    """What goes on for long is told as steps or not at all, and with the correlation that a reader is warned of."""
    (found,) = change_points([[0.01 * night for night in range(60)]])
    assert found.alike
    assert (found.correlation or 0) > 0.25
    assert sum(one.alike for one in change_points(nights(World(), seed=3))) <= 5  # of 30
    assert sum(one.alike for one in change_points(nights(World(correlation=0.5), seed=3))) >= 20


def test_equal_values_and_ties_change_only_where_they_do() -> None:
    assert places([[1.0] * 30, [1.0] * 15 + [2.0] * 15]) == [[], [15]]
    dice = random.Random(1)
    assert places([[float(dice.randrange(3)) for _ in range(40)]]) == [[]]


def test_too_few_values_tell_nothing() -> None:
    least = fewest(1)
    assert least == 2 * LEAST + 1
    assert places([[0.0] * (least - 1)]) == [None]
    assert places([]) == []
    dice = random.Random(2)
    step = [dice.gauss(0, 0.001) + (0.1 if night >= least // 2 else 0) for night in range(least)]
    assert places([step]) == [[least // 2]]


def test_more_series_need_more_values() -> None:
    needed = [fewest(series) for series in (1, 10, 30, 300)]
    assert needed == sorted(needed)
    assert needed[0] < needed[-1] < 30


def test_changes_are_in_order_and_at_least_five_values_apart() -> None:
    dice = random.Random(9)
    levels = [0.0, 0.3, 0.1, 0.4]
    found = places([[dice.gauss(level, 0.01) for level in levels for _ in range(12)]])[0]
    assert found == [12, 24, 36]
    assert all(after - before >= LEAST for before, after in itertools.pairwise(found))


def test_the_size_of_a_shift_and_its_interval() -> None:
    shift, interval = shift_between([0.0, 1.0, 2.0, 3.0, 4.0], [10.0, 11.0, 12.0, 13.0, 14.0])
    assert shift == 10
    assert interval.low == 7  # Hollander and Wolfe: the third smallest and third largest of 25 differences
    assert interval.high == 13


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
