"""A table of the report: its columns are declared once, with unit, meaning and value.

Main types: `Table` and `Column`. The CSV file, the rows for Python and docs/tables.md are all made of the same columns.
`shared` makes a column that means the same in every table. Must not: compute anything.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TypeVar

from virtoll.report.csv_table import CsvTable, times_slower
from virtoll.report.report_input import ReportInput
from virtoll.runfolder.hand_over import HandOverSpan
from virtoll.stats.compare import Comparison
from virtoll.stats.intervals import Estimate, Interval
from virtoll.stats.values import Task

Row = TypeVar("Row")
Part = TypeVar("Part")
Value = Callable[[Row], Any]
"""A cell of a row; None: it is empty."""


class ValueKind(StrEnum):
    """What a column's values are; each kind has a missing value of its own."""

    TEXT = "text"
    SENTENCE = "sentence"
    COUNT = "whole number"
    NUMBER = "number"
    ANSWER = "yes or no"
    LIST = "list"


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column: `value` gives the cell of a row, None an empty one.

    `unit`: empty for a word, or for a number without a unit; `unit` in backquotes: it is in the row's column of that
    name. `nullable`: whether a cell may be empty; the tables of a dataset alone say so. `of_report`: makes `value` for
    a report, if it depends on more than the row.
    """

    name: str
    unit: str
    meaning: str
    kind: ValueKind
    value: Value[Row]
    nullable: bool = True
    of_report: Callable[[ReportInput], Value[Row]] | None = None

    def value_for(self, source: ReportInput) -> Value[Row]:
        """What gives the cells of a report."""
        return self.value if self.of_report is None else self.of_report(source)


@dataclass(frozen=True)
class Table(Generic[Row]):
    """A table: its name is the file's without the ending, and `row` says what a row is, in words.

    `rows`: those of a report; None if it has nothing of the kind, and the table is left out, as an `optional` one
    without rows is. A table that no report of a run has is without. `columns_of`: a report's columns, if they are not
    the same in each; `columns` are then what is said of them all.
    """

    name: str
    row: str
    rows: Callable[[ReportInput], Iterable[Row] | None] | None
    columns: tuple[Column[Row], ...]
    columns_of: Callable[[ReportInput], tuple[Column[Row], ...]] | None = None
    optional: bool = False

    @property
    def header(self) -> tuple[str, ...]:
        """The columns' names in their order."""
        return tuple(column.name for column in self.columns)

    def of(self, rows: Iterable[Row]) -> CsvTable:
        """The table with these rows."""
        return CsvTable(self.name, self.header, _cells(rows, [column.value for column in self.columns]))

    def csv(self, source: ReportInput) -> CsvTable | None:
        """The table of a report; None if it has nothing of the kind."""
        rows = None if self.rows is None else self.rows(source)
        if rows is None:
            return None
        columns = self.columns if self.columns_of is None else self.columns_of(source)
        cells = _cells(rows, [column.value_for(source) for column in columns])
        if self.optional and not cells:
            return None
        return CsvTable(self.name, tuple(column.name for column in columns), cells)


def _cells(rows: Iterable[Row], values: Iterable[Value[Row]]) -> tuple[tuple[Any, ...], ...]:
    """Column by column, which is quicker: a report has a million cells."""
    all_rows = list(rows)
    return tuple(zip(*(map(value, all_rows) for value in values), strict=True))


def text(name: str, meaning: str, value: Value[Row]) -> Column[Row]:
    """A column of words."""
    return Column(name, "", meaning, ValueKind.TEXT, value)


def count(name: str, meaning: str, value: Value[Row]) -> Column[Row]:
    """A column of whole numbers without a unit."""
    return Column(name, "", meaning, ValueKind.COUNT, value)


def whole(name: str, unit: str, meaning: str, value: Value[Row]) -> Column[Row]:
    """A column of whole numbers in a unit."""
    return Column(name, unit, meaning, ValueKind.COUNT, value)


def number(name: str, unit: str, meaning: str, value: Value[Row]) -> Column[Row]:
    """A column of numbers in a unit; an empty one if it is a number of nothing."""
    return Column(name, unit, meaning, ValueKind.NUMBER, value)


def answer(name: str, meaning: str, value: Value[Row]) -> Column[Row]:
    """A column of 0 and 1."""

    def as_number(row: Row) -> int | None:
        flag = value(row)
        return None if flag is None else int(flag)

    return flag(name, meaning, as_number)


def flag(name: str, meaning: str, value: Value[Row]) -> Column[Row]:
    """A column of true and false, which is 0 and 1 in a file."""
    return Column(name, "0 or 1", meaning, ValueKind.ANSWER, value)


class Ends(Protocol):
    """An interval; its ends may be infinite."""

    @property
    def low(self) -> float:
        """The end below."""

    @property
    def high(self) -> float:
        """The end above."""


def of_interval(
    names: tuple[str, str], unit: str, meaning: str, interval: Callable[[Row], Ends | None]
) -> tuple[Column[Row], ...]:
    """Two columns of an interval's ends, empty if a row has no interval; `meaning`: of the low end."""

    def low(row: Row) -> float | None:
        ends = interval(row)
        return None if ends is None else ends.low

    def high(row: Row) -> float | None:
        ends = interval(row)
        return None if ends is None else ends.high

    return number(names[0], unit, meaning, low), number(names[1], unit, "the high end of it", high)


def of_estimate(
    names: tuple[str, str, str], unit: str, meanings: tuple[str, str], estimate: Callable[[Row], Estimate | None]
) -> tuple[Column[Row], ...]:
    """Three columns of an estimate: its value and both ends of its interval, which one block has not."""

    def value(row: Row) -> float | None:
        estimated = estimate(row)
        return None if estimated is None else estimated.value

    def interval(row: Row) -> Interval | None:
        estimated = estimate(row)
        return None if estimated is None else estimated.interval

    return (number(names[0], unit, meanings[0], value), *of_interval(names[1:], unit, meanings[1], interval))


def mean(what: str, meaning: str, estimate: Callable[[Row], Estimate | None]) -> tuple[Column[Row], ...]:
    """`of_estimate` of a mean in Mbit/s on the wire."""
    names = (f"{what}_mean_mbit_per_second", f"{what}_low_mbit_per_second", f"{what}_high_mbit_per_second")
    first = f"{meaning}, on the wire: the mean over blocks"
    return of_estimate(names, "Mbit/s", (first, "the low end of its 95 % t interval"), estimate)


def shared(name: str, value: Value[Row]) -> Column[Row]:
    """A column that means the same in every table that has it; `KeyError` if `SHARED` has none of that name."""
    unit, meaning = SHARED[name]
    shown = "" if unit in _KINDS and unit != _ANSWER else unit
    return Column(name, shown, meaning, _KINDS.get(unit, ValueKind.NUMBER), value)


def of_part(columns: Iterable[Column[Part]], part: Callable[[Row], Part | None]) -> tuple[Column[Row], ...]:
    """Columns of a part of each row; their cells are empty if a row has none."""

    def of_row(column: Column[Part]) -> Column[Row]:
        value = column.value

        def cell(row: Row) -> Any:
            there = part(row)
            return None if there is None else value(there)

        return Column(column.name, column.unit, column.meaning, column.kind, cell)

    return tuple(map(of_row, columns))


def of_task(task: Callable[[Row], Task]) -> tuple[Column[Row], ...]:
    """Workload, parameters, metric, unit and label of each row's task."""
    return (
        shared("workload", lambda row: task(row).workload),
        shared("parameters", lambda row: task(row).parameters),
        shared("metric", lambda row: task(row).metric.name),
        shared("unit", lambda row: task(row).metric.unit),
        shared("label", lambda row: task(row).label),
    )


def of_comparison(names: str, comparison: Callable[[Row], Comparison | None]) -> tuple[Column[Row], ...]:
    """These columns of each row's comparison, of those in `_OF_COMPARISON`; empty if the row has none."""

    def column(name: str) -> Column[Row]:
        of = _OF_COMPARISON[name]

        def value(row: Row) -> Any:
            compared = comparison(row)
            return None if compared is None else of(compared)

        return shared(name, value)

    return tuple(map(column, names.split()))


def of_hand_over(span: Callable[[Row], HandOverSpan | None]) -> tuple[Column[Row], ...]:
    """How far apart the CPUs were before and after each row; empty if that was not read."""
    return (
        shared("hand_over_before_ns", lambda row: (around := span(row)) and around.before_ns),
        shared("hand_over_after_ns", lambda row: (around := span(row)) and around.after_ns),
    )


def joint_interval(comparison: Callable[[Row], Comparison | None]) -> tuple[Column[Row], ...]:
    """Two columns of the interval of each row's share that holds together with all others of its family."""

    def interval(row: Row) -> Interval | None:
        compared = comparison(row)
        return None if compared is None else compared.simultaneous

    meaning = "the low end of the interval that holds together with all others of the family"
    return of_interval(("joint_low", "joint_high"), "share", meaning, interval)


def family_of(comparison: Comparison, *, control: bool = False) -> str:
    """With which comparisons one is corrected; `control`: it is the A/A control's."""
    if control:
        return "A/A"
    return "primary" if comparison.task.metric.primary else "second"


def caveat(platform: Callable[[Row], str]) -> Column[Row]:
    """Why the numbers of each row's platform are no measurements of speed."""

    def of_report(source: ReportInput) -> Value[Row]:
        caveats = source.analysis.caveats
        return lambda row: caveats.get(platform(row))

    return replace(shared("caveat", lambda _: None), of_report=of_report)


_OF_COMPARISON: Final[Mapping[str, Callable[[Comparison], Any]]] = {
    "platform": lambda comparison: comparison.platform,
    "pairs": lambda comparison: len(comparison.pairs),
    "share": lambda comparison: comparison.share,
    "low": lambda comparison: comparison.interval and comparison.interval.low,
    "high": lambda comparison: comparison.interval and comparison.interval.high,
    "times_slower": lambda comparison: times_slower(comparison.share),
    "p_value": lambda comparison: comparison.p_value,
    "p_adjusted": lambda comparison: comparison.p_adjusted,
    "verdict": lambda comparison: str(comparison.verdict),
    "at_least": lambda comparison: comparison.at_least,
    "margin": lambda comparison: comparison.margin,
    "smallest_detectable_factor": lambda comparison: comparison.smallest,
    "reason": lambda comparison: comparison.reason,
    "caveat": lambda comparison: comparison.caveat,
}

_TEXT, _COUNT, _ANSWER = "", "count", "0 or 1"
_KINDS: Final[Mapping[str, ValueKind]] = {
    _TEXT: ValueKind.TEXT,
    _COUNT: ValueKind.COUNT,
    _ANSWER: ValueKind.ANSWER,
}
SHARED: Final[Mapping[str, tuple[str, str]]] = {
    "trial": (_COUNT, "the trial's number in the plan, from 0"),
    "block": (_COUNT, "the block's number, from 1; in the run folder it is one less"),
    "platform": (_TEXT, "the platform's label"),
    "baseline": (_TEXT, "the label that platforms are compared with"),
    "workload": (_TEXT, "the workload's name"),
    "parameters": (_TEXT, "its parameters: JSON with sorted keys"),
    "metric": (_TEXT, "the metric's name"),
    "unit": (_TEXT, "the unit of the values of this row"),
    "task": (_TEXT, "workload, parameters and metric in words"),
    "condition": (_TEXT, "what guests beside it did, or how many worked at once; empty: alone"),
    "label": (_TEXT, "workload, parameters and metric in words, as everywhere"),
    "times_slower": ("factor", "1 / share: how many times slower; below 1 it is faster"),
    "warm_up": (_ANSWER, "whether it is a warm-up, which is no result"),
    "status": (_TEXT, "ok, invalid, failed or skipped"),
    "reason": (_TEXT, "why there is no value, or no verdict"),
    "caveat": (_TEXT, "why the platform's numbers are no measurements of speed; empty: they are"),
    "frame_size_bytes": ("bytes", "the frame with its FCS"),
    "sources": (_COUNT, "traffic sources that send at once"),
    "point": (_COUNT, "the point's place in its sweep, from 0"),
    "flat_out": (_ANSWER, "whether the generator sent as fast as it can"),
    "hand_over_before_ns": ("ns", "a cache line's round trip between its CPUs just before it; empty: not read"),
    "hand_over_after_ns": ("ns", "the same just after it"),
    "blocks": (_COUNT, "blocks that gave a value"),
    "trials": (_COUNT, "trials that gave a value"),
    "pairs": (_COUNT, "blocks with a value of both, which the comparison rests on"),
    "median": ("`unit`", "the median over blocks"),
    "share": ("share", "performance relative to what it is compared with; 0.5 takes twice as long"),
    "low": ("share", "the low end of the share's own 95 % interval"),
    "high": ("share", "the high end of it"),
    "low_open": (_ANSWER, "whether nothing is known below: then there is no low end"),
    "high_open": (_ANSWER, "whether nothing is known above: then there is no high end"),
    "p_value": ("probability", "of the test for a difference, before the correction"),
    "p_adjusted": ("probability", "after Holm's correction within the family"),
    "family": (_TEXT, "primary, second or A/A: with which comparisons it is corrected"),
    "verdict": (_TEXT, "slower, faster, alike, not known or not measured"),
    "at_least": ("factor", "the least that slower or faster says, together with all others of the family"),
    "margin": ("share", "within how much it is alike"),
    "smallest_detectable_factor": ("factor", "the smallest difference that four of five such runs would find"),
    "guests": (_COUNT, "guests at once"),
    "vcpus": (_COUNT, "virtual CPUs of each guest"),
    "memory_bytes": ("bytes", "memory of each guest"),
    "jain": ("0 to 1", "Jain's fairness index of those that worked at once; 1: all alike"),
    "load": (_TEXT, "what each guest beside did"),
    "affinity": (_TEXT, "on which CPUs: shared, apart or unpinned"),
    "beside": (_TEXT, "the platform of the guests beside"),
    "rate_share": ("share", "of its own maximum that a guest beside was sent; empty: it forwarded nothing"),
    "claim": (_TEXT, "the claim's name"),
    "paper": (_TEXT, "the study"),
    "source": (_TEXT, "where in it"),
    "says": (_TEXT, "the statement"),
    "outcome": (_TEXT, "supported, refuted, not seen here, not decided or not measured"),
    "under": (_TEXT, "the condition that the ratio is of"),
    "against": (_TEXT, "what the ratio is against"),
    "interval_low": ("as the estimate", "the low end of the interval of this ratio alone"),
    "interval_high": ("as the estimate", "the high end of it"),
}
