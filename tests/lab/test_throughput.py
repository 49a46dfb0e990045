"""NDR and PDR of a real guest whose way out has a known rate: a token bucket of the kernel's, inside the guest."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import msgspec
import pytest
from tests.support import guests
from tests.support.guests import Connected

from virtoll.pipeline.session import RunSession
from virtoll.runfolder.traffic_records import Point
from virtoll.stats.conditional_throughput import GoalFound
from virtoll.workloads.throughput import DELAY_SHARES, Throughput

INSIDE_LAB = "frames"
pytestmark = [pytest.mark.lab]

FRAME_BYTES = 512
QUEUED_BYTES = FRAME_BYTES - 4  # a queue holds frames without FCS
QUEUE_FRAMES = 128
CAPACITY = 20_000.0  # frames/s


@pytest.fixture(scope="module")
def slow_router(run_session: RunSession) -> Iterator[Connected]:
    started = guests.start("netns", run_session)
    inside = ["nsenter", "--net", "--target", str(started.agent_process().pid), "--"]
    links = json.loads(subprocess.run([*inside, "ip", "-j", "link"], capture_output=True, check=True).stdout)
    out = next(one["ifname"] for one in links if one["address"] == started.bench.network.sink.guest_mac)
    rate, queue = f"{int(CAPACITY * QUEUED_BYTES * 8)}bit", f"{QUEUE_FRAMES * QUEUED_BYTES}b"
    shaped = ["tc", "qdisc", "add", "dev", out, "root", "tbf", "rate", rate, "burst", "8kb", "limit", queue]
    subprocess.run([*inside, *shaped], check=True)
    yield started
    started.guest.stop()


def test_the_search_never_goes_past_the_routers_known_capacity(slow_router: Connected) -> None:
    """A busy host may send or forward less than it should, never more than the bucket and its queue let pass."""
    asked = {
        "frame_size_bytes": FRAME_BYTES,
        "batch_frames": 1,
        "trial_seconds": 0.2,
        "sum_seconds": 2.0,
        "queue_frames": QUEUE_FRAMES,
        "search_seconds": 20,
        "relative_width": 0.05,
    }
    measured = guests.measured(Throughput.with_parameters(asked), lambda: slow_router.bench)
    assert measured.problem is None
    assert measured.result is not None
    assert measured.points is not None
    for point in measured.points:
        (sent,), (arrived,) = point.sources, point.sink.per_source
        rate = point.intended_rate_frames_per_second
        if rate is not None and rate > 1.03 * CAPACITY and not sent.unsent_frames:
            assert arrived.lost_frames, f"{rate} frames/s are more than the bucket passes"
    ndr, pdr = msgspec.convert(measured.result["goals"], tuple[GoalFound, ...])
    for goal in (ndr, pdr):
        if goal.lower is None:
            # A generator that does not get its CPU leaves frames unsent at every rate, and says so.
            assert goal.ended == "generator-bound", "nothing was forwarded without loss"
            paced = [point for point in measured.points if point.intended_rate_frames_per_second is not None]
            assert any(point.sources[0].unsent_frames for point in paced), "and nothing was left unsent"
            continue
        assert goal.lower.rate_frames_per_second <= 1.03 * CAPACITY / (1 - goal.loss_ratio)
        assert (goal.upper is None) == (goal.ended == "generator-bound") or goal.ended == "time-limit"
        assert goal.upper is None or goal.lower.rate_frames_per_second < goal.upper.rate_frames_per_second
        shares = [_lost_share(measured.points[number]) for number in goal.lower.points]
        assert sum(share <= goal.loss_ratio for share in shares) >= len(shares) / 2
    if pdr.conditional_throughput_frames_per_second is not None:
        delays = [measured.points[one["point"]] for one in measured.result["delays"]]
        assert [point.intended_rate_frames_per_second for point in delays] == [
            share * pdr.conditional_throughput_frames_per_second for share in DELAY_SHARES
        ]
        assert all(point.sink.per_source[0].delay_ns is not None for point in delays)


def _lost_share(point: Point) -> float:
    (sent,), (arrived,) = point.sources, point.sink.per_source
    return (sent.unsent_frames + arrived.lost_frames) / sent.intended_frames
