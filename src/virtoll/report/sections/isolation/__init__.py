"""Isolation: what guests beside the measured one do to it."""

from virtoll.report.section import Section
from virtoll.report.sections.isolation.figure import BESIDE
from virtoll.report.sections.isolation.page import isolation_values
from virtoll.report.sections.isolation.routers_figure import ROUTERS
from virtoll.report.sections.isolation.tables import MATRIX, NEIGHBOUR_ROUTERS, NEIGHBOURS

ISOLATION = Section(
    "isolation",
    isolation_values,
    title="Isolation",
    tables=(MATRIX, NEIGHBOURS, NEIGHBOUR_ROUTERS),
    figures={"isolation": BESIDE, "routers_beside": ROUTERS},
)
