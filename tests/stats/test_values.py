"""From records to values: which trials have one, in which order, and what a task is called."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.by_hand import point as by_hand_point
from tests.support.facts import assert_facts
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.runfolder.frame_shape import SWEEP_KEYS
from virtoll.runfolder.records import Clock, GuestClock, Marks, MetricRecord, TrialRecord, duration_ns
from virtoll.runfolder.traffic_records import SinkCounts
from virtoll.stats.analysis import RunData
from virtoll.stats.values import (
    Task,
    TasksOf,
    observations_of,
    places_of,
    printed_tasks,
    tasks_of,
    title_of,
    why_missing,
    words_in_common,
    works_of,
)

DURATION = MetricRecord("job", "duration", "ns", "lower", "marks", title="a job", resource="cpu")
FIGURE = DURATION.replace(name="rate", source="figures", title="a job: rate", primary=False, better="higher")
COST = DURATION.replace(name="cost", source="cpu_points", primary=False)
TASK, RATE, COSTS = (Task("job", metric, "{}", "") for metric in (DURATION, FIGURE, COST))


@pytest.fixture(scope="module")
def data() -> RunData:
    return run_data(Truth(REALISTIC, blocks=2))


@pytest.fixture(scope="module")
def job(data: RunData) -> TrialRecord:
    return data.trials[0].replace(workload="job", parameters={}, platform="p", block=3, round=1, repeats=1, status="ok")


def lasting(job: TrialRecord, number: int, ns: int, **more: Any) -> TrialRecord:
    return job.replace(trial=number, clock=clock(0, ns), **more)


def clock(start_ns: int, end_ns: int, *, step_ns: int = 0, guest: GuestClock | None = None) -> Clock:
    return Clock("icmp", Marks(start_ns, end_ns), None, step_ns, (), (), error_estimate_ns=None, guest=guest)


def test_a_duration_is_without_the_clocks_step_and_the_guests_pause() -> None:
    """From 100 to 1100 with a step of 200: 800 ns, of which a guest's slower clock says that an eighth was pause."""
    assert duration_ns(clock(100, 1100)) == 1000
    assert duration_ns(clock(100, 1100, step_ns=200)) == 800
    own = GuestClock(50, 450, 0, 0, user_cpu_ns=0, system_cpu_ns=0, pause_ns=50)
    assert own.between_marks_ns == 400
    assert duration_ns(clock(100, 1100, step_ns=200, guest=own)) == 700
    assert duration_ns(clock(100, 1100, guest=own.replace(pause_ns=0))) == 1000
    assert duration_ns(clock(0, 1).replace(marks=None)) is None


def test_each_believable_trial_has_a_value_in_the_order_of_the_numbers(job: TrialRecord) -> None:
    """What did not run has no place in the order; what ran and failed has one."""
    figures = {"figures": {"rate": 4}}
    trials = [
        lasting(job, 7, 900, repeats=3, started_realtime_ns=1),
        lasting(job, 2, 500, status="skipped", started_realtime_ns=2),
        lasting(job, 3, 500, status="failed", started_realtime_ns=3),
        lasting(job, 5, 400, result=figures, started_realtime_ns=4),
        lasting(job, 6, 1, workload="another"),
    ]
    found, gaps = observations_of((TASK, RATE, COSTS), trials, {5: (2.5, ""), 7: (None, "too few frames")})
    assert [(one.task, one.trial, one.position, one.value) for one in found] == [
        (TASK, 5, 1, 400.0),
        (RATE, 5, 1, 4.0),
        (COSTS, 5, 1, 2.5),
        (TASK, 7, 3, 300.0),
    ]
    assert {(one.platform, one.block, one.round) for one in found} == {("p", 3, 1)}
    assert [one.trial for one in gaps] == [7, 7]
    assert_facts(gaps[0].reason, "'rate'")
    assert gaps[1].reason == "too few frames"
    by_clock, _ = observations_of((TASK,), trials, by_clock=True)
    assert [(one.trial, one.position) for one in by_clock] == [(7, 0), (5, 2)], "several hosts, side by side"
    at_once = [one.replace(started_realtime_ns=None) for one in trials]
    assert [one.trial for one in observations_of((TASK,), at_once, by_clock=True)[0]] == [5, 7]
    (missing,) = observations_of((COSTS,), trials[3:4])[1]
    assert missing.trial == 5
    assert_facts(missing.reason, "points", "CPU time")


@pytest.mark.parametrize("figure", [None, "7", True, 0, -1.0, float("nan"), float("inf")], ids=str)
def test_what_is_no_number_above_zero_is_no_figure(job: TrialRecord, figure: object) -> None:
    for result in (None, {}, {"figures": None}, {"figures": {"rate": figure}}):
        found, gaps = observations_of((RATE,), [job.replace(trial=1, result=result)])
        assert (found, [one.trial for one in gaps]) == ((), [1])


def test_a_small_figure_is_one(job: TrialRecord) -> None:
    ((one,), gaps) = observations_of((RATE,), [job.replace(trial=1, result={"figures": {"rate": 0.25}})])
    assert (one.value, gaps) == (0.25, ())


def test_a_duration_that_cannot_be_is_said_to_be_none(job: TrialRecord) -> None:
    trials = [lasting(job, 1, 0), lasting(job, 2, -5), job.replace(trial=3, clock=None), lasting(job, 4, 1)]
    found, gaps = observations_of((TASK,), trials)
    assert [one.value for one in found] == [1.0]
    assert [one.trial for one in gaps] == [1, 2, 3]
    for gap, fact in zip(gaps, ("0 ns", "-5 ns", "timestamps"), strict=True):
        assert_facts(gap.reason, "duration", fact)


def test_a_sweep_without_a_forwarded_frame_has_no_rate(job: TrialRecord) -> None:
    swept = replace(TASK, metric=DURATION.replace(source="points"))
    found, gaps = observations_of((swept,), [job.replace(trial=1, points=())])
    assert (found, [one.trial for one in gaps]) == ((), [1])
    assert_facts(gaps[0].reason, "forwarded", "sweep", "rate")
    silent = SinkCounts(0, 0, 0, 0, 0, first_received_monotonic_ns=None, last_received_monotonic_ns=None)
    point = by_hand_point(None, [], [silent])
    assert observations_of((swept,), [job.replace(trial=1, points=(point,))]) == (found, gaps)
    slow = silent.replace(forwarded_frames=2, first_received_monotonic_ns=0, last_received_monotonic_ns=2 * 10**9)
    slow_point = point.replace(sink=point.sink.replace(per_source=(slow,)))
    ((one,), none) = observations_of((swept,), [job.replace(trial=1, points=(point, slow_point))])
    assert (one.value, none) == (0.5, ())


def test_why_a_value_is_missing_is_what_the_first_such_trial_says(job: TrialRecord) -> None:
    failed = job.replace(status="failed", reason="no memory")
    trials = [
        job,
        failed.replace(platform="q"),
        failed,
        failed.replace(reason="later"),
        failed.replace(platform="x"),
    ]
    reasons = why_missing(trials, lambda trial: None if trial.platform == "x" else "alone")
    assert list(reasons) == [(platform, "job", "{}", "alone") for platform in ("q", "p")]
    for reason in reasons.values():
        assert_facts(reason, "failed", "no memory")


def test_tasks_are_those_of_the_plan_and_of_the_records(data: RunData) -> None:
    """By metric in the manifest's order; numbers of one key from the smallest, words after them."""
    planned = data.manifest.plan.trials[0]
    sizes: list[dict[str, Any]] = [{"size": 100}, {"size": 20}, {"size": "few"}, {"size": "all"}, {"size": 20}]
    plan = data.manifest.plan.replace(trials=tuple(planned.replace(workload="job", parameters=one) for one in sizes))
    manifest = data.manifest.replace(plan=plan, metrics=(DURATION, DURATION.replace(workload="none"), FIGURE))
    extra = data.trials[0].replace(workload="job", parameters={"size": 3})
    tasks = tasks_of(manifest, [extra])
    assert [(one.metric.name, json.loads(one.parameters)["size"]) for one in tasks] == [
        (name, size) for name in ("duration", "rate") for size in (3, 20, 100, "all", "few")
    ]
    assert [one.label for one in tasks[:4]] == ["a job 3 B", "a job 20 B", "a job 100 B", "a job all"]
    assert [one.label for one in tasks[5:6]] == ["a job: rate 3 B"]
    assert tasks[5].work == "a job 3 B"
    paced: list[dict[str, Any]] = [{"size": 64, "cpu_milliseconds": 9}, {"size": 512, "cpu_milliseconds": 0}]
    plan = plan.replace(trials=tuple(planned.replace(workload="job", parameters=one) for one in paced))
    found = tasks_of(manifest.replace(plan=plan, metrics=(DURATION, COST)), ())
    assert [(task.metric.name, task.size) for task in found] == [
        ("duration", "64 B"),
        ("duration", "512 B"),
        ("cost", "64 B"),
    ], "the CPU time of a frame is a task where it is measured, and no order of sizes"
    works = works_of(manifest)
    assert works == {("job", one.parameters): one.work for one in tasks[1:5]}
    assert places_of(tasks) == {one: place for place, one in enumerate(tasks)}


def named(own: dict[str, Any], *others: dict[str, Any]) -> str:
    """What tells a set of parameters from the others of its workload."""
    data = run_data(Truth({"native": {}}, blocks=2, control=None))
    planned = data.manifest.plan.trials[0]
    family = tuple(planned.replace(workload="job", parameters=one) for one in (own, *others))
    manifest = data.manifest.replace(plan=data.manifest.plan.replace(trials=family), metrics=(DURATION,))
    return next(one.size for one in tasks_of(manifest, ()) if json.loads(one.parameters) == own)


TOTAL = {"total_rate_frames_per_second": 900, "each_rate_frames_per_second": 0}
EACH = {"total_rate_frames_per_second": 0, "each_rate_frames_per_second": 900}
SWEEP = {"total_rate_frames_per_second": 0, "each_rate_frames_per_second": 0}


@pytest.mark.parametrize(
    ("own", "others", "words"),
    [
        ({"digits": 16384}, [], "16384 digits"),
        ({"link_mtu": 9, "digits": 2, "more": 3}, [], "2 digits"),
        ({"size_bytes": 67108864}, [], "64 MiB"),
        ({"wait_ns": 1_500_000}, [], "1.50 ms"),
        ({"threads": 1}, [], "1 thread"),
        ({"processes": 1}, [], "1 process"),
        ({"matches": 1}, [], "1 match"),
        ({"kind": "fork-exec", "n": 1}, [{"kind": "none", "n": 1}], "fork-exec"),
        ({"kind": "none", "n": 1}, [{"kind": "fork-exec", "n": 1}], "kind none"),
        ({"backend": "auto"}, [{"backend": "xdp"}], "backend auto"),
        ({"nic": "shared", "n": 1}, [{"nic": "own", "n": 1}], "shared NIC"),
        ({"client": "guest"}, [{"client": "peer"}], "client guest"),
        ({"peer_files": "disk"}, [{"peer_files": "memory"}], "peer files disk"),
        ({"on": True}, [{"on": False}], "on True"),
        ({"rate_frames_per_second": 1500}, [{"rate_frames_per_second": 10}], "1500 frames/s"),
        ({"shaped_bits_per_second": 0}, [{"shaped_bits_per_second": 1}], "shaped not limited"),
        ({"shaped_bits_per_second": 2_500_000}, [{"shaped_bits_per_second": 0}], "shaped 2.5 Mbit/s"),
        ({"rates_mbit_per_second": [1, 2.5]}, [{"rates_mbit_per_second": []}], "1/2.5 Mbit/s"),
        ({"rates_mbit_per_second": [], "n": 1}, [{"rates_mbit_per_second": [1], "n": 2}], "1 n"),
        ({"total_rate_frames_per_second": 900}, [{"total_rate_frames_per_second": 0}], "900 frames/s in all"),
        ({"total_rate_frames_per_second": 0}, [{"total_rate_frames_per_second": 900}], "a sweep"),
        (EACH, [TOTAL, SWEEP], "900 frames/s each"),
        (TOTAL, [EACH, SWEEP], "900 frames/s in all"),
        (SWEEP, [EACH, TOTAL], "a sweep"),
        ({"nic": "own", "link_rate_bits_per_second": 5}, [{"nic": "own", "link_rate_bits_per_second": 6}], ""),
        ({"between": "peer", "path": "peer"}, [{"between": "peer", "path": "bridge"}], ""),
        ({"frame_size_bytes": 64, "vlan": 7}, [{"frame_size_bytes": 64, "vlan": 0}], "VLAN 7"),
        ({"new": 1, "n": 3}, [{"n": 4}], "1 new, 3 n"),
        ({"rate_frames_per_second": 7, "digits": 2}, [], "2 digits"),
        *(
            ({"total_rate_frames_per_second": 900, "nic": nic, key: 1}, [{**TOTAL, "nic": nic, key: 2}], "")
            for nic in ("shared", "own")
            for key in SWEEP_KEYS
        ),
        ({"sizes": ["a"]}, [{"sizes": ["b"]}], "sizes ['a']"),
        ({"n": 1, "cpu_milliseconds": 9}, [{"n": 2, "cpu_milliseconds": 0}], "1 n"),
        ({"n": 1, "cpu_milliseconds": 9}, [{"n": 1, "cpu_milliseconds": 0}], "9 cpu milliseconds"),
        (
            {"nic": "own", "between": "peer", "path": "peer", "link_rate_bits_per_second": 5, "n": 1},
            [{"nic": "own", "between": "peer", "path": "bridge", "link_rate_bits_per_second": 6, "n": 2}],
            "1 n",
        ),
    ],
    ids=str,
)
def test_a_size_says_what_tells_it_from_the_others(
    own: dict[str, Any], others: list[dict[str, Any]], words: str
) -> None:
    assert named(own, *others) == words


def test_a_metric_that_its_workload_is_known_by_needs_no_name() -> None:
    named = DURATION.replace(title="a job: duration")
    assert title_of(named) == "a job"
    assert title_of(named.replace(source="points")) == "a job"
    assert title_of(named.replace(source="figures")) == "a job: duration"
    assert title_of(named.replace(primary=False)) == "a job: duration"


def test_a_paper_prints_a_workloads_own_figures_where_it_reports_any() -> None:
    other = Task("other", DURATION.replace(workload="other"), "{}", "")
    assert printed_tasks((TASK, RATE, COSTS, other)) == (RATE, other)


def test_what_sizes_have_in_common() -> None:
    sized = [replace(TASK, size=size) for size in ("64 B, shared NIC, VLAN 1", "128 B, shared NIC, VLAN 1")]
    assert words_in_common(sized) == "shared NIC, VLAN 1"
    assert words_in_common(sized[:1]) == "64 B, shared NIC, VLAN 1"
    assert words_in_common([*sized, replace(TASK, size="own NIC")]) == ""


def test_which_tasks_a_trial_measures(job: TrialRecord) -> None:
    of = TasksOf((TASK, RATE, replace(TASK, parameters='{"size": 1}')))
    assert list(of(job)) == [TASK, RATE]
    assert list(of(job.replace(workload="none"))) == []
    assert TASK.is_of(job)
    assert not TASK.is_of(job.replace(parameters={"size": 1}))
    assert not TASK.is_of(job.replace(workload="none"))


def test_which_metrics_are_a_routers_rate() -> None:
    names = ("maximum_forwarding_rate", "ndr", "pdr", "transmitted_rate")
    found = [replace(TASK, metric=DURATION.replace(name=name)).is_forwarding_rate for name in names]
    assert found == [True, True, True, False]
