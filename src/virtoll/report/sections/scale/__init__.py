"""Scale: the same work in several guests at once."""

from virtoll.report.section import Section
from virtoll.report.sections.scale.figure import AT_ONCE
from virtoll.report.sections.scale.page import scale_values
from virtoll.report.sections.scale.tables import GROUPS, ROWS
from virtoll.report.sections.scale.vcpus_figure import OVER_VCPUS

SCALE = Section(
    "scale",
    scale_values,
    title="Scale",
    tables=(ROWS, GROUPS),
    figures={"guests-at-once": AT_ONCE, "over-vcpus": OVER_VCPUS},
)
