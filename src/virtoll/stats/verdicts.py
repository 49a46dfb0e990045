"""The verdicts of one family of comparisons: test, interval, bounds and equivalence from one standard error.

With m the mean over n blocks of a comparison's log shares, v its variance and df its degrees of freedom (`noise`):
standard error se = sqrt(v / n), interval m +- t(0.975, df) se, p = 2 P(T_df > |m| / se). The formulas and their sources
are in docs/statistics.md. Main functions: `judge` on arrays, `decide` on comparisons of one
family, `decide_families` on all. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from virtoll import units
from virtoll.stats.arrays import np, stdtr, stdtrit
from virtoll.stats.compare import LEVEL, Comparison, Verdict, by_host, logs_of
from virtoll.stats.ends import left_open
from virtoll.stats.intervals import CONFIDENCE, Interval, holm
from virtoll.stats.noise import moderated
from virtoll.stats.states import TwoStates
from virtoll.stats.values import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from virtoll.stats.noise import Array

MARGIN = 0.10
MARGINS = (0.05, 0.10, 0.25)
POWER = 0.80
ALARM_LEVEL = 0.01
METHOD = "moderated t on log ratios"
METHOD_OF_HOSTS = "moderated t on hosts' mean log ratios"
BELOW, ABOVE = math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0)  # ends of what Holm's test leaves out 1 of
_LARGEST = 700.0  # of a logarithm whose exponential is still a number
_Key = TypeVar("_Key")
WidthOf = Callable[[Comparison], float]


@dataclass(frozen=True)
class Rules:
    """What verdicts keep to.

    `level`: the chance of any false "slower" or "faster" in the family; `alarm_level`: of any in the A/A control;
    `alike_level`: of each false "alike". `margin`: within how much platforms are alike (0.1 = 10 %). `host_of`: which
    host measured each block, in a run of several; there a host is what a block is in a run of one.
    """

    margin: float = MARGIN
    level: float = LEVEL
    alike_level: float = LEVEL
    alarm_level: float = ALARM_LEVEL
    host_of: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Judged:
    """A family's tests, by task and platform: logarithms of shares, nan where there are fewer than two blocks.

    `different`: slower or faster. `reach`: half the simultaneous interval of all tests (Bonferroni). `at_least`: its
    near end, as a distance from 0 and not below it. `within`: what |true mean| stays below, one-sided at `alike_level`
    (two one-sided tests). `smallest`: the |mean| that 80 % of such runs would tell from 0. `gap`: by how much both ends
    of all intervals are widened for two speeds of the host or a step of it; tests are of what lies beyond.
    """

    mean: Array
    error: Array
    df: Array
    low: Array
    high: Array
    p_value: Array
    p_adjusted: Array
    different: NDArray[np.bool_]
    reach: Array
    at_least: Array
    within: Array
    smallest: Array
    gap: Array


def judge(
    logs: Array,
    rules: Rules,
    control: NDArray[np.bool_] | None = None,
    gaps: Array | None = None,
    hidden: Array | None = None,
) -> Judged:
    """All tests of the log shares [tasks, platforms, blocks].

    `control`: which platforms are the A/A control (default: none). They inform the noise, and are a family of their
    own. `gaps`: by task, or by task and platform, how far apart the host's two speeds are as a logarithm, 0 where it
    has one (default: all). Tests, intervals and bounds then hold against either speed. `hidden`: as in
    `noise.moderated`.
    """
    count = np.isfinite(logs).sum(axis=2)
    noise = moderated(logs, hidden)
    error = np.sqrt(noise.variance / np.maximum(count, 1))
    return _judged(_means(logs), error, noise.df, rules, control, gaps)


def judge_two(
    first: Array,
    second: Array,
    rules: Rules,
    control: NDArray[np.bool_] | None = None,
    gaps: Array | None = None,
    hidden: Array | None = None,
) -> Judged:
    """As `judge`, of how far the second run's log shares are above the first's: blocks are two samples, no pairs.

    Welch's test: standard error sqrt(v1 / n1 + v2 / n2) and the degrees of freedom of Welch and Satterthwaite, each
    run's variance and its degrees of freedom being those of `judge`. So one run may be noisier than the other.
    `hidden`: of the first run and of the second.
    """
    parts, weights = [], []
    for place, logs in enumerate((first, second)):
        noise, count = moderated(logs, None if hidden is None else hidden[place]), np.isfinite(logs).sum(axis=2)
        parts.append(noise.variance / np.maximum(count, 1))
        weights.append(parts[-1] ** 2 / noise.df)
    squared = parts[0] + parts[1]
    return _judged(
        _means(second) - _means(first), np.sqrt(squared), squared**2 / (weights[0] + weights[1]), rules, control, gaps
    )


def _means(logs: Array) -> Array:
    """Over blocks; nan where there are fewer than two."""
    count = np.isfinite(logs).sum(axis=2)
    means: Array = np.where(count >= 2, np.nansum(logs, axis=2) / np.maximum(count, 1), np.nan)
    return means


def _judged(
    mean: Array, error: Array, df: Array, rules: Rules, control: NDArray[np.bool_] | None, gaps: Array | None
) -> Judged:
    half = stdtrit(df, (1 + CONFIDENCE) / 2) * error
    beside = np.broadcast_to(np.zeros(mean.shape[1], bool) if control is None else control, mean.shape)
    gap = np.zeros(mean.shape)
    if gaps is not None:
        gap = gap + gaps.reshape(len(mean), -1)
    p_value = 2 * stdtr(df, -np.maximum(np.abs(mean) - gap, 0) / error)
    p_adjusted, size = np.full_like(mean, np.nan), np.ones_like(mean)
    for family in (~beside, beside):
        tested = family & np.isfinite(p_value)
        p_adjusted[tested] = holm(p_value[tested].tolist())
        size[family] = max(int(tested.sum()), 1)
    simultaneous = stdtrit(df, 1 - rules.level / (2 * size))
    reach = simultaneous * error + gap
    return Judged(
        mean=mean,
        error=error,
        df=df,
        low=mean - half - gap,
        high=mean + half + gap,
        p_value=p_value,
        p_adjusted=p_adjusted,
        different=p_adjusted < np.where(beside, rules.alarm_level, rules.level),
        reach=reach,
        at_least=np.maximum(np.abs(mean) - reach, 0),
        within=np.abs(mean) + stdtrit(df, 1 - rules.alike_level) * error + gap,
        smallest=(simultaneous + stdtrit(df, POWER)) * error + gap,
        gap=gap,
    )


def without_width(_: Comparison) -> float:
    """Of comparisons without bounds of searches."""
    return 0.0


def decide(
    comparisons: Sequence[Comparison],
    control: Sequence[Comparison],
    rules: Rules,
    states: Sequence[TwoStates] = (),
    width: WidthOf = without_width,
) -> tuple[list[Comparison], list[Comparison]]:
    """The verdicts of a family and of the A/A control beside it; `states`: the tasks that the host ran at two speeds.

    Comparisons with a caveat, or of fewer than two blocks, stay as they are. The platforms of both, or the conditions,
    must differ. `width`: how far apart the bounds are between which a share lies, as a logarithm.
    """
    comparisons = [by_host(comparison, rules.host_of) for comparison in comparisons]
    control = [by_host(comparison, rules.host_of) for comparison in control]
    table = _Table.of(comparisons, control)
    if table is None:
        return comparisons, control
    gaps = np.maximum(table.gaps(states), table.steps((*comparisons, *control)))
    judged = judge(table.logs, rules, table.control, gaps, table.hidden((*comparisons, *control), width))

    def judged_family(family: Sequence[Comparison]) -> list[Comparison]:
        size, verdicts = sum(map(testable, family)), list(family)
        for place, comparison in enumerate(family):
            if testable(comparison):
                verdicts[place] = told_by(comparison, judged, table.place(comparison), rules, size)
        return verdicts

    return judged_family(comparisons), judged_family(control)


def decide_families(
    comparisons: Sequence[Comparison],
    control: Sequence[Comparison],
    rules: Rules,
    states: Sequence[TwoStates],
    width: WidthOf = without_width,
) -> tuple[list[Comparison], list[Comparison]]:
    """Both with their verdicts: the primary metrics are one family, the others a second; the A/A is beside each."""
    decided: dict[tuple[tuple[str, str | None], Task], Comparison] = {}
    for primary in (True, False):
        family = [comparison for comparison in comparisons if comparison.task.metric.primary is primary]
        beside = [comparison for comparison in control if comparison.task.metric.primary is primary]
        for judged in decide(family, beside, rules, states, width):
            decided |= {(_column(comparison), comparison.task): comparison for comparison in judged}

    def judged_of(family: Sequence[Comparison]) -> list[Comparison]:
        return [decided[_column(comparison), comparison.task] for comparison in family]

    return judged_of(comparisons), judged_of(control)


def standard_errors(
    comparisons: Sequence[Comparison], control: Sequence[Comparison]
) -> dict[tuple[str, Task], tuple[float, float]]:
    """Standard error of the mean log share and degrees of freedom of one family, by platform and task.

    Those that cannot be tested are missing.
    """
    table = _Table.of(comparisons, control)
    if table is None:
        return {}
    judged = judge(table.logs, Rules())
    errors = {}
    for comparison in filter(testable, (*comparisons, *control)):
        place = table.place(comparison)
        errors[comparison.platform, comparison.task] = float(judged.error[place]), float(judged.df[place])
    return errors


def testable(comparison: Comparison) -> bool:
    """Whether there is a test of it: two blocks or more, or hosts where there are several, and no caveat."""
    return comparison.caveat is None and len(comparison.independent) >= 2


@dataclass(frozen=True)
class _Table:
    """Log shares [tasks, platforms, blocks or hosts], which are the control, and what stands where.

    A platform under a condition is one of its own.
    """

    logs: Array
    control: NDArray[np.bool_]
    tasks: Mapping[Task, int]
    platforms: Mapping[tuple[str, str | None], int]

    @classmethod
    def of(cls, comparisons: Sequence[Comparison], control: Sequence[Comparison]) -> _Table | None:
        """None where nothing can be tested."""
        tested = [comparison for comparison in (*comparisons, *control) if testable(comparison)]
        if not tested:
            return None
        tasks, platforms = places(comparison.task for comparison in tested), places(map(_column, tested))
        blocks = places(block for comparison in tested for block, _ in comparison.independent)
        logs = np.full((len(tasks), len(platforms), len(blocks)), np.nan)
        for comparison in tested:
            for block, value in logs_of(comparison.independent).items():
                logs[tasks[comparison.task], platforms[_column(comparison)], blocks[block]] = value
        beside = set(map(_column, control))
        return cls(logs, np.array([column in beside for column in platforms]), tasks, platforms)

    def gaps(self, states: Sequence[TwoStates]) -> Array:
        """By task and platform, by how much two speeds of the host widen its intervals; the control is the host."""
        of = {state.task: state for state in states}
        gaps = np.zeros(self.logs.shape[:2])
        for task, row in self.tasks.items():
            for (platform, _), column in self.platforms.items():
                if task in of and not self.control[column]:
                    gaps[row, column] = of[task].gap(platform)
        return gaps

    def steps(self, comparisons: Iterable[Comparison]) -> Array:
        """By task and platform, by how much a step of the host at its turn widens its intervals."""
        steps = np.zeros(self.logs.shape[:2])
        for comparison in filter(testable, comparisons):
            steps[self.place(comparison)] = left_open(comparison.step)
        return steps

    def hidden(self, comparisons: Iterable[Comparison], width: WidthOf) -> Array:
        """By task and platform, the width of what was tested."""
        hidden = np.zeros(self.logs.shape[:2])
        for comparison in filter(testable, comparisons):
            hidden[self.place(comparison)] = width(comparison)
        return hidden

    def place(self, comparison: Comparison) -> tuple[int, int]:
        """Row and column of a comparison."""
        return self.tasks[comparison.task], self.platforms[_column(comparison)]


def _column(comparison: Comparison) -> tuple[str, str | None]:
    return comparison.platform, comparison.condition


def places(keys: Iterable[_Key]) -> dict[_Key, int]:
    """The place of each key, in the order in which they come first."""
    return {key: place for place, key in enumerate(dict.fromkeys(keys))}


def told_by(comparison: Comparison, judged: Judged, at: tuple[int, int], rules: Rules, size: int) -> Comparison:
    """The comparison with its numbers and its verdict, by its place in `judged` and its family's size.

    Verdict and simultaneous interval are one statement: where Holm's test has proved the side, the interval ends at 1.
    Everybody who tells of the comparison takes it from here.
    """
    mean, within, gap = float(judged.mean[at]), float(judged.within[at]), float(judged.gap[at])
    method = METHOD_OF_HOSTS if comparison.hosts else METHOD
    low, high = _factor(mean - judged.reach[at]), _factor(mean + judged.reach[at])
    if judged.different[at] and mean < 0:
        high = min(high, BELOW)
    elif judged.different[at]:
        low = max(low, ABOVE)
    possible = Interval(low, high, 1 - rules.level, method)
    numbered = replace(
        comparison,
        share=_factor(mean),
        interval=Interval(_factor(judged.low[at]), _factor(judged.high[at]), CONFIDENCE, method),
        simultaneous=possible,
        p_value=float(judged.p_value[at]),
        p_adjusted=float(judged.p_adjusted[at]),
        smallest=_factor(judged.smallest[at]),
        gap=_factor(gap),
    )
    if judged.different[at]:
        verdict = Verdict.SLOWER if mean < 0 else Verdict.FASTER
        reason = f"p = {numbered.p_adjusted:.2g} after correction for {size} comparisons"
        return replace(numbered, verdict=verdict, at_least=_factor(judged.at_least[at]), reason=reason)
    if judged.error[at] >= _LARGEST:
        return replace(numbered, reason="no comparison varies from block to block: the noise is not known")
    shown = units.percent_between(possible.low, possible.high)
    if not low <= 1 <= high:
        reason = f"p = {numbered.p_adjusted:.2g} after correction for {size} comparisons: an alarm needs less"
        return replace(numbered, reason=f"{reason} than {rules.alarm_level:g}")
    margin = next((limit for limit in _margins(rules.margin) if within < math.log1p(limit)), None)
    if margin is not None:
        reason = f"two one-sided tests at {rules.alike_level:.2g} leave less than {units.percent(margin)}"
        return replace(numbered, verdict=Verdict.ALIKE, margin=margin, reason=reason)
    if gap and gap == left_open(comparison.step):
        apart = f"before its turn and after it the host's values were {_factor(abs(comparison.step)):.2f} apart"
        return replace(numbered, reason=f"{apart}: anything from {shown} agrees with both")
    if gap:
        reason = f"the host ran this at two speeds, {_factor(gap):.2f} apart: anything from {shown} agrees with both"
        return replace(numbered, reason=reason)
    together = f"{size} comparisons taken together"
    reason = f"anything from {shown} of {comparison.against} agrees with what was measured ({together})"
    return replace(numbered, reason=reason)


def _margins(limit: float) -> list[float]:
    """The margins that may be told, from the smallest: those of the table below the experiment's, and the latter."""
    return [*(margin for margin in MARGINS if margin < limit), limit]


def _factor(logarithm: float) -> float:
    return math.exp(max(min(float(logarithm), _LARGEST), -_LARGEST))
