"""What an analysis compares with what, at which level, and how its trials are counted, on a small run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.support.facts import assert_facts
from tests.support.made_up_run import Made, made_up_run
from tests.support.small_run import (
    PLATFORMS,
    agents,
    asked,
    compared,
    data,
    manifested,
    platforms,
    trials,
)

from virtoll.runfolder.campaign_records import MergedRecord, PartRecord
from virtoll.runfolder.records import ExtensionRecord, LookRecord, State, TrialRecord
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import RunData, analyse
from virtoll.stats.compare import Verdict


def test_the_host_comes_first() -> None:
    assert analyse(data()).platforms == ("native", "native-again", "netns", "runc")
    assert analyse(manifested(control=None, baseline=None)).platforms == ("netns", "native", "runc", "native-again")


def test_a_platform_is_set_against_the_host_and_its_control_apart() -> None:
    """Twice as long by the control: the host is then their geometric mean."""

    def slower(one: TrialRecord) -> TrialRecord:
        if one.platform != "native-again" or one.clock is None or one.clock.marks is None:
            return one
        marks = one.clock.marks
        length = marks.end_ns - marks.start_ns
        return one.replace(clock=one.clock.replace(marks=marks.replace(end_ns=marks.start_ns + 4 * length)))

    analysis = analyse(trials(slower))
    assert compared(analysis, "netns").share == pytest.approx(2 / 1.3, rel=0.03)
    assert compared(analysis, "native-again").share == pytest.approx(0.25, rel=0.03)
    assert [one.platform for one in analysis.comparisons] == ["netns"] * 3 + ["runc"] * 3
    assert [one.platform for one in analysis.control] == ["native-again"] * 3
    assert len(analysis.alarms) == 1
    plain = analyse(data())
    assert compared(plain, "netns").share == pytest.approx(1 / 1.3, rel=0.03)
    assert compared(plain, "netns", "forward").share == pytest.approx(0.8, rel=0.03)
    assert (compared(plain, "netns").verdict, plain.family, plain.second_family) == (Verdict.SLOWER, 2, 0)
    without = analyse(manifested(control=None)).comparisons
    assert [one.platform for one in without] == ["netns"] * 3 + ["runc"] * 3 + ["native-again"] * 3
    assert analyse(manifested(baseline=None)).comparisons == ()
    assert analyse(asked(scenario="scale")).comparisons == (), "there the numbers of guests are compared"


@pytest.mark.parametrize(
    ("change", "host_is_both"),
    [
        (lambda given: given, True),
        (lambda given: platforms("native-again", given, host="another"), False),
        (lambda given: platforms("native-again", given, caveat="nested"), False),
        (lambda given: agents(given, "native-again"), False),
    ],
    ids=["here", "another host", "a caveat", "another agent"],
)
def test_the_control_is_of_the_host_where_it_may_be_compared_with_it(
    change: Callable[[RunData], RunData], host_is_both: bool
) -> None:
    analysis = analyse(change(data()))
    alone = analyse(manifested(trials(lambda one: one if one.platform != "native-again" else None), control=None))
    same = compared(analysis, "netns").pairs == compared(alone, "netns").pairs
    assert same is not host_is_both
    made = [
        Made(label, "superpi", value=value, scale=ScalePoint(2, 1, 128 << 20))
        for label, value in (("native", 1e8), ("native-again", 4e8), ("netns", 2e8))
    ]
    at_once = analyse(change(made_up_run(PLATFORMS, made, blocks=3))).at_once.comparisons
    share = next(one.share for one in at_once if one.platform == "netns")
    assert share == pytest.approx(1.0 if host_is_both else 0.5, rel=0.05), "two guests at once as well"


def test_what_may_not_be_compared_says_why() -> None:
    other = compared(analyse(agents(data(), "netns")), "netns")
    assert (other.verdict, other.share) == (Verdict.NOT_MEASURED, None)
    assert_facts(other.reason, "agent")
    away = compared(analyse(platforms("netns", host="a box")), "netns")
    assert (away.verdict, away.share) == (Verdict.NOT_MEASURED, None)
    assert_facts(away.reason, "netns", "a box", "native", "this machine")
    marked = compared(analyse(platforms("netns", host="a box", caveat="nested")), "netns")
    assert (marked.verdict, marked.caveat) == (Verdict.FUNCTIONAL, "nested"), "the caveat says enough"
    assert marked.share == pytest.approx(1 / 1.3, rel=0.03)
    base = analyse(platforms("native", caveat="nested"))
    assert {one.caveat for one in (*base.comparisons, *base.control)} == {"nested"}
    assert {one.verdict for one in base.control if one.share} == {Verdict.FUNCTIONAL}
    assert base.caveats == {"native": "nested"}


def failing(status: str, reason: str, *blocks: int, platform: str = "netns") -> Callable[[TrialRecord], TrialRecord]:
    def change(one: TrialRecord) -> TrialRecord:
        if one.platform == platform and one.workload == "superpi" and one.block in blocks:
            return one.replace(status=status, reason=reason)
        return one

    return change


def test_a_cell_without_a_value_has_the_most_frequent_reason() -> None:
    """The platform's own, or else the baseline's."""
    lost = trials(failing("failed", "it died", 0), trials(failing("invalid", "too hot", 1, 2)))
    assert_facts(compared(analyse(lost), "netns").reason, "netns", "invalid", "too hot")
    assert_facts(compared(analyse(data()), "runc").reason, "no round", "baseline")
    gone = platforms("runc", available=False, reason="no runc here")
    assert_facts(compared(analyse(gone), "runc").reason, "runc", "not available", "no runc here")
    assert compared(analyse(gone), "netns").verdict is Verdict.SLOWER
    base = trials(failing("failed", "no host", 0, 1, 2, platform="native"))
    assert_facts(compared(analyse(base), "runc").reason, "native", "failed", "no host")
    assert_facts(compared(analyse(base), "runc", "forward").reason, "no round")
    assert compared(analyse(base), "netns").share is None, "the control alone is no baseline"


@pytest.mark.parametrize(
    ("margin", "kept"),
    [(0.2, 0.2), (None, 0.1), (0, 0.1), (1, 0.1), (1.5, 0.1), (-0.5, 0.1), ("0.2", 0.1), (0.999, 0.999), (1e-9, 1e-9)],
)
def test_the_margin_is_the_experiments_where_it_is_one(margin: object, kept: float) -> None:
    analysis = analyse(asked(margin=margin))
    assert analysis.margin == kept
    without = {key: value for key, value in data().manifest.experiment.items() if key != "margin"}
    assert analyse(manifested(experiment=without)).margin == 0.1
    assert compared(analyse(asked(margin=0.5)), "native-again").verdict is Verdict.ALIKE
    assert compared(analyse(asked(margin=0.04)), "native-again").margin == 0.04


def further(block: int) -> RunData:
    """The run with its last block once more, as another."""
    more = [one.replace(trial=one.trial + 100, block=block) for one in data().trials if one.block == 2]
    return replace(data(), trials=(*data().trials, *more))


def test_a_run_in_which_nothing_was_measured_is_analysed_too() -> None:
    def failed(one: TrialRecord) -> TrialRecord:
        return one.replace(status="failed", reason="it died")

    nothing = analyse(trials(failed))
    assert (nothing.baseline, nothing.blocks, nothing.rounds, nothing.level) == (None, 0, frozenset(), 0.05)
    assert {one.verdict for one in nothing.comparisons} == {Verdict.NOT_MEASURED}
    short = analyse(trials(failed, made_up_run({"native": {}}, [Made("native", "superpi")], blocks=1)))
    assert [short.level_after(more) for more in (1, 2)] == [0.05, pytest.approx(0.025)], "none was looked at"


def test_the_level_is_spent_by_looks_and_blocks_that_were_added() -> None:
    """Of 3 blocks 5 %; with a fourth 5 % x 3 / (4 x 3), as if with a fifth that gave nothing before it."""
    plain = analyse(data())
    assert (plain.level, plain.level_after(0)) == (0.05, 0.05)
    assert plain.level_after(1) == pytest.approx(0.0125)
    assert (plain.extendable, plain.extended_from, plain.blocks) == (True, None, 3)
    longer = analyse(further(3))
    assert longer.level == pytest.approx(0.0125)
    assert longer.level_after(1) == pytest.approx(0.05 * 3 / 20)
    skipped = analyse(further(4))
    assert skipped.level == pytest.approx(0.05 * 3 / 20)
    assert skipped.blocks == 4
    lost = replace(further(5), trials=(*data().trials, data().trials[0].replace(block=5, trial=99, status="failed")))
    assert analyse(lost).level == 0.05
    two = [ExtensionRecord(2, 0, ()), ExtensionRecord(3, 0, ())]
    extended = analyse(manifested(extensions=tuple(two)))
    assert extended.level == pytest.approx(0.05 * 2 / 6)
    assert extended.extended_from == 2
    looks = analyse(asked(looks=[[3, 0.02], [5, 0.01]]))
    assert (looks.level, looks.level_after(2), looks.extendable) == (0.02, 0.02, False)
    assert compared(looks, "netns").verdict is Verdict.SLOWER
    strict = analyse(asked(looks=[[3, 1e-9]]))
    assert compared(strict, "netns").verdict is Verdict.UNKNOWN
    assert compared(strict, "native-again").verdict is Verdict.UNKNOWN, "alike is tested at that level too"
    plan = data().manifest.plan.replace(trials=())
    bare = analyse(manifested(plan=plan))
    assert bare.extendable is False
    assert bare.level == 0, "of a run that was to have no block"


@pytest.mark.parametrize(
    "changed",
    [
        {"part": PartRecord("c", (0,), 2)},
        {"merged": MergedRecord("c", ())},
        {"experiment": {**data().manifest.experiment, "order": "paper"}},
    ],
)
def test_blocks_are_added_to_whole_runs_alone(changed: dict[str, Any]) -> None:
    assert analyse(manifested(**changed)).extendable is False
    assert analyse(replace(data(), state=State("interrupted", None))).extendable is False


def test_trials_are_counted_by_status() -> None:
    changed = {0: "failed", 1: "invalid", 2: "skipped"}

    def change(one: TrialRecord) -> TrialRecord | None:
        if one.platform != "netns":
            return one
        return None if one.block == 2 else one.replace(status=changed.get(one.block + (one.workload == "forward")))

    lost = trials(change)
    counts = analyse(lost).statuses
    assert counts["netns"] == {"ok": 0, "invalid": 2, "failed": 1, "skipped": 1, "not run": 2}
    assert counts["native"] == {"ok": 6, "invalid": 0, "failed": 0, "skipped": 0, "not run": 0}
    assert counts["runc"] == dict.fromkeys(("ok", "invalid", "failed", "skipped", "not run"), 0)
    ended = replace(lost, looks=(LookRecord(1, 0.02, (), ended=False), LookRecord(2, 0.01, (), ended=True)))
    assert analyse(ended).statuses["netns"]["not run"] == 0
    open_still = replace(lost, looks=(LookRecord(2, 0.01, (), ended=False),))
    assert analyse(open_still).statuses["netns"]["not run"] == 2
    planned = data().manifest.plan
    more = [
        planned.trials[0].replace(trial=900, platform="runc"),
        planned.trials[0].replace(trial=901, warm_up=True),
    ]
    unseen = analyse(manifested(plan=planned.replace(trials=(*planned.trials, *more)))).statuses
    assert unseen["runc"] == {"ok": 0, "invalid": 0, "failed": 0, "skipped": 0, "not run": 1}
    assert sum(own["not run"] for own in unseen.values()) == 1, "a warm-up is no trial of the run"
