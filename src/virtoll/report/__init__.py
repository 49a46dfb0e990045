"""The report: tables, figures and one self-contained HTML page from a run folder, on any machine.

`build_report(run_directory) -> ReportResult` is all that the command line needs; `answer_terminal`,
`isolation_terminal`, `explanation_lines` and `consolidation_lines`, each of an analysis, and `claims_lines` of a ledger
are what it prints, and `report_document` all of it for a program. Figures are in the tables `figures.FIGURES` and
`figures.SERIES`. Nothing here measures, and nothing here computes a statistic.
"""

from virtoll.report.advice import AdviceView, Adviser, advice_lines
from virtoll.report.answer import damage_line
from virtoll.report.build import ReportResult, build_report, load_analysis
from virtoll.report.document import ledger_document, report_document
from virtoll.report.gate import GateView, gate_document, gate_lines, gate_view
from virtoll.report.reproduction import build_reproduction, study_presets
from virtoll.report.reproduction_page import reproduction_document, reproduction_lines
from virtoll.report.reproduction_runs import PaperSize
from virtoll.report.sections.claims.page import claims_lines, counts_line
from virtoll.report.sections.explanation.page import explanation_document, explanation_lines
from virtoll.report.sections.guests.page import consolidation_lines
from virtoll.report.sections.isolation.page import isolation_terminal
from virtoll.report.sections.scale.page import at_once_terminal
from virtoll.report.terminal import answer_terminal
from virtoll.report.validation import read_tests, validation_table
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import Comparison
from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Task

__all__ = [
    "AdviceView",
    "Adviser",
    "Analysis",
    "CellSummary",
    "Comparison",
    "GateView",
    "PaperSize",
    "ReportResult",
    "Task",
    "advice_lines",
    "answer_terminal",
    "at_once_terminal",
    "build_report",
    "build_reproduction",
    "claims_lines",
    "consolidation_lines",
    "counts_line",
    "damage_line",
    "explanation_document",
    "explanation_lines",
    "gate_document",
    "gate_lines",
    "gate_view",
    "isolation_terminal",
    "ledger_document",
    "load_analysis",
    "read_tests",
    "report_document",
    "reproduction_document",
    "reproduction_lines",
    "study_presets",
    "validation_table",
]
