"""Hosts that run one task in two states, such as a CPU with two speeds: recognised, so that no verdict rests on it.

The rule, on the logarithms of the host's durations (or of 1 / rate): in each round of three entries or more, how much
slower than the fastest the others were. The two groups of these with the least scatter inside them (Otsu 1979) are two
states, if their means lie at least 4 pooled standard deviations and at least 10 % apart, the slower group is at least
15 % of all entries, and there are nine entries in all. One normal distribution cut at its mean gives 2.7 deviations.
The slower parts of baseline and control must differ by less than a half of the entries: a control that is always
slower is no second state, but an alarm. A state that lasts for a whole round is no concern: it is in the platforms'
trials of that round as well. Pure.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from virtoll.stats.values import Observation, Task, grouped

LEAST_VALUES = 9
LEAST_A_ROUND = 3
LEAST_SHARE = 0.15
LEAST_DEVIATIONS = 4.0
LEAST_FACTOR = 1.1
LARGEST_DIFFERENCE = 0.5


@dataclass(frozen=True)
class TwoStates:
    """A task that the host ran in two states: how many times slower the slower one is, above 1.

    The medians of both are compared by round, since what drifts from round to round would hide them. `share_slow`: the
    part of the host's values that are in the slower state, and not all of their round with them.
    """

    task: Task
    factor: float
    share_slow: float


def two_states(task: Task, host: Sequence[Observation]) -> TwoStates | None:
    """The states of one task by the baseline's and the control's values; None where one state explains them."""
    sign = 1 if task.metric.better == "lower" else -1
    rounds = grouped(host, lambda observation: (observation.block, observation.round))
    slowness: list[float] = []
    entries: list[Observation] = []
    for group in rounds.values():
        if len(group) >= LEAST_A_ROUND:
            ordered = sorted(group, key=lambda observation: sign * observation.value)
            slowness += [sign * math.log(observation.value / ordered[0].value) for observation in ordered]
            entries += ordered
    parted = apart(slowness, [observation.platform for observation in entries])
    return TwoStates(task, math.exp(parted[0]), parted[1]) if parted is not None else None


def apart(slowness: Sequence[float], labels: Sequence[str]) -> tuple[float, float] | None:
    """How far apart two states are as a logarithm, and the share of entries in the slower; None where there is one.

    `slowness` as in `split`; `labels`: whose entry each is, baseline's or control's.
    """
    limit = split(slowness)
    if limit is None:
        return None
    parts = []
    for label in set(labels):
        slow = [value >= limit for value, owner in zip(slowness, labels, strict=True) if owner == label]
        parts.append(statistics.fmean(slow))
    if max(parts) - min(parts) > LARGEST_DIFFERENCE:
        return None
    above = [value for value in slowness if value >= limit]
    below = [value for value in slowness if value < limit]
    return statistics.median(above) - statistics.median(below), len(above) / len(slowness)


def split(slowness: Sequence[float]) -> float | None:
    """The least slowness of the slower of two states; None where there are not two.

    `slowness`: of all entries against the fastest of their round, whose own is 0 and is left out of the groups.
    """
    ordered = sorted(value for value in slowness if value > 0)
    count = len(ordered)
    if len(slowness) < LEAST_VALUES or count < LEAST_A_ROUND:
        return None
    sums, squares = [0.0, *accumulate(ordered)], [0.0, *accumulate(value * value for value in ordered)]

    def scatter(first: int, last: int) -> float:
        total = sums[last] - sums[first]
        return max(squares[last] - squares[first] - total * total / (last - first), 0.0)

    within, cut = min((scatter(0, place) + scatter(place, count), place) for place in range(1, count))
    apart = (sums[count] - sums[cut]) / (count - cut) - sums[cut] / cut
    deviation = math.sqrt(within / (count - 2))
    clear = apart >= max(LEAST_DEVIATIONS * deviation, math.log(LEAST_FACTOR))
    return ordered[cut] if clear and count - cut >= LEAST_SHARE * len(slowness) else None
