"""The claims of Mattos et al. 2012 against made-up runs, and against what the paper's presets plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from tests.support.claim_cases import NONE
from tests.support.claims_mattos import CASES_ON_A_HOST, PLATFORMS, Case, Expected
from tests.support.claims_mattos_network import CASES_ON_THE_NETWORK
from tests.support.facts import assert_facts
from tests.support.made_up_run import Made, made_up_run

from virtoll.campaign.preview import catalogue, plan_of
from virtoll.claims import Finding, Judged, JudgedTest, Outcome, judge_claims, published_claims
from virtoll.claims.ratios import Ratios
from virtoll.experiment.model import Experiment
from virtoll.experiment.parse import find_experiment, load_experiment
from virtoll.experiment.selection import Selection
from virtoll.stats.analysis import analyse

CLAIMS = {one.id: one for one in published_claims() if one.paper == "mattos2012"}
CASES = {case.name: case for case in [*CASES_ON_A_HOST, *CASES_ON_THE_NETWORK]}


@cache
def judged(name: str) -> Judged:
    """What the run of a case says about its claim."""
    case = CASES[name]
    platforms = {label: PLATFORMS[label] for label in ("native", *(one.platform for one in case.measured))}
    run = made_up_run(platforms, case.measured, blocks=case.blocks, calibrated_rate=case.limit)
    (found,) = judge_claims(analyse(run), [CLAIMS[case.claim]])
    return found


@pytest.mark.parametrize("name", CASES)
def test_what_a_run_says_of_a_claim(name: str) -> None:
    case, found = CASES[name], judged(name)
    assert found.outcome is case.outcome, found.tests
    assert not case.tests or tuple(one.outcome for one in found.tests) == case.tests
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


def expected_by(case: Case, found: Judged) -> Sequence[Expected]:
    """What each test must find."""
    return case.found or ({},) * len(found.tests)


def paired(test: JudgedTest, expected: Expected) -> list[tuple[Finding, float | None]]:
    """Each finding with what was put in, by size; None where nothing can be told."""
    pairs: list[tuple[Finding, float | None]] = []
    for label, given in expected.items():
        ratios = given if isinstance(given, tuple) else (given,)
        own = sorted((one for one in test.findings if one.platform == label), key=lambda one: one.estimate or 0.0)
        pairs += zip(own, sorted(ratios) if ratios else [None] * len(own), strict=True)
    return pairs


def tolerance(case: Case) -> float:
    """Four standard errors of a ratio of four values, relative."""
    spread = max(one.spread for one in case.measured)
    return 4 * spread * math.sqrt(4 / case.blocks)


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
        (claim, outcome) for claim in CLAIMS for outcome in Outcome
    }


# Preset and size -> the claims of which it plans all tests' workloads and parameters, for the platforms that they need.
# The quick size has no gigabit (M06), three tables (M07), four senders (M08) or four routers (M09). `virtual-routers`
# has the paper's Section V without what its claims ask for: its routers are swept, its transmitters have a NIC each.
PLANNED = {
    ("mattos2012", "quick"): {"M01", "M02", "M03", "M04", "M05", "M10", "M11"},
    ("mattos2012", "paper"): set(CLAIMS),
    ("routes", None): {"M07", "M10", "M11"},
    ("virtual-routers", None): set(),
}
# What no platform of the preset can answer, though its workloads could: Xen with SR-IOV needs the addresses of a user's
# own virtual functions.
WITHOUT_A_PLATFORM = {("M10", "forwards as fast as native with the device itself")}


def preset(name: str, size: str | None) -> Experiment:
    """One of the package's experiments, as `virtoll plan` reads it."""
    return load_experiment(find_experiment(name), catalogue(), Selection(size=size))


def answered(experiment: Experiment, platforms: Mapping[str, Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Claims and tests of which a run of its planned workloads on these platforms has each value that must be there."""
    workloads = dict.fromkeys(trial.workload for trial in plan_of(experiment).trials)
    measured = [
        Made(label, one.workload, one.parameters.model_dump(mode="json", exclude_unset=True), value=1e4)
        for one in workloads
        for label in platforms
    ]
    ratios = Ratios(analyse(made_up_run(platforms, measured, blocks=2)))
    found = {(claim.id, test.says): (test, ratios.sides(test)) for claim in CLAIMS.values() for test in claim.tests}
    return {
        name for name, (test, sides) in found.items() if not isinstance(sides, str) and not ratios.missing(test, sides)
    }


def every_test() -> set[tuple[str, str]]:
    """Each claim's id with the words of each of its tests."""
    return {(claim.id, test.says) for claim in CLAIMS.values() for test in claim.tests}


@pytest.mark.parametrize(("name", "size"), PLANNED, ids=lambda part: part or "alone")
def test_a_preset_plans_what_its_claims_ask_for(name: str, size: str | None) -> None:
    kinds = ("native", "runc", "runc-routed", "qemu-kvm", "qemu-kvm-e1000", "xen", "xen-routed", "xen-sriov")
    found = answered(preset(name, size), {label: PLATFORMS[label] for label in kinds})
    lacking = {claim for claim, _ in every_test() - found}
    assert set(CLAIMS) - lacking == PLANNED[name, size]


def test_the_papers_size_has_platforms_for_its_claims() -> None:
    experiment = preset("mattos2012", "paper")
    platforms = {
        one.label: {"platform": one.platform, "parameters": one.parameters.model_dump(mode="json")}
        for one in experiment.platforms
    }
    assert every_test() - answered(experiment, platforms) == WITHOUT_A_PLATFORM
