"""Clock: how far the guests' own clocks are from the outside one."""

from virtoll.report.section import Section
from virtoll.report.sections.clock.figure import ERRORS
from virtoll.report.sections.clock.page import clock_values
from virtoll.report.sections.clock.tables import READINGS

CLOCK = Section("clock", clock_values, title="Clocks", tables=(READINGS,), figures={"clock": ERRORS})
