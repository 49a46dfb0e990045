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
    factors: dict[Task, list[float]] = {}
    for primary in (True, False):
        compared = [comparison for comparison in comparisons if comparison.task.metric.primary is primary]
        controls = [comparison for comparison in control if comparison.task.metric.primary is primary]
        errors = standard_errors(compared, controls)
        tested = [comparison for comparison in compared if (comparison.platform, comparison.task) in errors]
        for comparison in tested:
            error, df = errors[comparison.platform, comparison.task]
            count = len(comparison.independent)
            ahead = df * (blocks - 1) / (count - 1)
            needed = float(stdtrit(ahead, 1 - level / (2 * (family or len(tested)))) + stdtrit(ahead, POWER))
            factors.setdefault(comparison.task, []).append(needed * error * math.sqrt(count / blocks))
    return {task: math.exp(min(statistics.median(logs), 700.0)) for task, logs in factors.items()}
