"""The published claims as predicates over an analysis: what one run says about each. Pure.

`CLAIMS` is the table from a claim's identifier to its predicate; `judge_claims(analysis)` is all that a report needs. A
claim without a predicate, or whose platforms or scenario the run has not, is *not testable here*, with the reason. What
a branded platform shows is told beside the outcome and never decides it.
"""

from collections.abc import Mapping
from types import MappingProxyType

from virtoll.claims import forwarding
from virtoll.claims.base import Finding, Outcome, Predicate, judge
from virtoll.stats.analysis import Analysis

__all__ = ["CLAIMS", "Finding", "Outcome", "judge_claims"]

CLAIMS: Mapping[str, Predicate] = MappingProxyType({
    "S01": forwarding.large_frames_as_native,
    "S02": forwarding.small_frames_lose_more,
    "S03": forwarding.native_grows_with_sources,
    "S04": forwarding.sources_do_not_lift_the_limit,
    "S05": forwarding.paravirtual_above_emulated,
    "S06": forwarding.os_level_large_and_small,
    "S07": forwarding.os_level_collapses,
    "S08": forwarding.loses_instead_of_slowing,
})  # fmt: skip
_NEIGHBOURS = "it needs a second guest beside the measured one, which this run has not"
_WHY_NOT: Mapping[str, str] = MappingProxyType({f"S{number:02d}": _NEIGHBOURS for number in range(9, 14)})


def judge_claims(analysis: Analysis) -> tuple[Finding, ...]:
    """A finding for each claim of the study that the run's experiment names, in the study's order; none without one."""
    if analysis.study is None:
        return ()
    return tuple(
        judge(claim, CLAIMS.get(claim.id), analysis, _WHY_NOT.get(claim.id, "there is no test of it yet"))
        for claim in analysis.study.study.claims
    )
