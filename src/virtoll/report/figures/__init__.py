"""Every figure of a report, in the order of the sections."""

from virtoll.claims import NO_PAPER, ThenAndNow
from virtoll.report.figures.base import FigureSeries, FigureSpec
from virtoll.report.report_input import ReportInput
from virtoll.report.sections import SECTIONS
from virtoll.stats.analysis import Analysis

FIGURES: dict[str, FigureSpec] = {name: figure for section in SECTIONS for name, figure in section.figures.items()}

SERIES: dict[str, FigureSeries] = {name: series for section in SECTIONS for name, series in section.series.items()}


def figures_of(analysis: Analysis, beside: ThenAndNow = NO_PAPER) -> dict[str, FigureSpec]:
    """The figures of a run's report by name, drawn or not: those of `FIGURES`, and the parts of each series.

    `beside`: what the papers have beside the run; each paper gets a figure.
    """
    source = ReportInput(analysis, beside=beside)
    parts = {f"{name}-{part}": spec for name, series in SERIES.items() for part, spec in series.parts(source).items()}
    return FIGURES | parts
