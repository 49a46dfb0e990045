"""Explanation: why it costs that, by what observers counted."""

from virtoll.report.section import Section
from virtoll.report.sections.explanation.page import explanation_values
from virtoll.report.sections.explanation.tables import COUNTERS

EXPLANATION = Section("explanation", explanation_values, title="Why", tables=(COUNTERS,))
