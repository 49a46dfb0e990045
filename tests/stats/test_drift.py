"""The trend over a run: exact p-values, no trend out of what blocks have in common, and none from too few blocks."""

import math
import random

import pytest

from virtoll.runfolder.records import MetricRecord
from virtoll.stats.drift import DRIFT_FROM, Drift, drift, kendall_p_value, ordered_values
from virtoll.stats.summaries import summarise
from virtoll.stats.values import Observation, Task

TASKS = [
    Task(name, MetricRecord(name, "duration", "ns", "lower", "marks", title="a job", resource="cpu"), "{}", "")
    for name in "abcdefgh"
]


def found(seed: int, blocks: int, *, block: float = 0.05, trend: float = 0.0) -> Drift | None:
    """Eight tasks on four platforms; all trials of a block share the host's state."""
    dice = random.Random(seed)
    states = [dice.gauss(0, block) + trend * number for number in range(blocks)]
    cells = []
    for task in TASKS:
        for platform in "nabc":
            own = [
                Observation(task, platform, 0, number, number, math.exp(state + dice.gauss(0, 0.02)))
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


def test_with_few_blocks_there_is_no_test() -> None:
    assert [found(1, blocks, trend=0.5) for blocks in (2, 3, DRIFT_FROM - 1)] == [None, None, None]


@pytest.mark.parametrize(
    ("score", "n", "p"),
    [(10, 5, 2 / 120), (8, 5, 10 / 120), (0, 5, 1.0), (-10, 5, 2 / 120), (6, 4, 2 / 24), (36, 9, 2 / 362880)],
)
def test_kendalls_distribution(score: int, n: int, p: float) -> None:
    """Kendall (1938): of 5! orders one has no inversion and four have one."""
    assert kendall_p_value(score, n) == pytest.approx(p)
