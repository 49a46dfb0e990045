"""Every figure of a report, in the order of the sections."""

from virtoll.report.figures.base import FigureSeries, FigureSpec
from virtoll.report.report_input import ReportInput
from virtoll.report.sections import SECTIONS

FIGURES: dict[str, FigureSpec] = {name: figure for section in SECTIONS for name, figure in section.figures.items()}

SERIES: dict[str, FigureSeries] = {name: series for section in SECTIONS for name, series in section.series.items()}


def figures_of(source: ReportInput) -> dict[str, FigureSpec]:
    """The figures of a report by name, drawn or not: those of `FIGURES`, and the parts of each series."""
    figures: dict[str, FigureSpec] = {}
    for section in SECTIONS:
        figures |= section.figures_of(source)
    return figures
