"""Then and now: the papers' numbers beside the run's of the same."""

from virtoll.report.section import Section
from virtoll.report.sections.then_and_now.figure import BY_PAPER
from virtoll.report.sections.then_and_now.page import then_and_now_values
from virtoll.report.sections.then_and_now.tables import ANSWERS

THEN_AND_NOW = Section(
    "then_and_now", then_and_now_values, title="Then and now", tables=(ANSWERS,), series={"then-and-now": BY_PAPER}
)
