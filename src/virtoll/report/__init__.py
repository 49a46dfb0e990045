"""The report: tables, figures and one self-contained HTML page from a run folder, on any machine.

`build_report(run_directory) -> ReportResult` is all that the command line needs. `headline_table`,
`isolation_terminal`, `explanation_lines` and `consolidation_lines`, each of an analysis, and `claims_lines` of a ledger
are what it prints. Figures are in the tables `figures.FIGURES` and `figures.SERIES`. Nothing here measures, and nothing
here computes a statistic.
"""

from virtoll.report.build import ReportResult, build_report, load_analysis
from virtoll.report.claims import claims_document, claims_lines, counts_line
from virtoll.report.explanation import explanation_document, explanation_lines
from virtoll.report.guests import consolidation_lines
from virtoll.report.guests_at_once import at_once_terminal
from virtoll.report.isolation import isolation_terminal
from virtoll.report.reproduction import build_reproduction, study_presets
from virtoll.report.reproduction_page import reproduction_document, reproduction_lines
from virtoll.report.terminal import headline_table
from virtoll.report.validation import read_tests, validation_table

__all__ = [
    "ReportResult",
    "at_once_terminal",
    "build_report",
    "build_reproduction",
    "claims_document",
    "claims_lines",
    "consolidation_lines",
    "counts_line",
    "explanation_document",
    "explanation_lines",
    "headline_table",
    "isolation_terminal",
    "load_analysis",
    "read_tests",
    "reproduction_document",
    "reproduction_lines",
    "study_presets",
    "validation_table",
]
