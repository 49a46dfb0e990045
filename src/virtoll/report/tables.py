"""The report's tables as CSV: raw values per trial, comparisons, points, plan, commands. Column names hold units."""

from collections.abc import Iterator, Sequence

from virtoll.claims import NO_PAPER, Judged, ThenAndNow
from virtoll.report.csv_table import CsvTable
from virtoll.report.report_input import ReportInput
from virtoll.report.sections import SECTIONS
from virtoll.stats.analysis import Analysis


def csv_tables(analysis: Analysis, ledger: Sequence[Judged] = (), beside: ThenAndNow = NO_PAPER) -> Iterator[CsvTable]:
    """Every table of the report, each made when it is asked for: those of a large run take 30 MB together.

    `ledger`: what the run says about claims; `beside`: what the papers have of it.
    """
    for section in SECTIONS:
        yield from section.csv_tables(ReportInput(analysis, ledger, beside))
