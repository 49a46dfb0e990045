"""Which difference a plan would detect, from the noise of an earlier run of the same host. Pure.

Main function: `foreseen`. The earlier run's variance of one block's log share is taken as it is, and its degrees of
freedom in proportion to blocks - 1. So both runs must have the same rounds, and the host must be as quiet.
"""

import math
import statistics
from collections.abc import Mapping, Sequence

from virtoll.stats.compare import LEVEL, Comparison
from virtoll.stats.values import Task
from virtoll.stats.verdicts import POWER, standard_errors


def foreseen(
    comparisons: Sequence[Comparison],
    control: Sequence[Comparison],
    blocks: int,
    *,
    family: int | None = None,
    level: float = LEVEL,
) -> Mapping[Task, float]:
    """By task, the smallest factor (above 1) that 80 % of runs of so many blocks would tell: median over platforms.

    `comparisons` and `control` are an earlier analysis'. `family`: how many comparisons the plan has; without it, as
    many as the earlier run tested. Tasks without two blocks are missing. Standard power analysis of a t-test:
    (t(1 - level / 2 family, df) + t(0.8, df)) * sqrt(variance / blocks). ValueError below two blocks.
    """
    from virtoll.stats.arrays import stdtrit

    if blocks < 2:
        raise ValueError(f"{blocks} block has no standard error: at least 2 are needed")
    found: dict[Task, list[float]] = {}
    for primary in (True, False):
        own = [one for one in comparisons if one.task.metric.primary is primary]
        beside = [one for one in control if one.task.metric.primary is primary]
        errors = standard_errors(own, beside)
        tested = [one for one in own if (one.platform, one.task) in errors]
        for one in tested:
            error, df = errors[one.platform, one.task]
            count = len(one.independent)
            ahead = df * (blocks - 1) / (count - 1)
            needed = float(stdtrit(ahead, 1 - level / (2 * (family or len(tested)))) + stdtrit(ahead, POWER))
            found.setdefault(one.task, []).append(needed * error * math.sqrt(count / blocks))
    return {task: math.exp(min(statistics.median(logs), 700.0)) for task, logs in found.items()}
