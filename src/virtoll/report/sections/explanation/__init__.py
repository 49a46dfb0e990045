"""Explanation: why it costs that, by what observers counted."""

from typing import Final

from virtoll.report.section import Section
from virtoll.report.sections.explanation.page import explanation_values
from virtoll.report.sections.explanation.tables import COUNTERS

EXPLANATION: Final = Section("explanation", explanation_values, title="Why", tables=(COUNTERS,))
