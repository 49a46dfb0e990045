"""Slowdown: what each platform costs against the baseline."""

from virtoll.report.section import Section
from virtoll.report.sections.cost.figure import COST as FIGURE
from virtoll.report.sections.cost.page import cost_values
from virtoll.report.sections.cost.tables import CELLS, COMPARISONS

COST = Section("cost", cost_values, title="Slowdown", tables=(CELLS, COMPARISONS), figures={"cost": FIGURE})
