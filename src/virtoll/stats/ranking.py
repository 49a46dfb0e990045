"""Platforms in the order of their performance on a task, with what is certain of each one's place. Pure.

One platform is certainly before another where their simultaneous intervals of the share do not meet: all of them hold
together, so all such statements do. A platform's place lies between 1 + as many as are certainly before it and all but
those certainly behind it (Klein, Wright and Wieczorek 2020). Main type: `Ranking`.

Klein, M., Wright, T., Wieczorek, J. (2020): A joint confidence region for an overall ranking of populations. Journal of
the Royal Statistical Society, Series C 69, 589-606.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from virtoll.stats.compare import Comparison
from virtoll.stats.values import Task


@dataclass(frozen=True)
class Placed:
    """A platform, the first and the last place that it may have, from 1; `comparison` None: the baseline itself."""

    platform: str
    first: int
    last: int
    comparison: Comparison | None


@dataclass(frozen=True)
class Ranking:
    """A task's platforms, fastest first; `unplaced`: those with no interval, no verdict or no value."""

    task: Task
    placed: tuple[Placed, ...]
    unplaced: tuple[Comparison, ...]


def ranking(
    task: Task, comparisons: Sequence[Comparison], baseline: str, lower_bounds: Collection[tuple[str, Task]] = ()
) -> Ranking:
    """The order of a task's platforms and of the baseline; `comparisons`: of any tasks, with the baseline.

    `lower_bounds`: cells whose platform may be able to do more than was seen, so that it may be before others.
    """
    compared = [comparison for comparison in comparisons if comparison.task == task]
    of: dict[str, Comparison] = {}
    ends = {baseline: (1.0, math.inf if (baseline, task) in lower_bounds else 1.0)}
    shares = {baseline: 1.0}
    for comparison in compared:
        if comparison.caveat is None and comparison.simultaneous is not None and comparison.share is not None:
            of[comparison.platform] = comparison
            high = math.inf if (comparison.platform, task) in lower_bounds else comparison.simultaneous.high
            ends[comparison.platform] = comparison.simultaneous.low, high
            shares[comparison.platform] = comparison.share
    placed = []
    for platform, (low, high) in ends.items():
        before = sum(other_low > high for other_low, _ in ends.values())
        after = sum(other_high < low for _, other_high in ends.values())
        placed.append(Placed(platform, 1 + before, len(ends) - after, of.get(platform)))
    placed.sort(key=lambda entry: (-shares[entry.platform], entry.first, entry.last))
    return Ranking(task, tuple(placed), tuple(comparison for comparison in compared if comparison.platform not in ends))
