"""The evidence: trials in their order, the host, how it was measured, and with what."""

from virtoll.report.section import Section
from virtoll.report.sections.evidence.order_figure import ORDER
from virtoll.report.sections.evidence.page import evidence_values
from virtoll.report.sections.evidence.tables import COMMANDS, HAND_OVER, PLAN

EVIDENCE = Section(
    "evidence",
    evidence_values,
    title="Evidence",
    tables=(PLAN, COMMANDS, HAND_OVER),
    figures={"order": ORDER},
    parts=("order", "trials", "host", "method", "record"),
)
