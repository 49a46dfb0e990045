"""What a report is made of; its sections, tables and figures read nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass

from virtoll.claims import NO_PAPER, Judged, ThenAndNow
from virtoll.stats.analysis import Analysis


@dataclass(frozen=True)
class ReportInput:
    """`ledger`: what the run says about claims. `then_and_now`: the same quantities in the papers."""

    analysis: Analysis
    ledger: Sequence[Judged] = ()
    then_and_now: ThenAndNow = NO_PAPER
