"""What is written for other programs: each value that the plan asks of a guest alone, by a name that stays.

Main types: `Exchanged`, all that a format takes, and `Value`. Must not: compute a statistic.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from virtoll.report.gate import GateView
from virtoll.report.rows import grouped
from virtoll.stats.analysis import Analysis
from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Task, canonical, why_missing
from virtoll.system.printable import printable


@dataclass(frozen=True)
class Exchanged:
    """`gate`: of the run's thresholds, None: there are none. `damage`: what of the run folder is not as it was.

    `skip_unknown`: what a gate cannot tell is skipped, and no error.
    """

    analysis: Analysis
    gate: GateView | None = None
    damage: Sequence[str] = ()
    skip_unknown: bool = False


@dataclass(frozen=True)
class Value:
    """One metric of a platform. `cell` None: there is no result, for what `reason` says.

    `benchmark`: 'PLATFORM: WORKLOAD parameters', in letters that steer nothing. `lower_bound`: the median is one.
    """

    platform: str
    task: Task
    benchmark: str
    cell: CellSummary | None
    reason: str = ""
    lower_bound: bool = False

    @property
    def name(self) -> str:
        """'PLATFORM: WORKLOAD parameters: metric'."""
        return f"{self.benchmark}: {self.task.metric.name}"

    @property
    def low(self) -> float | None:
        """The interval's lower end, which one block has not."""
        return self.cell.interval.low if self.cell is not None and self.cell.interval is not None else None

    @property
    def high(self) -> float | None:
        """The upper end; a lower bound has none."""
        if self.lower_bound or self.cell is None or self.cell.interval is None:
            return None
        return self.cell.interval.high


def values_of(analysis: Analysis) -> tuple[Value, ...]:
    """Each metric of each workload that the plan has for a platform, platform by platform."""
    planned = {
        (trial.platform, trial.workload, canonical(trial.parameters))
        for trial in analysis.data.manifest.plan.trials
        if trial.condition is None and trial.scale is None
    }
    named = {}
    for alike in grouped(analysis.tasks, lambda task: (_name(task), task.metric.name)).values():
        for task in alike:
            named[task] = f"{_name(task)} {task.parameters}" if len(alike) > 1 else _name(task)
    reasons = _reasons(analysis)
    return tuple(
        _value(analysis, platform, task, named[task], reasons.get((platform, task.workload, task.parameters), ""))
        for platform in analysis.platforms
        for task in analysis.tasks
        if (platform, task.workload, task.parameters) in planned
    )


def _name(task: Task) -> str:
    return f"{task.workload} {task.size}".rstrip()


def results_of(analysis: Analysis) -> tuple[tuple[Value, CellSummary], ...]:
    """Those that have one."""
    return tuple((value, value.cell) for value in values_of(analysis) if value.cell is not None)


def _reasons(analysis: Analysis) -> dict[tuple[str, str, str], str]:
    """By platform, workload and parameters, the first reason for no value."""
    trials = analysis.data.trials
    gaps = {gap.trial: gap.reason for gap in analysis.gaps}
    reasons = {(*key[:3],): reason for key, reason in why_missing(trials, lambda _: True).items()}
    for trial in trials:
        if trial.trial in gaps:
            reasons.setdefault((trial.platform, trial.workload, canonical(trial.parameters)), gaps[trial.trial])
    return reasons


def _value(analysis: Analysis, platform: str, task: Task, words: str, reason: str) -> Value:
    caveat = analysis.caveats.get(platform)
    cell = analysis.cells.get((platform, task)) if caveat is None else None
    benchmark = one_line(f"{platform}: {words}")
    if cell is None:
        return Value(platform, task, benchmark, None, caveat or reason or "no trial of it has ended")
    return Value(platform, task, benchmark, cell, lower_bound=(platform, task) in analysis.lower_bounds)


def one_line(text: str) -> str:
    """A text on one line, in which nothing steers a terminal or is no letter of XML's."""
    return printable(" ".join(text.split()))
