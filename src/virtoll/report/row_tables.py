"""The rows of `virtoll.load(run).rows` and `.frame`; the first two are in the JSON of the report too."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from virtoll.report.report_input import ReportInput
from virtoll.report.sections.cost.tables import COMPARISONS
from virtoll.report.table import Column, Table, ValueKind, caveat, count, flag, number, of_interval, of_task, shared
from virtoll.runfolder.records import TrialRecord
from virtoll.stats.analysis import Analysis
from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Task


@dataclass(frozen=True)
class Median:
    """A platform and task that has values, with its cell; `generator_bound`, `lower_bound`: as the columns say."""

    platform: str
    task: Task
    cell: CellSummary
    generator_bound: bool
    lower_bound: bool


def _medians(source: ReportInput) -> Iterator[Median]:
    analysis = source.analysis
    for (platform, task), cell in analysis.cells.items():
        bound, lower = analysis.generator_bound(platform, task), (platform, task) in analysis.lower_bounds
        yield Median(platform, task, cell, bound, lower)


MEDIANS: Final = Table[Median](
    "medians",
    "a platform and task that has values",
    _medians,
    (
        shared("platform", lambda row: row.platform),
        *of_task(lambda row: row.task),
        shared("median", lambda row: row.cell.median),
        *of_interval(
            ("low", "high"),
            "`unit`",
            "the low end of the median's order-statistic interval",
            lambda row: row.cell.interval,
        ),
        number(
            "coverage_share",
            "probability",
            "the confidence that the interval really has",
            lambda row: row.cell.interval and row.cell.interval.coverage,
        ),
        shared("blocks", lambda row: row.cell.blocks),
        count("values", "values that it is of, several of a block in rounds", lambda row: len(row.cell.observations)),
        Column(
            "flagged_trials",
            "",
            "numbers of trials that stand out of it; they count all the same",
            ValueKind.LIST,
            lambda row: sorted(row.cell.outliers),
        ),
        flag(
            "generator_bound",
            "whether it came within 10 % of what the instrument can do",
            lambda row: row.generator_bound,
        ),
        flag(
            "lower_bound",
            "whether the true value may be larger: the generator's limit",
            lambda row: row.lower_bound,
        ),
        caveat(lambda row: row.platform),
    ),
)

TRIALS: Final = Table[TrialRecord](
    "trials",
    "a trial that has ended",
    None,
    (
        shared("trial", lambda trial: trial.trial),
        shared("block", lambda trial: trial.block + 1),
        shared("platform", lambda trial: trial.platform),
        shared("workload", lambda trial: trial.workload),
        shared("parameters", lambda trial: dict(trial.parameters)),
        shared("warm_up", lambda trial: trial.warm_up),
        shared("status", lambda trial: trial.status),
        shared("reason", lambda trial: trial.reason or None),
    ),
)


def records_of(table: Table[Any], analysis: Analysis) -> list[dict[str, Any]]:
    """The rows of a table of an analysis, each as `csv_table.record` gives it."""
    made = table.csv(ReportInput(analysis))
    return made.records() if made is not None else []


def _with_open_ends(table: Table[Any]) -> Table[Any]:
    """The same as `csv_table.record` gives it: after each end of an interval, whether it is open."""
    columns: list[Column[Any]] = []
    for column in table.columns:
        columns.append(column)
        end = column.name.removeprefix("joint_")
        if end in {"low", "high"}:
            columns.append(replace(shared(f"{end}_open", column.value), name=f"{column.name}_open"))
    return replace(table, columns=tuple(columns))


ROW_TABLES: Final[Mapping[str, Table[Any]]] = {"medians": MEDIANS, "comparisons": COMPARISONS, "trials": TRIALS}
ROWS: Final[Mapping[str, Table[Any]]] = {name: _with_open_ends(table) for name, table in ROW_TABLES.items()}
"""The same with every column that the rows have, for docs/python.md and the types of a frame."""
