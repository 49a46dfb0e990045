"""What several runs say about claims together: outcomes are joined, values never. Pure.

On one host a test is refuted where any run refutes it, and supported where at least one run supports it and none
refutes it; a claim of several tests then follows as in a single run. Hosts are joined by the same rule, claim by claim,
so that no claim is supported by one half from each of two hosts. Each run is judged by itself: its error is 5 % at
most, so that of `n` runs which measured a claim is `n` times that at most (Bonferroni). Main type: `Joined`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from virtoll.claims.judge import Judged, Outcome, outcome_of_tests
from virtoll.claims.model import Claim
from virtoll.stats.compare import LEVEL


@dataclass(frozen=True)
class Ledger:
    """What one run says about claims. `run`: its name among them; `host`: what tells its host from others."""

    run: str
    host: str
    judged: tuple[Judged, ...]


@dataclass(frozen=True)
class Joined:
    """What runs say about one claim together, and each of them by its name."""

    claim: Claim
    outcome: Outcome
    runs: tuple[tuple[str, Judged], ...]

    @property
    def measured(self) -> tuple[tuple[str, Judged], ...]:
        """The runs that measured something of it."""
        return tuple((run, judged) for run, judged in self.runs if judged.outcome is not Outcome.NOT_MEASURED)

    @property
    def decided(self) -> bool:
        """Whether it is supported or refuted: that something was not seen decides nothing."""
        return self.outcome in (Outcome.SUPPORTED, Outcome.REFUTED)

    @property
    def error(self) -> float:
        """The largest chance that the outcome is wrong by chance; 0 where nothing was measured."""
        return min(1.0, len(self.measured) * LEVEL)


def join_ledgers(ledgers: Sequence[Ledger]) -> tuple[Joined, ...]:
    """The claims of all ledgers in the first one's order; `ValueError` where they are not of the same claims."""
    if not ledgers:
        return ()
    claims = [judged.claim for judged in ledgers[0].judged]
    if any([judged.claim for judged in ledger.judged] != claims for ledger in ledgers):
        raise ValueError("ledgers are joined claim by claim; judge every run by the same claims")
    joined = []
    for place, claim in enumerate(claims):
        by_host: dict[str, list[Judged]] = {}
        for ledger in ledgers:
            by_host.setdefault(ledger.host, []).append(ledger.judged[place])
        outcome = joined_outcome([_of_one_host(judgements) for judgements in by_host.values()])
        joined.append(Joined(claim, outcome, tuple((ledger.run, ledger.judged[place]) for ledger in ledgers)))
    return tuple(joined)


def joined_outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """Refuted where any is; else supported where any is; else not decided where any is; else not seen."""
    for outcome in (Outcome.REFUTED, Outcome.SUPPORTED, Outcome.NOT_DECIDED, Outcome.NOT_SEEN):
        if outcome in outcomes:
            return outcome
    return Outcome.NOT_MEASURED


def _of_one_host(judged: Sequence[Judged]) -> Outcome:
    outcomes = ([test.outcome for test in judgement.tests] for judgement in judged)
    return outcome_of_tests(list(map(joined_outcome, zip(*outcomes, strict=True))))
