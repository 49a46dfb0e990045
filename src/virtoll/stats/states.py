"""Hosts that run one task at two speeds, such as a CPU with two clocks: recognised, so that no verdict rests on it.

The rule, on the logarithms of the host's durations (or of 1 / rate): in each round of three entries or more, how much
slower than the fastest the others were. The two groups of these with the least scatter inside them (Otsu 1979) are two
speeds, if their means lie at least 4.8 (1 + 4/n) pooled standard deviations of n entries and 10 % apart, and the slower
one scatters at most 2.85 times as much as the faster: disturbed trials are slower by anything, a speed is one number.
The slower group is at least 15 % of all entries and in more than one block, and there are 15 entries in all. The slower
parts of baseline and control must differ by less than a half of the entries: a control that is always slower is no
second speed, but an alarm. A speed that lasts for a whole round is no concern: it is in the platforms' trials of that
round as well.

A platform whose own trials show the same two speeds runs on the same machine as the host: it is compared as it is. More
than `DISTURBED` apart are no two speeds of a machine, but trials that something disturbed. Pure.
"""

import math
import statistics
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from virtoll.stats.values import Observation, Task, grouped

LEAST_VALUES = 15
LEAST_A_ROUND = 3
LEAST_SHARE = 0.15
LEAST_DEVIATIONS = 4.8
OF_FEW = 4.0  # by how much more, times the deviations over the number of entries: few fall apart by chance
LEAST_FACTOR = 1.1
LEAST_BLOCKS = 2
MOST_SCATTER = 2.85  # of the slower speed's standard deviation, in those of the faster one
LARGEST_DIFFERENCE = 0.5
DISTURBED = 3.0
SAME_DEVIATIONS = 3.5  # of a platform, whose speeds the host has told already
SAME_WITHIN = 0.5  # of the host's gap, by which that of a platform with the same two speeds may differ
SAME_SHARE = 0.3  # by which its part of slow trials may differ from the host's


@dataclass(frozen=True)
class TwoStates:
    """A task that the host ran at two speeds: how many times slower the slower one is, above 1.

    The medians of both are compared by round, since what drifts from round to round would hide them. `share_slow`: the
    part of the host's values that are at the slower speed, and not all of their round with them. `same`: the platforms
    whose own trials show the same two speeds.
    """

    task: Task
    factor: float
    share_slow: float
    same: frozenset[str] = frozenset()

    @property
    def disturbed(self) -> bool:
        """Whether both are too far apart for two speeds of a machine: what is slow was disturbed."""
        return self.factor > DISTURBED

    @property
    def of_host(self) -> float:
        """How far apart the host's two speeds are, as a logarithm; 0 if it was disturbed."""
        if self.disturbed:
            return 0.0
        return math.log(self.factor)

    def gap(self, platform: str) -> float:
        """By how much a platform's intervals are widened, as a logarithm, so that they hold against either speed."""
        if platform in self.same:
            return 0.0
        return self.of_host


def two_states(
    task: Task, host: Sequence[Observation], platforms: Mapping[str, Sequence[Observation]] | None = None
) -> TwoStates | None:
    """The speeds of one task by the baseline's and the control's values; None where one speed explains them.

    `platforms`: the task's values of those that are compared with the host.
    """
    sign = 1 if task.metric.better == "lower" else -1
    rounds = grouped(host, lambda observation: (observation.block, observation.round))
    fastest = {key: min(sign * math.log(entry.value) for entry in group) for key, group in rounds.items()}
    slowness, labels, blocks = [], [], []
    for key, group in rounds.items():
        if len(group) < LEAST_A_ROUND:
            continue
        for entry in group:
            slowness.append(sign * math.log(entry.value) - fastest[key])
            labels.append(entry.platform)
            blocks.append(entry.block)
    parted = apart(slowness, labels, blocks)
    if parted is None:
        return None
    same = set()
    for label, observations in (platforms or {}).items():
        slower = []
        for observation in observations:
            key = observation.block, observation.round
            if key in fastest:
                slower.append(sign * math.log(observation.value) - fastest[key])
        if is_same(slower, *parted):
            same.add(label)
    return TwoStates(task, math.exp(parted[0]), parted[1], frozenset(same))


def apart(slowness: Sequence[float], labels: Sequence[str], blocks: Sequence[int]) -> tuple[float, float] | None:
    """How far apart two speeds are as a logarithm, and the share of entries at the slower; None where there is one.

    `slowness` as in `split`; `labels`: whose entry each is, baseline's or control's; `blocks`: of which block.
    """
    limit = split(slowness)
    if limit is None:
        return None
    slow_blocks: set[int] = set()
    entries: Counter[str] = Counter()
    slow: Counter[str] = Counter()
    for value, label, block in zip(slowness, labels, blocks, strict=True):
        entries[label] += 1
        if value >= limit:
            slow[label] += 1
            slow_blocks.add(block)
    parts = [slow[label] / entries[label] for label in entries]
    if len(slow_blocks) < LEAST_BLOCKS or max(parts) - min(parts) > LARGEST_DIFFERENCE:
        return None
    return _gap(slowness, limit), slow.total() / len(slowness)


def is_same(slower: Sequence[float], gap: float, share: float) -> bool:
    """Whether a platform's trials show the host's two speeds: as far apart and as often.

    `slower`: how much slower each of its trials was than the host's fastest entry of the round, as a logarithm: by what
    the platform costs, and by the machine's speed. `gap` and `share` are the host's, as `apart` has them.
    """
    least = min(slower, default=0.0)
    slowness = [value - least for value in slower]
    limit = _parted(slowness, SAME_DEVIATIONS)
    if limit is None:
        return False
    part = len(_sides(slowness, limit)[1]) / len(slowness)
    return abs(_gap(slowness, limit) - gap) < SAME_WITHIN * gap and abs(part - share) < SAME_SHARE


def _gap(slowness: Sequence[float], limit: float) -> float:
    faster, slower = _sides(slowness, limit)
    return statistics.median(slower) - statistics.median(faster)


def _sides(slowness: Sequence[float], limit: float) -> tuple[list[float], list[float]]:
    """What is faster than a limit, and what is not."""
    ordered = sorted(slowness)
    cut = bisect_left(ordered, limit)
    return ordered[:cut], ordered[cut:]


def split(slowness: Sequence[float]) -> float | None:
    """The least slowness of the slower of the host's two speeds; None where there are not two.

    `slowness`: of all entries against the fastest of their round.
    """
    limit = _parted(slowness, LEAST_DEVIATIONS * (1 + OF_FEW / max(len(slowness), 1)))
    if limit is None:
        return None
    faster, slower = _sides(slowness, limit)
    if len(slower) < max(LEAST_A_ROUND, LEAST_SHARE * len(slowness)):
        return None
    most = max(MOST_SCATTER * statistics.pstdev(faster), math.log(LEAST_FACTOR) / LEAST_DEVIATIONS)
    if statistics.stdev(slower) > most:
        return None
    return limit


def _parted(slowness: Sequence[float], least: float) -> float | None:
    """The least of the slower group, with the least scatter inside both; None if they are not `least` deviations apart,
    or of too few.

    A slowness of 0 is that of the fastest: it counts as fast, and says nothing of where to part them.
    """
    ordered = sorted(value for value in slowness if value > 0)
    count = len(ordered)
    if count < LEAST_A_ROUND or len(slowness) < LEAST_VALUES:
        return None
    sums, squares = [0.0, *accumulate(ordered)], [0.0, *accumulate(value * value for value in ordered)]

    def scatter(first: int, last: int) -> float:
        total = sums[last] - sums[first]
        return max(squares[last] - squares[first] - total * total / (last - first), 0.0)

    _, cut = min((scatter(0, place) + scatter(place, count), place) for place in range(1, count))
    faster, slower = _sides(slowness, ordered[cut])
    within = statistics.pvariance(faster) * len(faster) + scatter(cut, count)
    deviation = math.sqrt(within / (len(slowness) - 2))
    if statistics.fmean(slower) - statistics.fmean(faster) < max(least * deviation, math.log(LEAST_FACTOR)):
        return None
    return ordered[cut]
