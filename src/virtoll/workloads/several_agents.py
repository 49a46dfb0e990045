"""One traffic trial by several agents, on as many hosts: some send, others count, and the answer is as of one agent.

Main function: ``by_several``. All are given the same request, each with its own part of it. It must not know what the
frames are sent through.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from virtoll.agent.client import Caller, TrafficAgents
from virtoll.agent.operations.session import ClocksRequest
from virtoll.agent.operations.traffic import (
    SendRequest,
    SinkCloseRequest,
    SinkFinishReply,
    SinkFinishRequest,
    SinkOpenRequest,
    Source,
    SourceTotals,
    Traffic,
)
from virtoll.errors import GuestError
from virtoll.runfolder.traffic_records import Cpu, GeneratorClock, SendReply, Sink, SourceCounts, TrafficReply

_LEAD_SECONDS = 0.2  # by then each of several generators must have read its request
Part = TypeVar("Part")
_NOTHING = SourceTotals(intended_frames=0, offered_frames=0, unsent_frames=0)


@dataclass(frozen=True)
class _Counter:
    """An agent that counts, what it is asked for, and the sources whose frames it is to get."""

    agent: Caller
    request: Traffic
    sources: tuple[int, ...]


def by_several(
    ends: TrafficAgents, request: Traffic, deadline_seconds: float
) -> tuple[TrafficReply, tuple[GeneratorClock, ...] | None]:
    """The sinks are opened, the sources send, and the sinks get their counts; the answer, joined.

    And the clocks of those that sent, where they are several. Whatever fails, no sink is left open.
    """
    counters = _counters(ends, request)
    opened: list[_Counter] = []
    try:
        for counter in counters:
            counter.agent.ask(SinkOpenRequest.from_record(counter.request))
            opened.append(counter)
        sent, clocks = _sent(ends, request, deadline_seconds)
        counts = totals(sent.sources)
        received = []
        for counter in counters:
            sources = tuple(count if number in counter.sources else _NOTHING for number, count in enumerate(counts))
            received.append(counter.agent.ask(SinkFinishRequest(sources=sources), deadline_seconds))
    except GuestError:
        for counter in opened:
            with contextlib.suppress(GuestError):
                counter.agent.ask(SinkCloseRequest(), deadline_seconds)
        raise
    arrived = received[0] if len(received) == 1 else _of_several_sinks(received, counters)
    return _joined(sent, arrived), clocks


def totals(sources: Iterable[SourceCounts]) -> tuple[SourceTotals, ...]:
    """What the sink knows of each source."""
    return tuple(
        SourceTotals(
            intended_frames=source.intended_frames,
            offered_frames=source.offered_frames,
            unsent_frames=source.unsent_frames,
        )
        for source in sources
    )


def _counters(ends: TrafficAgents, request: Traffic) -> list[_Counter]:
    """Who counts what: one agent all sources, or of several each those that arrive at its interfaces, source k at k."""
    everything, interfaces = tuple(range(len(request.sources))), request.sink.interfaces
    if not ends.of_sink or len(interfaces) == 1:
        return [_Counter(ends.sink, request, everything)]
    counters = []
    for agent in ends.sinks:
        numbers = tuple(number for number in range(len(interfaces)) if ends.of_sink[number] is agent)
        if numbers:
            sink = request.sink.replace(interfaces=tuple(interfaces[number] for number in numbers))
            counters.append(_Counter(agent, request.replace(sink=sink), numbers))
    return counters


def _joined(sent: SendReply, received: SinkFinishReply) -> TrafficReply:
    """The halves as one agent would have answered."""
    cpu = with_generators(received.cpu, sent.cpu).replace(
        processors=sent.cpu.processors, idle=sent.cpu.idle, sink_processors=received.cpu.processors
    )
    return TrafficReply.from_record(
        sent, sink=received.sink, interfaces=(*(sent.interfaces or ()), *received.interfaces), cpu=cpu
    )


def _sent(
    ends: TrafficAgents, request: Traffic, deadline_seconds: float
) -> tuple[SendReply, tuple[GeneratorClock, ...] | None]:
    """What the sources sent, and the clocks of those that sent where they are several: these begin at one moment.

    Each is told in how much time by its own clock, so that they are apart by how much their requests' ways differ.
    """
    parts = [(agent, sources) for agent in ends.generators if (sources := _sources_of(ends, agent, request))]
    if len(parts) <= 1:
        return ends.generator.ask(SendRequest.from_record(request), deadline_seconds), None
    from concurrent.futures import ThreadPoolExecutor  # it brings in logging, which every start would pay for

    clocks = tuple(_clock(agent, sources) for agent, sources in parts)
    begins = time.monotonic() + _LEAD_SECONDS

    def send_own(agent: Caller, sources: Sequence[Source]) -> SendReply:
        delay_ns = max(0, int((begins - time.monotonic()) * 1e9))
        return agent.ask(SendRequest.from_record(request, sources=tuple(sources), delay_ns=delay_ns), deadline_seconds)

    with ThreadPoolExecutor(max_workers=len(parts)) as threads:
        futures = [threads.submit(send_own, agent, sources) for agent, sources in parts]
    replies = [(future.result(), sources) for future, (_, sources) in zip(futures, parts, strict=True)]
    return _of_several_generators(replies), clocks


def _sources_of(ends: TrafficAgents, agent: Caller, request: Traffic) -> list[Source]:
    """Those that an agent sends as, with their numbers in all of them; none if one agent sends as all."""
    if not ends.of_source:
        return []
    agents = ends.of_source[: len(request.sources)]
    numbered = enumerate(zip(request.sources, agents, strict=True))
    return [source.replace(number=number) for number, (source, sender) in numbered if sender is agent]


def _clock(agent: Caller, sources: Sequence[Source]) -> GeneratorClock:
    """The monotonic clock of one that sends."""
    asked_ns = time.monotonic_ns()
    read = agent.ask(ClocksRequest())
    numbers = tuple(source.number or 0 for source in sources)
    return GeneratorClock(numbers, asked_ns, read.monotonic_ns, time.monotonic_ns())


def _of_several_generators(parts: Sequence[tuple[SendReply, Sequence[Source]]]) -> SendReply:
    """The parts as one agent would have answered, sources in order; ``GuestError`` where their back ends differ."""
    sent = [part for part, _ in parts]
    _refuse_unlike("the generators send by", "backend", [part.backend for part in sent])
    sources = []
    for part, requested in parts:
        for source, request in zip(part.sources, requested, strict=True):
            sources.append(source.replace(source=request.number or 0))
    return SendReply.from_record(
        sent[0],
        sources=tuple(sorted(sources, key=lambda source: source.source)),
        interfaces=tuple(change for part in sent for change in part.interfaces or ()),
        cpu=generators_cpu([part.cpu for part in sent]),
    )


def generators_cpu(parts: Sequence[Cpu]) -> Cpu:
    """The CPU times of those that send, summed where all know them; their cores are not one machine's."""
    return Cpu(
        generator_user_ns=_sum(parts, lambda part: part.generator_user_ns),
        generator_system_ns=_sum(parts, lambda part: part.generator_system_ns),
        generator_cpu_ns=_sum(parts, lambda part: part.generator_cpu_ns),
        generator_cores=tuple(None for part in parts for _ in part.generator_cores or (None,)),
    )


def with_generators(sink: Cpu, generators: Cpu) -> Cpu:
    """The sink's CPU times with those of what sends."""
    return sink.replace(
        generator_user_ns=generators.generator_user_ns,
        generator_system_ns=generators.generator_system_ns,
        generator_cpu_ns=generators.generator_cpu_ns,
        generator_cores=generators.generator_cores,
    )


def _of_several_sinks(parts: Sequence[SinkFinishReply], counters: Sequence[_Counter]) -> SinkFinishReply:
    """As one agent would have counted: each source where it is to arrive, and what is of no source together."""
    sinks = [part.sink for part in parts]
    _refuse_unlike("the sinks count by", "sink", [sink.backend for sink in sinks])
    per_source = [
        source
        for sink, counter in zip(sinks, counters, strict=True)
        for source in sink.per_source
        if source.source in counter.sources
    ]
    joined = Sink.from_record(
        sinks[0],
        per_source=tuple(sorted(per_source, key=lambda source: source.source)),
        foreign_frames=sum(sink.foreign_frames for sink in sinks),
        late_trial_frames=sum(sink.late_trial_frames for sink in sinks),
        kernel_dropped_frames=_sum(sinks, lambda sink: sink.kernel_dropped_frames),
        seen_frames=_sum(sinks, lambda sink: sink.seen_frames),
        forged_frames=_sum(sinks, lambda sink: sink.forged_frames),
        drained=all(sink.drained for sink in sinks),
    )
    interfaces = tuple(change for part in parts for change in part.interfaces)
    return SinkFinishReply(sink=joined, interfaces=interfaces, cpu=_sinks_cpu([part.cpu for part in parts]))


def _sinks_cpu(parts: Sequence[Cpu]) -> Cpu:
    return Cpu(
        sink_user_ns=_sum(parts, lambda part: part.sink_user_ns),
        sink_system_ns=_sum(parts, lambda part: part.sink_system_ns),
        sink_cpu_ns=_sum(parts, lambda part: part.sink_cpu_ns),
        sink_waited_ns=_sum(parts, lambda part: part.sink_waited_ns),
    )


def _refuse_unlike(who: str, key: str, backends: Sequence[str | None]) -> None:
    different = dict.fromkeys(str(backend) for backend in backends)
    if len(different) > 1:
        raise GuestError(f"{who} {' and '.join(different)}; set '{key}' to what all of them have")


def _sum(parts: Sequence[Part], count_of: Callable[[Part], int | None]) -> int | None:
    """Of what all know; None otherwise."""
    known = [count for count in map(count_of, parts) if count is not None]
    return sum(known) if len(known) == len(parts) else None
