"""Every figure of a report, in order: one line each. A new figure is one file here and one line below."""

from virtoll.report.figures.base import FigureSpec
from virtoll.report.figures.clock import CLOCK
from virtoll.report.figures.consolidation import CONSOLIDATION
from virtoll.report.figures.cost import COST
from virtoll.report.figures.forwarding import FORWARDING
from virtoll.report.figures.guests import GUESTS
from virtoll.report.figures.guests_at_once import AT_ONCE
from virtoll.report.figures.isolation import ISOLATION
from virtoll.report.figures.listed_rates import LISTED_RATES
from virtoll.report.figures.order import ORDER
from virtoll.report.figures.routers_beside import ROUTERS_BESIDE
from virtoll.report.figures.scaling import SCALING
from virtoll.report.figures.sources import SOURCES
from virtoll.report.figures.study import STUDY
from virtoll.report.figures.throughput import THROUGHPUT

FIGURES: dict[str, FigureSpec] = {
    "cost": COST,
    "forwarding": FORWARDING,
    "listed_rates": LISTED_RATES,
    "throughput": THROUGHPUT,
    "sources": SOURCES,
    "scaling": SCALING,
    "isolation": ISOLATION,
    "routers_beside": ROUTERS_BESIDE,
    "guests-at-once": AT_ONCE,
    "clock": CLOCK,
    "guests": GUESTS,
    "consolidation": CONSOLIDATION,
    "order": ORDER,
    "study": STUDY,
}
