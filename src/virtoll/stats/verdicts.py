"""The verdicts of one family of comparisons: test, interval, bounds and equivalence from one standard error.

With m the mean over n blocks of a comparison's log shares, v its variance and df its degrees of freedom (`noise`):
standard error se = sqrt(v / n), interval m +- t(0.975, df) se, p = 2 P(T_df > |m| / se). The formulas and their sources
are in docs/statistics.md. Main functions: `judge` on arrays, `decide` on comparisons of one
family, `decide_families` on all. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from virtoll import units
from virtoll.stats.arrays import np, stdtr, stdtrit
from virtoll.stats.compare import LEVEL, Comparison, Verdict, by_host, logs_of
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
CLEAR = 2.0  # the factor below which nothing is said of a task whose host has two states
METHOD = "moderated t on log ratios"
METHOD_OF_HOSTS = "moderated t on hosts' mean log ratios"
_LARGEST = 700.0  # of a logarithm whose exponential is still a number
_Key = TypeVar("_Key")


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
    (two one-sided tests). `smallest`: the |mean| that 80 % of such runs would tell from 0.
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


def judge(logs: Array, rules: Rules, control: NDArray[np.bool_] | None = None, gaps: Array | None = None) -> Judged:
    """All tests of the log shares [tasks, platforms, blocks].

    `control`: which platforms are the A/A control (default: none). They inform the noise, and are a family of their
    own. `gaps`: by task, how far apart the host's two states are as a logarithm, 0 where it has one (default: all).
    Intervals and bounds then hold against either state, and no difference below a factor of two is told.
    """
    count = np.isfinite(logs).sum(axis=2)
    noise = moderated(logs)
    error = np.sqrt(noise.variance / np.maximum(count, 1))
    return _judged(_means(logs), error, noise.df, rules, control, gaps)


def judge_two(
    first: Array, second: Array, rules: Rules, control: NDArray[np.bool_] | None = None, gaps: Array | None = None
) -> Judged:
    """As `judge`, of how far the second run's log shares are above the first's: blocks are two samples, no pairs.

    Welch's test: standard error sqrt(v1 / n1 + v2 / n2) and the degrees of freedom of Welch and Satterthwaite, each
    run's variance and its degrees of freedom being those of `judge`. So one run may be noisier than the other.
    """
    parts, weights = [], []
    for logs in (first, second):
        noise, count = moderated(logs), np.isfinite(logs).sum(axis=2)
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
    p_value = 2 * stdtr(df, -np.abs(mean) / error)
    beside = np.broadcast_to(np.zeros(mean.shape[1], bool) if control is None else control, mean.shape)
    gap = np.broadcast_to(np.zeros((len(mean), 1)) if gaps is None else gaps[:, None], mean.shape)
    level = np.where(beside, rules.alarm_level, rules.level)
    p_adjusted, size = np.full_like(mean, np.nan), np.ones_like(mean)
    for family in (~beside, beside):
        tested = family & np.isfinite(p_value)
        p_adjusted[tested] = holm(p_value[tested].tolist())
        size[family] = max(int(tested.sum()), 1)
    simultaneous = stdtrit(df, 1 - level / (2 * size))
    reach = simultaneous * error + gap
    return Judged(
        mean=mean,
        error=error,
        df=df,
        low=mean - half - gap,
        high=mean + half + gap,
        p_value=p_value,
        p_adjusted=p_adjusted,
        different=(p_adjusted < level) & ((gap == 0) | (np.abs(mean) >= math.log(CLEAR))),
        reach=reach,
        at_least=np.maximum(np.abs(mean) - reach, 0),
        within=np.abs(mean) + stdtrit(df, 1 - rules.alike_level) * error + gap,
        smallest=(simultaneous + stdtrit(df, POWER)) * error,
    )


def decide(
    comparisons: Sequence[Comparison],
    control: Sequence[Comparison],
    rules: Rules,
    states: Sequence[TwoStates] = (),
) -> tuple[list[Comparison], list[Comparison]]:
    """The verdicts of a family and of the A/A control beside it; `states`: the tasks that the host ran in two.

    Comparisons with a caveat, or of fewer than two blocks, stay as they are. The platforms of both, or the conditions,
    must differ.
    """
    comparisons = [by_host(one, rules.host_of) for one in comparisons]
    control = [by_host(one, rules.host_of) for one in control]
    table = _Table.of(comparisons, control)
    if table is None:
        return comparisons, control
    apart = {one.task: math.log(one.factor) for one in states}
    judged = judge(table.logs, rules, table.control, np.array([apart.get(task, 0.0) for task in table.tasks]))

    def told(own: Sequence[Comparison], level: float) -> list[Comparison]:
        size = sum(map(testable, own))
        return [
            told_by(one, judged, table.place(one), replace(rules, level=level), size, one.task in apart)
            if testable(one)
            else one
            for one in own
        ]

    return told(comparisons, rules.level), told(control, rules.alarm_level)


def decide_families(
    comparisons: Sequence[Comparison], control: Sequence[Comparison], rules: Rules, states: Sequence[TwoStates]
) -> tuple[list[Comparison], list[Comparison]]:
    """Both with their verdicts: the primary metrics are one family, the others a second; the A/A is beside each."""
    decided: dict[tuple[tuple[str, str | None], Task], Comparison] = {}
    for primary in (True, False):
        own = [one for one in comparisons if one.task.metric.primary is primary]
        beside = [one for one in control if one.task.metric.primary is primary]
        for found in decide(own, beside, rules, states):
            decided |= {(_column(one), one.task): one for one in found}
    return (
        [decided[_column(one), one.task] for one in comparisons],
        [decided[_column(one), one.task] for one in control],
    )


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
    return {
        (one.platform, one.task): (float(judged.error[table.place(one)]), float(judged.df[table.place(one)]))
        for one in (*comparisons, *control)
        if testable(one)
    }


def testable(one: Comparison) -> bool:
    """Whether there is a test of it: two blocks or more, or hosts where there are several, and no caveat."""
    return one.caveat is None and len(one.independent) >= 2


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
        tested = [one for one in (*comparisons, *control) if testable(one)]
        if not tested:
            return None
        tasks, platforms = places(one.task for one in tested), places(map(_column, tested))
        blocks = places(block for one in tested for block, _ in one.independent)
        logs = np.full((len(tasks), len(platforms), len(blocks)), np.nan)
        for one in tested:
            for block, value in logs_of(one.independent).items():
                logs[tasks[one.task], platforms[_column(one)], blocks[block]] = value
        beside = set(map(_column, control))
        return cls(logs, np.array([column in beside for column in platforms]), tasks, platforms)

    def place(self, one: Comparison) -> tuple[int, int]:
        """Row and column of a comparison."""
        return self.tasks[one.task], self.platforms[_column(one)]


def _column(one: Comparison) -> tuple[str, str | None]:
    return one.platform, one.condition


def places(keys: Iterable[_Key]) -> dict[_Key, int]:
    """The place of each key, in the order in which they come first."""
    return {key: place for place, key in enumerate(dict.fromkeys(keys))}


def told_by(
    one: Comparison, judged: Judged, at: tuple[int, int], rules: Rules, size: int, unsteady: bool
) -> Comparison:
    """The comparison with its numbers and its verdict, by its place in `judged` and its family's size.

    `unsteady`: the host ran its task in two states.
    """
    mean, within, reach = float(judged.mean[at]), float(judged.within[at]), float(judged.reach[at])
    method = METHOD_OF_HOSTS if one.hosts else METHOD
    possible = Interval(_factor(mean - reach), _factor(mean + reach), 1 - rules.level, method)
    told = replace(
        one,
        share=_factor(mean),
        interval=Interval(_factor(judged.low[at]), _factor(judged.high[at]), CONFIDENCE, method),
        simultaneous=possible,
        p_value=float(judged.p_value[at]),
        p_adjusted=float(judged.p_adjusted[at]),
        smallest=_factor(judged.smallest[at]),
    )
    if judged.different[at]:
        verdict = Verdict.SLOWER if mean < 0 else Verdict.FASTER
        reason = f"p = {told.p_adjusted:.2g} after correction for {size} comparisons"
        return replace(told, verdict=verdict, at_least=_factor(judged.at_least[at]), reason=reason)
    shown = units.percent_between(possible.low, possible.high)
    if unsteady:
        reason = f"the host ran this in two states: nothing is said of less than a factor of {CLEAR:g} ({shown})"
        return replace(told, reason=reason)
    margin = next((limit for limit in _margins(rules.margin) if within < math.log1p(limit)), None)
    if margin is not None:
        reason = f"two one-sided tests at {rules.alike_level:.2g} leave less than {units.percent(margin)}"
        return replace(told, verdict=Verdict.ALIKE, margin=margin, reason=reason)
    reason = f"anything from {shown} of {one.against} agrees with what was measured ({size} comparisons taken together)"
    return replace(told, reason=reason)


def _margins(own: float) -> list[float]:
    """The margins that may be told, from the smallest: those of the table below the experiment's, and the latter."""
    return [*(margin for margin in MARGINS if margin < own), own]


def _factor(logarithm: float) -> float:
    return math.exp(max(min(float(logarithm), _LARGEST), -_LARGEST))
