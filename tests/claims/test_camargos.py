"""The claims of Camargos, Girard and des Ligneris 2008, each on runs whose truth is known: all four outcomes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from tests.support.claims_camargos import CASES, PLATFORMS, Case, figures
from tests.support.made_up_run import Made, made_up_run

from virtoll.campaign.preview import catalogue, plan_of
from virtoll.claims import Outcome, judge_claims, published_claims
from virtoll.experiment.parse import find_experiment, load_experiment
from virtoll.experiment.selection import Selection
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


def measured_by(preset: str, size: str, products: Mapping[str, Mapping[str, Any]] | None) -> set[str]:
    """The tests of which a preset's plan measures something; `products`: were these its platforms, None: its own."""
    experiment = load_experiment(find_experiment(preset), catalogue(), Selection(size=size))
    own = {
        one.label: {"platform": one.platform, "parameters": one.parameters.model_dump(mode="json")}
        for one in experiment.platforms
    }
    asked = dict.fromkeys(
        (label, one.workload, one.scale)
        for one in plan_of(experiment).trials
        for label in (products or [one.platform.label])
    )
    measured = [
        Made(label, one.workload, one.parameters.model_dump(mode="json"), figures=figures(one.workload), scale=scale)
        for label, one, scale in asked
    ]
    analysis = analyse(made_up_run(products or own, measured, blocks=1))
    return {
        f"{found.claim.id} {one.test.says}"
        for found in judge_claims(analysis, list(BY_ID.values()))
        for one in found.tests
        if one.outcome is not Outcome.NOT_MEASURED
    }


PRESETS = ("camargos2008", "camargos2008-scale", "camargos2008-builds")
EVERY_TEST = {f"{claim.id} {one.says}" for claim in BY_ID.values() for one in claim.tests}


@pytest.mark.parametrize("size", ["quick", "paper"])
def test_the_presets_measure_what_every_test_asks_for(size: str) -> None:
    labels = ("native", "vserver", "openvz", "xen", "kvm_e1000", "virtualbox")
    products = {label: PLATFORMS[label] for label in labels}
    assert set().union(*(measured_by(preset, size, products) for preset in PRESETS)) == EVERY_TEST


def test_at_size_paper_every_test_has_a_platform_that_it_is_about() -> None:
    assert set().union(*(measured_by(preset, "paper", None) for preset in PRESETS)) == EVERY_TEST


def test_the_quick_size_has_an_emulated_nic() -> None:
    """On QEMU without KVM, which most hosts can hold; C06 asks for KVM."""
    assert {one for one in EVERY_TEST if one.startswith("C05")} <= measured_by("camargos2008", "quick", None)
