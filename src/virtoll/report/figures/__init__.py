"""Every figure of a report, in order: one line each. A new figure is one file here and one line below."""

from virtoll.claims import NO_PAPER, ThenAndNow
from virtoll.report.figures.base import FigureSeries, FigureSpec
from virtoll.report.figures.clock import CLOCK
from virtoll.report.figures.consolidation import CONSOLIDATION
from virtoll.report.figures.cost import COST
from virtoll.report.figures.curves import CURVES
from virtoll.report.figures.forwarding import FORWARDING
from virtoll.report.figures.guests import GUESTS
from virtoll.report.figures.guests_at_once import AT_ONCE
from virtoll.report.figures.listed_rates import LISTED_RATES
from virtoll.report.figures.order import ORDER
from virtoll.report.figures.over_vcpus import OVER_VCPUS
from virtoll.report.figures.scaling import SCALING
from virtoll.report.figures.sources import SOURCES
from virtoll.report.figures.throughput import THROUGHPUT
from virtoll.report.report_input import ReportInput
from virtoll.report.sections import SECTIONS
from virtoll.stats.analysis import Analysis

FIGURES: dict[str, FigureSpec] = {
    "cost": COST,
    "forwarding": FORWARDING,
    "listed_rates": LISTED_RATES,
    "throughput": THROUGHPUT,
    "sources": SOURCES,
    "scaling": SCALING,
    **{name: figure for section in SECTIONS for name, figure in section.figures.items()},
    "guests-at-once": AT_ONCE,
    "over-vcpus": OVER_VCPUS,
    "clock": CLOCK,
    "guests": GUESTS,
    "consolidation": CONSOLIDATION,
    "order": ORDER,
}

SERIES: dict[str, FigureSeries] = {
    **{name: series for section in SECTIONS for name, series in section.series.items()},
    "curves": CURVES,
}


def figures_of(analysis: Analysis, beside: ThenAndNow = NO_PAPER) -> dict[str, FigureSpec]:
    """The figures of a run's report by name, drawn or not: those of `FIGURES`, and the parts of each series.

    `beside`: what the papers have beside the run; each paper gets a figure.
    """
    source = ReportInput(analysis, beside=beside)
    parts = {f"{name}-{part}": spec for name, series in SERIES.items() for part, spec in series.parts(source).items()}
    return FIGURES | parts
