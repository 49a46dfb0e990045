"""Drift over the run: every value relative to its cell's median, against its position in the order measured."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Observation

DRIFT_FROM = 8  # values: below, a trend is not worth a number


@dataclass(frozen=True)
class OrderedValue:
    """One value: `relative` = performance against its cell's median, 1 = the median, above 1 = faster."""

    observation: Observation
    relative: float
    outlier: bool


@dataclass(frozen=True)
class Drift:
    """Theil-Sen slope times the run's length, as a share of the median (0.01 = 1 % faster at the end), and its test."""

    over_run: float
    p_value: float
    values: int


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
    """Theil-Sen slope and Kendall's test with the normal approximation (Kendall 1970, without ties in position).

    Within-cell relative values of n blocks are tied together by their median, so the test is slightly conservative.
    """
    n = len(values)
    if n < DRIFT_FROM:
        return None
    points = [(value.observation.position, value.relative) for value in values]
    slopes, score = [], 0
    for index, (x, y) in enumerate(points):
        for other_x, other_y in points[index + 1 :]:
            if other_x != x:
                slopes.append((other_y - y) / (other_x - x))
                score += (other_y > y) - (other_y < y)
    if not slopes:
        return None
    deviation = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    z = max(abs(score) - 1, 0) / deviation
    return Drift(statistics.median(slopes) * (points[-1][0] - points[0][0]), math.erfc(z / math.sqrt(2)), n)
