"""Where series change: simulated nights of known truth. The whole of what is promised is `benches/history.py`'s."""

from __future__ import annotations

import math
import random

import pytest
from tests.support.nights import World, measure, nights

from virtoll.stats.change_points import change_points


def places(series: list[list[float]]) -> list[list[int] | None]:
    """How many values are before each change, by series."""
    return [None if one.changes is None else [change.place for change in one.changes] for one in change_points(series)]


def test_one_change_of_5_percent_is_found_at_its_night_and_none_elsewhere() -> None:
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


@pytest.mark.parametrize(
    ("world", "most"),
    [
        (World(nights=40, series=6), 4),
        (World(nights=40, series=6, shared=0.5), 4),
        (World(nights=40, series=6, tails="t with 3 degrees of freedom"), 4),
        (World(nights=40, series=6, tails="outliers"), 4),
        (World(nights=16, series=3), 4),
        (World(series=6, grows=4.0), 4),
        (World(nights=40, series=6, correlation=0.2), 8),
    ],
    ids=[
        "independent",
        "the host's noise",
        "heavy tails",
        "outliers",
        "few nights",
        "growing noise",
        "alike neighbours",
    ],
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


def test_a_trend_has_neighbours_that_are_alike() -> None:
    """A long trend shows as steps or not at all, and with the correlation of which a reader is warned."""
    (found,) = change_points([[0.01 * night for night in range(60)]])
    assert found.alike
    assert (found.correlation or 0) > 0.25
    assert sum(one.alike for one in change_points(nights(World(), seed=3))) <= 5  # of 30
    assert sum(one.alike for one in change_points(nights(World(correlation=0.5), seed=3))) >= 20


def test_equal_values_and_ties_change_only_where_they_do() -> None:
    assert places([[1.0] * 30, [1.0] * 15 + [2.0] * 15]) == [[], [15]]
    dice = random.Random(1)
    assert places([[float(dice.randrange(3)) for _ in range(40)]]) == [[]]
