"""The tables of a reproduction: its runs, joined claims, what these rest on, then and now, figures, and sizes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from virtoll.claims.joined import Joined
from virtoll.claims.paper_figures import Mark, Printed
from virtoll.claims.published_rows import Then
from virtoll.report.csv_table import CsvTable
from virtoll.report.paper_figures import data_of, panel_words
from virtoll.report.paper_parts import PartData
from virtoll.report.paper_sizes import SizeRow, size_rows
from virtoll.report.reproduction_runs import Reproduction, RunOf
from virtoll.report.sections.claims.tables import FINDINGS, finding_rows
from virtoll.report.sections.then_and_now.tables import ANSWERS, answers_of
from virtoll.report.table import Column, Row, Table, count, number, of_part, shared, text

RUNS: Final = Table[RunOf](
    "runs",
    "a run of a reproduction (`virtoll reproduce`)",
    None,
    (
        text("run", "the run's name", lambda run: run.name),
        text("experiment", "its experiment", lambda run: run.experiment),
        text("study", "the study that this names", lambda run: run.manifest.experiment.get("study")),
        text("size", "quick, paper or full", lambda run: run.manifest.experiment.get("size")),
        text("state", "how far it came", lambda run: run.state.state),
        text("virtoll", "the version that measured it", lambda run: run.manifest.virtoll),
        text("host", "the host's fingerprint", lambda run: run.host),
        text("cpu", "its CPU's model", lambda run: run.manifest.host.get("cpu_model")),
        text("kernel", "its kernel", lambda run: run.manifest.host.get("kernel")),
    ),
)


@dataclass(frozen=True)
class FigureValue:
    """A value of a part of a paper's figure: the paper's if `run` is None, else that run's."""

    data: PartData
    run: str | None
    at: Mark | Printed


def _figure_values(study: Reproduction) -> Iterator[FigureValue]:
    """Part by part, the paper's values before those of the runs."""
    for parts in data_of(study):
        for data in parts:
            for printed in data.printed:
                yield FigureValue(data, None, printed)
            for run, mark in data.marks:
                yield FigureValue(data, run, mark)


def _ends(row: FigureValue) -> Mark | Then:
    return row.at if isinstance(row.at, Mark) else row.at.question.then


def _value(row: FigureValue) -> float | None:
    ends = _ends(row)
    if isinstance(ends, Mark):
        return ends.value
    return ends.low if ends.low == ends.high else None


def _relation(row: FigureValue) -> str:
    return "equal" if isinstance(row.at, Mark) else row.at.question.then.relation


def _axis(row: FigureValue) -> str | None:
    return "offered Mbit/s" if row.data.part.over == "rates" else row.data.part.x


def _offered(row: FigureValue) -> float | None:
    return row.at.offered if isinstance(row.at, Mark) else None


def _measured(row: FigureValue) -> Mark | None:
    return row.at if isinstance(row.at, Mark) else None


_OF_MARK: Final[tuple[Column[Mark], ...]] = (
    shared("blocks", lambda mark: mark.blocks),
    shared("reason", lambda mark: mark.reason or None),
    shared("caveat", lambda mark: mark.caveat),
)


PAPER_FIGURES: Final = Table[FigureValue](
    "paper_figures",
    "a value of a paper's figure drawn again (`virtoll reproduce`)",
    None,
    (
        text("figure", "the figure in the paper", lambda row: row.data.figure.title_words),
        text("part", "which part of it", lambda row: row.data.part.name or None),
        text("shows", "what it shows", lambda row: row.data.part.shows),
        text("panel", "which panel of the part", lambda row: panel_words(row.data.part, row.at.panel) or None),
        text(
            "x_of",
            "what the axis is of",
            _axis,
        ),
        text("x", "the place on it", lambda row: row.at.x),
        text("who", "then: the paper; now: a run", lambda row: "then" if row.run is None else "now"),
        text("run", "the run; empty: the paper", lambda row: row.run),
        shared("platform", lambda row: row.at.platform),
        shared("task", lambda row: row.at.task if isinstance(row.at, Mark) else row.at.question.what),
        number("value", "`unit`", "the value; empty: a range, or none", _value),
        number("low", "`unit`", "the low end", lambda row: _ends(row).low),
        number("high", "`unit`", "the high end", lambda row: _ends(row).high),
        shared("unit", lambda row: (isinstance(row.at, Mark) and row.at.unit) or "share"),
        number("offered", "Mbit/s", "what was sent, where the value is what came through", _offered),
        text("relation", "equal, at least, at most or about", _relation),
        *of_part(_OF_MARK, _measured),
    ),
)


SIZES: Final = Table[SizeRow](
    "sizes",
    "a size of a run that differs from the paper's (`virtoll reproduce`)",
    None,
    (
        text("run", "the run", lambda row: row.run),
        text("what", "what it is a size of; empty: all", lambda row: row.what or None),
        text("parameter", "which size", lambda row: row.parameter),
        text("here", "the run's", lambda row: row.here),
        text("paper", "the paper's, as its preset has it", lambda row: row.paper),
    ),
)


def _joined_claims(runs: Sequence[RunOf]) -> Table[Joined]:
    """A column of its own for the outcome of each run."""

    def outcome_of(place: int, run: RunOf) -> Column[Joined]:
        name, meaning = f"outcome_of_{run.name}", "what that run says of it"
        return text(name, meaning, lambda joined: str(joined.runs[place][1].outcome))

    columns: tuple[Column[Joined], ...] = (
        shared("claim", lambda joined: joined.claim.id),
        shared("source", lambda joined: joined.claim.source),
        shared("says", lambda joined: joined.claim.says),
        shared("outcome", lambda joined: str(joined.outcome)),
        count("runs", "runs that measured something of it", lambda joined: len(joined.measured)),
        number("error_at_most", "probability", "that the outcome is wrong by chance", lambda joined: joined.error),
        *(outcome_of(place, run) for place, run in enumerate(runs)),
    )
    return Table("claims", "a claim, joined over all runs", None, columns)


def _by_run(table: Table[Row], rows: Iterable[tuple[str, Row]]) -> CsvTable:
    """A table of several runs, with the run in its first column."""
    run: Column[tuple[str, Row]] = text("run", "the run's name", lambda row: row[0])
    columns = (run, *of_part(table.columns, lambda row: row[1]))
    return Table(table.name, table.row, None, columns).of(rows)


def reproduction_tables(study: Reproduction) -> tuple[CsvTable, ...]:
    """All of the page as CSV: `runs`, the joined `claims`, `claims_findings` and `then_and_now` by run, the figures."""
    findings = [(run.name, row) for run in study.runs for row in finding_rows(run.ledger)]
    answers = [(run.name, row) for run in study.runs for row in answers_of(run.then_and_now.of(study.study.name))]
    tables = [RUNS.of(study.runs), _joined_claims(study.runs).of(study.joined)]
    if study.runs:
        tables.append(_by_run(FINDINGS, findings))
    if answers:
        tables.append(_by_run(ANSWERS, answers))
    return (*tables, PAPER_FIGURES.of(_figure_values(study)), SIZES.of(size_rows(study)))
