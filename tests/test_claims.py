"""The published claims against runs whose truth is known: each outcome is reached.

Platforms with a caveat decide none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.support.synthetic_run import FAMILIES, Truth, run_data

from virtoll.claims import CLAIMS, ClaimResult, Outcome, judge_claims
from virtoll.claims.base import ClaimAnswer, together
from virtoll.claims.forwarding import (
    native_grows_with_sources,
    os_level_collapses,
    os_level_large_and_small,
    paravirtual_above_emulated,
    small_frames_lose_more,
    sources_do_not_lift_the_limit,
)
from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.reference.published import claims
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.intervals import Interval
from virtoll.stats.sweeps import Spread

NATIVE: dict[str, dict[str, float]] = {"native": {}, "native-again": {}}
WITH_CAVEAT = {"xen": ("nested xen", FUNCTIONAL_ONLY)}


def analysed(costs: dict[str, dict[str, float]], **changed: Any) -> Analysis:
    return analyse(run_data(Truth(NATIVE | costs, noise=0.004, study="schlosser2011", **changed)))


def findings(costs: dict[str, dict[str, float]], **changed: Any) -> dict[str, ClaimResult]:
    return {one.claim.id: one for one in judge_claims(analysed(costs, **changed))}


def test_every_predicate_is_of_a_claim_and_every_claim_of_the_study_gets_a_finding() -> None:
    assert set(CLAIMS) <= {claim.id for claim in claims()}
    found = findings({"netns": {}})
    assert list(found) == [f"S{number:02d}" for number in range(1, 14)]
    for number in range(9, 14):
        assert found[f"S{number:02d}"].outcome is Outcome.UNTESTABLE
        assert "second guest" in found[f"S{number:02d}"].words


def test_without_a_study_there_are_no_findings() -> None:
    assert judge_claims(analyse(run_data(Truth(NATIVE)))) == ()


def test_as_much_as_native_is_supported_by_equal_rates_and_refuted_by_one_that_is_slow() -> None:
    assert findings({"netns": {}})["S01"].outcome is Outcome.SUPPORTED
    slow = findings({"netns": {}, "runc": {"packet path": 3.0}})["S01"]
    assert slow.outcome is Outcome.REFUTED
    assert "runc 3" in slow.words
    assert findings({"netns": {}}, blocks=1)["S01"].outcome is Outcome.INCONCLUSIVE


def test_a_cost_that_does_not_grow_with_smaller_frames_does_not_support_the_claim() -> None:
    assert findings({"netns": {"packet path": 4.0}})["S02"].outcome is not Outcome.SUPPORTED


def test_os_level_needs_large_frames_as_native_and_small_ones_slower() -> None:
    assert FAMILIES["netns"] == "os-level"
    assert findings({"netns": {"packet path": 3.0}})["S06"].outcome is Outcome.REFUTED
    assert findings({"qemu-tcg": {"packet path": 3.0}})["S06"].outcome is Outcome.UNTESTABLE


def with_shares(analysis: Analysis, platform: str, shares: Mapping[str, tuple[float, float, float]]) -> Analysis:
    """A platform's shares of native as they are given: by size, lower end, location, upper end."""
    changed = []
    for one in analysis.comparisons:
        if one.platform == platform and one.task.size in shares:
            low, middle, high = shares[one.task.size]
            one = replace(one, share=middle, interval=Interval(low, high, 0.95, "given"))  # noqa: PLW2901
        changed.append(one)
    return replace(analysis, comparisons=tuple(changed))


@pytest.mark.parametrize(
    ("small", "large", "outcome"),
    [
        ((0.2, 0.3, 0.4), (0.8, 0.9, 0.99), Outcome.SUPPORTED),
        ((0.2, 0.3, 0.85), (0.8, 0.9, 0.99), Outcome.INCONCLUSIVE),
        ((0.8, 0.9, 0.99), (0.2, 0.3, 0.4), Outcome.REFUTED),
    ],
)
def test_small_frames_lose_more_where_the_intervals_are_apart(
    small: tuple[float, float, float], large: tuple[float, float, float], outcome: Outcome
) -> None:
    analysis = analysed({"netns": {}}, frame_sizes=(68, 1504))
    found = with_shares(analysis, "netns", {"68 B": small, "1504 B": large})
    assert outcomes(small_frames_lose_more(found, ["netns"])) == [outcome]


@pytest.mark.parametrize(
    ("small", "large", "outcome"),
    [
        ((0.2, 0.3, 0.4), (0.95, 1.0, 1.05), Outcome.SUPPORTED),
        ((0.2, 0.3, 1.4), (0.95, 1.0, 1.05), Outcome.INCONCLUSIVE),
        ((1.2, 1.3, 1.4), (0.95, 1.0, 1.05), Outcome.REFUTED),
        ((0.2, 0.3, 0.4), (0.5, 0.6, 0.7), Outcome.REFUTED),
    ],
)
def test_os_level_is_judged_by_both_sizes(
    small: tuple[float, float, float], large: tuple[float, float, float], outcome: Outcome
) -> None:
    analysis = analysed({"netns": {}}, frame_sizes=(68, 1504))
    found = with_shares(analysis, "netns", {"68 B": small, "1504 B": large})
    assert outcomes(os_level_large_and_small(found, ["netns"])) == [outcome]


@pytest.mark.parametrize("sizes", [(64, 1500), (64, 68, 1500, 1504)])
def test_runs_with_the_fields_own_sizes_answer_where_the_papers_are_not_measured(sizes: tuple[int, ...]) -> None:
    analysis = analysed({"netns": {}}, frame_sizes=sizes)
    shares = {"64 B": (0.2, 0.3, 0.4), "1500 B": (0.95, 1.0, 1.05)}
    papers = {"68 B": (1.2, 1.3, 1.4), "1504 B": (0.95, 1.0, 1.05)}
    found = with_shares(analysis, "netns", {**shares, **(papers if 68 in sizes else {})})
    expected = Outcome.REFUTED if 68 in sizes else Outcome.SUPPORTED
    assert outcomes(os_level_large_and_small(found, ["netns"])) == [expected]


@pytest.mark.parametrize(
    ("top_share", "outcome"), [(0.5, Outcome.SUPPORTED), (1.0, Outcome.REFUTED), (0.97, Outcome.REFUTED)]
)
def test_a_collapse_is_a_rate_flat_out_far_below_the_largest(top_share: float, outcome: Outcome) -> None:
    analysis = analysed({"netns": {"packet path": 3.0}}, frame_sizes=(68,))
    curves = []
    for curve in analysis.curves:
        best = max(point.forwarded.median for point in curve.points)
        top = replace(curve.points[-1], forwarded=Spread(best * top_share, best * top_share, best * top_share))
        curves.append(replace(curve, points=(*curve.points[:-1], top), lossless=False))
    found = replace(analysis, curves=tuple(curves))
    assert outcomes(os_level_collapses(found, ["netns"])) == [outcome]
    lossless = replace(found, curves=tuple(replace(one, lossless=True) for one in curves))
    assert outcomes(os_level_collapses(lossless, ["netns"])) == [Outcome.INCONCLUSIVE]


def test_loss_flat_out_supports_that_frames_are_lost() -> None:
    assert findings({"netns": {"packet path": 3.0}})["S08"].outcome is Outcome.SUPPORTED


def test_a_branded_platform_is_told_and_decides_nothing() -> None:
    found = findings({"xen": {"packet path": 50.0}}, caveats=WITH_CAVEAT)
    assert found["S01"].outcome is Outcome.UNTESTABLE
    assert "xen 2" in found["S01"].functional
    beside = findings({"netns": {}, "xen": {"packet path": 50.0}}, caveats=WITH_CAVEAT)
    assert beside["S01"].outcome is Outcome.SUPPORTED
    assert "xen" not in beside["S01"].words


def test_claims_on_sources_need_several() -> None:
    for claim in ("S03", "S04"):
        assert findings({"netns": {}})[claim].outcome is Outcome.UNTESTABLE


@pytest.mark.parametrize(
    ("three_times", "native", "guest"),
    [(3.0, Outcome.SUPPORTED, Outcome.REFUTED), (1.0, Outcome.REFUTED, Outcome.SUPPORTED)],
)
def test_more_sources_lift_a_rate_or_they_do_not(three_times: float, native: Outcome, guest: Outcome) -> None:
    analysis = with_three_sources(analysed({"netns": {}}, frame_sizes=(1504,)), three_times)
    assert outcomes(native_grows_with_sources(analysis, [])) == [native]
    assert outcomes(sources_do_not_lift_the_limit(analysis, ["netns"])) == [guest]


def test_sources_with_an_egress_link_each_are_not_set_against_those_that_share_one() -> None:
    """What three share is no answer for what one of its own would do, and the other way round."""
    several = analysed({"netns": {}}, frame_sizes=(1504,), sources=(1, 3), egress=("one", "each"))
    said = {one.words.partition("of one at ")[2] for one in native_grows_with_sources(several, [])}
    assert said == {"1504 B", "1504 B, an egress link each"}


def test_a_sweep_over_a_list_answers_the_claims_as_one_that_rises_does() -> None:
    """The largest rate, the rate flat out and what is lost there are read from points, whichever rates those have."""
    costs = {"netns": {"packet path": 3.0}}
    rates = (10.0, 100.0, 400.0, 1000.0)
    rising, listed = findings(costs), findings(costs, rates_mbit_per_second=rates)
    for claim in ("S01", "S06", "S07", "S08"):
        assert listed[claim].outcome is rising[claim].outcome, claim
    analysis = analysed(costs, rates_mbit_per_second=rates, frame_sizes=(68, 504))
    assert analysis.study is not None
    assert analysis.study.sizes == (68, 504)
    (row,) = (one for one in analysis.study.rows if one.label == "netns" and one.platform.key == "openvz")
    assert row.cells[0].ours is not None
    assert row.cells[0].ours.share == pytest.approx(1 / 3, rel=0.1)
    assert [curve.points[-1].intended_rate for curve in analysis.curves] == [None] * len(analysis.curves)


def with_three_sources(analysis: Analysis, factor: float) -> Analysis:
    """The same cells once more as if from three sources, at `factor` times the rate."""
    cells, tasks = dict(analysis.cells), list(analysis.tasks)
    for (platform, task), cell in analysis.cells.items():
        if task.workload == "forward":
            other = replace(task, parameters=task.parameters.replace('"sources": 1', '"sources": 3'))
            assert other != task
            cells[platform, other] = replace(cell, median=cell.median * factor)
            tasks.append(other)
    return replace(analysis, cells=cells, tasks=tuple(dict.fromkeys(tasks)))


def test_a_paravirtual_nic_is_set_against_the_emulated_one_of_the_same_platform() -> None:
    analysis = analysed({"one": {"packet path": 2.0}, "two": {"packet path": 4.0}}, frame_sizes=(68,))
    manifest = analysis.data.manifest

    def with_nics(one: str, two: str) -> list[ClaimAnswer]:
        nics = {"one": one, "two": two}
        entries = tuple(
            replace(entry, platform="qemu", parameters={"nic": nics[entry.label]}) if entry.label in nics else entry
            for entry in manifest.platforms
        )
        data = replace(analysis.data, manifest=replace(manifest, platforms=entries))
        return paravirtual_above_emulated(replace(analysis, data=data), ["one", "two"])

    assert outcomes(with_nics("virtio-net", "e1000")) == [Outcome.SUPPORTED]
    assert outcomes(with_nics("e1000", "virtio-net")) == [Outcome.REFUTED]
    assert with_nics("e1000", "rtl8139") == []


def outcomes(said: Sequence[ClaimAnswer]) -> list[Outcome]:
    return [one.outcome for one in said]


def test_one_platform_refutes_and_all_must_support() -> None:
    yes, no, maybe, none = Outcome.SUPPORTED, Outcome.REFUTED, Outcome.INCONCLUSIVE, Outcome.UNTESTABLE
    assert together([yes, no, maybe]) is no
    assert together([yes, maybe]) is maybe
    assert together([yes, none]) is yes
    assert together([none]) is together([]) is none
