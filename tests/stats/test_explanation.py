"""What observers counted, per job and frame, beside the baseline: made-up counts whose differences are known."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from scipy.stats import ttest_1samp
from tests.support.by_hand import task

from virtoll.runfolder.explain_records import CounterReading, CounterSpan, ObservedTrial
from virtoll.runfolder.records import Status
from virtoll.stats.explanation import Explanation, explanations, p_value, per_unit

Counts = Mapping[str, tuple[int, int]]


def trial(
    platform: str,
    repetition: int,
    *spans: Counts,
    jobs: int | None = 1,
    frames: Sequence[int | None] = (),
    status: Status = "ok",
    uncounted: Mapping[str, str] | None = None,
) -> ObservedTrial:
    """One trial; each span gives counters as (before, after)."""
    made = [
        CounterSpan(
            CounterReading(0, {name: before for name, (before, _) in counts.items() if before >= 0}),
            CounterReading(1, {name: after for name, (_, after) in counts.items() if after >= 0}),
            frames[place] if frames else None,
        )
        for place, counts in enumerate(spans)
    ]
    return ObservedTrial(
        platform=platform,
        workload="superpi",
        parameters={"digits": 1000},
        repetition=repetition,
        boot=f"{platform}/{repetition}",
        status=status,
        reason=None if status == "ok" else "its guest died",
        started_realtime_ns=0,
        ended_realtime_ns=1,
        jobs=jobs,
        spans=tuple(made),
        uncounted=dict(uncounted or {}),
    )


def explained(*trials: ObservedTrial, baseline: str | None = "native") -> dict[str, Explanation]:
    found = explanations(trials, (), ("native", "netns", "uml"), baseline)
    return {one.platform: one for one in found}


def test_a_trials_value_is_the_sum_of_its_parts_over_its_jobs() -> None:
    one = trial("native", 0, {"system_calls": (100, 123)}, {"system_calls": (1000, 1023)}, jobs=2)
    assert per_unit(one) == {"system_calls": 23.0}


def test_a_trials_value_is_over_all_frames_that_were_forwarded() -> None:
    spans = {"system_calls": (0, 700)}, {"system_calls": (700, 1000)}
    assert per_unit(trial("uml", 0, *spans, jobs=None, frames=(90, 10))) == {"system_calls": 10.0}
    assert per_unit(trial("uml", 0, *spans, jobs=None, frames=(0, 0))) == {}, "nothing forwarded is no division"
    assert per_unit(trial("uml", 0, *spans, jobs=None, frames=(90, None))) == {}
    assert per_unit(trial("uml", 0, jobs=1)) == {}


def test_a_counter_that_one_part_has_not_is_missing_and_not_zero() -> None:
    spans = {"system_calls": (1, 2), "cpu_ns": (5, 9)}, {"system_calls": (2, -1), "cpu_ns": (9, 9)}
    assert per_unit(trial("native", 0, *spans)) == {"cpu_ns": 4.0}


def test_a_counter_of_a_newer_virtoll_is_left_out() -> None:
    one = trial("native", 0, {"system_calls": (0, 7), "wishes": (0, 3), "softirqs:NEW": (1, 2)})
    assert per_unit(one) == {"system_calls": 7.0, "softirqs:NEW": 1.0}


def test_differences_are_paired_by_repetition_and_have_an_interval() -> None:
    trials = [
        trial(label, number, {"context_switches": (0, 100 + 10 * number + more), "minor_faults": (0, 5 + number % 2)})
        for number in range(3)
        for label, more in (("native", 0), ("netns", 21))
    ]
    found = explained(*trials)["netns"]
    (one,) = found.different
    assert (one.name, one.each, one.baseline, one.trials) == ("context_switches", 131.0, 110.0, 3)
    assert one.difference is not None
    assert one.difference.value == 21.0
    assert one.difference.interval is not None
    assert one.difference.interval.low == 21.0, "what drifts with both is not in it"
    assert [each.name for each in found.open] == ["minor_faults"]


def test_the_largest_come_first_events_before_times_before_bytes() -> None:
    def counts(number: int, factor: int) -> Counts:
        names = ("minor_faults", "cpu_ns", "system_calls", "written_bytes", "waited_ns")
        return {name: (0, factor * size + number) for name, size in zip(names, (5, 1000, 70, 900, 9000), strict=True)}

    trials = [trial("native", number, counts(number, 1)) for number in range(3)]
    trials += [trial("uml", number, counts(number, 3)) for number in range(3)]
    names = [one.name for one in explained(*trials)["uml"].different]
    assert names == ["system_calls", "minor_faults", "waited_ns", "cpu_ns", "written_bytes"]


def test_a_difference_is_certain_only_with_all_counters_in_mind() -> None:
    """Nothing differs: of 30 intervals one or two leave out zero, and of the families one in twenty may err."""
    dice = random.Random(7)
    names = [f"softirqs:{number}" for number in range(30)]

    def noisy() -> Counts:
        return {name: (0, round(dice.gauss(1_000_000, 10_000))) for name in names}

    certain, likely, families = 0, 0, 200
    for _ in range(families):
        trials = [trial(label, number, noisy()) for number in range(3) for label in ("native", "netns")]
        found = explained(*trials)["netns"]
        certain += bool(found.different)
        likely += bool(found.different or found.likely)
        assert len(found.different) + len(found.likely) + len(found.open) == 30
    assert certain <= 0.05 * families + 3 * math.sqrt(0.05 * 0.95 * families)
    assert likely > 0.6 * families


def test_p_values_are_students() -> None:
    assert p_value([3.0, 3.0, 3.0]) == 0
    assert p_value([0.0, 0.0]) == 1
    assert p_value([1.0, 2.0, 4.5]) == pytest.approx(ttest_1samp([1.0, 2.0, 4.5], 0).pvalue)


def test_one_repetition_has_differences_without_intervals() -> None:
    found = explained(trial("native", 0, {"system_calls": (0, 3)}), trial("uml", 0, {"system_calls": (0, 10)}))["uml"]
    (one,) = found.single
    assert found.different == found.open == ()
    assert one.difference is not None
    assert (one.difference.value, one.difference.interval, one.is_certain) == (7.0, None, False)


def test_what_the_baseline_has_not_is_never_set_against_zero() -> None:
    found = explained(
        trial("native", 0, {"system_calls": (0, 3)}),
        trial("uml", 0, {"system_calls": (0, 3), "translated_blocks": (7, 53)}, uncounted={"cycles": "no such"}),
    )["uml"]
    (one,) = found.only_here
    assert (one.name, one.each, one.baseline, one.difference) == ("translated_blocks", 46.0, None, None)
    assert found.uncounted == {"cycles": "no such"}


def test_a_trial_that_was_repeated_counts_once_and_a_lost_one_is_named() -> None:
    found = explained(
        trial("native", 0, {"system_calls": (0, 3)}),
        trial("uml", 0, status="failed"),
        trial("uml", 0, {"system_calls": (0, 9)}),
        trial("uml", 1, status="failed"),
    )["uml"]
    assert (found.trials, found.lost) == (1, ("its guest died",))
    assert found.single[0].each == 9.0


def test_without_a_baseline_there_are_no_differences() -> None:
    found = explained(trial("native", 0, {"system_calls": (0, 3)}), baseline=None)["native"]
    assert found.different == found.single == found.open == ()
    assert found.only_here[0].each == 3.0


def test_counters_are_told_in_the_order_of_their_words_and_kinds_by_name() -> None:
    counts = dict.fromkeys(("cpu_ns", "softirqs:TIMER", "system_calls", "softirqs:NET_RX"), (0, 1))
    assert list(per_unit(trial("native", 0, counts))) == ["system_calls", "cpu_ns", "softirqs:NET_RX", "softirqs:TIMER"]


def test_it_is_the_difference_that_is_large_and_not_the_number() -> None:
    """90 more of 100, and 50 more of 1000: against one repetition of the baseline, of two."""
    trials = [
        trial("native", 0, {"minor_faults": (0, 1000), "system_calls": (0, 10), "migrations": (0, 5)}),
        trial("uml", 0, {"minor_faults": (0, 1050), "system_calls": (0, 100), "migrations": (0, 5)}),
        trial("uml", 1, {"minor_faults": (0, 1090), "system_calls": (0, 300), "read_calls": (0, 2)}),
    ]
    found = explained(*trials)
    uml = found["uml"]
    assert [(one.name, one.each, one.baseline, one.trials) for one in uml.single] == [
        ("system_calls", 200, 10, 1),
        ("minor_faults", 1070, 1000, 1),
        ("migrations", 5, 5, 1),
    ]
    assert [(one.name, one.trials) for one in uml.only_here] == [("read_calls", 1)]
    assert (uml.trials, uml.lost, uml.unit) == (2, (), "job")
    native = found["native"]
    assert native.single == (), "the baseline is not set against itself"
    assert [one.name for one in native.only_here] == ["minor_faults", "system_calls", "migrations"]


def test_workloads_are_in_the_order_of_tasks_the_baseline_first() -> None:
    """What no task or platform is of comes last."""
    frames = task("forward", "points", {"size": 64}, title="IP forwarding: rate")
    tasks = (frames, task("superpi", "marks", {"digits": 1000}, title="Super Pi: time"), task("superpi", "marks"))
    counts = {"system_calls": (0, 10)}
    of_frames: dict[str, Any] = {"workload": "forward", "parameters": {"size": 64}}
    trials = [
        trial("netns", 0, counts).replace(workload="another"),
        trial("strange", 0, counts),
        trial("uml", 0, counts),
        trial("native", 0, counts),
        trial("netns", 0, counts),
        trial("netns", 0, counts, jobs=None, frames=[5]).replace(**of_frames),
        trial("native", 0, counts, jobs=None, status="failed").replace(**of_frames),
    ]
    found = explanations(trials, tasks, ("uml", "netns", "native"), "native")
    assert [(one.platform, one.workload, one.parameters, one.title, one.unit) for one in found] == [
        ("native", "forward", '{"size": 64}', "IP forwarding", "frame"),
        ("netns", "forward", '{"size": 64}', "IP forwarding", "frame"),
        ("native", "superpi", '{"digits": 1000}', "Super Pi", "job"),
        ("uml", "superpi", '{"digits": 1000}', "Super Pi", "job"),
        ("netns", "superpi", '{"digits": 1000}', "Super Pi", "job"),
        ("strange", "superpi", '{"digits": 1000}', "Super Pi", "job"),
        ("netns", "another", '{"digits": 1000}', "another", "job"),
    ]
    assert [one.trials for one in found[:2]] == [0, 1]
    assert [one.baseline for one in found[1].only_here] == [None]
