"""Equivalence: which facts are equal between the guests, as measured inside them, and which are not."""

from virtoll.report.section import Section
from virtoll.report.sections.equivalence.page import equivalence_values
from virtoll.report.sections.equivalence.tables import FACTS

EQUIVALENCE = Section("equivalence", equivalence_values, title="Equivalence", tables=(FACTS,))
