"""What each column of a report's tables means, its unit, and what its values are: docs/tables.md is made of it.

Main type: `Table`. `TABLES` has the CSV tables in the order of a report, `ROWS` the lists of rows that Python is given,
`SHARED` the columns that mean the same wherever they are. Tests hold them to the tables that the code makes. Must not:
compute anything.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from virtoll.report.compared_table import COMPARED
from virtoll.report.reproduction_tables import PAPER_FIGURES, RUNS
from virtoll.report.sections import SECTIONS
from virtoll.report.sections.cost.tables import COMPARISONS
from virtoll.report.table import SHARED, Column, Table, ValueKind, shared

_TEXT: Final = ""  # of a column without a unit: a word or a text; the next ones: what else it may be
_COUNT, _LIST = "count", "list"
_ANSWER: Final = "0 or 1"
_KINDS: Final[Mapping[str, ValueKind]] = {
    _TEXT: ValueKind.TEXT,
    _COUNT: ValueKind.COUNT,
    _LIST: ValueKind.LIST,
    _ANSWER: ValueKind.ANSWER,
}


@dataclass(frozen=True)
class Described:
    """What a row is, the names of the columns in their order, and those that mean something of their own there."""

    row: str
    names: tuple[str, ...]
    own: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def header(self) -> tuple[str, ...]:
        """The columns' names in their order."""
        return self.names

    @property
    def columns(self) -> tuple[Column[Any], ...]:
        """The columns in their order; ``KeyError`` for one that nobody described."""
        return tuple(self._columns())

    def _columns(self) -> Iterator[Column[Any]]:
        for name in self.names:
            unit, meaning = self.own.get(name) or SHARED[name]
            shown = "" if unit in {_COUNT, _LIST} else unit
            yield Column(name, shown, meaning, _KINDS.get(unit, ValueKind.NUMBER), _no_value)


def _no_value(_: object) -> None:
    """Of a column that is only described."""


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


TABLES: Final[Mapping[str, Described | Table[Any]]] = {
    **{table.name: table for section in SECTIONS for table in section.tables},
    **{table.name: table for table in (RUNS, PAPER_FIGURES, COMPARED)},
}


def _with_open_ends(table: Table[Any]) -> Table[Any]:
    """The same as `csv_table.record` gives it: after each end of an interval, whether it is open."""
    columns: list[Column[Any]] = []
    for column in table.columns:
        columns.append(column)
        if column.name in {"low", "high"}:
            columns.append(shared(f"{column.name}_open", _no_value))
    return replace(table, columns=tuple(columns))


ROWS: Final[Mapping[str, Described | Table[Any]]] = {
    "medians": Described(
        "a platform and task that has values",
        _names(
            "platform workload parameters metric unit label median low low_open high high_open coverage_share blocks"
            " values flagged_trials generator_bound lower_bound caveat"
        ),
        {
            "low": ("`unit`", "the low end of the median's order-statistic interval"),
            "high": ("`unit`", "the high end of it"),
            "coverage_share": ("probability", "the confidence that the interval really has"),
            "values": (_COUNT, "values that it is of, several of a block in rounds"),
            "flagged_trials": (_LIST, "numbers of trials that stand out of it; they count all the same"),
            "generator_bound": (_ANSWER, "whether it came within 10 % of what the instrument can do"),
            "lower_bound": (_ANSWER, "whether the true value may be larger: the generator's limit"),
        },
    ),
    "comparisons": _with_open_ends(COMPARISONS),
    "trials": Described(
        "a trial that has ended", _names("trial block platform workload parameters warm_up status reason")
    ),
}
"""The rows of `virtoll.load(run).rows` and `.frame`; those of the first two are also in the report as JSON."""
