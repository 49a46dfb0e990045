"""The run's values as the paper summed them up whose summary the experiment names; within the section on cost."""

from virtoll.report.section import Section
from virtoll.report.sections.paper.figure import BARS
from virtoll.report.sections.paper.page import paper_values
from virtoll.report.sections.paper.tables import PAPER_SUMMARY

PAPER = Section("paper", paper_values, tables=(PAPER_SUMMARY,), series={"bars": BARS})
