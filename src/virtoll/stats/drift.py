"""Drift over the run: every value relative to its cell's median, and the trend of its blocks.

All cells of a block share the host's state of that time. So they say one thing of the trend, not one each: a test that
adds up the cells' variances as if they were independent finds a trend in 39 to 70 % of runs without any (simulated).
The trend is that of the blocks' means.
"""

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from virtoll.stats.intervals import median
from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Observation, Task

DRIFT_FROM = 5  # blocks: below, not even blocks in perfect order are rarer than 5 % (2 of 4! orders are 8 %)


@dataclass(frozen=True, slots=True)
class OrderedValue:
    """One value: `relative` = performance against its cell's median, 1 = the median, above 1 = faster."""

    observation: Observation
    relative: float
    outlier: bool


@dataclass(frozen=True)
class Drift:
    """How much faster the host was at the run's end than at its start (0.01 = 1 % faster), and the trend's p-value."""

    over_run: float
    p_value: float
    blocks: int


def ordered_values(cells: Iterable[CellSummary]) -> tuple[OrderedValue, ...]:
    """All values of cells with at least two blocks, in the order measured."""
    values = []
    for cell in cells:
        if cell.blocks < 2:
            continue
        for observation in cell.observations:
            ratio = observation.value / cell.median
            higher = observation.task.metric.better == "higher"
            values.append(OrderedValue(observation, ratio if higher else 1 / ratio, observation.trial in cell.outliers))
    return tuple(sorted(values, key=lambda value: (value.observation.position, value.observation.trial)))


def drift(values: Sequence[OrderedValue]) -> Drift | None:
    """Sen's slope over the blocks' means times the number of blocks, and the exact Mann-Kendall test of these means.

    A block's mean is that of the log relative performance of its cells, each cell's being the median of its trials
    there. None below five blocks, where no such test can reach 5 %.
    """
    cells: dict[int, dict[tuple[str, Task], list[float]]] = {}
    for value in values:
        observation = value.observation
        cell = observation.platform, observation.task
        cells.setdefault(observation.block, {}).setdefault(cell, []).append(math.log(value.relative))
    means = [statistics.fmean(map(median, cells[block].values())) for block in sorted(cells)]
    if len(means) < DRIFT_FROM:
        return None
    pairs = list(itertools.combinations(enumerate(means), 2))
    slope = statistics.median((later - earlier) / (end - start) for (start, earlier), (end, later) in pairs)
    score = sum((later > earlier) - (later < earlier) for (_, earlier), (_, later) in pairs)
    return Drift(math.expm1(slope * len(means)), kendall_p_value(score, len(means)), len(means))


def kendall_p_value(score: int, n: int) -> float:
    """Two-sided P(|S| >= |score|) for n values in random order, S being their concordant less discordant pairs.

    Exact: orders of n values are counted by their inversions (Kendall 1938).
    """
    orders = [1]
    for placed in range(2, n + 1):
        wider = [0] * (len(orders) + placed - 1)
        for inversions, count in enumerate(orders):
            for more in range(placed):
                wider[inversions + more] += count
        orders = wider
    pairs = n * (n - 1) // 2
    extreme = sum(count for inversions, count in enumerate(orders) if abs(pairs - 2 * inversions) >= abs(score))
    return extreme / math.factorial(n)
