"""What one platform measured, held against what is needed of it. Pure.

A platform *meets* a bound where the end of its interval that speaks against it does, and does *not* meet it where the
other end does not either. Intervals are those of claims (`stats.ratios`): over blocks, simultaneous with all others of
the advice. A rate that is a lower bound has an open end, so that it may meet a bound and never fail it. What is
functional only decides nothing. Main types: `BoundCheck` (values and a bound), `Statement` (a platform and a part).
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from virtoll.advise.models import Fit
from virtoll.advise.need import Bound, Part, RouterNeed
from virtoll.stats.analysis import Analysis
from virtoll.stats.clocks import ClockError
from virtoll.stats.compared import Compared, PlatformFilter
from virtoll.stats.ratios import Ratio, Ratios, by_block
from virtoll.stats.readings import Cell, trials_of
from virtoll.stats.remaining import MOST_BLOCKS
from virtoll.stats.verdicts import POWER


class Answer(StrEnum):
    """What may be said of a platform and a need."""

    MEETS = "meets it"
    FAILS = "does not"
    OPEN = "cannot be said"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class BoundCheck:
    """Values of one platform and the bound that they are held against, in the values' unit.

    `cell`: what must reach it. `against`: what must not, to fail it; None: the same. `fit`: the model that the values
    are of, None: they were measured. `note`: how else they are not plainly measured, in words. `task`: what they are
    of, where it is no task of the run; `basis`: the cells that they were told from (none: they themselves).
    """

    bound: str
    limit: float
    lower_is_better: bool
    cell: Cell
    against: Cell | None = None
    fit: Fit | None = None
    note: str = ""
    task: str = ""
    basis: tuple[Cell, ...] = ()

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Each that has an interval of its own."""
        return (self.cell,) if self.against is None else (self.cell, self.against)


@dataclass(frozen=True)
class Margin:
    """How many times what is needed it does, and the ends of that: `at_most` inf or `at_least` 0 where not known."""

    times: float
    at_least: float
    at_most: float

    @property
    def answer(self) -> Answer:
        """What the ends say of the bound."""
        if self.at_least >= 1:
            return Answer.MEETS
        return Answer.FAILS if self.at_most < 1 else Answer.OPEN


@dataclass(frozen=True)
class Finding:
    """One bound and what was measured of it: `value` in `unit`; `blocks` and `trials` that it rests on.

    `too_much`: the value is the most that the platform may do, and none that it did within the bounds is known.

    `margin` None: nothing has a value, or there is no interval. `caveat`: why its numbers are no results. `reason`: why
    it cannot be said, or what limits it. `more_blocks`: how many more would decide it, None: not known.
    """

    bound: str
    task: str
    under: str
    answer: Answer
    value: float | None
    unit: str
    margin: Margin | None
    blocks: int
    trials: int
    reason: str = ""
    caveat: str | None = None
    fit: Fit | None = None
    note: str = ""
    more_blocks: int | None = None
    too_much: bool = False


@dataclass(frozen=True)
class Statement:
    """What may be said of a platform and a part of a need, with its evidence; `reason`: why nothing was measured."""

    platform: str
    need: str
    answer: Answer
    findings: tuple[Finding, ...]
    reason: str = ""

    @property
    def tightest(self) -> Finding | None:
        """The finding with the least margin, of those that come to the answer; None without any."""
        return tightest_of([verdict for verdict in self.findings if verdict.answer is self.answer] or self.findings)


def tightest_of(findings: Sequence[Finding]) -> Finding | None:
    """The one with the least margin; one without any comes last; None of none."""
    return min(findings, key=lambda verdict: verdict.margin.times if verdict.margin else math.inf, default=None)


# What a workload is given to do in a second, or a link lets pass: a rate below it may be no more than that.
OFFERED = (
    "rate_requests_per_second",
    "rate_bits_per_second",
    "rate_frames_per_second",
    "total_rate_frames_per_second",
    "each_rate_frames_per_second",
    "link_rate_bits_per_second",
)


def measured(ratios: Ratios, workload: str, metric: str | None, where: Mapping[str, Any]) -> list[Cell] | str:
    """The values of a figure on all platforms, the baseline's first; in words what the run has not.

    A rate where no more was asked of the guest than a parameter says is a lower bound, unless `where` names that; of a
    duration there nothing can be said.
    """
    cells: list[Cell] = []
    reason = ""
    for platforms in ("baseline", PlatformFilter()):
        compared = Compared.model_validate(
            {"workload": workload, "metric": metric, "platforms": platforms, "where": dict(where)}
        )
        sides = ratios.sides(compared)
        if isinstance(sides, str):
            reason = sides
        else:
            cells += [as_offered(side[0], where) for side in sides if not isinstance(side, ClockError)]
    return cells or reason


def measured_cells(ratios: Ratios, workload: str, metric: str | None, where: Mapping[str, Any]) -> list[Cell]:
    """As `measured`; empty where the run has none."""
    cells = measured(ratios, workload, metric, where)
    return [] if isinstance(cells, str) else cells


def checks_of_figures(
    ratios: Ratios, workload: str, bounds: Iterable[Bound], where: Mapping[str, Any]
) -> tuple[list[BoundCheck], str]:
    """Each measured value of the bounded figures; and why the first figure that has no value has none."""
    checks: list[BoundCheck] = []
    reason = ""
    for bound in bounds:
        cells = measured(ratios, workload, bound.figure.name, where)
        if isinstance(cells, str):
            reason = reason or cells
        else:
            checks += [BoundCheck(bound.text, bound.limit, cell.lower_is_better, cell) for cell in cells]
    return checks, reason


def of_platform(demands: list[BoundCheck] | str, platform: str) -> list[BoundCheck]:
    """What one platform is asked; empty where the run lacks it."""
    known = [] if isinstance(demands, str) else demands
    return [demand for demand in known if demand.cell.platform == platform]


def as_offered(cell: Cell, where: Mapping[str, Any]) -> Cell:
    """The cell as what it was given to do lets it be read (`measured`)."""
    limits = [name for name in OFFERED if name not in where and cell.attributes.get(name)]
    if not limits:
        return cell
    if cell.task.metric.source == "marks":
        return untold(cell, f"how long it takes follows from {limits[0]}; name that in the need to ask of it")
    return replace(cell, at_least=True) if cell.unit.endswith("/s") and not cell.lower_is_better else cell


def untold(cell: Cell, reason: str) -> Cell:
    """A cell of which nothing can be said, for a reason."""
    return replace(cell, rounds={}, untold=reason)


def caveat_of(ratios: Ratios, cell: Cell) -> str | None:
    """Why the cell's numbers are no results; None where they are."""
    return ratios.caveat(_alone(cell), (cell, None))


def _alone(cell: Cell) -> Compared:
    return Compared(workload=cell.task.workload)


def family_of(ratios: Ratios, groups: Iterable[list[BoundCheck] | str]) -> int:
    """How many intervals are simultaneous: all of those whose numbers are results.

    A demand of two cells takes one end of each interval, and so no more of the level than one of a single cell.
    """
    demands = itertools.chain.from_iterable(group for group in groups if not isinstance(group, str))
    return sum(caveat_of(ratios, demand.cell) is None for demand in demands)


def finding(analysis: Analysis, ratios: Ratios, demand: BoundCheck, family: int) -> Finding:
    """What the values say of their bound."""
    values = [ratios.ratio(_alone(cell), (cell, None), family, value=True) for cell in demand.cells]
    ratio, other = values[0], values[-1]
    value = ratio.estimate if ratio.estimate is not None else other.estimate
    margin = _margin(demand, ratio, other, value)
    answer = Answer.OPEN
    if margin is not None and ratio.caveat is None:
        answer = margin.answer
    more_blocks = None
    if answer is Answer.OPEN and ratio.caveat is None and not analysis.host_of:
        gap = analysis.gap(demand.cell.platform, demand.cell.task)
        more_blocks = more_blocks_for(demand, family, analysis.level_after, gap)
    trials = sum(len(trials_of(analysis, cell)) for cell in demand.basis or (demand.cell,))
    return Finding(
        bound=demand.bound,
        task=demand.task or ratio.task,
        under=ratio.under,
        answer=answer,
        value=value,
        unit=demand.cell.task.metric.unit,
        margin=margin,
        blocks=max(each.blocks for each in values),
        trials=trials,
        reason=_reason(demand, values, answer, margin),
        caveat=ratio.caveat,
        fit=demand.fit,
        note=demand.note,
        too_much=ratio.estimate is None and value is not None,
        more_blocks=more_blocks,
    )


def _reason(demand: BoundCheck, values: Sequence[Ratio], answer: Answer, margin: Margin | None) -> str:
    if answer is Answer.MEETS and demand.against is not None:  # why it may even be more is no matter
        return values[0].reason
    reasons = dict.fromkeys(each.reason for each in values if each.reason)
    finite = margin is not None and math.isfinite(margin.at_most)
    if finite and answer is Answer.OPEN and all(each.interval is not None for each in values):
        reasons["to meet it and not to meet it both agree with what was measured"] = None
    return "; ".join(reasons)


def _margin(demand: BoundCheck, ratio: Ratio, other: Ratio, value: float | None) -> Margin | None:
    """Of performance, whichever way the figure goes; a model's ends are moved by its error on what it has not seen."""
    if value is None or (ratio.simultaneous is None and other.simultaneous is None):
        return None
    less = 1 + (demand.fit.held_out or 0.0) if demand.fit is not None and demand.fit.fits else 1.0

    def performance(number: float) -> float:
        if not demand.lower_is_better:
            return number / demand.limit
        return demand.limit / number if number > 0 else math.inf

    near, far = ratio.simultaneous, other.simultaneous
    if demand.lower_is_better:
        least = 0.0 if near is None else performance(near.high) / less
        most = math.inf if far is None else performance(far.low) * less
    else:
        least = 0.0 if near is None else performance(near.low) / less
        most = math.inf if far is None else performance(far.high) * less
    return Margin(performance(value), least, most)


def more_blocks_for(
    demand: BoundCheck, family: int, level_after: Callable[[int], float], gap: float = 0.0
) -> int | None:
    """How many blocks more 80 % of runs would need to tell, were the estimate the truth; None: not known.

    As in `stats.remaining`: (t(1 - level / 2 family) + t(power)) times the standard error is what can be told, and
    `gap`, by which two speeds of the host widen it. `level_after`: the level after so many further blocks
    (`Analysis.level_after`).
    """
    from virtoll.stats.arrays import stdtrit

    logs = list(by_block(demand.cell.rounds).values())
    if len(logs) < 2 or demand.against is not None or demand.fit is not None or demand.cell.untold:
        return None
    distance = abs(statistics.fmean(logs) - math.log(demand.limit)) - gap
    spread = statistics.stdev(logs)
    for blocks in range(len(logs) + 1, MOST_BLOCKS + 1):
        level = level_after(blocks - len(logs))
        quantiles = stdtrit(blocks - 1, 1 - level / (2 * max(family, 1))) + stdtrit(blocks - 1, POWER)
        if distance >= float(quantiles) * spread / math.sqrt(blocks):
            return blocks - len(logs)
    return None


def answer_of(part: Part, findings: Sequence[Finding]) -> Answer:
    """Of a part's figures each must be met: one that is not decides.

    Of a router they are several measurements of the same: one that decides is enough, unless another says the opposite.
    """
    answers = {verdict.answer for verdict in findings}
    if isinstance(part, RouterNeed):
        decided = answers & {Answer.MEETS, Answer.FAILS}
        return decided.pop() if len(decided) == 1 else Answer.OPEN
    if Answer.FAILS in answers:
        return Answer.FAILS
    return Answer.MEETS if answers == {Answer.MEETS} else Answer.OPEN


def alarm_words(analysis: Analysis) -> list[str]:
    """What the A/A control finds of the run, in a sentence; empty if it finds nothing."""
    if not analysis.alarms:
        return []
    tasks = ", ".join(comparison.task.label for comparison in analysis.alarms)
    return [f"the A/A control differs from the baseline itself: {tasks}"]


def why_not_measured(analysis: Analysis, platform: str, workloads: Iterable[str]) -> str:
    """Why a platform has no value of these workloads: it could not be used, or what its first trial failed of."""
    entry = next((entry for entry in analysis.data.manifest.platforms if entry.label == platform), None)
    if entry is not None and not entry.available:
        return entry.reason or "it could not be used on this host"
    named = set(workloads)
    lost = (trial for trial in analysis.data.every_trial if trial.platform == platform and trial.workload in named)
    first = next((trial for trial in lost if trial.status != "ok"), None)
    return f"{first.status}: {first.reason}" if first is not None else "it was not measured as the need says"
