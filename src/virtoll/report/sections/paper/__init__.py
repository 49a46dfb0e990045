"""The run's values as the paper summed them up that the experiment names; in the section on cost or scale."""

from virtoll.report.section import Section
from virtoll.report.sections.paper.figure import BARS
from virtoll.report.sections.paper.page import paper_values
from virtoll.report.sections.paper.tables import PAPER_SUMMARY

PAPER = Section("paper", paper_values, tables=(PAPER_SUMMARY,), series={"bars": BARS})
