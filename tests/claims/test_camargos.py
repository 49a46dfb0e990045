"""The claims of Camargos, Girard and des Ligneris 2008, each on runs whose truth is known: all four outcomes."""

from __future__ import annotations

import math
from itertools import product

import pytest
from tests.support.claims_camargos import CASES, PLATFORMS, Case
from tests.support.made_up_run import made_up_run

from virtoll.claims import Outcome, judge_claims, published_claims
from virtoll.stats.analysis import analyse

BY_ID = {one.id: one for one in published_claims() if one.paper == "camargos2008"}


def test_each_claim_comes_to_each_outcome() -> None:
    assert {(case.claim, case.outcome) for case in CASES} == set(product(BY_ID, Outcome))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_claim_comes_to_what_was_measured(case: Case) -> None:
    labels = {made.platform for made in case.measured}
    platforms = {label: given for label, given in PLATFORMS.items() if label in labels}
    run = made_up_run(platforms, case.measured, blocks=4, seed=2)
    (judged,) = judge_claims(analyse(run), [BY_ID[case.claim]])
    outcomes = tuple(test.outcome for test in judged.tests)
    assert outcomes == (case.tests or (case.outcome,) * len(outcomes))
    assert judged.outcome is case.outcome
    assert all(test.missing for test in judged.tests if test.outcome is Outcome.NOT_MEASURED)
    findings = [finding for test in judged.tests for finding in test.findings if finding.estimate is not None]
    for what, expected in case.shares.items():
        named = [finding for finding in findings if f"{finding.platform}/{finding.against}" == what]
        nearest = min(named, key=lambda one: abs(math.log((one.estimate or 0) / expected)))
        assert nearest.estimate == pytest.approx(expected, rel=0.08)
        assert nearest.interval is not None
        assert nearest.interval.low < expected < nearest.interval.high
