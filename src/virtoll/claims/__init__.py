"""What the literature says, beside what one run measured. Pure.

Claims are supported, refuted, not decided, or not measured. A claim is data (`model`): the papers' are in
`reference/claims.yaml`, a user's own in a file of the same form (`file`). `judge` holds its tests to the ratios of what
a run measured (`stats.ratios`). A platform with a caveat is shown and decides nothing.
Printed numbers are set beside the run's shares of the same (`published_rows`, `then_and_now`).
"""

from virtoll.claims.file import load_claims, parse_claims, published_claims
from virtoll.claims.judge import Finding, Judged, JudgedTest, Outcome, judge_claims
from virtoll.claims.model import Claim
from virtoll.claims.names import Names
from virtoll.claims.then_and_now import NO_PAPER, ThenAndNow, study_of, then_and_now

__all__ = [
    "NO_PAPER",
    "Claim",
    "Finding",
    "Judged",
    "JudgedTest",
    "Names",
    "Outcome",
    "ThenAndNow",
    "judge_claims",
    "load_claims",
    "parse_claims",
    "published_claims",
    "study_of",
    "then_and_now",
]
