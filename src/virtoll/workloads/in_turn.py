"""Traffic through several guests in turn: flat out through each for a burst, over and over.

A host's speed changes within a second, and a guest that is measured for as long as that is measured at one of its
speeds. Guests whose bursts of some milliseconds alternate are measured at the same ones. After each burst nobody sends
for a moment, so that no queue's frames take CPU time from the next guest.
Main functions: ``takes_turns`` and ``measure_in_turn``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from virtoll.agent.operations.traffic import Bursts
from virtoll.agent.path_counters import CounterSnapshot, surroundings
from virtoll.runfolder.traffic_records import InTurn, Point
from virtoll.workloads.base import Bench, Measurement
from virtoll.workloads.retakes import RequireCalm, retaken
from virtoll.workloads.starvation import why_no_result
from virtoll.workloads.traffic import FrameParameters, TrafficStream, send

_BURST_NS: Final = 25_000_000
_PAUSE_NS: Final = 3_000_000


def takes_turns(bench: Bench, best: Point) -> bool:
    """Whether a guest can: its best point was flat out, sent by the kernel's loop and counted by its XDP program."""
    by_the_kernel = best.backend == "live-frames" and best.sink.backend == "xdp"
    return best.intended_rate_frames_per_second is None and by_the_kernel and len(bench.peer.agents) == 1


def measure_in_turn(
    benches: Sequence[Bench], stream: TrafficStream, parameters: FrameParameters, point_ns: int
) -> list[Measurement]:
    """A point of each guest, whose bursts take ``point_ns`` together; ``stream``: of one source through each."""
    count = max(1, round(point_ns / _BURST_NS))
    bursts = Bursts(burst_ns=point_ns // count, pause_ns=_PAUSE_NS, count=count)
    before: list[CounterSnapshot] = []
    after: list[CounterSnapshot] = []

    def measure(require_calm: RequireCalm) -> Point:
        before[:] = [bench.hops.read() for bench in benches]
        with benches[0].timekeeper.measuring():
            whole = send(
                benches[0].peer,
                stream,
                parameters,
                benches[0].next_tag(),
                bursts.burst_ns * count,
                None,
                histograms=True,
                bursts=bursts,
            )
            require_calm(whole)
        after[:] = [bench.hops.read() for bench in benches]
        return whole

    whole = retaken(measure)
    measured = []
    for number, bench in enumerate(benches):
        hops = bench.hops.hops(before[number], after[number], 1)
        around = surroundings(before[number], after[number])
        point = _part_of(whole, number, bursts).replace(hops=hops, surroundings=around)
        measured.append(Measurement(points=[point], problem=why_no_result([point])))
    return measured


def _part_of(whole: Point, number: int, bursts: Bursts) -> Point:
    """One guest's part: its source, as the only one; what belongs to no source stays that of all."""
    source, arrived = whole.sources[number], whole.sink.per_source[number]
    cores = whole.cpu.generator_cores
    return whole.replace(
        sources=(source.replace(source=0),),
        sink=whole.sink.replace(per_source=(arrived.replace(source=0),)),
        cpu=whole.cpu.replace(generator_cores=cores and cores[number : number + 1]),
        in_turn=InTurn(len(whole.sources), bursts.count, bursts.burst_ns, bursts.pause_ns),
    )
