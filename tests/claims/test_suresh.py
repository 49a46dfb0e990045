"""The claims of Suresh and Kannan 2014: every outcome of each, with its numbers."""

from dataclasses import replace

import pytest
from tests.support.claim_tables import NONE, YES, ClaimCase, possible_outcomes
from tests.support.claims_suresh import CASES, PLATFORMS
from tests.support.facts import assert_facts

from virtoll.claims import Outcome, judge_claims, published_claims
from virtoll.stats.analysis import analyse
from virtoll.stats.compared import PlatformFilter, Range

CLAIMS = {one.id: one for one in published_claims() if one.paper == "suresh2014"}
# One in twenty 95 % intervals misses what was put in. Of those that are asked for here none does with this seed.
SEED, BLOCKS = 5, 4
GUEST = {"vcpus": 8, "memory_bytes": 2 * 2**30, "marks": "icmp"}  # "configured with 8 VCPUs and 2 GB RAM"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_run_says_of_a_claim_what_its_reader_would(case: ClaimCase) -> None:
    run = case.run(PLATFORMS, blocks=BLOCKS, seed=SEED, experiment={"guest": GUEST})
    (judged,) = judge_claims(analyse(run), [CLAIMS[case.claim]])
    assert judged.outcome is case.outcome
    assert tuple(test.outcome for test in judged.tests) == case.outcomes(len(judged.tests))
    findings = [finding for test in judged.tests for finding in test.findings]
    performance = case.found[0] if case.found else {}
    assert {finding.platform for finding in findings} == set(performance)
    noise = max(made.spread for made in case.measured)
    for platform, shares in performance.items():
        own = [finding for finding in findings if finding.platform == platform]
        ratios = sorted((one.estimate, one.simultaneous) for one in own if one.estimate is not None)
        assert [estimate for estimate, _ in ratios] == [pytest.approx(one, rel=3 * noise) for one in sorted(shares)]
        for share, (_, interval) in zip(sorted(shares), ratios, strict=True):
            assert interval is None or interval.low <= share <= interval.high
        assert [finding.functional for finding in own] == [platform == "nested"] * len(own)
    reasons = [test.missing for test in judged.tests] + [one.reason for one in findings if one.interval is None]
    given = [reason for reason in reasons if reason]
    assert bool(given) == bool(case.lacks)
    for reason in given:
        assert_facts(reason, case.lacks)


@pytest.mark.parametrize(("hypervisor", "outcome"), [(None, YES), ("kvm", NONE)])
def test_guests_of_a_virtual_machine_are_no_witnesses(hypervisor: str | None, outcome: Outcome) -> None:
    """Assisted ones: containers of the same host are, and so is all for a user's own claim."""
    run = next(case for case in CASES if case.claim == "K03").run(PLATFORMS, blocks=BLOCKS, seed=SEED)
    run = replace(run, manifest=run.manifest.replace(host={**run.manifest.host, "hypervisor": hypervisor}))
    of_container = {"platforms": PlatformFilter(product="runc"), "share": Range(at_least=0.9), "times_slower": None}
    (test,) = CLAIMS["K03"].tests
    container = CLAIMS["K03"].model_copy(update={"tests": [test.model_copy(update=of_container)]})
    mine = CLAIMS["K03"].model_copy(update={"tests": [test.model_copy(update={"host": None})]})
    judged = judge_claims(analyse(run), [CLAIMS["K03"], container, mine])
    assert [judgement.outcome for judgement in judged] == [outcome, YES, YES]
    if hypervisor is not None:
        assert_facts(judged[0].tests[0].findings[0].caveat or "", "virtual machine", hypervisor)


@pytest.mark.parametrize("claim", CLAIMS)
def test_each_claim_of_the_paper_reaches_each_outcome(claim: str) -> None:
    (published,) = (one for one in published_claims() if one.id == claim)
    assert {case.outcome for case in CASES if case.claim == claim} == possible_outcomes(published)
