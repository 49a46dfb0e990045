"""What bounds of rates leave to compare between two runs, or two platforms of one run.

A rate may be a lower bound in either run, or be made on other CPUs (`bounds`); and a search leaves its rate between two
bounds. By cost the same holds of both baselines. Main functions: `caveat_of_two`, `within_bounds_of_two`. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from virtoll.stats.analysis import Analysis
from virtoll.stats.bounds import MAY_FORWARD_MORE, TWO_BOUNDS, undecided, within_search_bounds
from virtoll.stats.compare import Comparison, Pair, Verdict
from virtoll.stats.values import Task
from virtoll.stats.verdicts import WidthOf

_ONE_IS_ELSEWHERE = "other CPUs forward"
_ONE_IS_BOUND = "the baseline is a lower bound in one run"
CAVEATS: Final = {
    TWO_BOUNDS: f"each of both {MAY_FORWARD_MORE}",
    _ONE_IS_ELSEWHERE: "the host's kernel forwards on other CPUs in one of both; the rates are of unlike things",
    _ONE_IS_BOUND: "the baseline reached the generator's limit in one run alone: the shares are of unlike things",
}


def caveat_of_two(first: Analysis, second: Analysis, pair: Pair, task: Task, bases: Sequence[Pair]) -> str | None:
    """Why a ratio is no result, in a few words; None where it may be one. `bases`: of what both sides are shares."""
    for sides in (pair, *bases):
        known = first.caveats.get(sides.first) or second.caveats.get(sides.second)
        if known is not None:
            return known
    if _is_bound(first, pair.first, task) and _is_bound(second, pair.second, task):
        return TWO_BOUNDS
    if any(_is_bound(first, base.first, task) != _is_bound(second, base.second, task) for base in bases):
        return _ONE_IS_BOUND
    apart = (
        (sides.first in first.forwarded_elsewhere) != (sides.second in second.forwarded_elsewhere)
        for sides in (pair, *bases)
    )
    return _ONE_IS_ELSEWHERE if task.is_forwarding_rate and any(apart) else None


def _is_bound(analysis: Analysis, label: str, task: Task) -> bool:
    counterpart = analysis.own_task(task)
    return counterpart is not None and (label, counterpart) in analysis.lower_bounds


def hidden_of_two(
    first: Analysis, second: Analysis, pair: Pair, task: Task, bases: Sequence[Pair]
) -> tuple[float, float]:
    """How far apart the bounds are between which each run's log share lies; `bases` as below."""
    mine = theirs = 0.0
    for side in (pair, *bases):
        mine += _width(first, side.first, task)
        theirs += _width(second, side.second, task)
    return mine, theirs


def width_of_pairs(analysis: Analysis, pairs: Sequence[Pair]) -> WidthOf:
    """The same of two platforms of one run, both together."""
    by_name = {pair.name: pair for pair in pairs}

    def width(comparison: Comparison) -> float:
        return sum(hidden_of_two(analysis, analysis, by_name[comparison.platform], comparison.task, ()))

    return width


def within_bounds_of_two(
    first: Analysis,
    second: Analysis,
    pairs: Sequence[Pair],
    comparison: Comparison,
    bases: Sequence[Pair],
    margin: float,
) -> Comparison:
    """The comparison with what the bounds of searches leave open, and without a verdict that a lower bound does not
    bear.

    Where the first may forward more than was seen, *slower* holds and no more; where the second may, *faster* does.
    `bases`: of whose performance both sides are shares, if any.
    """
    pair = next(each for each in pairs if each.name == comparison.platform)
    below = _width(first, pair.first, comparison.task)
    above = _width(second, pair.second, comparison.task)
    for base in bases:
        below += _width(second, base.second, comparison.task)
        above += _width(first, base.first, comparison.task)
    comparison = within_search_bounds(comparison, below, above, margin)
    reason = f"one of both {MAY_FORWARD_MORE}"
    if comparison.verdict in (Verdict.FASTER, Verdict.ALIKE) and _is_bound(first, pair.first, comparison.task):
        return undecided(comparison, reason, low=0.0)
    if comparison.verdict in (Verdict.SLOWER, Verdict.ALIKE) and _is_bound(second, pair.second, comparison.task):
        return undecided(comparison, reason, high=math.inf)
    return comparison


def _width(analysis: Analysis, label: str, task: Task) -> float:
    counterpart = analysis.own_task(task)
    if counterpart is None:
        return 0.0
    return analysis.rate_widths.get((label, counterpart), 0.0)
