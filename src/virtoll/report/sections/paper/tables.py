"""`paper_summary.csv`: a row for each platform and task that the paper's summary gives a value of."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import Table, caveat, count, number, of_task, shared, text
from virtoll.stats.papers import PaperRow


@dataclass(frozen=True)
class Summarised:
    """A cell in the paper's words, and the summary's name."""

    row: PaperRow
    method: str


def _summarised(source: ReportInput) -> Iterable[Summarised] | None:
    analysis, method = source.analysis, source.analysis.paper_method
    if method is None:
        return None
    return (Summarised(row, method.name) for row in analysis.paper.rows)


PAPER_SUMMARY: Final = Table[Summarised](
    "paper_summary",
    "a platform and task, summed up as the paper did whose summary the experiment names",
    _summarised,
    (
        shared("platform", lambda cell: cell.row.platform),
        *of_task(lambda cell: cell.row.task),
        text("summary", "the summary's name", lambda cell: cell.method),
        count("values", "values that it is of", lambda cell: cell.row.summary.count),
        count("dropped", "values that it leaves out", lambda cell: cell.row.summary.dropped),
        number("centre", "`unit`", "the mean or median", lambda cell: cell.row.summary.centre),
        number("low", "`unit`", "the low end of its spread; empty: it has none", lambda cell: cell.row.summary.low),
        number("high", "`unit`", "the high end of it", lambda cell: cell.row.summary.high),
        number("share_of_baseline", "share", "of the baseline's performance", lambda cell: cell.row.share),
        number("share_low", "share", "the low end of the share", lambda cell: cell.row.share_low),
        number("share_high", "share", "the high end of it", lambda cell: cell.row.share_high),
        caveat(lambda cell: cell.row.platform),
    ),
)
