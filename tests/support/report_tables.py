"""A report's tables, read back as a program that gets the file reads them."""

import csv
import io

from virtoll.report.report_input import ReportInput
from virtoll.report.tables import csv_tables
from virtoll.stats.analysis import Analysis


def csv_rows(analysis: Analysis, name: str) -> list[dict[str, str]]:
    """The lines of one table; none where the run has no such table."""
    found = [one for one in csv_tables(ReportInput(analysis)) if one.name == name]
    return [row for one in found for row in csv.DictReader(io.StringIO(one.text()))]
