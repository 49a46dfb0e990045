"""Cases of a paper's claims: a made-up run and what it says of a claim.

A paper's module adds to `ClaimCase` the numbers that must be found, and makes its cases by
`yes, no, unsure, nothing = (partial(Case, outcome) for outcome in Outcome)` and `cases`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tests.support.made_up_run import Made

from virtoll.claims import Outcome

YES, NO, OPEN, NONE = Outcome
AnyCase = TypeVar("AnyCase", bound="ClaimCase")


@dataclass(frozen=True)
class ClaimCase:
    """One run and the outcome of a claim; `why`: what tells it from the claim's others of this outcome."""

    outcome: Outcome
    why: str
    measured: Sequence[Made]
    claim: str = field(default="", kw_only=True)

    @property
    def name(self) -> str:
        """Such as M02-refuted-by-a-part."""
        return "-".join([self.claim, *self.outcome.split(), *self.why.split()])


def cases(claim: str, *made: AnyCase) -> list[AnyCase]:
    """All of one claim."""
    return [replace(case, claim=claim) for case in made]
