"""The fake platform's packet path: a router of known cost that loses frames at a known place, with counters that show
it.

Main types: ``FakeWire`` (the interfaces of the model and what has passed them). Part of ``fake``, not a platform.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from virtoll.agent.operations.counters import CountersReply, InterfaceCounters
from virtoll.agent.operations.network import Interface
from virtoll.agent.operations.traffic import SinkFinishReply, Source, SourceTotals, Traffic
from virtoll.errors import AgentError
from virtoll.runfolder.traffic_records import (
    Cpu,
    Distribution,
    ProcessorIdle,
    SendReply,
    Sink,
    SinkCounts,
    SourceCounts,
    TrafficReply,
)

LostAt = Literal["guest", "generator", "sink-ring", "sink", "unlocated"]
LINK_DELAY_NS = 20_000
_FRAME_NANOSECONDS, _BYTE_NANOSECONDS = 900.0, 0.2
_GENERATOR_FRAMES_PER_SECOND = 2_000_000.0
_STATISTICS = ("rx_packets", "tx_packets", "rx_dropped", "tx_dropped")


@dataclass
class FakeWire:
    """``loss`` is the share that is lost besides what comes too fast; ``lost_at`` the place where all of it is."""

    cost: float
    loss: float
    lost_at: LostAt
    unbalanced: bool
    guest_interfaces: dict[str, str] = field(default_factory=dict)
    _passed: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    _open: Traffic | None = None

    def learn(self, interfaces: Sequence[Interface]) -> None:
        """Remember what the guest's interfaces are called, by MAC address and by their neighbour's IP address."""
        for number, interface in enumerate(interfaces):
            name = self.guest_interfaces.setdefault(interface.mac, f"eth{number}")
            tagged = (neighbour for vlan in interface.vlans or () for neighbour in vlan.neighbours)
            for neighbour in (*interface.neighbours, *tagged):
                self.guest_interfaces[neighbour.address] = name

    def counters(self, where: str, interfaces: Sequence[str], now_ns: int) -> CountersReply:
        """The agent's ``counters`` for the peer or the guest."""
        reported = (InterfaceCounters(name=name, statistics=dict(self._at(where, name))) for name in interfaces)
        return CountersReply(
            monotonic_ns=now_ns, interfaces=tuple(reported), softnet=None, snmp=None, snmp6=None, processors=()
        )

    def traffic(self, request: Traffic, now_ns: int, spread: float) -> TrafficReply:
        """Each frame costs a + b x size nanoseconds; what comes faster than that is lost."""
        duration, share = request.duration_ns, len(request.sources)
        capacity = self._capacity(request.frame_size_bytes, spread)
        sources, sinks = [], []
        for number, source in enumerate(request.sources):
            rate = source.rate_frames_per_second
            flat_out = _GENERATOR_FRAMES_PER_SECOND / share * duration / 1e9
            intended = int(flat_out if rate is None else rate * duration / 1e9)
            offered = min(intended, int(flat_out))
            forwarded = int(min(offered, capacity / share * duration / 1e9) * (1 - self.loss))
            arrives_at = request.sink.interfaces[min(number, len(request.sink.interfaces) - 1)]
            self._count(source, arrives_at, offered, forwarded)
            sources.append(_source(number, intended, offered, now_ns, duration))
            arrived = self._arrived(number, offered, forwarded, now_ns, duration)
            if request.histograms and forwarded:
                arrived = arrived.replace(delay_ns=_delay(offered, capacity / share * duration / 1e9, forwarded))
            sinks.append(arrived)
        return TrafficReply(
            backend="model",
            frame_size_bytes=request.frame_size_bytes,
            sources=tuple(sources),
            sink=_books(sinks),
            cpu=self._cpu(request, sum(sink.forwarded_frames for sink in sinks), spread),
        )

    def send(self, request: Traffic, now_ns: int, spread: float) -> SendReply:
        """The agent's ``send``: the guest's own generator, which is no faster than its router."""
        duration, rate = request.duration_ns, request.sources[0].rate_frames_per_second
        most = int(self._capacity(request.frame_size_bytes, spread) * duration / 1e9)
        intended = most if rate is None else int(rate * duration / 1e9)
        return SendReply(
            backend="model",
            frame_size_bytes=request.frame_size_bytes,
            sources=(_source(0, intended, min(intended, most), now_ns, duration),),
            cpu=Cpu(generator_user_ns=0, generator_system_ns=0),
        )

    def open_sink(self, request: Traffic) -> None:
        """The agent's ``sink-open``."""
        self._open = request

    def close_sink(self, sources: Sequence[SourceTotals], now_ns: int) -> SinkFinishReply:
        """The agent's ``sink-finish``: what was sent arrives, but for the model's own loss."""
        if self._open is None:
            raise AgentError("bad-request", "no sink of the model is open; send sink-open first")
        sinks = []
        for number, source in enumerate(sources):
            forwarded = int(source.offered_frames * (1 - self.loss))
            sinks.append(self._arrived(number, source.offered_frames, forwarded, now_ns, self._open.duration_ns))
        cpu = Cpu(sink_user_ns=0, sink_system_ns=0)
        return SinkFinishReply(sink=_books(sinks), interfaces=(), cpu=cpu)

    def _cpu(self, request: Traffic, frames: int, spread: float) -> Cpu:
        """Only the router costs CPU time, on the first of the CPUs."""
        cpu = Cpu(generator_user_ns=0, generator_system_ns=0, sink_user_ns=0, sink_system_ns=0)
        if not request.idle_of:
            return cpu
        busy = min(request.duration_ns, int(frames * 1e9 / self._capacity(request.frame_size_bytes, spread)))
        idle = (
            ProcessorIdle(
                cpu=processor,
                between_ns=request.duration_ns,
                idle_ns=request.duration_ns - busy * (number == 0),
                means="timer_list",
            )
            for number, processor in enumerate(request.idle_of)
        )
        return cpu.replace(idle=tuple(idle))

    def _capacity(self, size: int, spread: float) -> float:
        return 1e9 / ((_FRAME_NANOSECONDS + _BYTE_NANOSECONDS * size) * self.cost * spread)

    def _arrived(self, number: int, offered: int, forwarded: int, now_ns: int, duration: int) -> SinkCounts:
        began_ns = now_ns + LINK_DELAY_NS
        received = (began_ns, began_ns + duration) if forwarded else (None, None)
        return SinkCounts(
            source=number,
            forwarded_frames=forwarded,
            duplicate_frames=0,
            reordered_frames=0,
            lost_frames=offered - forwarded + int(self.unbalanced),
            delay_ns=None,
            first_received_monotonic_ns=received[0],
            last_received_monotonic_ns=received[1],
        )

    def _count(self, source: Source, sink: str, offered: int, forwarded: int) -> None:
        """Let the frames pass the interfaces on their way; where ``lost_at`` says so, fewer pass."""
        before, after = (
            self.guest_interfaces.get(address, "") for address in (source.destination_mac, source.destination_address)
        )
        sent = forwarded if self.lost_at == "generator" else offered
        routed = forwarded if self.lost_at in ("generator", "guest", "unlocated") else offered
        taken = offered if self.lost_at == "sink" else forwarded
        for where, name, counter, frames in (
            ("peer", source.interface, "tx_packets", sent),
            ("guest", before, "rx_packets", sent),
            ("guest", after, "tx_packets", min(routed, taken)),
            ("guest", after, "tx_dropped", max(0, routed - taken)),
            ("peer", sink, "rx_packets", taken),
        ):
            self._at(where, name)[counter] += frames

    def _at(self, where: str, name: str) -> dict[str, int]:
        return self._passed.setdefault((where, name), dict.fromkeys(_STATISTICS, 0))


def _delay(offered: int, most: float, forwarded: int) -> Distribution:
    """Every frame waits as in a queue of Poisson arrivals (M/M/1), and never longer than a hundred times the link's."""
    delay = int(LINK_DELAY_NS * min(100.0, 1 / max(1e-9, 1 - offered / most)))
    return Distribution(
        count=forwarded,
        minimum=delay,
        maximum=delay,
        mean=delay,
        p1=delay,
        p50=delay,
        p90=delay,
        p99=delay,
        p999=delay,
        histogram=((delay, forwarded),),
    )


def _source(number: int, intended: int, offered: int, now_ns: int, duration: int) -> SourceCounts:
    sent = (now_ns, now_ns + duration) if offered else (None, None)
    return SourceCounts(
        source=number,
        intended_frames=intended,
        offered_frames=offered,
        unsent_frames=intended - offered,
        start_monotonic_ns=now_ns,
        end_monotonic_ns=now_ns + duration,
        first_sent_monotonic_ns=sent[0],
        last_sent_monotonic_ns=sent[1],
        late_ns_max=0,
        batch_frames=1,
    )


def _books(sinks: Sequence[SinkCounts]) -> Sink:
    return Sink(per_source=tuple(sinks), foreign_frames=0, late_trial_frames=0, kernel_dropped_frames=0, drained=True)
