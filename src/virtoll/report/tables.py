"""Every table that Virtoll writes as CSV, in the order of the sections. Column names hold units."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from virtoll.report.compared_table import COMPARED
from virtoll.report.csv_table import CsvTable
from virtoll.report.report_input import ReportInput
from virtoll.report.reproduction_tables import PAPER_FIGURES, RUNS, SIZES
from virtoll.report.sections import SECTIONS
from virtoll.report.table import Table


def csv_tables(source: ReportInput) -> Iterator[CsvTable]:
    """Every table of a report, each made when it is asked for: those of a large run take 30 MB together."""
    for section in SECTIONS:
        yield from section.csv_tables(source)


TABLES: Final[Mapping[str, Table[Any]]] = {
    **{table.name: table for section in SECTIONS for table in section.tables},
    **{table.name: table for table in (RUNS, PAPER_FIGURES, SIZES, COMPARED)},
}
"""With those of a reproduction and of runs compared, for docs/tables.md."""
