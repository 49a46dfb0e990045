"""Guests: what they themselves cost: their start, memory and CPU time that the host pays, and how many fit."""

from virtoll.report.section import Section
from virtoll.report.sections.guests.consolidation_figure import CONSOLIDATION
from virtoll.report.sections.guests.figure import COSTS
from virtoll.report.sections.guests.page import guests_values
from virtoll.report.sections.guests.tables import CPU_TIMES, STARTS, STEPS

GUESTS = Section(
    "guests",
    guests_values,
    title="Guests",
    tables=(STARTS, CPU_TIMES, STEPS),
    figures={"guests": COSTS, "consolidation": CONSOLIDATION},
)
