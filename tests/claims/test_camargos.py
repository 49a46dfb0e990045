"""The claims of Camargos, Girard and des Ligneris 2008, each on runs whose truth is known: all four outcomes."""

from __future__ import annotations

import math

import pytest
from tests.support.claim_tables import NONE, ClaimCase, possible_outcomes
from tests.support.claims_camargos import CASES, PLATFORMS

from virtoll.claims import judge_claims, published_claims
from virtoll.stats.analysis import analyse

BY_ID = {one.id: one for one in published_claims() if one.paper == "camargos2008"}


def test_each_claim_comes_to_each_outcome() -> None:
    every = {(name, outcome) for name, claim in BY_ID.items() for outcome in possible_outcomes(claim)}
    assert {(case.claim, case.outcome) for case in CASES} == every


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_claim_comes_to_what_was_measured(case: ClaimCase) -> None:
    (judged,) = judge_claims(analyse(case.run(PLATFORMS, blocks=4, seed=2)), [BY_ID[case.claim]])
    assert tuple(test.outcome for test in judged.tests) == case.outcomes(len(judged.tests))
    assert judged.outcome is case.outcome
    assert all(test.missing for test in judged.tests if test.outcome is NONE)
    findings = [finding for test in judged.tests for finding in test.findings if finding.estimate is not None]
    for what, (expected,) in (case.found[0] if case.found else {}).items():
        named = [finding for finding in findings if f"{finding.platform}/{finding.against}" == what]
        nearest = min(named, key=lambda one: abs(math.log((one.estimate or 0) / expected)))
        assert nearest.estimate == pytest.approx(expected, rel=0.08)
        assert nearest.interval is not None
        assert nearest.interval.low < expected < nearest.interval.high
