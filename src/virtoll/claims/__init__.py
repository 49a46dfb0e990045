"""Claims on platforms, and what one run says about each: supported, refuted, not decided, or not measured. Pure.

A claim is data (`model`): the papers' are in `reference/claims.yaml`, a user's own in a file of the same form (`file`).
Its tests compare what a run measured (`readings`, `sides`), and `judge` says what follows. A platform with a caveat is
shown and decides nothing.
"""

from virtoll.claims.file import load_claims, parse_claims, published_claims
from virtoll.claims.judge import Finding, Judged, JudgedTest, Outcome, judge_claims
from virtoll.claims.model import Claim

__all__ = [
    "Claim",
    "Finding",
    "Judged",
    "JudgedTest",
    "Outcome",
    "judge_claims",
    "load_claims",
    "parse_claims",
    "published_claims",
]
