"""Every section of a report, in the order of its tables and figures: one folder here and one line below for each."""

from typing import Final

from virtoll.report.section import Section
from virtoll.report.sections.clock import CLOCK
from virtoll.report.sections.equivalence import EQUIVALENCE
from virtoll.report.sections.guests import GUESTS
from virtoll.report.sections.hosts import HOSTS
from virtoll.report.sections.isolation import ISOLATION

SECTIONS: Final[tuple[Section, ...]] = (ISOLATION, CLOCK, GUESTS, HOSTS, EQUIVALENCE)
