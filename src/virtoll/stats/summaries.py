"""One cell's values in numbers: the default summary and flagged outliers."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from virtoll.stats.intervals import Estimate, Interval, median, median_interval, student
from virtoll.stats.like_with_like import near_ones
from virtoll.stats.values import Observation, Task, grouped

_T = TypeVar("_T")
OUTLIER_LIMIT = 3.5
OUTLIER_FROM = 5  # values: below, the MAD of so few says nothing (at n = 3 it flags a third of clean cells)


@dataclass(frozen=True)
class CellSummary:
    """One platform's values of one task; `median` and `interval` are over blocks (trials of one block count once).

    `observations` holds every value that it is of in the order measured, `outliers` the trial numbers that are flagged.
    """

    observations: tuple[Observation, ...]
    blocks: int
    median: float
    interval: Interval | None
    outliers: frozenset[int]


def block_values(observations: Sequence[Observation]) -> dict[int, float]:
    """One value a block: the median of the block's trials, by block number."""
    blocks: dict[int, list[float]] = {}
    for observation in observations:
        blocks.setdefault(observation.block, []).append(observation.value)
    return {block: median(values) for block, values in sorted(blocks.items())}


def means_by_block(values: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Of values with their blocks, the mean of each block's, by block number; papers that give means get these."""
    blocks: dict[int, list[float]] = {}
    for block, value in values:
        blocks.setdefault(block, []).append(value)
    return {block: statistics.fmean(group) for block, group in sorted(blocks.items())}


def mean_over_blocks(values: Iterable[tuple[int, float]]) -> Estimate:
    """The mean of the blocks' means with its t interval, of values with their blocks; at least one."""
    return student(list(means_by_block(values).values()))


def known(values: Iterable[_T | None]) -> list[_T]:
    """Those that are not None."""
    return [value for value in values if value is not None]


def median_of_known(values: Iterable[float | None]) -> float | None:
    """The median of those that are known; None where none is."""
    measured = known(values)
    return statistics.median(measured) if measured else None


def summarise(observations: Sequence[Observation]) -> CellSummary:
    """Median over blocks with its order-statistic interval; at least one observation.

    Of values that were measured while CPUs were far from each other none counts in a block that has others.
    """
    observations = near_ones(observations)
    values = list(block_values(observations).values())
    flagged = outliers([observation.value for observation in observations])
    return CellSummary(
        tuple(observations),
        len(values),
        statistics.median(values),
        median_interval(values),
        frozenset(observations[index].trial for index in flagged),
    )


def outliers(values: Sequence[float]) -> list[int]:
    """Indexes of values with a modified z-score above 3.5: 0.6745 |x - median| / MAD (Iglewicz and Hoaglin 1993).

    Of logarithms, as all differences are: half as long is as far out as twice as long. Values are above zero.
    Flags only from five values on, and nothing where more than half of the values are the same (MAD = 0).
    """
    if len(values) < OUTLIER_FROM:
        return []
    logs = [math.log(value) for value in values]
    centre = statistics.median(logs)
    spread = statistics.median(abs(value - centre) for value in logs)
    if spread == 0:
        return []
    return [index for index, value in enumerate(logs) if 0.6745 * abs(value - centre) / spread > OUTLIER_LIMIT]


def cells_of(
    observations: Sequence[Observation], platforms: Sequence[str], tasks: Sequence[Task]
) -> dict[tuple[str, Task], CellSummary]:
    """The cells that have values, by platform and task."""
    groups = grouped(observations, lambda observation: (observation.platform, observation.task))
    return {
        (platform, task): summarise(groups[platform, task])
        for platform in platforms
        for task in tasks
        if (platform, task) in groups
    }
