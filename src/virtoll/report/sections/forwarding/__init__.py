"""Forwarding: the packet path, its sweeps of rates, and the instrument that measured them."""

from virtoll.report.section import Section
from virtoll.report.sections.forwarding.figure import OFFERED
from virtoll.report.sections.forwarding.listed_rates_figure import LISTED
from virtoll.report.sections.forwarding.maximum_figure import MAXIMUM
from virtoll.report.sections.forwarding.page import forwarding_values
from virtoll.report.sections.forwarding.sources_figure import BY_SOURCES
from virtoll.report.sections.forwarding.tables import FAR_RATES, LISTED_RATES, PAUSE_FRAMES, POINTS, SOURCES

FORWARDING = Section(
    "forwarding",
    forwarding_values,
    title="Packet path",
    tables=(POINTS, LISTED_RATES, SOURCES, PAUSE_FRAMES, FAR_RATES),
    figures={"forwarding": OFFERED, "listed_rates": LISTED, "throughput": MAXIMUM, "sources": BY_SOURCES},
)
