"""`cells.csv`: a trial's value of each metric; `comparisons.csv`: each platform against the baseline."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import (
    Table,
    answer,
    caveat,
    count,
    family_of,
    joint_interval,
    number,
    of_comparison,
    of_task,
    shared,
    text,
)
from virtoll.runfolder.records import TrialRecord
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import Comparison
from virtoll.stats.estimates import CellEstimate
from virtoll.stats.like_with_like import is_near
from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Observation, Task, TasksOf


@dataclass(frozen=True)
class TrialValue:
    """A trial and one of its metrics: the value, None if there is none, and why. `condition`: in words.

    `left_out`: of its cell, since CPUs were far from each other (`stats/like_with_like.py`).
    """

    trial: TrialRecord
    task: Task
    condition: str | None
    observation: Observation | None
    flagged: bool | None
    left_out: bool | None
    reason: str | None


def _values(source: ReportInput) -> Iterator[TrialValue]:
    """One row for each trial and metric, values or not: nothing that was tried is missing."""
    analysis = source.analysis
    parts = (analysis, analysis.isolation, analysis.at_once)
    observations = {
        (observation.trial, observation.task): observation for part in parts for observation in part.observations
    }
    gaps = {gap.trial: gap.reason for part in parts for gap in part.gaps}
    tasks_of_trial = TasksOf(analysis.tasks)
    for trial in analysis.data.every_trial:
        condition = _condition(analysis, trial)
        for task in tasks_of_trial(trial):
            observation = observations.get((trial.trial, task))
            cell = _cell(analysis, trial, task)
            yield TrialValue(
                trial,
                task,
                condition,
                observation,
                flagged=trial.trial in cell.outliers if cell and observation else None,
                left_out=not is_near(observation) and observation not in cell.observations
                if cell and observation
                else None,
                reason=trial.reason or gaps.get(trial.trial),
            )


def _condition(analysis: Analysis, trial: TrialRecord) -> str | None:
    if trial.scale is not None:
        return analysis.at_once.words(trial.scale)
    return trial.condition.label if trial.condition is not None else None


def _cell(analysis: Analysis, trial: TrialRecord, task: Task) -> CellSummary | None:
    """The cell that a trial's value is in."""
    if trial.scale is not None:
        return analysis.at_once.cells.get((trial.platform, task, trial.scale))
    if trial.condition is not None:
        return analysis.isolation.cells.get((trial.platform, task, trial.condition.label))
    return analysis.cells.get((trial.platform, task))


CELLS: Final = Table[TrialValue](
    "cells",
    "a trial and metric, with a value or not: nothing that was tried is missing",
    _values,
    (
        shared("trial", lambda row: row.trial.trial),
        shared("block", lambda row: row.trial.block + 1),
        count(
            "position",
            "the trial's place in the order measured, from 0",
            lambda row: row.observation and row.observation.position,
        ),
        shared("platform", lambda row: row.trial.platform),
        shared("condition", lambda row: row.condition),
        *of_task(lambda row: row.task),
        shared("status", lambda row: row.trial.status),
        number("value", "`unit`", "the value; empty: none", lambda row: row.observation and row.observation.value),
        answer(
            "flagged_outlier",
            "whether it stands out of its cell; it counts all the same",
            lambda row: row.flagged,
        ),
        text(
            "cpu_distance",
            "near, far or changed: of the CPUs around it; empty: not read, or always the same",
            lambda row: row.observation and row.observation.distance,
        ),
        answer(
            "left_out",
            "whether it is in no median and no verdict, since others of its block were near",
            lambda row: row.left_out,
        ),
        shared("reason", lambda row: row.reason),
        caveat(lambda row: row.trial.platform),
    ),
)


@dataclass(frozen=True)
class Against:
    """A platform's comparison with the baseline, with the values of both; `control`: it is the A/A control's."""

    comparison: Comparison
    baseline: str | None
    control: bool
    baseline_cell: CellSummary | None
    estimate: CellEstimate | None
    unlike: tuple[str, ...]


def _comparisons(source: ReportInput) -> Iterator[Against]:
    """One row for each platform other than the baseline and each task."""
    analysis = source.analysis
    manifest = analysis.data.manifest
    for comparison in (*analysis.control, *analysis.comparisons):
        platform, task = comparison.platform, comparison.task
        yield Against(
            comparison,
            manifest.baseline,
            platform == manifest.control,
            analysis.cells.get((manifest.baseline or "", task)),
            analysis.estimates.get((platform, task)),
            tuple(analysis.unlike.get(platform, ())),
        )


def _comparison(row: Against) -> Comparison:
    return row.comparison


COMPARISONS: Final = Table[Against](
    "comparisons",
    "a platform and task, against the baseline",
    _comparisons,
    (
        *of_comparison("platform", _comparison),
        shared("baseline", lambda row: row.baseline),
        *of_task(lambda row: row.comparison.task),
        *of_comparison("pairs", _comparison),
        number(
            "baseline_median",
            "`unit`",
            "the baseline's median over blocks",
            lambda row: row.baseline_cell and row.baseline_cell.median,
        ),
        number(
            "platform_value",
            "`unit`",
            "the platform's: the baseline's median times their ratio; its own median where no share counts",
            lambda row: row.estimate and row.estimate.value,
        ),
        *of_comparison("share low high", _comparison),
        *joint_interval(_comparison),
        *of_comparison("times_slower", _comparison),
        text(
            "interval_method",
            "how the interval was made",
            lambda row: row.comparison.interval and row.comparison.interval.method,
        ),
        *of_comparison("p_value p_adjusted", _comparison),
        shared("family", lambda row: family_of(row.comparison, control=row.control)),
        *of_comparison("verdict at_least margin smallest_detectable_factor reason caveat", _comparison),
        text(
            "unlike_facts",
            "what is not equal between the guests of both, measured inside",
            lambda row: ", ".join(row.unlike),
        ),
    ),
)
