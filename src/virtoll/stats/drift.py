"""Drift over the run: every value relative to its cell's median, against its position in the order measured."""

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Observation, Task

DRIFT_FROM = 12  # pairs: below, a trend is not worth a number


@dataclass(frozen=True)
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
    pairs: int


def ordered_values(cells: Iterable[CellSummary]) -> tuple[OrderedValue, ...]:
    """All values of cells with at least two blocks, in the order measured."""
    found = []
    for cell in cells:
        if cell.blocks < 2:
            continue
        for observation in cell.observations:
            ratio = observation.value / cell.median
            higher = observation.task.metric.better == "higher"
            found.append(OrderedValue(observation, ratio if higher else 1 / ratio, observation.trial in cell.outliers))
    return tuple(sorted(found, key=lambda value: (value.observation.position, value.observation.trial)))


def drift(values: Sequence[OrderedValue]) -> Drift | None:
    """Sen's slope times the run's length, and the seasonal Kendall test (Hirsch, Slack and Smith 1982).

    Each cell is a "season": only values of one cell are compared with each other, so nothing has to be centred first.
    None below twelve pairs, or where the trials of no cell lie apart.
    """
    cells: dict[tuple[str, Task], list[tuple[int, float]]] = {}
    for value in values:
        own = value.observation
        cells.setdefault((own.platform, own.task), []).append((own.position, math.log(value.relative)))
    slopes: list[float] = []
    score, variance = 0, 0.0
    for points in cells.values():
        n = len(points)
        variance += n * (n - 1) * (2 * n + 5) / 18
        for (x, y), (other_x, other_y) in itertools.combinations(points, 2):
            score += (other_y > y) - (other_y < y)
            if other_x != x:
                slopes.append((other_y - y) / (other_x - x))
    if len(slopes) < DRIFT_FROM:
        return None
    length = max(value.observation.position for value in values) - min(value.observation.position for value in values)
    z = max(abs(score) - 1, 0) / math.sqrt(variance)
    return Drift(math.expm1(statistics.median(slopes) * length), math.erfc(z / math.sqrt(2)), len(slopes))
