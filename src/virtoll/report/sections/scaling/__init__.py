"""How rates go with routes in the table, and with guests side by side: a part of the packet path."""

from virtoll.report.section import Section
from virtoll.report.sections.scaling.figure import RATES
from virtoll.report.sections.scaling.page import scaling_values
from virtoll.report.sections.scaling.tables import SIZES

SCALING = Section(
    "scaling",
    scaling_values,
    tables=(SIZES,),
    figures={"scaling": RATES},
)
