"""Points whose generator and sink ran and waited for so long, made up."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.made_up_points import Rates, made_up_point

from virtoll.runfolder.traffic_records import Cpu, Point

POINT_MS = 200
MS = 1_000_000


def point(
    *threads: tuple[int, int | None],
    cores: Sequence[int | None] = (),
    sink: tuple[int, int | None] = (0, None),
    sink_core: int | None = None,
    sink_backend: str = "tpacket",
) -> Point:
    """One point; threads that ran and waited for so many ms, each of one source."""
    made = made_up_point(64, POINT_MS * MS, None, [Rates(1000, 1000)] * len(threads))
    sources = [
        source.replace(cpu_ns=ran * MS, waited_ns=None if waited is None else waited * MS, thread=source.source)
        for source, (ran, waited) in zip(made.sources, threads, strict=True)
    ]
    ran, waited = sink
    cpu = Cpu(
        generator_cores=tuple(cores) or (None,) * len(threads),
        sink_cpu_ns=ran * MS,
        sink_waited_ns=None if waited is None else waited * MS,
        sink_core=sink_core,
    )
    return made.replace(sources=tuple(sources), cpu=cpu, sink=made.sink.replace(backend=sink_backend))
