"""Claims: what the run says about each claim of the literature, or of a user."""

from typing import Final

from virtoll.report.section import Section
from virtoll.report.sections.claims.page import claims_values
from virtoll.report.sections.claims.tables import CLAIMS, FINDINGS

CLAIMS_SECTION: Final = Section("claims", claims_values, title="Claims", tables=(CLAIMS, FINDINGS))
