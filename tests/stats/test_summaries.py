"""Summaries of one cell, on values few enough to reckon by hand."""

from __future__ import annotations

import pytest
from tests.support.by_hand import task

from virtoll.stats.intervals import Estimate, Interval
from virtoll.stats.summaries import (
    CellSummary,
    block_values,
    mean_over_blocks,
    means_by_block,
    median_of_known,
    outliers,
    summarise,
)
from virtoll.stats.values import Observation

TASK = task("w", "marks")


def observed(*values: tuple[int, float]) -> list[Observation]:
    """Trials from number 10 on, of (block, value)."""
    return [Observation(TASK, "p", 10 + place, block, place, value) for place, (block, value) in enumerate(values)]


def test_a_cell_is_the_median_over_blocks_of_the_medians_of_their_trials() -> None:
    """Blocks 0, 1, 2 have medians 2, 5 and 4: the median is 4, not that of all values, and the interval their range."""
    own = observed((2, 4.0), (0, 1.0), (0, 2.0), (0, 2.5), (1, 5.0))
    assert block_values(own) == {0: 2.0, 1: 5.0, 2: 4.0}
    assert list(block_values(own)) == [0, 1, 2]
    assert summarise(own) == CellSummary(tuple(own), 3, 4.0, Interval(2.0, 5.0, 0.75, "range"), frozenset())


def test_means_are_of_each_block_first() -> None:
    """1, 3 and 5 in one block and 9 in another: (3 + 9) / 2, not 18 / 4. t(0.975, 1) = 12.706 of any table."""
    values = [(4, 9.0), (2, 1.0), (2, 3.0), (2, 5.0)]
    assert list(means_by_block(values).items()) == [(2, 3.0), (4, 9.0)]
    found = mean_over_blocks(values)
    assert found.value == 6.0
    assert found.interval is not None
    assert found.interval.high == pytest.approx(6 + 12.7062 * 3, abs=1e-3)
    assert mean_over_blocks(values[:1]) == Estimate(9.0, None)


def test_the_median_of_what_is_known() -> None:
    assert median_of_known([None, 3.0, 1.0, None]) == 2.0
    assert median_of_known([0.0]) == 0.0
    assert median_of_known([None]) is None
    assert median_of_known([]) is None


def test_outliers_are_as_far_out_below_as_above() -> None:
    """Logs of base 2: distances 1 0 1 0 1 1 and d, of which the median is 1: flagged above 3.5 / 0.6745 = 5.19."""
    usual = [2.0, 1.0, 0.5, 1.0, 2.0]
    assert outliers([*usual, 0.5, 2.0**5.18]) == []
    assert outliers([*usual, 0.5, 2.0**5.20]) == [6]
    assert outliers([2.0**-5.20, *usual, 2.0]) == [0]
    assert outliers([2.0, 1.0, 0.5, 1.0, 64.0]) == [4], "five are enough"
    assert outliers([1000 * value for value in (*usual, 0.5, 2.0**5.18)]) == [], "in any unit"
    assert outliers([1000 * value for value in (*usual, 0.5, 2.0**5.20)]) == [6]
    assert outliers([1.0, 1.0, 1.0, 2.0, 99.0]) == [], "more than half are the same"
    assert outliers([1.0, 1.1, 0.9, 99.0]) == [], "four are too few"
    assert [one.trial for one in observed((0, 1.0))] == [10]
    assert summarise(observed(*((block, value) for block, value in enumerate([*usual, 0.5, 99.0])))).outliers == {16}
