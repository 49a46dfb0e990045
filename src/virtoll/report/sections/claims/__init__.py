"""Claims: what the run says about each claim of the literature, or of a user."""

from virtoll.report.section import Section
from virtoll.report.sections.claims.page import claims_values
from virtoll.report.sections.claims.tables import CLAIMS, FINDINGS

CLAIMS_SECTION = Section("claims", claims_values, title="Claims", tables=(CLAIMS, FINDINGS))
