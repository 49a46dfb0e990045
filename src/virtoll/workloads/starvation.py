"""Whether the instrument had its CPUs during a point: what it did not offer or count for want of CPU time is no limit.

Main functions: ``cpu_share`` and ``why_no_result``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from virtoll.runfolder.traffic_records import Point
from virtoll.workloads.traffic import unbalanced

LEAST_CPU_SHARE: Final = 0.95


@dataclass(frozen=True)
class _Thread:
    """One thread of the instrument: its number (None: the sink's), and how long it ran and waited for a CPU, in ns.

    No wait of a sink that counts in the kernel matters, but others wait while it runs.
    """

    number: int | None
    ran_ns: int
    waited_ns: int


def why_no_result(points: Sequence[Point]) -> str | None:
    """Why the counts of points are no result, or None if all are: by their books, then by the instrument's CPU time."""
    return unbalanced(points) or next(filter(None, map(starved, points)), None)


def starved(point: Point) -> str | None:
    """Why a point is no result: generator or sink had too little CPU time; None: they had enough, or nobody knows."""
    share = cpu_share(point)
    if share is None or share >= LEAST_CPU_SHARE:
        return None
    return (
        f"generator and sink had their CPU for {math.floor(100 * share)}% of a point's time and need "
        f"{LEAST_CPU_SHARE:.0%}: something else runs on it; end that, or use a host with more CPUs"
    )


def cpu_share(point: Point) -> float | None:
    """For which share of a point's time no thread of the instrument was ready to run and had no CPU: the least, by CPU.

    Threads on one CPU wait for each other; only what they waited beyond that went to others. None: the kernel of
    generator and sink does not say, or guests send, which are what is measured.
    """
    shares = []
    for threads in _threads_by_cpu(point).values():
        ran_ns = sum(thread.ran_ns for thread in threads)
        lost_ns = max(thread.waited_ns - (ran_ns - thread.ran_ns) for thread in threads)
        shares.append(1 - max(0, lost_ns) / max(point.duration_ns, ran_ns + lost_ns))
    return min(shares, default=None)


def _threads_by_cpu(point: Point) -> dict[int | None, set[_Thread]]:
    """The threads whose kernel says how long they waited, by the CPU that they are pinned to.

    They are the generator's and the sink's.
    """
    threads: dict[int | None, set[_Thread]] = defaultdict(set)
    cpu = point.cpu
    if cpu.sink_cpu_ns is not None and cpu.sink_waited_ns is not None:
        waited_ns = 0 if point.sink.backend == "xdp" else cpu.sink_waited_ns
        threads[cpu.sink_core].add(_Thread(None, cpu.sink_cpu_ns, waited_ns))
    if point.guests_cpu is not None:
        return threads
    for number, source in enumerate(point.sources):
        if source.cpu_ns is None or source.waited_ns is None:
            continue
        core = cpu.generator_cores[number] if cpu.generator_cores else None
        threads[core].add(_Thread(source.thread or 0, source.cpu_ns, source.waited_ns))
    return threads
