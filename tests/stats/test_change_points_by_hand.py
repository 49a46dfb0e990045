"""Where series change, against sums by hand and plain searches: each number of a change."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from virtoll.stats import change_points as module

# The search is by random orders: what its parts come to is known by hand, what they come to together is not.
from virtoll.stats.change_points import (
    LEAST,
    ChangePoint,
    Searched,
    _best,
    _chance,
    _correlation,
    _likeliest,
    _near,
    _possible,
    _scan,
    _searched,
    _segmented,
    _unevenness,
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
        found, best, until = _scan(values[None, :])
        assert place < until[0] <= len(values)
        assert (found[0], best[0]) == (pytest.approx(statistic), place), values
    statistics_of_none, places_of_none, _ = _scan(np.ones((2, 12)))
    assert (statistics_of_none.tolist(), places_of_none.tolist()) == ([0.0, 0.0], [5, 5])
    assert _likeliest(step((20, 0), (5, 1), (20, 0))) == 20


def test_chance_is_the_share_of_orders_that_look_as_much_like_a_change() -> None:
    """Of 252 orders of five zeros and five ones two are as extreme: all ones last, or first."""
    assert _chance(step((5, 0), (5, 1)), 1e4) == pytest.approx(2 / 252, rel=0.4)
    assert _chance(np.ones(10), 100.0) == 1.0
    values = np.array([math.sin(night) for night in range(20)])
    assert _chance(values, 100.0) == _chance(values, 100.0), "the same orders each time"
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
    assert _near(np.array([-0.01, -0.01, 0, 0.01, 1, -0.07])).tolist() == pytest.approx(
        [-0.01, -0.01, 0, 0.01, 0.039479, -0.049479], abs=1e-5
    )


def test_places_that_the_values_leave_possible() -> None:
    """Those whose squares within exceed the least by 7.35 times the noise at most, by a plain reckoning."""

    def within(own: list[float]) -> float:
        return sum((value - statistics.fmean(own)) ** 2 for value in own)

    for seed in range(40):
        dice = random.Random(seed)
        values = [dice.gauss(1.0 if night >= 6 else 0.0, 0.6) for night in range(12)]
        left = {place: within(values[:place]) + within(values[place:]) for place in range(1, 12)}
        least = min(left.values())
        possible = [place for place, squares in left.items() if squares - least <= 7.35 * least / 10]
        assert _possible(np.array(values), 6) == (min(possible[0], 6), max(possible[-1], 6)), seed
    assert _possible(step((5, 0), (5, 1)), 5) == (5, 5)
    assert _possible(np.array(values), 11)[1] == 11, "the place itself is among them"


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
    """Levels of twelve nights each: a change's numbers are of the nights between the changes around it."""
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


def test_the_rank_of_an_interval_is_that_of_the_rank_sum() -> None:
    """Of all sizes from 5 to 12: floor(n m / 2 - 1.96 sqrt(n m (n + m + 1) / 12)), and at least the first."""
    for size, other in itertools.product(range(5, 13), repeat=2):
        before, after = [0.0] * size, [float(2**place) for place in range(other)]
        pairs = sorted(float(2**place) for place in range(other) for _ in range(size))
        spread = math.sqrt(size * other * (size + other + 1) / 12)
        rank = max(math.floor(size * other / 2 - statistics.NormalDist().inv_cdf(0.975) * spread), 1)
        before_apart = [value + place / 1e6 for place, value in enumerate(before)]
        _, interval = shift_between(before_apart, after)
        assert (interval.low, interval.high) == pytest.approx((pairs[rank - 1], pairs[-rank]), abs=1e-4)


def plain(values: Sequence[float]) -> tuple[float, int]:
    """The statistic and its place by loops over all ends and places."""
    found, at = 0.0, LEAST
    number = len(values)
    for end in range(number, 2 * LEAST - 1, -max(LEAST, math.ceil(number / 24))):
        for place in range(LEAST, end - LEAST + 1):
            apart = statistics.fmean(values[place:end]) - statistics.fmean(values[:place])
            error = statistics.stdev(values) * math.sqrt(1 / place + 1 / (end - place))
            if abs(apart) / error > found + 1e-12:
                found, at = abs(apart) / error, place
    return found, at


@pytest.mark.parametrize("number", [10, 11, 24, 47, 60])
def test_the_statistic_is_that_of_a_plain_search(number: int) -> None:
    dice = random.Random(number)
    rows = [[dice.gauss(0, 1) for _ in range(number)]]
    rows += [dice.sample(rows[0], number) for _ in range(3)]
    found, places, _ = _scan(np.array(rows))
    expected = [plain(row) for row in rows]
    assert found.tolist() == pytest.approx([statistic for statistic, _ in expected])
    assert places.tolist() == [place for _, place in expected]


@pytest.mark.parametrize("levels", [((20, 0.0), (20, 5.0)), ((10, 0.0), (12, 5.0)), ((12, 5.0), (7, 0.0))])
@pytest.mark.parametrize("unit", [1.0, 0.001])
def test_neighbours_are_alike_about_the_levels_of_what_changes(
    levels: tuple[tuple[int, float], ...], unit: float
) -> None:
    """The levels are those on both sides of the change, and of the likeliest place in each of ten or more values."""
    dice = random.Random(5)
    values = [level + dice.gauss(0, 0.1) for count, level in levels for _ in range(count)]
    ends = [0, levels[0][0], len(values)]
    ends += [low + plain(values[low:high])[1] for low, high in itertools.pairwise(ends) if high - low >= 10]
    left = [
        value - statistics.fmean(values[low:high])
        for low, high in itertools.pairwise(sorted(ends))
        for value in values[low:high]
    ]
    found = sum(one * next_one for one, next_one in itertools.pairwise(left)) / sum(one * one for one in left)
    expected = found + ((len(ends) - 1) * (1 + found) + 2 * found) / len(values)
    assert _correlation(np.array(values) * unit) == pytest.approx(expected)


def scripted(monkeypatch: pytest.MonkeyPatch, beyond: Callable[[int], int], least: float = 1.0) -> list[int]:
    """Of the values the statistic is 1, and of random orders that of so many, by batch; how many each batch has."""
    batches: list[int] = []

    def scan(rows: np.ndarray) -> tuple[np.ndarray, list[int], list[int]]:
        if len(rows) == 1 and not batches and not scan.began:  # type: ignore[attr-defined]
            scan.began = True  # type: ignore[attr-defined]
            return np.ones(1), [5], [10]
        assert np.sort(rows, axis=1).tolist() == [sorted(rows[0])] * len(rows), "orders of the same values"
        batches.append(len(rows))
        return np.where(np.arange(len(rows)) < beyond(len(batches)), least, 0.0), [], []

    scan.began = False  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "_scan", scan)
    return batches


def test_noise_that_is_larger_on_one_side_makes_its_means_less_sure() -> None:
    """Thirty values at 1 and -1 by turns before the place, and after it thirty at 3 and -3, or six."""
    quiet, loud = np.resize([1.0, -1.0], 30), np.resize([3.0, -3.0], 30)
    assert _unevenness(np.concatenate([quiet, quiet + 5]), 30) == pytest.approx(1, rel=0.02)
    assert _unevenness(np.concatenate([quiet, loud]), 30) == pytest.approx(1, rel=0.02), "as many on either side"
    # 9 / 6 + 1 / 30 by (30 x 1 + 6 x 9) / 34 (1 / 6 + 1 / 30), were the six enough to know their noise by.
    known = math.sqrt((9 / 6 + 1 / 30) / (84 / 34 * (1 / 6 + 1 / 30)))
    few = np.concatenate([quiet, loud[:6]])
    assert 1 < _unevenness(few, 30) < known, "fourteen of the quiet ones say something of it too"
    assert _unevenness(few[::-1].copy(), 6) == pytest.approx(_unevenness(few, 30))
    assert _unevenness(np.concatenate([loud, quiet[:6]]), 30) == 1, "less noise makes nothing surer"
    assert _unevenness(np.ones(12), 6) == 1


def test_random_orders_are_tried_in_growing_batches_until_they_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 orders for each one in which chance is as rare as asked; no more, once 20 look as much like a change."""
    values = np.arange(10.0)
    batches = scripted(monkeypatch, lambda _: 0)
    assert _chance(values, 499.99) == 1 / 10_001
    assert batches == [500, 500, 1000, 2000, 4000, 2000]
    batches = scripted(monkeypatch, lambda batch: (19, 1)[batch - 1])
    assert _chance(values, 500.0) == 21 / 1001
    assert batches == [500, 500]
    batches = scripted(monkeypatch, lambda _: 40)
    assert _chance(values, 500.0) == 41 / 501
    batches = scripted(monkeypatch, lambda _: 3, least=1 - 1e-9)
    assert _chance(values, 5.0) == 4 / 101, "as much, but for rounding"
    monkeypatch.setattr(module, "_AT_ONCE", 79)  # the product shuffles a million values at once
    batches = scripted(monkeypatch, lambda _: 0)
    assert _chance(values, 0.99) == 1 / 21
    assert batches == [7, 7, 6]
    monkeypatch.setattr(module, "_AT_ONCE", 9)
    batches = scripted(monkeypatch, lambda _: 0)
    assert _chance(values, 0.15) == 1 / 4
    assert batches == [1, 1, 1]


def test_what_is_tested_is_without_what_a_value_has_from_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place is that of the values as they are."""
    asked: list[tuple[list[float], float]] = []

    def chance(values: np.ndarray, rarity: float) -> float:
        asked.append((values.tolist(), rarity))
        return 0.125

    monkeypatch.setattr(module, "_chance", chance)
    values = [1.0, 2.0, 4.0, 3.0, 1.0, 2.0, 8.0, 9.0, 7.0, 8.0, 9.0, 8.0]
    assert _best(np.array(values), 0.5, 33.0) == (0.125, 6)
    assert _best(np.array(values), 0.0, 44.0) == (0.125, 6)
    assert asked[0] == ([after - before / 2 for before, after in itertools.pairwise(values)], 33.0)
    assert asked[1] == (values, 44.0)


def chances(monkeypatch: pytest.MonkeyPatch, *p_values: float) -> list[tuple[int, float]]:
    """The p-values of the stretches in turn, the last for ever; each stretch's length and rarity are returned."""
    left, asked = list(p_values), list[tuple[int, float]]()

    def chance(values: np.ndarray, rarity: float) -> float:
        asked.append((len(values), rarity))
        return left.pop(0) if len(left) > 1 else left[0]

    monkeypatch.setattr(module, "_chance", chance)
    return asked


def test_stretches_are_split_as_long_as_they_differ_by_more_than_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of more than ten values. Each of n stretches has its part of the level, and the surest is split."""
    values = step((10, 0), (11, 1), (14, 4))
    asked = chances(monkeypatch, 0.0)
    assert sorted(_segmented(values[:21], 0.05, 0.0)) == [10, 15]
    assert asked == [(21, 20.0), (11, 20.0)], "ten values are not split"
    asked = chances(monkeypatch, 0.05)
    assert _segmented(values, 0.05, 0.0) == {21: 0.05}, "the level itself is told"
    assert asked == [(35, 20.0), (21, 40.0), (14, 40.0)]
    chances(monkeypatch, 0.06)
    assert _segmented(values, 0.05, 0.0) == {}
    asked = chances(monkeypatch, 0.03, 0.02, 0.001, 0.004, 0.01, 1.0)
    assert _segmented(values, 0.05, 0.0) == {21: 0.03, 26: 0.03, 10: 0.03, 15: 0.03}, (
        "no surer than what was split before"
    )
    assert [length for length, _ in asked] == [35, 21, 14, 21, 11]
    assert _segmented(values[:10], 0.05, 0.0) == {}
    asked = chances(monkeypatch, 0.001, 0.02, 0.03, 1.0)
    assert _segmented(values, 0.05, 0.0) == {21: 0.001, 10: 0.04}
    assert asked[-1] == (14, 40.0)


@pytest.mark.parametrize(
    ("correlation", "taken"),
    [(0.3, 0.3 + 0.5 / 6), (-0.05, 0.5 / 6 - 0.05), (-0.2, 0.0), (0.9, 0.95), (0.8, 0.8 + 0.5 / 6)],
)
def test_of_36_values_half_a_standard_error_more_is_taken_away(
    monkeypatch: pytest.MonkeyPatch, correlation: float, taken: float
) -> None:
    """Of six series each has a sixth of the level, and a p-value that is six times as large, but no more than 1."""
    asked: list[tuple[float, float]] = []

    def segmented(_: np.ndarray, part: float, share: float) -> dict[int, float]:
        asked.append((part, share))
        return {24: 0.002, 12: 0.25}

    monkeypatch.setattr(module, "_segmented", segmented)
    monkeypatch.setattr(module, "_correlation", lambda _: correlation)
    found = _searched(step((12, 0), (12, 1), (12, 3)), 0.06, 6, 36)
    assert asked[0] == pytest.approx((0.01, taken))
    assert len(asked) == 1
    assert found.changes is not None
    assert [(one.place, one.shift, one.p_adjusted) for one in found.changes] == [
        (12, 1, 1.0),
        (24, 2, pytest.approx(0.012)),
    ]
    assert found.correlation == correlation


@pytest.mark.parametrize(("correlation", "alike"), [(0.2741, False), (0.2742, True), (-0.5, False)])
def test_neighbours_are_alike_where_one_series_in_twenty_is_so_by_accident(
    monkeypatch: pytest.MonkeyPatch, correlation: float, alike: bool
) -> None:
    """Beyond 1.645 / sqrt(36)."""
    monkeypatch.setattr(module, "_correlation", lambda _: correlation)
    assert _searched(np.zeros(36), 0.05, 1, 11) == Searched((), correlation, alike)
    monkeypatch.setattr(module, "_correlation", lambda _: 1.645 * (1 / 6))
    assert _searched(np.zeros(36), 0.05, 1, 11).alike is False


def test_too_few_values_are_so_at_their_level_and_number_of_series() -> None:
    """Eleven at 5 %; two of 252 orders are too many at one in a thousand, and so with thirty series."""
    clear = [0.0, 0.001, 0.002, 0.0, 0.001, 1.0, 1.001, 1.002, 1.0, 1.001, 1.002]
    untold = Searched(None, None, False)
    (found,) = change_points([clear])
    assert found.changes is not None
    assert [one.place for one in found.changes] == [5]
    assert isinstance(found.changes[0], ChangePoint)
    assert change_points([clear[:10]]) == [untold]
    assert change_points([clear], 0.001) == [untold]
    assert change_points([clear] * 30) == [untold] * 30


def test_clear_changes_are_as_sure_as_their_orders_can_be() -> None:
    """Of three series a first change is one in 1 + 20 x 3 / 5 %, three times; a second is of two stretches."""
    dice = random.Random(9)
    series = [dice.gauss(level, 0.01) for level in (0.0, 1.0, 3.0) for _ in range(12)]
    other = [dice.gauss(0, 0.01) for _ in range(36)]
    found, nothing, _ = change_points([series, other, other])
    assert nothing.changes == ()
    assert found.changes is not None
    assert [one.place for one in found.changes] == [12, 24]
    first, second = 3 / 1201, 3 * 2 / 2401
    assert [one.p_adjusted for one in found.changes] == pytest.approx([max(first, second), first])
