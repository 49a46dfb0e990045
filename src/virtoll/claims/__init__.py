"""The published claims as predicates over an analysis: what one run says about each. Pure.

`CLAIMS` is the table from a claim's identifier to its predicate; `judge_claims(analysis)` is all that a report needs. A
claim without a predicate, or whose platforms or scenario the run has not, is *not testable here*, with the reason. What
a platform with a caveat shows is reported beside the outcome and never decides it.
"""

from collections.abc import Mapping
from types import MappingProxyType

from virtoll.claims import forwarding
from virtoll.claims.base import ClaimResult, Outcome, Predicate, judge
from virtoll.stats.analysis import Analysis

__all__ = ["CLAIMS", "ClaimResult", "Outcome", "judge_claims"]

CLAIMS: Mapping[str, Predicate] = MappingProxyType(
    {
        "S01": forwarding.large_frames_as_native,
        "S02": forwarding.small_frames_lose_more,
        "S03": forwarding.native_grows_with_sources,
        "S04": forwarding.sources_do_not_lift_the_limit,
        "S05": forwarding.paravirtual_above_emulated,
        "S06": forwarding.os_level_large_and_small,
        "S07": forwarding.os_level_collapses,
        "S08": forwarding.loses_instead_of_slowing,
    }
)
_NEIGHBOURS = "a second guest beside the measured one"
_SOURCES = "more than one source"
# What a run must have for a claim to be tested; reported where it has not.
_NEEDS: Mapping[str, str] = MappingProxyType(
    {
        "S01": "frames of 1504 or 1500 bytes and a platform beside the bare host, on a host whose numbers are results",
        "S02": "two frame sizes and a platform beside the bare host, on a host whose numbers are results",
        "S03": _SOURCES,
        "S04": f"{_SOURCES} and a platform on a host whose numbers are results",
        "S05": "one platform with a para-virtualised and with an emulated NIC, on a host whose numbers are results",
        "S06": "frames of 68 or 64 and of 1504 or 1500 bytes, and OS-level virtualisation",
        "S07": "a sweep of rates and OS-level virtualisation",
        "S08": "a sweep that ends flat out and a platform on a host whose numbers are results",
        **{f"S{number:02d}": _NEIGHBOURS for number in range(9, 14)},
    }
)


def judge_claims(analysis: Analysis) -> tuple[ClaimResult, ...]:
    """A finding for each claim of the study that the run's experiment names, in the study's order; none without one."""
    if analysis.study is None:
        return ()
    return tuple(
        judge(claim, CLAIMS.get(claim.id), analysis, _NEEDS.get(claim.id, "a test, which is not written yet"))
        for claim in analysis.study.study.claims
    )
