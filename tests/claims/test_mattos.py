"""The claims of Mattos et al. 2012 on made-up runs whose truth is known: every outcome of each, with its numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

import pytest
from tests.support import claims_mattos
from tests.support.claim_tables import NONE, ClaimCase, possible_outcomes
from tests.support.claims_mattos import PLATFORMS
from tests.support.facts import assert_facts

from virtoll.claims import Finding, Judged, JudgedTest, judge_claims, published_claims
from virtoll.stats.analysis import analyse

CLAIMS = {one.id: one for one in published_claims() if one.paper == "mattos2012"}
CASES = {case.name: case for case in claims_mattos.CASES}
BLOCKS = 5
Expected = Mapping[str, tuple[float, ...]]


@cache
def judged(name: str) -> Judged:
    """What the run of a case says about its claim."""
    case = CASES[name]
    (found,) = judge_claims(analyse(case.run(PLATFORMS, blocks=BLOCKS)), [CLAIMS[case.claim]])
    return found


@pytest.mark.parametrize("name", CASES)
def test_what_a_run_says_of_a_claim(name: str) -> None:
    case, found = CASES[name], judged(name)
    assert found.outcome is case.outcome, found.tests
    assert tuple(one.outcome for one in found.tests) == case.outcomes(len(found.tests))
    missing = {test.missing for test in found.tests if test.outcome is not NONE} - {""}
    assert bool(missing) == bool(case.lacks)
    for text in missing:
        assert_facts(text, case.lacks)
    for one, expected in zip(found.tests, expected_by(case, found), strict=True):
        assert {finding.platform for finding in one.findings} == set(expected)
        for finding, ratio in paired(one, expected):
            assert finding.functional == (finding.platform == "xen-nested")
            if ratio is None:
                assert finding.estimate is None
                assert finding.reason
                continue
            assert finding.estimate == pytest.approx(ratio, rel=tolerance(case), abs=1e-3)
            assert finding.interval is not None or finding.reason


def expected_by(case: ClaimCase, found: Judged) -> Sequence[Expected]:
    """What each test must find."""
    return case.found or ({},) * len(found.tests)


def paired(test: JudgedTest, expected: Expected) -> list[tuple[Finding, float | None]]:
    """Each finding with what was put in, by size; None where nothing can be told."""
    pairs: list[tuple[Finding, float | None]] = []
    for label, ratios in expected.items():
        own = sorted((one for one in test.findings if one.platform == label), key=lambda one: one.estimate or 0.0)
        pairs += zip(own, sorted(ratios) if ratios else [None] * len(own), strict=True)
    return pairs


def tolerance(case: ClaimCase) -> float:
    """Four standard errors of a ratio of four values, relative."""
    spread = max(one.spread for one in case.measured)
    return 4 * spread * math.sqrt(4 / BLOCKS)


def test_intervals_hold_what_was_put_in() -> None:
    """Of intervals at 95 % nearly all, and some of each claim; those that a bound opens do not count."""
    held: dict[str, list[bool]] = {claim: [] for claim in CLAIMS}
    for name, case in CASES.items():
        for one, expected in zip(judged(name).tests, expected_by(case, judged(name)), strict=True):
            for finding, ratio in paired(one, expected):
                interval = finding.interval
                if ratio is not None and interval is not None and interval.low > 0 and math.isfinite(interval.high):
                    held[case.claim].append(interval.low <= ratio <= interval.high)
    assert all(map(any, held.values())), held
    every = [one for own in held.values() for one in own]
    assert sum(every) >= 0.9 * len(every)


def test_each_claim_has_each_outcome() -> None:
    assert {(one.claim, one.outcome) for one in CASES.values()} == {
        (name, outcome) for name, claim in CLAIMS.items() for outcome in possible_outcomes(claim)
    }
