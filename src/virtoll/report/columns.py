"""What each column of a report's tables means, its unit, and what its values are: docs/tables.md is made of it.

Main type: `Table`. `TABLES` has the CSV tables in the order of a report, `ROWS` the lists of rows that Python is given,
`SHARED` the columns that mean the same wherever they are. Tests hold them to the tables that the code makes. Must not:
compute anything.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

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
    "then_and_now": Described(
        "a number that a paper prints, and a platform of the run beside it",
        _names(
            "paper source what paper_platform paper_share_low paper_share_high paper_relation paper_words"
            " paper_values paper_note platform stands_for_it_as task under against blocks share interval_low"
            " interval_high interval_method reason caveat"
        ),
        {
            "what": (_TEXT, "what the number says"),
            "paper_platform": (_TEXT, "the paper's platform"),
            "paper_share_low": ("share", "the published share, or the low end of it"),
            "paper_share_high": ("share", "the same, or the high end"),
            "paper_relation": (_TEXT, "equal, at least, at most or about"),
            "paper_words": (_TEXT, "the text's own words, where it prints no number"),
            "paper_values": (_TEXT, "the printed numbers that the share is of"),
            "paper_note": (_TEXT, "what must be known of them"),
            "stands_for_it_as": (_TEXT, "the same product, its successor, or what is here in its place"),
            "interval_method": (_TEXT, "how the interval was made"),
        },
    ),
    "claims": Described(
        "a claim",
        _names("claim paper source says bounds inferred outcome"),
        {
            "bounds": (_TEXT, "printed: the source prints the numbers that its tests ask for; ours: it does not"),
            "inferred": (_ANSWER, "whether it follows from the source, which does not say it"),
        },
    ),
    "claims_findings": Described(
        "a ratio or value that a claim's test rests on",
        _names(
            "claim test says at_least at_most test_outcome platform task under against unit blocks estimate"
            " interval_low interval_high simultaneous_low simultaneous_high method caveat outcome reason"
        ),
        {
            "test": (_COUNT, "the test's number within the claim, from 0"),
            "at_least": ("as the estimate", "the bound from below that is asked for"),
            "at_most": ("as the estimate", "the bound from above"),
            "test_outcome": (_TEXT, "of the whole test"),
            "unit": (_TEXT, "of the estimate: share, or a metric's unit"),
            "estimate": ("`unit`", "the ratio or the value"),
            "simultaneous_low": ("`unit`", "the low end of the interval that holds with all others of the claim"),
            "simultaneous_high": ("`unit`", "the high end of it"),
            "method": (_TEXT, "how the intervals were made"),
        },
    ),
    "paper_summary": Described(
        "a platform and task, summed up as the paper did whose summary the experiment names",
        _names(
            "platform workload parameters metric unit label summary values dropped centre low high share_of_baseline"
            " share_low share_high caveat"
        ),
        {
            "summary": (_TEXT, "the summary's name"),
            "values": (_COUNT, "values that it is of"),
            "dropped": (_COUNT, "values that it leaves out"),
            "centre": ("`unit`", "the mean or median"),
            "low": ("`unit`", "the low end of its spread; empty: it has none"),
            "high": ("`unit`", "the high end of it"),
            "share_of_baseline": ("share", "of the baseline's performance"),
            "share_low": ("share", "the low end of the share"),
            "share_high": ("share", "the high end of it"),
        },
    ),
    "runs": Described(
        "a run of a reproduction (`virtoll reproduce`)",
        _names("run experiment study size state virtoll host cpu kernel"),
        {
            "run": (_TEXT, "the run's name"),
            "experiment": (_TEXT, "its experiment"),
            "study": (_TEXT, "the study that this names"),
            "size": (_TEXT, "quick or paper"),
            "state": (_TEXT, "how far it came"),
            "virtoll": (_TEXT, "the version that measured it"),
            "host": (_TEXT, "the host's fingerprint"),
            "cpu": (_TEXT, "its CPU's model"),
            "kernel": (_TEXT, "its kernel"),
        },
    ),
    "paper_figures": Described(
        "a value of a paper's figure drawn again (`virtoll reproduce`)",
        _names(
            "figure part shows panel x_of x who run platform task value low high unit relation blocks reason caveat"
        ),
        {
            "figure": (_TEXT, "the figure in the paper"),
            "part": (_TEXT, "which part of it"),
            "shows": (_TEXT, "what it shows"),
            "panel": (_TEXT, "which panel of the part"),
            "x_of": (_TEXT, "what the axis is of"),
            "x": (_TEXT, "the place on it"),
            "who": (_TEXT, "then: the paper; now: a run"),
            "run": (_TEXT, "the run; empty: the paper"),
            "value": ("`unit`", "the value; empty: a range, or none"),
            "low": ("`unit`", "the low end"),
            "high": ("`unit`", "the high end"),
            "relation": (_TEXT, "equal, at least, at most or about"),
        },
    ),
    "compared": Described(
        "a platform and task in the second run, against the first (`virtoll compare`)",
        _names(
            "platform against workload parameters metric unit label first_median second_median first_blocks"
            " second_blocks first_share second_share share low high joint_low joint_high times_slower p_value"
            " p_adjusted family verdict at_least margin smallest_detectable_factor reason caveat"
        ),
        {
            "platform": (_TEXT, "the platform's label in the second run"),
            "against": (_TEXT, "the label in the first run that it is compared with"),
            "first_median": ("`unit`", "the median over blocks in the first run; empty: no value"),
            "second_median": ("`unit`", "the same in the second run"),
            "first_blocks": (_COUNT, "blocks of the first run that gave a value"),
            "second_blocks": (_COUNT, "blocks of the second run that gave a value"),
            "first_share": ("share", "of the baseline's performance in the first run; empty: no baseline"),
            "second_share": ("share", "the same in the second run"),
            "share": ("share", "the second's performance relative to the first's; by cost the ratio of both shares"),
            "joint_low": ("share", "the low end of the interval that holds together with all others of the family"),
            "joint_high": ("share", "the high end of it"),
        },
    ),
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
