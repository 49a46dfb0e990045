"""The claims of Suresh and Kannan 2014: each outcome of each, and whether the presets measure what they need."""

from dataclasses import replace

import pytest
from tests.support.claims_suresh import CASES, KINDS, Case
from tests.support.facts import assert_facts
from tests.support.made_up_run import Made, made_up_run

from virtoll.campaign.preview import catalogue, plan_of
from virtoll.claims import Outcome, judge_claims, published_claims
from virtoll.claims.ratios import Ratios
from virtoll.experiment.parse import find_experiment, load_experiment
from virtoll.experiment.selection import Selection
from virtoll.stats.analysis import analyse
from virtoll.workloads import WORKLOADS

CLAIMS = {one.id: one for one in published_claims() if one.paper == "suresh2014"}
# One in twenty 95 % intervals misses what was put in. Of those that are asked for here none does with this seed.
SEED, BLOCKS = 5, 4
GUEST = {"vcpus": 8, "memory_bytes": 2 * 2**30, "marks": "icmp"}  # "configured with 8 VCPUs and 2 GB RAM"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_run_says_of_a_claim_what_its_reader_would(case: Case) -> None:
    platforms = {label: KINDS[label] for label in dict.fromkeys(["native", *(one.platform for one in case.measured)])}
    run = made_up_run(platforms, case.measured, blocks=BLOCKS, seed=SEED, experiment={"guest": GUEST})
    (judged,) = judge_claims(analyse(run), [CLAIMS[case.claim]])
    assert judged.outcome is case.outcome
    assert [test.outcome for test in judged.tests] == list(case.tests or [case.outcome] * len(judged.tests))
    findings = [finding for test in judged.tests for finding in test.findings]
    assert {finding.platform for finding in findings} == set(case.performance)
    noise = max(made.spread for made in case.measured)
    for platform, shares in case.performance.items():
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


@pytest.mark.parametrize("claim", CLAIMS)
def test_each_claim_of_the_paper_reaches_each_outcome(claim: str) -> None:
    assert {case.outcome for case in CASES if case.claim == claim} == set(Outcome)


# By size, what of a preset's platforms is taken for the paper's: at quick size none is hardware-assisted.
STANDS_FOR = {
    "paper": {"native": "native", "qemu-kvm": "kvm", "virtualbox": "virtualbox"},
    "quick": {"native": "native", "qemu-tcg": "kvm", "uml": "virtualbox"},
}
# Claim and test (from 0) that no preset of the paper measures at a size, and why.
LACKING: dict[str, dict[tuple[str, int], str]] = {
    "paper": {},
    "quick": {
        ("K04", 1): "builds with several cores are of one emulator, which stands for KVM and VirtualBox both",
        ("K08", 0): "no stream goes from guest to guest",
    },
}


def lacking(preset: str, size: str) -> set[tuple[str, int]]:
    """Claims and their tests of which a run of what a preset plans has nothing, or not each value that must be."""
    named = [test.workload for claim in CLAIMS.values() for test in claim.tests]
    wanted = {name for one in named for name in ([one] if isinstance(one, str) else one or ())}
    experiment = load_experiment(find_experiment(preset), catalogue(), Selection(size=size))
    measured = {}
    for trial in plan_of(replace(experiment, blocks=1)).trials:
        label, name = STANDS_FOR[size].get(trial.platform.platform), trial.workload.workload
        if label is not None and name in wanted:
            figures = {one.name: 1e8 for one in WORKLOADS[name].metrics[1:] if one.source == "figures"}
            asked = trial.workload.parameters.model_dump(mode="json")
            one = Made(label, name, asked, figures=figures, beside=trial.condition, scale=trial.scale)
            measured[label, one.task, trial.condition, trial.scale] = one  # of several rounds and a warm-up one
    platforms = {one.platform: KINDS[one.platform] for one in measured.values()}
    guest = GUEST | {"vcpus": experiment.vcpus, "memory_bytes": experiment.memory_bytes}
    run = made_up_run(platforms, list(measured.values()), blocks=1, experiment={"guest": guest})
    ratios = Ratios(analyse(run))
    found = {
        (claim.id, place): (test, ratios.sides(test))
        for claim in CLAIMS.values()
        for place, test in enumerate(claim.tests)
    }
    return {name for name, (test, sides) in found.items() if isinstance(sides, str) or ratios.missing(test, sides)}


@pytest.mark.parametrize("size", STANDS_FOR)
def test_the_presets_of_the_paper_measure_what_its_claims_need(size: str) -> None:
    presets = ("suresh2014", "suresh2014-cores", "suresh2014-neighbours")
    assert set.intersection(*(lacking(one, size) for one in presets)) == set(LACKING[size])
