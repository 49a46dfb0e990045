"""A point's forwarding rate: over the time of the point, and of the arrivals where those took longer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.runfolder.store import parse_record
from virtoll.runfolder.traffic_records import Point
from virtoll.stats.analysis import RunData, analyse
from virtoll.stats.bounds import TWO_BOUNDS
from virtoll.stats.compare import DIFFERENT, Comparison
from virtoll.stats.values import forwarded_rate, maximum_forwarded_rate

SECOND = 1_000_000_000


def arrived(frames: int, first_ns: int | None, last_ns: int | None, duration_ns: int = SECOND) -> Point:
    """A point of one source, which offered 1000 frames and of which so many arrived in this time."""
    return parse_record(
        Point,
        {
            "intended_rate_frames_per_second": 1000.0,
            "duration_ns": duration_ns,
            "frame_size_bytes": 64,
            "backend": "af-packet",
            "sources": [
                {
                    "source": 0,
                    "intended_frames": 1000,
                    "offered_frames": 1000,
                    "unsent_frames": 0,
                    "start_monotonic_ns": 0,
                    "end_monotonic_ns": duration_ns,
                }
            ],
            "sink": {
                "per_source": [
                    {
                        "source": 0,
                        "forwarded_frames": frames,
                        "lost_frames": 1000 - frames,
                        "duplicate_frames": 0,
                        "reordered_frames": 0,
                        "first_received_monotonic_ns": first_ns,
                        "last_received_monotonic_ns": last_ns,
                    }
                ],
                "foreign_frames": 0,
                "late_trial_frames": 0,
                "kernel_dropped_frames": 0,
                "drained": True,
            },
            "cpu": None,
        },
    )


def test_frames_that_came_evenly_have_the_rate_at_which_they_were_sent() -> None:
    assert forwarded_rate(arrived(1000, 5_000, 5_000 + 999_000_000)) == pytest.approx(1000)


def test_a_queue_that_drains_after_the_end_does_not_count_as_rate() -> None:
    assert forwarded_rate(arrived(1001, 0, 2 * SECOND)) == pytest.approx(500)


@pytest.mark.parametrize(("first", "last"), [(900_000_000, SECOND), (0, 100_000_000)], ids=["stood still", "choked"])
def test_a_burst_is_not_a_rate(first: int, last: int) -> None:
    """500 frames within a tenth of the point: a guest that was off its CPU before, or forwarded none after."""
    assert forwarded_rate(arrived(500, first, last)) == pytest.approx(500)


def test_none_and_one() -> None:
    assert forwarded_rate(arrived(0, None, None)) == 0
    assert forwarded_rate(arrived(1, 5, 5)) is None


def test_guests_that_share_their_cpus_have_what_they_sent_in_the_time_of_all() -> None:
    """Two that send in turn on one CPU each have all of it for half of the time: together that is one CPU's rate."""
    first, second = arrived(500, 0, 500_000_000), arrived(500, 500_000_000, SECOND)
    sinks = (first.sink.per_source[0], replace(second.sink.per_source[0], source=1))
    both = replace(
        first,
        duration_ns=500_000_000,
        sources=(*first.sources, *second.sources),
        sink=replace(first.sink, per_source=sinks),
    )
    assert forwarded_rate(both) == pytest.approx(2000, rel=0.01)
    assert forwarded_rate(replace(both, shared_cpus=True)) == pytest.approx(1000, rel=0.01)


def test_a_burst_does_not_make_the_maximum_of_a_sweep() -> None:
    steady, burst = arrived(800, 0, 998_000_000), arrived(300, 700_000_000, 800_000_000)
    assert maximum_forwarded_rate([steady, burst]) == pytest.approx(800, rel=0.01)


def flat_out_without_loss(workload: str, metric: str) -> RunData:
    """A run whose rates are of single points flat out, at which no frame was lost, of this workload."""
    data = run_data(Truth(REALISTIC, frame_sizes=(68,)))
    trials = []
    for trial in data.trials:
        if trial.workload != "forward" or not trial.points:
            trials.append(trial)
            continue
        point = trial.points[-1]
        assert point.intended_rate_frames_per_second is None
        source, sink = point.sources[0], point.sink.per_source[0]
        sent = replace(source, intended_frames=sink.forwarded_frames, offered_frames=sink.forwarded_frames)
        point = replace(
            point,
            sources=(replace(sent, unsent_frames=0),),
            sink=replace(point.sink, per_source=(replace(sink, lost_frames=0),)),
        )
        trials.append(replace(trial, workload=workload, points=(point,)))
    metrics = tuple(
        replace(one, workload=workload, name=metric) if one.workload == "forward" else one
        for one in data.manifest.metrics
    )
    planned = tuple(
        replace(one, workload=workload) if one.workload == "forward" else one for one in data.manifest.plan.trials
    )
    plan = replace(data.manifest.plan, trials=planned)
    return replace(data, trials=tuple(trials), manifest=replace(data.manifest, metrics=metrics, plan=plan))


def compared(data: RunData, workload: str) -> list[Comparison]:
    return [one for one in analyse(data).comparisons if one.task.workload == workload]


def test_two_routers_that_lost_nothing_flat_out_have_no_verdict() -> None:
    found = compared(flat_out_without_loss("forward", "maximum_forwarding_rate"), "forward")
    assert {one.caveat for one in found} == {TWO_BOUNDS}


def test_guests_that_send_are_their_own_limit_whatever_was_lost() -> None:
    """Of frames that a guest itself sends none need be lost: what it sends flat out is its maximum."""
    found = compared(flat_out_without_loss("transmitters", "transmitted_rate"), "transmitters")
    assert {one.caveat for one in found} == {None}
    emulated = {one.verdict for one in found if one.platform.startswith("qemu")}
    assert emulated
    assert emulated <= DIFFERENT
