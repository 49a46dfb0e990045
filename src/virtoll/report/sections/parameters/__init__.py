"""Values over a parameter: a workload's values over a number that it was given several of."""

from virtoll.report.section import Section
from virtoll.report.sections.parameters.figure import CURVES
from virtoll.report.sections.parameters.page import parameters_values
from virtoll.report.sections.parameters.tables import POINTS

PARAMETERS = Section(
    "parameters", parameters_values, title="Over parameters", tables=(POINTS,), series={"curves": CURVES}
)
