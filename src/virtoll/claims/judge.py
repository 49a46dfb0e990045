"""What one run says about claims: the outcome that follows from each test's ratios. Pure.

A claim on several platforms is an intersection-union test: each single 95 % interval must lie where the claim says
(Berger 1982). One that does not meet it refutes the claim. Of many intervals one misses by chance, so these are
simultaneous (Bonferroni). Platforms that do not show something do not refute that it exists. A run decides nothing if
its host is unfit, or differs from itself by as much as the claim is about.
Main types: `Finding` (one ratio and its outcome), `Judged` (one claim).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from virtoll.claims.model import Claim, Test
from virtoll.errors import UsageError
from virtoll.stats.analysis import Analysis
from virtoll.stats.clocks import ClockError
from virtoll.stats.compared import Range
from virtoll.stats.fitness import FitnessLevel
from virtoll.stats.ratios import Ratio, Ratios
from virtoll.stats.readings import SHARE
from virtoll.stats.sides import Sides
from virtoll.stats.summaries import known

_SCALES: Mapping[str, Mapping[str, float]] = {
    SHARE: {"%": 0.01, "ppm": 1e-6, SHARE: 1.0},
    "ns": {"ns": 1.0, "µs": 1e3, "us": 1e3, "ms": 1e6, "s": 1e9},
}


class Outcome(StrEnum):
    """What a run says about a claim."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    NOT_SEEN = "not seen here"
    NOT_DECIDED = "not decided"
    NOT_MEASURED = "not measured"


_DECIDED = frozenset({Outcome.SUPPORTED, Outcome.REFUTED, Outcome.NOT_SEEN})


@dataclass(frozen=True)
class Finding(Ratio):
    """One ratio, or one value, and what it says of the test; a functional one decides nothing."""

    outcome: Outcome = Outcome.NOT_DECIDED


@dataclass(frozen=True)
class JudgedTest:
    """What a run says about one test; `missing`: what of the run keeps it from an outcome, or from more of one.

    `beyond`: what it finds without the link that the test is limited to, which decides nothing.
    """

    test: Test
    outcome: Outcome
    findings: tuple[Finding, ...]
    missing: str = ""
    beyond: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Judged:
    """What a run says about a claim, test by test."""

    claim: Claim
    outcome: Outcome
    tests: tuple[JudgedTest, ...]


def judge_claims(analysis: Analysis, claims: Sequence[Claim], ratios: Ratios | None = None) -> tuple[Judged, ...]:
    """One `Judged` for each claim, in order; `ratios`: the run's, where they are there already.

    `UsageError` where a value's unit is not what was read.
    """
    ratios = ratios or Ratios(analysis)
    return tuple(_judged(claim, ratios, analysis) for claim in claims)


def _judged(claim: Claim, ratios: Ratios, analysis: Analysis) -> Judged:
    every = [ratios.sides(test) for test in claim.tests]
    # As many ratios as can refute the claim: its intervals are simultaneous over these.
    family = sum(
        ratios.caveat(test, side) is None
        for test, sides in zip(claim.tests, every, strict=True)
        if not isinstance(sides, str)
        for side in sides
    )
    tests = []
    for test, sides in zip(claim.tests, every, strict=True):
        if isinstance(sides, str):
            tests.append(JudgedTest(test, Outcome.NOT_MEASURED, (), sides))
            continue
        measured = [ratios.ratio(test, side, family, value=test.value is not None) for side in sides]
        judged = _judged_test(test, [_finding(claim, test, ratio) for ratio in measured])
        missing = ratios.missing(test, sides, any_platform=test.holds_for == "any")
        if missing and judged.outcome is Outcome.SUPPORTED:
            judged = replace(judged, outcome=Outcome.NOT_DECIDED, missing=missing)
        judged = replace(judged, beyond=_beyond(claim, test, ratios))
        doubt = _doubt(analysis, test, sides, judged.findings) if judged.outcome in _DECIDED else ""
        if doubt:
            judged = replace(judged, outcome=Outcome.NOT_DECIDED, missing=doubt)
        tests.append(judged)
    return Judged(claim, outcome_of_tests([test.outcome for test in tests]), tuple(tests))


def _finding(claim: Claim, test: Test, ratio: Ratio) -> Finding:
    limits, outcome = _in_unit(claim, test, ratio.unit), Outcome.NOT_DECIDED
    if ratio.interval is not None and ratio.simultaneous is not None:
        low = -math.inf if limits.at_least is None else limits.at_least
        high = math.inf if limits.at_most is None else limits.at_most
        if ratio.interval.low >= low and ratio.interval.high <= high:
            outcome = Outcome.SUPPORTED
        elif ratio.simultaneous.high < low or ratio.simultaneous.low > high:
            outcome = Outcome.REFUTED
    return Finding(**vars(ratio), outcome=outcome)


def _in_unit(claim: Claim, test: Test, unit: str) -> Range:
    """What is asked for, in the unit of what was read."""
    if test.value is None:
        return test.asked
    scales = _SCALES.get(unit, {unit: 1.0})
    if test.value.unit not in scales:
        raise UsageError(
            f"claim {claim.id}: test '{test.says}': what is read is in {unit}, and the claim gives "
            f"{test.value.unit!r}; give one of {', '.join(scales)}"
        )
    return test.value.scaled(scales[test.value.unit])


def _judged_test(test: Test, findings: Sequence[Finding]) -> JudgedTest:
    """A test on all platforms, or on any; those whose numbers are no results decide nothing."""
    deciding = {finding.outcome for finding in findings if not finding.functional}
    if not deciding:
        reason = "it was measured only where numbers are no results"
        return JudgedTest(test, Outcome.NOT_MEASURED, tuple(findings), reason)
    decisive, other, all_other = Outcome.REFUTED, Outcome.SUPPORTED, Outcome.SUPPORTED
    if test.holds_for == "any":
        decisive, other, all_other = Outcome.SUPPORTED, Outcome.REFUTED, Outcome.NOT_SEEN
    outcome = Outcome.NOT_DECIDED
    if decisive in deciding:
        outcome = decisive
    elif deciding == {other}:
        outcome = all_other
    return JudgedTest(test, outcome, tuple(findings))


def _beyond(claim: Claim, test: Test, ratios: Ratios) -> tuple[Finding, ...]:
    """What a test that is limited to a link finds without it; nothing of other tests."""
    if test.link_mbit_per_second is None:
        return ()
    unlimited = test.model_copy(update={"link_mbit_per_second": None})
    sides = ratios.sides(unlimited)
    if isinstance(sides, str):
        return ()
    findings: list[Finding] = []
    for side in sides:
        ratio = ratios.ratio(unlimited, side, len(sides), value=test.value is not None)
        if ratio.interval is not None:
            findings.append(_finding(claim, unlimited, ratio))
    return tuple(findings)


def _doubt(
    analysis: Analysis, test: Test, sides: Sequence[Sides] | Sequence[ClockError], findings: Sequence[Finding]
) -> str:
    """Why a run decides nothing about a test: its host was unfit, or differs from itself by as much; empty if it may.

    As much as a share that is asked for differs from 1. A test of a direction asks for none: then as much as the
    findings do.
    """
    is_simulated = all(platform.family == "model" for platform in analysis.data.manifest.platforms)
    if analysis.fitness.level is FitnessLevel.UNFIT and not is_simulated:
        return "the host was unfit, and an unfit host decides no claim"
    least = _least_distance(_shares_asked(test))
    if least is None:
        return ""
    if least == 0:
        least = _least_distance([finding.estimate or 0 for finding in findings if not finding.functional]) or math.inf
    tasks = {cell.task for side in sides if not isinstance(side, ClockError) for cell in side if cell is not None}
    for comparison in analysis.control:
        itself = comparison.share
        if comparison.task in tasks and itself and abs(math.log(itself)) >= least:
            return (
                f"the host reached {itself:.3g} of itself in {comparison.task.label}: it differs by as much as is asked"
            )
    return ""


def _least_distance(shares: Sequence[float]) -> float | None:
    """How far the nearest of some shares is from 1, as a logarithm; None if none is above 0."""
    return min((abs(math.log(share)) for share in shares if share > 0), default=None)


def _shares_asked(test: Test) -> list[float]:
    """The ends of a share of performance that a test asks for; none of a value."""
    if test.value is not None:
        return []
    return known((test.asked.at_least, test.asked.at_most))


def outcome_of_tests(outcomes: Sequence[Outcome]) -> Outcome:
    """A claim of several tests. A part that was not measured leaves it open, unless another part refutes it."""
    if Outcome.REFUTED in outcomes:
        return Outcome.REFUTED
    return outcomes[0] if len(set(outcomes)) == 1 else Outcome.NOT_DECIDED
