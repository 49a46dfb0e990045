"""Every section of a report, in the order of its tables and figures: one folder here and one line below for each."""

from typing import Final

from virtoll.report.section import Section
from virtoll.report.sections.claims import CLAIMS_SECTION
from virtoll.report.sections.clock import CLOCK
from virtoll.report.sections.cost import COST
from virtoll.report.sections.equivalence import EQUIVALENCE
from virtoll.report.sections.evidence import EVIDENCE
from virtoll.report.sections.explanation import EXPLANATION
from virtoll.report.sections.forwarding import FORWARDING
from virtoll.report.sections.guests import GUESTS
from virtoll.report.sections.hosts import HOSTS
from virtoll.report.sections.isolation import ISOLATION
from virtoll.report.sections.paper import PAPER
from virtoll.report.sections.parameters import PARAMETERS
from virtoll.report.sections.scale import SCALE
from virtoll.report.sections.scaling import SCALING
from virtoll.report.sections.then_and_now import THEN_AND_NOW
from virtoll.report.sections.throughput import THROUGHPUT

SECTIONS: Final[tuple[Section, ...]] = (
    COST,
    PAPER,
    FORWARDING,
    SCALING,
    THROUGHPUT,
    EXPLANATION,
    PARAMETERS,
    ISOLATION,
    SCALE,
    CLOCK,
    CLAIMS_SECTION,
    THEN_AND_NOW,
    GUESTS,
    HOSTS,
    EQUIVALENCE,
    EVIDENCE,
)
