"""One cell's values in numbers: the default summary, flagged outliers, and the papers' own summaries by name."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from virtoll.stats.intervals import Interval, median_interval, student
from virtoll.stats.values import Observation

OUTLIER_LIMIT = 3.5
OUTLIER_FROM = 5  # values: below, the MAD of so few says nothing (at n = 3 it flags a third of clean cells)


@dataclass(frozen=True)
class CellSummary:
    """One platform's values of one task; `median` and `interval` are over blocks (trials of one block count once).

    `observations` holds every value in the order measured; `outliers` the trial numbers that are flagged.
    """

    observations: tuple[Observation, ...]
    blocks: int
    median: float
    interval: Interval | None
    outliers: frozenset[int]


@dataclass(frozen=True)
class PaperSummary:
    """A published study's way to sum up: `centre` and its spread (`low`, `high`), in the unit of the values."""

    name: str
    centre: float
    low: float | None
    high: float | None


def block_values(observations: Sequence[Observation]) -> dict[int, float]:
    """One value a block: the median of the block's trials, by block number."""
    blocks: dict[int, list[float]] = {}
    for observation in observations:
        blocks.setdefault(observation.block, []).append(observation.value)
    return {block: statistics.median(values) for block, values in sorted(blocks.items())}


def summarise(observations: Sequence[Observation]) -> CellSummary:
    """Median over blocks with its order-statistic interval; at least one observation."""
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

    Flags only from five values on, and nothing where more than half of the values are the same (MAD = 0).
    """
    if len(values) < OUTLIER_FROM:
        return []
    centre = statistics.median(values)
    spread = statistics.median(abs(value - centre) for value in values)
    if spread == 0:
        return []
    return [index for index, value in enumerate(values) if 0.6745 * abs(value - centre) / spread > OUTLIER_LIMIT]


def mean_with_t_interval(values: Sequence[float]) -> PaperSummary:
    """Mean with its 95 % Student interval: Schlosser et al. 2011 (nine repetitions)."""
    found = student(values)
    low, high = (found.interval.low, found.interval.high) if found.interval else (None, None)
    return PaperSummary("mean with 95 % t interval", found.value, low, high)


def mean_and_deviation(values: Sequence[float]) -> PaperSummary:
    """Mean and sample standard deviation, as centre - SD and centre + SD: Mattos et al. 2012, Suresh et al. 2014."""
    mean = statistics.fmean(values)
    deviation = statistics.stdev(values) if len(values) > 1 else math.nan
    known = not math.isnan(deviation)
    return PaperSummary("mean and SD", mean, mean - deviation if known else None, mean + deviation if known else None)


def median_of_last_three(values: Sequence[float]) -> PaperSummary:
    """Median of the last three of four, the first being the warm-up: Camargos et al. 2008. Needs four values."""
    if len(values) < 4:
        raise ValueError(f"the median of the last three of four needs four values, there are {len(values)}")
    last = values[-3:]
    return PaperSummary("median of the last three of four", statistics.median(last), min(last), max(last))


PAPER_SUMMARIES: Mapping[str, Callable[[Sequence[float]], PaperSummary]] = {
    "schlosser2011": mean_with_t_interval,
    "mattos2012": mean_and_deviation,
    "suresh2014": mean_and_deviation,
    "camargos2008": median_of_last_three,
}
