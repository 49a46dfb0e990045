"""A point's forwarding rate: over the time of the point, and of the arrivals where those took longer."""

from __future__ import annotations

import pytest

from virtoll.runfolder.store import parse_record
from virtoll.runfolder.traffic_records import Point
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


def test_a_burst_does_not_make_the_maximum_of_a_sweep() -> None:
    steady, burst = arrived(800, 0, 998_000_000), arrived(300, 700_000_000, 800_000_000)
    assert maximum_forwarded_rate([steady, burst]) == pytest.approx(800, rel=0.01)
