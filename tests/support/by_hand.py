"""Records with few enough frames and nanoseconds to reckon by hand: points of traffic, trials, and values of them.

What is not given is what says least: one source, nothing lost, a point of one second, a trial that is `ok`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from virtoll.runfolder.facts import Facts
from virtoll.runfolder.guest_records import CpuReading, FootprintRecord, ProcessMemory, ProcessTime
from virtoll.runfolder.records import BootRecord, Clock, GuestClock, Marks, MetricRecord, TrialRecord
from virtoll.runfolder.traffic_records import Cpu, Distribution, Hop, HopRole, Point, Sink, SinkCounts, SourceCounts
from virtoll.stats.values import Task, canonical

SECOND = 1_000_000_000

_TIMES = ("minimum", "maximum", "mean", "p50", "p90", "p99", "p999")


def task(workload: str, source: Any, parameters: Mapping[str, Any] | None = None, **more: Any) -> Task:
    """A workload's task; `more`: fields of its metric, which is else a duration of jobs or a rate of what is sent."""
    job = source == "marks"
    fields = {
        "workload": workload,
        "name": "duration" if job else "rate",
        "unit": "ns" if job else "frames/s",
        "better": "lower" if job else "higher",
        "source": source,
        "title": workload,
        "resource": "cpu",
    } | more
    return Task(workload, MetricRecord(**fields), canonical(parameters or {}), "")


def source(number: int = 0, *, intended: int, offered: int | None = None, **more: Any) -> SourceCounts:
    """What one source sent in a second; all that was intended where nothing else is `offered`."""
    sent = intended if offered is None else offered
    between: dict[str, Any] = {"first_sent_monotonic_ns": 0, "last_sent_monotonic_ns": SECOND} | more
    return SourceCounts(number, intended, sent, intended - sent, 0, SECOND, **between)


def sink(number: int = 0, *, forwarded: int, lost: int = 0, **more: Any) -> SinkCounts:
    """What arrived of one source, over a second."""
    arrived: dict[str, Any] = {"first_received_monotonic_ns": 0, "last_received_monotonic_ns": SECOND} | more
    return SinkCounts(number, forwarded, 0, 0, lost, **arrived)


def point(rate: float | None, sources: Sequence[SourceCounts], sinks: Sequence[SinkCounts], **more: Any) -> Point:
    """One second of 64-byte frames; `rate` None: flat out."""
    seen = Sink(tuple(sinks), 0, 0, 0, drained=True, backend=more.pop("sink", None))
    return Point(
        more.pop("backend", "live-frames"),
        64,
        tuple(sources),
        more.pop("cpu", Cpu()),
        sink=seen,
        intended_rate_frames_per_second=rate,
        duration_ns=SECOND,
        **more,
    )


def distribution(count: int = 1, **more: Any) -> Distribution:
    """Times of which only what is given matters; the rest is 0."""
    return Distribution(**{"count": count, **dict.fromkeys(_TIMES, 0), **more})


def plain(rate: float | None, offered: int, lost: int = 0, **more: Any) -> Point:
    """A point of one source: between the first of n frames and the last, a second apart, are n - 1 steps."""
    return point(rate, [source(intended=offered)], [sink(forwarded=offered - lost, lost=lost)], **more)


def clock(duration_ns: int, begin_ns: int = 0, **more: Any) -> Clock:
    """The readings of a job; the guest's clock agrees."""
    end = begin_ns + duration_ns
    guest = GuestClock(0, duration_ns, begin_ns, end, 0, 0)
    fields: dict[str, Any] = {"error_estimate_ns": 0, "guest": guest} | more
    return Clock("icmp", Marks(begin_ns, end), None, 0, (), (), **fields)


def trial(number: int, *points: Point, platform: str = "p", size: int | None = 64, **more: Any) -> TrialRecord:
    """A trial of `forward` with these points; `size` None: its `parameters` are among `more`, or it has none."""
    unknown: dict[str, Any] = dict.fromkeys(
        ("boot", "reason", "started_realtime_ns", "ended_realtime_ns", "clock", "result", "check")
    )
    fields = {
        **unknown,
        "block": 0,
        "workload": "forward",
        "parameters": {} if size is None else {"size": size},
        "attempt": 1,
        "status": "ok",
        "points": points,
        "evidence": (),
    } | more
    return TrialRecord(trial=number, platform=platform, **fields)


def job(number: int, duration_ns: int | None, *, platform: str = "p", **more: Any) -> TrialRecord:
    """A trial of `job`, without parameters, that took so long; None: no clock."""
    told = {"workload": "job", "points": None, "clock": None if duration_ns is None else clock(duration_ns)} | more
    return trial(number, platform=platform, size=None, **told)


def boot_record(facts: dict[str, Any] | None, **changed: Any) -> BootRecord:
    """A guest that was started in two microseconds, with these facts and fields."""
    base: dict[str, Any] = {
        "boot": "p/0",
        "platform": "p",
        "block": 0,
        "attempt": 1,
        "status": "ok",
        "reason": None,
        "spawn_monotonic_ns": 1000,
        "ready_monotonic_ns": 3000,
        "facts": None if facts is None else Facts.from_json(facts),
        "requested": None,
        "mismatches": (),
        "attachment": None,
        "evidence": (),
    }
    return BootRecord(**{**base, **changed})


def reading(at_ns: int, *used: int | None, user: int = 0, system: int = 0, children: int = 0) -> CpuReading:
    """What each process of a guest had used; and its children, ten times as much by them as by the kernel for them."""
    others: dict[str, Any] = {
        "user_ns": user,
        "system_ns": system,
        "children_user_ns": 10 * children,
        "children_system_ns": children,
    }
    each = [ProcessTime(pid, 1, "guest", own, **others) for pid, own in enumerate(used)]
    return CpuReading(at_ns, tuple(each), {})


def process(pss: int | None, tables: int | None) -> ProcessMemory:
    """One that holds so many bytes, and as many of page tables."""
    unknown: dict[str, Any] = dict.fromkeys(
        ("threads", "rss_bytes", "pss_anonymous_bytes", "pss_file_bytes", "pss_shared_bytes", "swap_pss_bytes")
    )
    return ProcessMemory(7, "guest", pss_bytes=pss, page_tables_bytes=tables, **unknown)


def held(boot: str, *processes: ProcessMemory, **more: Any) -> FootprintRecord:
    """What one start of a guest (`platform/block`) held of the host's memory when it was idle."""
    platform, _, block = boot.partition("/")
    fields: dict[str, Any] = {
        "platform": platform,
        "block": int(block.partition("/")[0] or 0),
        "when": "idle",
        "monotonic_ns": 1,
        "shared": {},
        "charged_bytes": None,
        "files_bytes": None,
    } | more
    return FootprintRecord(boot=boot, processes=processes, **fields)


_WAY: dict[HopRole, tuple[Literal["peer", "lab", "guest"], Literal["in", "out"]]] = {
    "generator": ("peer", "out"),
    "entry": ("lab", "in"),
    "port-in": ("lab", "out"),
    "guest-in": ("guest", "in"),
    "guest-out": ("guest", "out"),
    "port-out": ("lab", "in"),
    "exit": ("lab", "out"),
    "sink": ("peer", "in"),
}


def through(offered: int, forwarded: int, *, dropped: int | None = None) -> tuple[Hop, ...]:
    """Counters of all interfaces on the way: frames vanish between the guest's two, `dropped` by the outward one."""
    hops = []
    for place, (role, (where, way)) in enumerate(_WAY.items()):
        after = {"tx_packets" if way == "out" else "rx_packets": offered if place < 4 else forwarded}
        if role == "guest-out" and dropped is not None:
            after["tx_dropped"] = dropped
        hops.append(Hop(role, where, f"i{place}", way, source=None, before=dict.fromkeys(after, 0), after=after))
    return tuple(hops)
