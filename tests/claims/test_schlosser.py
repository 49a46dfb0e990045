"""The claims of Schlosser et al. 2011 on made-up runs whose truth is known: every outcome of each, with its numbers."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import pytest
from tests.support.claim_tables import NESTED, NO, NONE, OPEN, YES, ClaimCase, measures, possible_outcomes
from tests.support.claims_schlosser import CASES, OFFERED, PLATFORMS, WITHOUT_LIGHT, WORDS
from tests.support.facts import assert_facts

from virtoll.claims import Finding, Judged, Outcome, judge_claims, published_claims
from virtoll.runfolder.guest_records import Forwarding
from virtoll.stats.analysis import RunData, analyse

CLAIMS = {one.id: one for one in published_claims() if one.paper == "schlosser2011"}
# The first of each claim's cases is one that supports it.
SUPPORTED = {claim: next(one for one in CASES if one.claim == claim) for claim in CLAIMS}
FRAME = 1e-4  # relative: what a frame more or less makes of a rate without noise


def judged(claim: str, run: RunData) -> Judged:
    """What a run says of one claim."""
    (found,) = judge_claims(analyse(run), [CLAIMS[claim]])
    return found


def estimates_of(case: ClaimCase) -> tuple[float, ...]:
    """Of all findings in order, what was put in."""
    return case.found[0][""] if case.found else ()


def run_of(case: ClaimCase, changed: Mapping[str, Mapping[str, Any]] | None = None, *, blocks: int = 4) -> RunData:
    """The run; `changed`: what platforms have besides."""
    return replace(case, changed=changed or case.changed).run(PLATFORMS, blocks=blocks)


def run_with(text: str, generator: float | None = None) -> RunData:
    """A run that is in no table."""
    return run_of(ClaimCase("", OPEN, "", measures(text, WORDS)[0], generator=generator))


def findings(found: Judged) -> list[Finding]:
    """Of all its tests, in order."""
    return [one for test in found.tests for one in test.findings]


def test_each_claim_has_a_case_for_each_outcome() -> None:
    every = {(name, outcome) for name, claim in CLAIMS.items() for outcome in possible_outcomes(claim)}
    assert {(one.claim, one.outcome) for one in CASES} == every
    assert list(CLAIMS) == [f"S{number:02d}" for number in range(1, 15)]
    assert all(one.outcome is YES and estimates_of(one) for one in SUPPORTED.values())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_run_says_of_a_claim_what_was_put_into_it(case: ClaimCase) -> None:
    found = judged(case.claim, run_of(case))
    assert found.outcome is case.outcome
    results = findings(found)
    assert bool(results) != (case.outcome is NONE) or any(one.functional for one in results)
    estimates = estimates_of(case)
    if estimates:
        assert [one.estimate for one in results] == pytest.approx(estimates, rel=0.03)
        for one, estimate in zip(results, estimates, strict=True):
            if one.interval is not None and one.simultaneous is not None and one.estimate is not None:
                assert one.interval.low <= one.estimate <= one.interval.high
                assert one.simultaneous.low * (1 - FRAME) <= estimate <= one.simultaneous.high * (1 + FRAME)
    for one in results:
        assert one.outcome is not OPEN or one.interval is not None or one.reason


@pytest.mark.parametrize(
    ("claim", "measured", "facts"),
    [
        ("S03", "sources-68 native 290,300,300 + sources-504 native 1000,2000", ("sources 3",)),
        ("S10", WITHOUT_LIGHT, ("neighbour load light",)),
        ("S10", f"{WITHOUT_LIGHT} + beside-68 kvm 0:75,light:75,heavy:75", ("neighbour load light", "netns")),
    ],
    ids=["sources", "light", "light of another"],
)
def test_it_stays_open_without_one_of_the_values_that_must_be_measured(
    claim: str, measured: str, facts: tuple[str, ...]
) -> None:
    found = judged(claim, run_with(measured))
    first, second = found.tests
    assert (first.outcome, second.outcome, second.missing) == (OPEN, YES, "")
    assert_facts(first.missing, *facts)
    assert {one.outcome for one in findings(found)} == {YES}


@cache
def supported(claim: str) -> RunData:
    """The run that supports a claim."""
    return run_of(SUPPORTED[claim])


@pytest.mark.parametrize("claim", CLAIMS)
def test_one_block_alone_decides_nothing(claim: str) -> None:
    found = judged(claim, run_of(SUPPORTED[claim], blocks=1))
    assert found.outcome is OPEN
    for one in findings(found):
        assert (one.outcome, one.interval) == (OPEN, None)
        assert_facts(one.reason, "one block")


# Claims that are made of the bare host's rates; S03 is of no others.
OF_NATIVE = {"S01", "S02", "S03", "S04", "S06"}
WHO = ["native", "guests"]


def concerns(claim: str, who: str, finding: Finding) -> bool:
    """Whether a finding of a claim is made of the values of native, or of the guests."""
    of_native = finding.platform == "native"
    return of_native or claim in OF_NATIVE if who == "native" else not of_native


def outcome_without(found: Judged, claim: str, who: str, whole: Outcome) -> Outcome:
    """What is said of a supported claim without the findings of native, or of the guests; `whole`: without any."""
    concerned = [concerns(claim, who, finding) for finding in findings(found)]
    if all(concerned):
        return whole
    return OPEN if any(concerned) else YES


def on_cpus_of_others(run: RunData, who: str, forwarding: Forwarding) -> RunData:
    """The same run, where native or all guests forward so."""
    return replace(
        run,
        boots=tuple(
            one.replace(forwarding=forwarding) if (one.platform == "native") == (who == "native") else one
            for one in run.boots
        ),
    )


SENDERS = Forwarding(cpus=None, means=None, reason="this kernel has no threaded NAPI")
KERNELS = Forwarding(cpus=None, means="threaded NAPI", reason="the guest has no CPUs of its own")


@pytest.mark.parametrize(
    ("who", "forwarding", "fact"),
    [("native", SENDERS, "core"), ("guests", SENDERS, "core"), ("guests", KERNELS, "kernel's")],
)
@pytest.mark.parametrize("claim", CLAIMS)
def test_rates_forwarded_on_other_cpus_than_the_guests_decide_nothing(
    claim: str, who: str, forwarding: Forwarding, fact: str
) -> None:
    found = judged(claim, on_cpus_of_others(supported(claim), who, forwarding))
    assert found.outcome is outcome_without(found, claim, who, OPEN)
    for one in findings(found):
        if concerns(claim, who, one):
            assert (one.outcome, one.estimate, one.interval) == (OPEN, None, None)
            assert_facts(one.reason, fact)
        else:
            assert one.outcome is YES


def test_rates_that_were_forwarded_on_the_guests_cpus_decide() -> None:
    pinned = Forwarding(cpus=(1,), means="threaded NAPI", reason=None)
    for who in WHO:
        assert judged("S01", on_cpus_of_others(supported("S01"), who, pinned)).outcome is YES


@pytest.mark.parametrize("means", ["threaded NAPI", None])
def test_frames_that_the_first_interface_refuses_are_not_lost(means: Literal["threaded NAPI"] | None) -> None:
    """As many frames as it took in: a queue that refuses frames slows its sender down."""
    run = run_with("68 kvm 570", OFFERED)
    trials = [
        trial.replace(
            points=tuple(
                point.replace(sources=tuple(one.replace(refused_frames=one.offered_frames) for one in point.sources))
                for point in trial.points or ()
            ),
        )
        for trial in run.trials
    ]
    forwarding = Forwarding(cpus=(1,), means=means, reason=None)
    found = judged("S08", on_cpus_of_others(replace(run, trials=tuple(trials)), "guests", forwarding))
    assert found.outcome is NO
    assert [one.estimate for one in findings(found)] == pytest.approx([0.95], rel=0.03)


def test_one_that_forwards_on_the_senders_core_leaves_others_to_refute() -> None:
    run = run_with("1504 native 1000 netns 1000 kvm 600")
    boots = [one.replace(forwarding=SENDERS if one.platform == "netns" else None) for one in run.boots]
    found = judged("S01", replace(run, boots=tuple(boots)))
    assert found.outcome is NO
    assert [(one.platform, one.outcome) for one in findings(found)] == [("netns", OPEN), ("kvm", NO)]


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("claim", CLAIMS)
def test_what_is_functional_only_is_shown_and_decides_nothing(claim: str, who: str) -> None:
    case = SUPPORTED[claim]
    labels = {"native"} if who == "native" else PLATFORMS.keys() - {"native"}
    # On the same host: with another one there is no ratio either.
    found = judged(claim, run_of(case, {label: {"caveat": NESTED["caveat"]} for label in labels}))
    assert found.outcome is outcome_without(found, claim, who, NONE)
    for one in findings(found):
        assert one.functional == concerns(claim, who, one)
    assert [one.estimate for one in findings(found)] == pytest.approx(estimates_of(case), rel=0.03)


@pytest.mark.parametrize("claim", CLAIMS)
def test_guests_on_another_host_are_not_set_against_native(claim: str) -> None:
    elsewhere = {label: {"host": "bench@far"} for label in PLATFORMS.keys() - {"native"}}
    found = judged(claim, run_of(SUPPORTED[claim], elsewhere))
    if claim not in OF_NATIVE - {"S03"}:
        assert found.outcome is YES
        return
    assert found.outcome is OPEN
    for one in findings(found):
        assert one.estimate is None
        assert_facts(one.reason, "comparable")
