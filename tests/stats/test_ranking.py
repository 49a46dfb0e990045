"""Platforms in their order, with what is certain of it, and how many blocks more would decide the rest."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from tests.support.facts import Command, assert_facts
from tests.support.made_up_run import Made, made_up_run

from virtoll.report.answer import cost_to_know_line, ranked
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.compare import Verdict
from virtoll.stats.intervals import Interval
from virtoll.stats.ranking import Placed, ranking
from virtoll.stats.remaining import block_seconds, remaining
from virtoll.stats.verdicts import Rules

PLATFORMS: dict[str, dict[str, Any]] = {"native": {}, "native-again": {}}


def computed(seconds: dict[str, float], spread: float = 0.01, blocks: int = 5, seed: int = 1, **given: Any) -> Analysis:
    """Super Pi in so many seconds on each platform."""
    platforms = PLATFORMS | {label: {} for label in seconds} | given
    measured = [Made(label, "superpi", {}, value=value * 1e9, spread=spread) for label, value in seconds.items()]
    return analyse(made_up_run(platforms, measured, blocks=blocks, seed=seed))


def places(analysis: Analysis) -> dict[str, tuple[int, int]]:
    (task,) = (one for one in analysis.tasks if one.metric.primary)
    found = ranking(task, analysis.comparisons, "native", analysis.lower_bounds)
    return {one.platform: (one.first, one.last) for one in found.placed}


def test_platforms_that_are_apart_have_a_place_each() -> None:
    found = places(computed({"native": 1.0, "runc": 1.5, "uml": 3.0, "qemu-tcg": 9.0}))
    assert found == {"native": (1, 1), "runc": (2, 2), "uml": (3, 3), "qemu-tcg": (4, 4)}
    assert list(found) == ["native", "runc", "uml", "qemu-tcg"]


def test_platforms_that_are_not_told_apart_share_places() -> None:
    found = places(computed({"native": 1.0, "runc": 1.001, "netns": 3.0, "uml": 3.01, "qemu-tcg": 9.0}, seed=2))
    assert found == {"native": (1, 2), "runc": (1, 2), "netns": (3, 4), "uml": (3, 4), "qemu-tcg": (5, 5)}


def given(ends: dict[str, tuple[float, float]], *bounds: str) -> list[Placed]:
    """Places where these simultaneous intervals are all that is known; `bounds`: whose rates are lower bounds."""
    analysis = computed({"native": 1.0, "runc": 1.5, "uml": 3.0})
    (task,) = analysis.tasks
    own = [
        replace(one, share=math.sqrt(low * high), simultaneous=Interval(low, high, 0.95, "given"))
        for one in analysis.comparisons
        for low, high in [ends[one.platform]]
    ]
    return list(ranking(task, own, "native", {(label, task) for label in bounds}).placed)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ({"runc": (0.5, 1.5), "uml": (0.4, 1.2)}, {"native": (1, 3), "runc": (1, 3), "uml": (1, 3)}),
        ({"runc": (0.5, 0.9), "uml": (0.8, 1.2)}, {"native": (1, 2), "runc": (2, 3), "uml": (1, 3)}),
        ({"runc": (1.1, 1.2), "uml": (0.1, 0.2)}, {"native": (2, 2), "runc": (1, 1), "uml": (3, 3)}),
    ],
)
def test_a_place_is_certain_as_far_as_intervals_do_not_meet(
    ends: dict[str, tuple[float, float]], expected: dict[str, tuple[int, int]]
) -> None:
    assert {one.platform: (one.first, one.last) for one in given(ends)} == expected


def test_a_rate_that_is_a_lower_bound_may_be_before_what_looks_faster() -> None:
    measured = [
        Made("native", "forward", {}, value=1000e3),
        Made("netns", "forward", {}, value=500e3, lossless=True),
        Made("uml", "forward", {}, value=100e3),
    ]
    found = places(analyse(made_up_run(PLATFORMS | {"netns": {}, "uml": {}}, measured)))
    assert found == {"netns": (1, 2), "native": (1, 2), "uml": (3, 3)}


def test_a_baseline_that_is_a_lower_bound_may_be_before_what_looks_faster() -> None:
    ends = {"runc": (1.1, 1.2), "uml": (0.1, 0.2)}
    found = [(one.platform, one.first, one.last) for one in given(ends, "native")]
    assert found == [("runc", 1, 2), ("native", 1, 2), ("uml", 3, 3)]
    found = [(one.platform, one.first, one.last) for one in given(ends, "native", "uml")]
    assert found == [("runc", 1, 3), ("native", 1, 3), ("uml", 1, 3)]


def test_the_larger_share_stands_first_whatever_the_places() -> None:
    """The baseline's share is 1; it alone has no comparison. A wide interval reaches a better place, and no order."""
    found = given({"runc": (0.9, 1.3), "uml": (0.8, 1.21)})
    assert [one.platform for one in found] == ["runc", "native", "uml"]
    assert [one.comparison is None for one in found] == [False, True, False]
    assert [one.platform for one in given({"runc": (0.7, 1.3), "uml": (0.8, 1.5)})] == ["uml", "native", "runc"]
    found = given({"runc": (0.05, 0.2), "uml": (0.005, 1.2)})
    assert [(one.platform, one.first) for one in found] == [("native", 1), ("runc", 2), ("uml", 1)]


def test_what_is_not_known_is_told_as_unplaced() -> None:
    analysis = computed({"native": 1.0, "runc": 1.5, "uml": 3.0})
    (task,) = analysis.tasks
    first, second = analysis.comparisons
    for changed in (
        replace(first, caveat="nested"),
        replace(first, simultaneous=None),
        replace(first, share=None),
    ):
        found = ranking(task, [changed, second], "native")
        assert [one.platform for one in found.placed] == ["native", second.platform]
        assert found.unplaced == (changed,)
    assert ranking(replace(task, size="x", parameters="{}"), [first, second], "native").unplaced == ()


def test_what_has_no_interval_or_is_no_result_has_no_place() -> None:
    analysis = computed({"native": 1.0, "runc": 1.5, "xen": 90.0}, xen={"caveat": "nested: functional only"})
    assert places(analysis) == {"native": (1, 1), "runc": (2, 2)}
    (row,) = ranked(analysis)
    (other,) = row.others
    assert_facts(other, "xen", "functional only")
    assert [(one.place, one.platform) for one in row.platforms] == [("1", "native"), ("2", "runc")]
    assert re.search(r"\b(50 %|1\.5\b)", row.platforms[1].words)
    (single,) = ranked(computed({"native": 1.0, "runc": 1.5}, blocks=1))
    (other,) = single.others
    assert_facts(other, "runc", "1.53 s", "one block")
    assert [one.value for one in single.platforms] == ["993 ms"]
    assert ranked(analyse(made_up_run({"runc": {}}, [Made("runc", "superpi", {})], baseline=None))) == ()


def test_more_blocks_tell_what_few_do_not_and_as_many_as_were_said() -> None:
    """Where some n blocks more are said to tell, four times as many do."""
    analysis = computed({"native": 1.0, "runc": 1.1, "uml": 1.0}, spread=0.06, blocks=4, seed=2)
    by_level = analysis.level_after
    left = {
        one.comparison.platform: one.blocks
        for one in remaining(analysis.comparisons, analysis.control, Rules(), by_level)
    }
    assert left["runc"] is not None
    assert left["runc"] > 1
    after = computed({"native": 1.0, "runc": 1.1, "uml": 1.0}, spread=0.06, blocks=4 + 4 * left["runc"], seed=2)
    verdicts = {one.platform: one.verdict for one in after.comparisons}
    assert verdicts["runc"] in (Verdict.SLOWER, Verdict.ALIKE)
    at_one_level = remaining(analysis.comparisons, analysis.control, Rules())
    assert all((one.blocks or 0) < (left[one.comparison.platform] or 0) for one in at_one_level)
    line = cost_to_know_line(analysis)
    (task,) = analysis.tasks
    remedy = Command(f"virtoll extend {analysis.data.manifest.run} --blocks +{left['runc']}")
    assert_facts(line, 1, "runc", task.label, left["runc"], remedy)
    seconds = block_seconds(analysis.data.trials)
    assert seconds is not None
    assert seconds > 0


def test_no_number_of_blocks_cures_two_speeds() -> None:
    """What is 10 % slower is left open by a gap of 1.45, whatever is measured; the line says why, and asks for none."""
    analysis = computed({"native": 1.0, "runc": 1.1, "uml": 1.0}, spread=0.06, blocks=4, seed=2)
    runc, uml = analysis.comparisons
    widened = (replace(runc, gap=1.45), replace(uml, gap=1.0))
    left = {one.comparison.platform: one for one in remaining(widened, analysis.control, Rules())}
    assert left["runc"].blocks is None
    line = cost_to_know_line(replace(analysis, comparisons=widened))
    assert_facts(line, 1, "two speeds")
    assert "virtoll extend" not in line


def test_a_forecast_far_beyond_the_run_is_no_advice() -> None:
    analysis = computed({"native": 1.0, "runc": 1.05, "uml": 1.0}, spread=0.1, blocks=5, seed=2)
    (undecided,) = (one for one in remaining(analysis.comparisons, analysis.control, Rules()) if one.blocks)
    assert undecided.blocks is not None
    assert undecided.blocks > 10
    assert not undecided.near
    assert replace(undecided, blocks=10).near
    line = cost_to_know_line(analysis)
    assert "virtoll extend" not in line
    assert_facts(line, "twice", "virtoll doctor --noise")


def test_what_is_decided_costs_nothing_more_to_know() -> None:
    analysis = computed({"native": 1.0, "runc": 3.0})
    assert remaining(analysis.comparisons, analysis.control, Rules()) == ()
    assert cost_to_know_line(analysis) == ""
    assert block_seconds([]) is None


@pytest.mark.parametrize("margin", [0.1, 0.02])
def test_a_wider_margin_needs_no_more_blocks(margin: float) -> None:
    analysis = computed({"native": 1.0, "runc": 1.0}, spread=0.08, blocks=3)
    narrow = remaining(analysis.comparisons, analysis.control, Rules(margin=margin))
    wide = remaining(analysis.comparisons, analysis.control, Rules(margin=0.5))
    few = [math.inf if one.blocks is None else one.blocks for one in wide]
    many = [math.inf if one.blocks is None else one.blocks for one in narrow]
    assert sum(few) <= sum(many)
