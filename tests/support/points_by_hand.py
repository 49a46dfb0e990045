"""Points of traffic and trials few enough to reckon by hand, made of counts. Main functions: `point`, `trial`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import Point, Sink, SinkCounts, SourceCounts

SECOND = 1_000_000_000


def source(number: int = 0, *, intended: int, offered: int | None = None, **more: Any) -> SourceCounts:
    sent = intended if offered is None else offered
    return SourceCounts(number, intended, sent, intended - sent, 0, SECOND, **more)


def sink(number: int = 0, *, forwarded: int, lost: int = 0, **more: Any) -> SinkCounts:
    arrived: dict[str, Any] = {"first_received_monotonic_ns": 0, "last_received_monotonic_ns": SECOND} | more
    return SinkCounts(number, forwarded, 0, 0, lost, **arrived)


def point(rate: float | None, sources: Sequence[SourceCounts], sinks: Sequence[SinkCounts], **more: Any) -> Point:
    seen = Sink(tuple(sinks), 0, 0, 0, drained=True, backend=more.pop("sink", None))
    return Point(rate, SECOND, 64, more.pop("backend", "live-frames"), tuple(sources), seen, **more)


def trial(number: int, *points: Point, platform: str = "p", **changed: Any) -> TrialRecord:
    """A trial of forwarding; `size` is its one parameter, where `parameters` are not given."""
    given: dict[str, Any] = {"workload": "forward", "parameters": {"size": changed.pop("size", 64)}, "status": "ok"}
    none = dict.fromkeys(("boot", "reason", "started_realtime_ns", "ended_realtime_ns", "clock", "result", "check"))
    return TrialRecord(number, 0, platform, attempt=1, points=points, evidence=(), **{**none, **given, **changed})


def plain(rate: float | None, offered: int, lost: int = 0, **more: Any) -> Point:
    return point(rate, [source(intended=offered)], [sink(forwarded=offered - lost, lost=lost)], **more)
