"""Hosts that run one task in two states, such as a CPU with two speeds: recognised, so that no verdict rests on it.

The rule, on the logarithms of the host's durations (or of 1 / rate), each less the lower quartile of its block: the two
groups with the least scatter inside them (Otsu 1979) are two states, if the slower holds 15 to 85 % of the values,
their means lie at least 4 pooled standard deviations and at least 10 % apart, and three values or more were taken in
each block, nine in all. One normal distribution cut at its mean gives 2.7 deviations. Pure.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from virtoll.stats.values import Observation, Task

LEAST_VALUES = 9
LEAST_A_BLOCK = 3
LEAST_SHARE = 0.15
LEAST_DEVIATIONS = 4.0
LEAST_FACTOR = 1.1


@dataclass(frozen=True)
class TwoStates:
    """A task that the host ran in two states: medians of both in the metric's unit, `low` below `high`.

    `share_high`: the part of the host's values that are in the slower state.
    """

    task: Task
    low: float
    high: float
    share_high: float


def two_states(task: Task, host: Sequence[Observation]) -> TwoStates | None:
    """The states of one task by the baseline's and the control's values; None where one state explains them."""
    sign = 1 if task.metric.better == "lower" else -1
    blocks: dict[int, list[float]] = {}
    for one in host:
        blocks.setdefault(one.block, []).append(sign * math.log(one.value))
    if len(host) < LEAST_VALUES or any(len(values) < LEAST_A_BLOCK for values in blocks.values()):
        return None
    usual = {block: statistics.quantiles(values, n=4, method="inclusive")[0] for block, values in blocks.items()}
    slowness = [sign * math.log(one.value) - usual[one.block] for one in host]
    limit = split(slowness)
    if limit is None:
        return None
    slow = [one.value for one, value in zip(host, slowness, strict=True) if value >= limit]
    fast = [one.value for one, value in zip(host, slowness, strict=True) if value < limit]
    low, high = sorted((statistics.median(fast), statistics.median(slow)))
    return TwoStates(task, low, high, len(slow) / len(host))


def split(slowness: Sequence[float]) -> float | None:
    """The smallest value of the slower of two states; None where there are not two."""
    ordered, count = sorted(slowness), len(slowness)
    sums, squares = [0.0, *accumulate(ordered)], [0.0, *accumulate(value * value for value in ordered)]

    def scatter(first: int, last: int) -> float:
        total = sums[last] - sums[first]
        return max(squares[last] - squares[first] - total * total / (last - first), 0.0)

    within, cut = min((scatter(0, place) + scatter(place, count), place) for place in range(1, count))
    apart = (sums[count] - sums[cut]) / (count - cut) - sums[cut] / cut
    deviation = math.sqrt(within / max(count - 2, 1))
    clear = apart >= max(LEAST_DEVIATIONS * deviation, math.log(LEAST_FACTOR))
    return ordered[cut] if clear and LEAST_SHARE <= 1 - cut / count <= 1 - LEAST_SHARE else None
