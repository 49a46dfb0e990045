"""`equivalence.csv`: each fact, with a column for each platform."""

from collections.abc import Iterator
from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import Column, Table, answer, text
from virtoll.stats.equivalence import FactRow, Likeness


def _facts(source: ReportInput) -> Iterator[FactRow]:
    """First the platforms' caveats, which are equal if they are the same or there are none."""
    analysis = source.analysis
    caveats = {platform: analysis.caveats.get(platform) for platform in analysis.equivalence.platforms}
    alike = len(set(caveats.values())) <= 1
    yield FactRow("caveat", caveats, Likeness.EQUAL if alike else Likeness.DIFFERENT)
    yield from analysis.equivalence.rows


def _columns_of(source: ReportInput) -> tuple[Column[FactRow], ...]:
    return (*FACTS.columns, *map(_of_platform, source.analysis.equivalence.platforms))


def _of_platform(platform: str) -> Column[FactRow]:
    return text(platform, "the fact in this platform's guest", lambda row: row.values.get(platform))


FACTS: Final = Table[FactRow](
    "equivalence",
    "a fact, measured inside each guest; a column for each platform, by its label, follows",
    _facts,
    (
        text("fact", "what was measured", lambda row: row.name),
        answer("equal", "whether it is the same in all", lambda row: row.equal),
    ),
    columns_of=_columns_of,
)
