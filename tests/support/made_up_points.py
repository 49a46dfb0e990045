"""Made-up points of traffic with balanced books: one of given rates, a sweep as it is really led, and calibrations.

Main types: `Rates` (what one stream offers and what of it arrives) and `Path` (what guests forward of what they are
offered). It must not know platforms or workloads.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from virtoll.runfolder.frame_shape import FrameShape
from virtoll.runfolder.traffic_records import Point, TrafficReply

GENERATOR, SINK = "live-frames", "xdp"
CALIBRATION_NS, FLOOR_FRAMES_PER_SECOND = 200_000_000, 10_000.0
_ROUNDING = 1e-6  # of a frame
_LOST_AT_LEAST = 1.05  # what is offered flat out by what is forwarded, where frames are to be lost


@dataclass(frozen=True)
class Rates:
    """Of one stream, frames/s: what leaves the generator, and what of it arrives."""

    offered: float
    forwarded: float


@dataclass(frozen=True)
class Path:
    """What is forwarded of what is offered, frames/s of all streams together.

    `value` at most, `flat_out` of what the generator offers flat out, which is `limit`. In between it falls from `knee`
    on. `shares`: of each stream in what is forwarded above `value`. `lossless`: the generator offers no more than that.
    """

    value: float
    flat_out: float
    limit: float
    knee: float
    shares: tuple[float, ...]
    lossless: bool

    @classmethod
    def of(cls, value: float, flat_out: float | None, limit: float, knee: float, shares: Sequence[float]) -> "Path":
        """A path that loses frames flat out: the generator then offers more of each stream than arrives of it."""
        enough = max(limit, _LOST_AT_LEAST * value * len(shares) * max(shares))
        return cls(value, value if flat_out is None else flat_out, enough, knee, tuple(shares), lossless=False)

    def rates(self, intended: float | None) -> list[Rates]:
        """Of each stream, where so much is intended of each; None: flat out."""
        if self.lossless:
            most = [share * self.value for share in self.shares]
            return [Rates(sent, sent) for sent in (one if intended is None else min(intended, one) for one in most)]
        each = self.limit / len(self.shares)
        offered = each if intended is None else min(intended, each)
        total = self._forwarded(offered * len(self.shares), paced=intended is not None)
        if total is None:
            return [Rates(offered, offered)] * len(self.shares)
        return [Rates(offered, min(offered, share * total)) for share in self.shares]

    def _forwarded(self, offered: float, *, paced: bool) -> float | None:
        """Of so much altogether; None: all of it."""
        if not paced:
            return self.flat_out
        if offered <= self.value:
            return None
        if offered <= self.knee or self.limit <= self.knee:
            return self.value
        fallen = math.log(offered / self.knee) / math.log(self.limit / self.knee)
        return self.value * math.pow(self.flat_out / self.value, min(1.0, fallen))


def made_up_point(
    frame_size_bytes: int,
    duration_ns: int,
    intended: float | None,
    rates: Sequence[Rates],
    *,
    backend: str = GENERATOR,
    sink: str = SINK,
    stored: dict[str, Any] | None = None,
) -> Point:
    """One point whose books balance and whose rates are these, to the nanosecond of the last frame.

    `intended`: of each stream, frames/s; None: flat out. `stored`: what more the run folder stores of a point.
    """
    stored = stored or {}
    shared = bool(stored.get("shared_link", False) or stored.get("shared_cpus", False))
    reply = made_up_reply(frame_size_bytes, duration_ns, intended, tuple(rates), Ends(backend, sink, shared))
    return point_of(intended, duration_ns, reply, **stored)


def point_of(rate: float | None, duration_ns: int, reply: TrafficReply, **more: Any) -> Point:
    """A reply as a point at that rate of each source."""
    return Point.from_record(reply, intended_rate_frames_per_second=rate, duration_ns=duration_ns, **more)


class Ends(NamedTuple):
    """What sends and what counts, and whether the streams share what they are sent over."""

    backend: str
    sink: str
    shared: bool


@functools.cache  # the blocks of a run without noise have the same points
def made_up_reply(
    frame_size_bytes: int, duration_ns: int, intended: float | None, rates: tuple[Rates, ...], ends: Ends
) -> TrafficReply:
    """What such frames would be answered with; `intended`: of each stream, None: flat out."""
    offered = [_frames(one.offered, duration_ns) for one in rates]
    forwarded = [min(most, _frames(one.forwarded, duration_ns)) for most, one in zip(offered, rates, strict=True)]
    wanted = 0 if intended is None else _frames(intended, duration_ns)
    together = sum(one.forwarded for one in rates)
    joint_ns = sum(forwarded) * 1e9 / together if together else 0.0
    sources = [
        {
            "source": number,
            "intended_frames": max(wanted, sent),
            "offered_frames": sent,
            "unsent_frames": max(wanted, sent) - sent,
            "start_monotonic_ns": 0,
            "end_monotonic_ns": duration_ns,
            "first_sent_monotonic_ns": 0,
            "last_sent_monotonic_ns": _span_ns(sent, one.offered),
            "refused_frames": 0,
            "skipped_frames": 0,
            "late_frames": 0,
            "late_ns_max": 1,
            "batch_frames": 8,
        }
        for number, (sent, one) in enumerate(zip(offered, rates, strict=True))
    ]
    arrived = [
        {
            "source": number,
            "forwarded_frames": came,
            "duplicate_frames": 0,
            "reordered_frames": 0,
            "lost_frames": sent - came,
            "first_received_monotonic_ns": 0 if came else None,
            "last_received_monotonic_ns": _last_ns(came, one.forwarded, joint_ns if ends.shared else None),
        }
        for number, (sent, came, one) in enumerate(zip(offered, forwarded, rates, strict=True))
    ]
    reply = {
        "backend": ends.backend,
        "frame_size_bytes": frame_size_bytes,
        "sources": sources,
        "sink": {
            "per_source": arrived,
            "foreign_frames": 0,
            "late_trial_frames": 0,
            "kernel_dropped_frames": 0,
            "drained": True,
            "backend": ends.sink,
            "seen_frames": sum(forwarded),
        },
        "cpu": {"generator_user_ns": 1, "generator_system_ns": 1, "sink_user_ns": 1, "sink_system_ns": 1},
    }
    return TrafficReply.from_json(reply)


def _frames(rate: float, duration_ns: int) -> int:
    """So many that the rate can be told from the first to the last: of none 0, else two or more."""
    return max(2, math.ceil(rate * duration_ns / 1e9 - _ROUNDING)) if rate > 0 else 0


def _last_ns(frames: int, rate: float, joint_ns: float | None) -> int | None:
    """When the last frame arrives, the first at 0: where guests share what they send over, at the end of it all."""
    if not frames:
        return None
    return _span_ns(frames, rate) if joint_ns is None else round(joint_ns)


def _span_ns(frames: int, rate: float) -> int:
    return round((frames - 1) * 1e9 / rate)


def calibrated_at(parameters: dict[str, Any], rate: float) -> list[dict[str, Any]]:
    """The calibrations at begin and end for frames of these parameters: flat out and paced, nothing is lost."""
    shape = FrameShape.of(parameters)
    assert shape is not None
    backend, sink = used(parameters)

    def point(intended: float | None, total: float) -> dict[str, Any]:
        each = [Rates(total / shape.streams, total / shape.streams)] * shape.streams
        size = shape.frame_size_bytes
        return made_up_point(size, CALIBRATION_NS, intended, each, backend=backend, sink=sink).to_json()

    paced = min(FLOOR_FRAMES_PER_SECOND, rate)
    return [
        {
            "when": when,
            "realtime_ns": 1,
            "parameters": parameters,
            "status": "ok",
            "reason": None,
            "points": [point(None, rate), point(paced / shape.streams, paced)],
        }
        for when in ("start", "end")
    ]


def used(parameters: dict[str, Any]) -> tuple[str, str]:
    """What sends and what counts, where these parameters leave that open or name it."""
    backend, sink = parameters.get("backend", "auto"), parameters.get("sink", "auto")
    return GENERATOR if backend == "auto" else backend, SINK if sink == "auto" else sink
