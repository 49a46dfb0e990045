"""Every section of a report, in the order of its tables and figures: one folder here and one line below for each."""

from typing import Final

from virtoll.report.section import Section
from virtoll.report.sections.claims import CLAIMS_SECTION
from virtoll.report.sections.isolation import ISOLATION
from virtoll.report.sections.paper import PAPER
from virtoll.report.sections.then_and_now import THEN_AND_NOW

SECTIONS: Final[tuple[Section, ...]] = (PAPER, ISOLATION, CLAIMS_SECTION, THEN_AND_NOW)
