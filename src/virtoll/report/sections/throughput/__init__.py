"""Throughput: rates without loss (NDR and PDR), and the delay below them; within the section on forwarding."""

from virtoll.report.section import Section
from virtoll.report.sections.throughput.page import throughput_values
from virtoll.report.sections.throughput.tables import CONDITIONAL_THROUGHPUT, DELAY_BELOW_PDR

THROUGHPUT = Section(
    "throughput",
    throughput_values,
    tables=(CONDITIONAL_THROUGHPUT, DELAY_BELOW_PDR),
)
