"""A campaign with traffic calibrates its instrument at both ends and locates its losses; as root and as a user."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.support import experiments
from tests.support.guests import STARVED, right_or_disturbed
from tests.support.machine import why_not_pinned
from tests.support.playground import Playground
from tests.support.real_run import measuring

from virtoll.report.build import load
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.traffic_records import Point
from virtoll.stats.analysis import RunData, analyse
from virtoll.stats.bounds import NOT_PINNED
from virtoll.stats.compare import Verdict
from virtoll.stats.hops import Owner, locate

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]


PLATFORMS = ["native", "netns", "qemu-tcg"]
FORWARD = {"workload": "forward", "rate_factor": 8, "point_milliseconds": 200, "cpu_milliseconds": 100}


def is_extended(item: pytest.Function) -> bool:
    """An ordinary user's campaign, which ``test_kill`` and ``test_ending`` have in short, without a calibration."""
    return item.callspec.params["place"] == "user"


def in_order(folder: RunFolder, platform: str) -> list[Point]:
    """All points of a platform, trial by trial."""
    return [point for trial in folder.trials() if trial.platform == platform for point in trial.points or ()]


def is_whole(points: Sequence[Point], number: int) -> bool:
    """Whether each frame of a point arrived while it lasted, and none of the one before.

    An emulated guest that is off its CPU holds frames for as long as it likes; then counters are of two points.
    """
    return all(point.sink.drained and point.sink.late_trial_frames == 0 for point in points[number : number + 2])


def forwards_where_it_should(data: RunData, place: Playground) -> None:
    """As root on the guest's CPUs, by the kernel's own count; else the record says why not; no rate has a verdict."""
    why = why_not_pinned(root=place.root)
    guests_cpus = set((data.manifest.pinning or {})["guest_cpus"])
    found = {boot.platform: boot.forwarding for boot in data.boots}
    assert set(found) == set(PLATFORMS)
    for platform, forwarding in found.items():
        assert forwarding is not None, platform
        assert forwarding.means == "threaded NAPI"
        assert forwarding.reason == why
        if why is None:
            assert set(forwarding.cpus or ()) == guests_cpus
        else:
            assert forwarding.cpus is None
    if why is None:
        points = [one for trial in data.trials if trial.platform == "netns" for one in trial.points or ()]
        assert {point.backend for point in points} == {"live-frames", "af-packet"}
        for point in points:
            offered = sum(source.offered_frames for source in point.sources)
            assert sum(processed(point, cpu) for cpu in guests_cpus) >= offered
    else:
        rates = [one for one in analyse(data).comparisons if one.task.metric.name == "maximum_forwarding_rate"]
        assert {(one.verdict, one.caveat) for one in rates} <= {(Verdict.UNKNOWN, NOT_PINNED)}


def processed(point: Point, cpu: int) -> int:
    """Frames that a CPU of the host took in from a queue while the point lasted."""
    assert point.surroundings is not None
    assert point.surroundings.host is not None
    before, after = (
        next(line.processed or 0 for line in reading.softnet or () if line.cpu == cpu)
        for reading in (point.surroundings.host.before, point.surroundings.host.after)
    )
    return after - before


def frames_are_metered(data: RunData) -> None:
    """Two points of each trial, at which every CPU of the run was read, and three pairs of each calibration."""
    pinned = data.manifest.pinning or {}
    cpus = {*pinned["guest_cpus"], pinned["generator_cpu"]}
    trials = [(trial.cpu_points, 1) for trial in data.trials if trial.status == "ok"]
    calibrations = [(record.cpu_points, 3) for record in data.calibrations if record.status == "ok"]
    for points, pairs in trials + calibrations:
        assert points is not None
        assert len(points) == 2 * pairs
        for point in points:
            assert point.cpu is not None
            idle = {one.cpu: one for one in point.cpu.idle or ()}
            assert set(idle) >= cpus
            assert all(one.busy_ns >= 0 for one in idle.values() if one.means == "timer_list")
            assert (point.backend, point.wake_ns) == ("af-packet", 1_000_000)
            assert all(source.batch_frames for source in point.sources)


def test_both_ends_are_calibrated_and_every_loss_is_booked(place: Playground) -> None:
    """Small frames of several sources, and IMIX, which has large ones; qemu-tcg is overrun, so that it loses some."""
    file = experiments.write(
        place.runs,
        platforms=PLATFORMS,
        blocks=1,
        guest={"vcpus": 1, "memory": "128MiB"},
        workloads=[
            {**FORWARD, "frame_size_bytes": 64, "sources": 2},
            {**FORWARD, "mix": "imix", "backend": "af-packet"},
        ],
    )
    arguments, measured = measuring(file)
    running = place.run(*arguments)
    assert running.process.returncode == 0, running.said
    folder = RunFolder.open(measured)
    assert [(trial.platform, trial.reason) for trial in folder.trials() if not right_or_disturbed(trial)] == []
    records = folder.calibrations()
    assert [record.reason for record in records if record.status != "ok" and STARVED not in (record.reason or "")] == []
    assert [record.when for record in records[:2]] == ["start"] * 2
    assert {record.when for record in records[2:]} == {"end"}
    for record in records:
        for point in record.points:
            offered = {source.source for source in point.sources if source.offered_frames}
            assert all(sink.forwarded_frames > 0 for sink in point.sink.per_source if sink.source in offered)
    data = load(folder.path)
    forwards_where_it_should(data, place)
    frames_are_metered(data)
    analysis = analyse(data)
    if all(record.status == "ok" for record in records):
        assert all(headroom.ceiling is not None for headroom in analysis.headrooms.values())
    for platform in PLATFORMS:
        points = in_order(folder, platform)
        assert points
        for number, point in enumerate(points):
            losses = locate(point)
            assert sum(one.frames for one in losses) == sum(sink.lost_frames for sink in point.sink.per_source)
            assert point.hops is not None
            if platform != "qemu-tcg" or is_whole(points, number):
                assert Owner.UNLOCATED not in {one.owner for one in losses}
