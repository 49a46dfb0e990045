"""How many blocks more would decide what is not known, by the noise of the run itself. Pure.

The estimates are taken as they are: were they the truth, 80 % of runs of so many blocks would tell. Standard power
analysis of the t-tests of `verdicts`, as in `foreseen`. Main functions: `remaining`, `block_seconds`.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from virtoll.runfolder.records import FitnessRecord, TrialRecord
from virtoll.stats.compare import Comparison
from virtoll.stats.looks import undecided
from virtoll.stats.verdicts import POWER, Rules, standard_errors

MOST_BLOCKS = 1000
MOST_TIMES = 2  # of the run's own blocks: a forecast of more is no advice, because its noise rests on these alone
_STEP_NS = 1_000_000_000


@dataclass(frozen=True)
class Remaining:
    """A comparison that is not known, and how many blocks more would decide it; None: not even `MOST_BLOCKS`.

    In a run of several hosts they are hosts, with as many blocks as the others.
    """

    comparison: Comparison
    blocks: int | None

    @property
    def near(self) -> bool:
        """Whether the forecast is advice: at most `MOST_TIMES` what the run has."""
        return self.blocks is not None and self.blocks <= MOST_TIMES * len(self.comparison.independent)


def remaining(
    comparisons: Sequence[Comparison],
    control: Sequence[Comparison],
    rules: Rules,
    level_after: Callable[[int], float] | None = None,
) -> tuple[Remaining, ...]:
    """Of each comparison of a primary metric that is not known, those that need fewest blocks first.

    It is decided where its estimate would be told from 1, or be alike within the margin. `level_after`: the level at
    which so many further blocks are tested; None: that of the rules, however many.
    """
    primary = [comparison for comparison in comparisons if comparison.task.metric.primary]
    errors = standard_errors(primary, [comparison for comparison in control if comparison.task.metric.primary])
    family = sum((comparison.platform, comparison.task) in errors for comparison in primary)
    rows = []
    for comparison in undecided(primary):
        if (comparison.platform, comparison.task) in errors and comparison.share is not None:
            error, df = errors[comparison.platform, comparison.task]
            gap, blocks = math.log(comparison.gap), len(comparison.independent)
            estimate = _Estimate(abs(math.log(comparison.share)), error, df, blocks, family, gap)
            rows.append(Remaining(comparison, _blocks(estimate, rules, level_after)))
    return tuple(sorted(rows, key=lambda row: math.inf if row.blocks is None else row.blocks))


@dataclass(frozen=True)
class _Estimate:
    """A mean log share without its sign, standard error and degrees of freedom, over so many blocks, one of a family.

    `gap`: by how much two speeds of the host widen its intervals, which no block cures.
    """

    mean: float
    error: float
    df: float
    blocks: int
    family: int
    gap: float

    def decides(self, blocks: int, rules: Rules) -> bool:
        """Whether so many blocks would tell it from 1, or show it alike within the margin."""
        from virtoll.stats.arrays import stdtrit

        ahead = self.df * (blocks - 1) / (self.blocks - 1)
        error = self.error * math.sqrt(self.blocks / blocks)
        power = float(stdtrit(ahead, POWER))
        differs = (float(stdtrit(ahead, 1 - rules.level / (2 * self.family))) + power) * error
        alike = (float(stdtrit(ahead, 1 - rules.alike_level)) + power) * error
        return self.mean - self.gap >= differs or self.mean + self.gap + alike < math.log1p(rules.margin)


def _blocks(estimate: _Estimate, rules: Rules, level_after: Callable[[int], float] | None) -> int | None:
    """The smallest number of further blocks, by bisection: more blocks never decide less."""

    def decides(blocks: int) -> bool:
        if level_after is None:
            return estimate.decides(blocks, rules)
        level = level_after(blocks - estimate.blocks)
        return estimate.decides(blocks, replace(rules, level=level, alike_level=level))

    if not decides(MOST_BLOCKS):
        return None
    low, high = estimate.blocks, MOST_BLOCKS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high - estimate.blocks


def block_seconds(trials: Sequence[TrialRecord], fitness: Sequence[FitnessRecord] = ()) -> float | None:
    """How long a block took, s: the median from a block's first trial's begin to its last one's end.

    A block in which the realtime clock was set (`fitness` has both clocks) tells nothing of it.
    """
    stepped = _after_steps(fitness)
    ends: dict[int, list[int]] = {}
    for trial in trials:
        if trial.started_realtime_ns is not None and trial.ended_realtime_ns is not None:
            ends.setdefault(trial.block, []).extend((trial.started_realtime_ns, trial.ended_realtime_ns))
    for block in {trial.block for trial in trials if trial.trial in stepped}:
        ends.pop(block, None)
    lengths = [max(times) - min(times) for times in ends.values()]
    return statistics.median(lengths) / 1e9 if lengths else None


def _after_steps(fitness: Sequence[FitnessRecord]) -> frozenset[int]:
    """The trials in or before which the realtime clock was set, or the host was started again."""
    return frozenset(
        after.after_trial
        for before, after in pairwise(fitness)
        if after.after_trial is not None
        and abs((after.realtime_ns - before.realtime_ns) - (after.monotonic_ns - before.monotonic_ns)) >= _STEP_NS
    )
