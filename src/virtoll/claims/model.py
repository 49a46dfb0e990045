"""What a claim is: words, where they stand, and tests that a run's values pass or fail. The form of a file of claims.

The papers' claims (`reference/claims.yaml`) and a user's own (a vendor's promise, a service level) have the same form.
Main types: `Claim` and `Test` (one comparison that must hold: a `stats.compared.Compared` with what it asks for).
docs/claims.md describes each key with an example. Nothing here computes.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from virtoll.stats.compared import Compared, Range, Strict, Text


class Value(Range):
    """Bounds of a value in its metric's `unit`, or in one that it can be turned into: ms of ns, % or ppm of a share."""

    unit: Text


class Test(Compared):
    """One comparison that must hold for all platforms (or `any`) that a run measured it on.

    `share` and `times_slower` are of performance: that of `against` is 1, and a duration half as long is 2.
    """

    says: Text
    share: Range | None = None
    times_slower: Range | None = None
    value: Value | None = None
    holds_for: Literal["all", "any"] = "all"

    @field_validator("times_slower")
    @classmethod
    def _is_a_factor(cls, factor: Range | None) -> Range | None:
        if factor is not None and 0 in (factor.at_least, factor.at_most):
            raise ValueError("a factor of time is above 0")
        return factor

    @model_validator(mode="after")
    def _can_be_judged(self) -> Self:
        names = [name for name in ("share", "times_slower", "value") if getattr(self, name) is not None]
        if len(names) != 1:
            problem = f"got {' and '.join(names)}" if names else "got none"
            raise ValueError(f"give one of 'share', 'times_slower' and 'value', {problem}")
        if (self.value is None) == (self.against is None):
            raise ValueError("'share' and 'times_slower' need 'against', and 'value' is of one side alone")
        return self

    @property
    def asked(self) -> Range:
        """What the share of performance, or the value in its own unit, must be."""
        if self.times_slower is not None:
            return self.times_slower.inverse()
        bounds = self.share if self.share is not None else self.value
        if bounds is None:
            raise ValueError("a test asks for a share or a value")
        return bounds


class Claim(Strict):
    """One finding of a paper, a promise or a requirement: what it says, who says it and where, and its `tests`.

    `paper`: a study of `reference/`; None: a user's own claim. `quotation`: its words there. `note`: what must be known
    of it, such as a table of the paper that says otherwise. Papers measured on machines and not within virtual ones: so
    do their tests (`host: bare-metal`). `bounds`: whether the source prints the numbers that the
    tests ask for. `inferred`: it follows from the source, which does not say it.
    """

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")
    paper: str | None = None
    source: Text
    quotation: str = ""
    says: Text
    note: str = ""
    bounds: Literal["printed", "ours"] = "printed"
    inferred: bool = False
    tests: list[Test] = Field(min_length=1)

    @model_validator(mode="after")
    def _papers_had_machines(self) -> Self:
        if self.paper is None:
            return self
        tests = [test.model_copy(update={"host": "bare-metal"}) for test in self.tests]
        return self.model_copy(update={"tests": tests})
