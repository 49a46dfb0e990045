"""The trend over a run: exact p-values, no trend out of what blocks have in common, and none from too few blocks."""

import math
import random

import pytest
from tests.support.by_hand import task

from virtoll.stats.drift import DRIFT_FROM, Drift, OrderedValue, drift, kendall_p_value, ordered_values
from virtoll.stats.summaries import CellSummary, summarise
from virtoll.stats.values import Observation, Task

TASKS = [task(name, "marks") for name in "abcdefgh"]


def found(seed: int, blocks: int, *, block: float = 0.05, trend: float = 0.0) -> Drift | None:
    """Eight tasks on four platforms; all trials of a block share the host's state."""
    dice = random.Random(seed)
    states = [dice.gauss(0, block) + trend * number for number in range(blocks)]
    cells = []
    for measured in TASKS:
        for platform in "nabc":
            own = [
                Observation(measured, platform, 0, number, number, math.exp(state + dice.gauss(0, 0.02)))
                for number, state in enumerate(states)
            ]
            cells.append(summarise(own))
    return drift(ordered_values(cells))


@pytest.mark.parametrize("blocks", [5, 9])
def test_what_a_block_has_in_common_is_no_trend(blocks: int) -> None:
    """The test that added up the cells found one in 47 to 70 % of such runs."""
    p_values = [one.p_value for seed in range(300) if (one := found(seed, blocks)) is not None]
    assert len(p_values) == 300
    assert sum(p < 0.05 for p in p_values) <= 27  # of 15 expected at most; once in a thousand if so
    assert 0.35 < sum(p < 0.5 for p in p_values) / 300 < 0.62


def test_a_trend_is_found_and_measured() -> None:
    one = found(1, 9, block=0.005, trend=0.03)
    assert one is not None
    assert one.p_value < 0.001
    assert one.over_run == pytest.approx(math.exp(-0.03 * 9) - 1, abs=0.02)
    assert one.blocks == 9


def observed(platform: str, task: Task, *values: tuple[int, int, int, float]) -> CellSummary:
    """The cell of these trials: (number, block, place in the order measured, value)."""
    return summarise([Observation(task, platform, *one) for one in values])


def test_values_are_performance_against_their_cells_median_in_order() -> None:
    """Medians 2 and 20: a duration of 1 is twice as fast, a rate of 10 half as fast; one block alone tells nothing."""
    rate = task("r", "points")
    cells = [
        observed("r", TASKS[0], (6, 0, 0, 1.0), (7, 0, 1, 3.0)),
        observed("p", TASKS[0], (1, 0, 5, 1.0), (3, 1, 2, 2.0), (2, 2, 2, 4.0)),
        observed("q", rate, (4, 0, 4, 10.0), (5, 1, 3, 30.0)),
    ]
    found = [(one.observation.trial, one.relative, one.outlier) for one in ordered_values(cells)]
    assert found == [(2, 0.5, False), (3, 1.0, False), (5, 1.5, False), (4, 0.5, False), (1, 2.0, False)]


def test_a_flagged_value_is_told_as_one() -> None:
    cell = observed("p", TASKS[0], *((number, number, number, 1 + number / 100) for number in range(5)), (9, 5, 5, 9.0))
    assert [one.observation.trial for one in ordered_values([cell]) if one.outlier] == [9]


def test_drift_by_hand() -> None:
    """Means of blocks 0, 1, 2, 4, 3 %: slopes 1 1 4/3 3/4, 1 3/2 2/3, 2 1/2, -1, of which the median is 1 %.

    The score is 9 - 1 = 8; ten of 120 orders are as extreme. A cell's trials of one block count as their median.
    """
    told = []
    for block, (mean, apart) in enumerate(zip((0.0, 0.01, 0.02, 0.04, 0.03), (0.1, -0.1, 0.2, 0.0, 0.3), strict=True)):
        for platform, logs in (("p", (mean - apart, mean - apart, 0.5)), ("q", (mean + apart,))):
            for log in logs:
                own = Observation(TASKS[0], platform, 0, 2 * block, 0, 1.0)
                told.append(OrderedValue(own, math.exp(log), outlier=False))
    one = drift(told)
    assert one is not None
    assert one.over_run == pytest.approx(math.expm1(5 * 0.01))
    assert one.p_value == pytest.approx(10 / 120)
    assert one.blocks == 5


def test_equal_blocks_have_no_trend() -> None:
    told = [OrderedValue(Observation(TASKS[0], "p", 0, block, 0, 1.0), 1.0, outlier=False) for block in range(6)]
    assert drift(told) == Drift(0.0, 1.0, 6)


def test_with_few_blocks_there_is_no_test() -> None:
    assert [found(1, blocks, trend=0.5) for blocks in (2, 3, DRIFT_FROM - 1)] == [None, None, None]


@pytest.mark.parametrize(
    ("score", "n", "p"),
    [(10, 5, 2 / 120), (8, 5, 10 / 120), (0, 5, 1.0), (-10, 5, 2 / 120), (6, 4, 2 / 24), (36, 9, 2 / 362880)],
)
def test_kendalls_distribution(score: int, n: int, p: float) -> None:
    """Kendall (1938): of 5! orders one has no inversion and four have one."""
    assert kendall_p_value(score, n) == pytest.approx(p)
