"""What shapes a stream of frames, and how it is asked of the agent: shared by ``forward`` and the calibration.

Main types: ``FrameParameters`` (the part of the parameters that the instrument's own ceiling depends on) and ``Lane``
(where one source's frames leave and what is written into them). It must not know what the frames are sent through.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from virtoll.agent.client import Ends
from virtoll.agent.operations.traffic import (
    Destinations,
    MixPart,
    SendRequest,
    SentSource,
    SinkCloseRequest,
    SinkEnd,
    SinkFinishRequest,
    SinkOpenRequest,
    Source,
    SourceTotals,
    Traffic,
    TrafficCpu,
    TrafficReply,
    TrafficRequest,
)
from virtoll.errors import GuestError
from virtoll.experiment.model import Parameters
from virtoll.workloads.points import MeasuredPoint

Backend = Literal["auto", "live-frames", "af-xdp", "af-packet"]
BACKENDS: tuple[str, ...] = get_args(Backend)[1:]
# How long the sink waits after the last frame: where all have arrived, where some are missing (a guest that was off its
# CPU goes on with what it held), and at most.
QUIET_NS, RESIDUAL_NS, DRAIN_LIMIT_NS = 20_000_000, 500_000_000, 5_000_000_000
# Frame size in bytes and weight of the simple IMIX, as in the agent (crates/wire/src/frame.rs): the usual 594 and 1518
# bytes without their FCS; the usual smallest one, 64 with it, has no room for a test frame and is 4 bytes longer.
IMIX = ((64, 7), (590, 4), (1514, 1))
_SMALLEST_FRAME_BYTES, _IPV6_MORE_BYTES, _TAG_BYTES, _ETHERNET_HEADER_BYTES = 64, 20, 4, 14
_SOURCE_PORT, _DESTINATION_PORT = 1024, 9
# As in the agent (crates/wire/src/routes.rs, crates/agent/src/traffic.rs).
MOST_DESTINATIONS, MOST_ROUTES, MOST_SOURCES = 65_536, 2_000_000, 16


class FrameParameters(Parameters):
    """Frame size without FCS, or a mix; sources; what sends and what counts (``auto``: the best that the host allows).

    ``vlan``: number of the frames' 802.1Q tag, which counts in the frame's size; 0 for none.
    ``batch_frames``: frames handed to the kernel at once by live frames; 0 is the smallest that holds the rate.
    ``destinations``: how many addresses frames go to in turn, spread over a table of routes; 1 is the sink's alone.
    """

    frame_size_bytes: int = Field(default=64, ge=64, le=1518)
    sources: int = Field(default=1, ge=1, le=MOST_SOURCES)
    mix: Literal["none", "imix"] = "none"
    ip_version: Literal[4, 6] = 4
    vlan: int = Field(default=0, ge=0, le=4094, description="802.1Q tag, 1 to 4094; 0 for none")
    backend: Backend = "auto"
    sink: Literal["auto", "xdp", "tpacket"] = "auto"
    batch_frames: int = Field(default=0, ge=0, le=256)
    destinations: int = Field(default=1, ge=1, le=MOST_DESTINATIONS)

    @model_validator(mode="after")
    def _holds_a_test_frame(self) -> Self:
        if self.mix == "none" and self.frame_size_bytes < self.smallest_frame_bytes:
            kind = f"IPv{self.ip_version}" + (" with a VLAN tag" if self.vlan else "")
            raise ValueError(
                f"frame_size_bytes is {self.frame_size_bytes}, and a test frame of {kind} has at least "
                f"{self.smallest_frame_bytes} bytes; give frame_size_bytes {self.smallest_frame_bytes} to 1518"
            )
        if self.destinations > 1 and self.ip_version != 4:
            raise ValueError(
                "destinations of a table of routes are IPv4 addresses; set ip_version 4, or destinations 1"
            )
        return self

    @property
    def smallest_frame_bytes(self) -> int:
        """What the headers and the payload of a test frame need: 64, 68 (VLAN), 84 (IPv6) or 88 (both)."""
        more = _IPV6_MORE_BYTES if self.ip_version == 6 else 0
        return _SMALLEST_FRAME_BYTES + more + (_TAG_BYTES if self.vlan else 0)

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """Frame sizes in bytes with their weights: IMIX's smallest is raised to what the headers need."""
        if self.mix == "none":
            return ((self.frame_size_bytes, 1),)
        return tuple((max(size, self.smallest_frame_bytes), weight) for size, weight in IMIX)

    @property
    def mtu_bytes(self) -> int:
        """The least MTU of links that let its largest frame pass: neither link header nor tag count."""
        headers = _ETHERNET_HEADER_BYTES + (_TAG_BYTES if self.vlan else 0)
        return max(size for size, _ in self.parts) - headers

    @property
    def guests(self) -> int:
        """How many guests are sent to at once, each by so many sources."""
        return 1

    def shape(self) -> FrameParameters:
        """These fields alone: equal for all parameters that one calibration serves."""
        own = self.model_dump(include=set(FrameParameters.model_fields))
        return FrameParameters.model_validate({**own, "sources": self.sources * self.guests})


@dataclass(frozen=True)
class Table:
    """A table of routes, which the agents make themselves of its size and a seed."""

    routes: int
    seed: int


@dataclass(frozen=True)
class Lane:
    """One source: its interface, the link addresses of this hop, and the IP addresses of both ends, as text."""

    interface: str
    source_mac: str
    destination_mac: str
    source_address: str
    destination_address: str


@dataclass(frozen=True)
class Stream:
    """Where traffic of any rate goes: lanes, the sink's interfaces, and the CPUs of generator and sink.

    ``table``: what several destinations are spread over; without one (in a calibration) over one of as many routes.
    """

    lanes: tuple[Lane, ...]
    sink_interfaces: tuple[str, ...]
    generator_cpu: int | None
    sink_cpu: int | None
    table: Table | None = None

    def request(self, wanted: FrameParameters, tag: int, duration_ns: int, rate: float | None) -> Traffic:
        """The trial as its agents are asked for it; fields of later forms of the protocol only where they are used."""
        request = Traffic(
            trial=tag,
            frame_size_bytes=wanted.frame_size_bytes,
            duration_ns=duration_ns,
            backend=wanted.backend,
            sources=tuple(self._source(number, wanted, rate) for number in range(len(self.lanes))),
            sink=self._sink(wanted),
            quiet_ns=QUIET_NS,
            residual_ns=RESIDUAL_NS,
            drain_limit_ns=DRAIN_LIMIT_NS,
        )
        if wanted.batch_frames:
            request = request.but(batch_frames=wanted.batch_frames)
        if wanted.mix != "none":
            parts = tuple(MixPart(frame_size_bytes=size, weight=weight) for size, weight in wanted.parts)
            request = request.but(mix=parts)
        return request

    def _source(self, number: int, wanted: FrameParameters, rate: float | None) -> Source:
        lane = self.lanes[number]
        source = Source(
            interface=lane.interface,
            source_mac=lane.source_mac,
            destination_mac=lane.destination_mac,
            source_address=lane.source_address,
            destination_address=lane.destination_address,
            source_port=_SOURCE_PORT + number,
            destination_port=_DESTINATION_PORT,
            rate_frames_per_second=rate,
            cpu=self.generator_cpu,
        )
        if wanted.vlan:
            source = source.but(vlan=wanted.vlan)
        if wanted.destinations > 1:
            table = self.table or Table(wanted.destinations, 0)
            spread = Destinations(count=wanted.destinations, routes=table.routes, seed=table.seed)
            source = source.but(destinations=spread)
        return source

    def _sink(self, wanted: FrameParameters) -> SinkEnd:
        sink = SinkEnd(interfaces=self.sink_interfaces, cpu=self.sink_cpu)
        return sink.but(backend=wanted.sink) if wanted.sink != "auto" else sink


def send(
    peer: Ends,
    stream: Stream,
    wanted: FrameParameters,
    tag: int,
    duration_ns: int,
    rate: float | None,
    *,
    histograms: bool,
) -> MeasuredPoint:
    """One point: the answer as it came, with what was intended.

    On two hosts the answer is joined from its halves. Whatever fails, no sink is left open.
    """
    request = stream.request(wanted, tag, duration_ns, rate)
    if histograms:
        request = request.but(histograms=True)
    deadline_seconds = 60 + (2 * duration_ns + DRAIN_LIMIT_NS) / 1e9
    if len(peer.agents) == 1:
        reply = peer.generator.ask(TrafficRequest.of(request), deadline_seconds)
    else:
        reply = _by_halves(peer, request, deadline_seconds)
    return MeasuredPoint(rate, duration_ns, reply)


def _by_halves(ends: Ends, request: Traffic, deadline_seconds: float) -> TrafficReply:
    """The sink is opened, the sources send, and the sink is told what they sent; both are given the same request."""
    ends.sink.ask(SinkOpenRequest.of(request))
    try:
        sent = ends.generator.ask(SendRequest.of(request), deadline_seconds)
        received = ends.sink.ask(SinkFinishRequest(sources=totals(sent.sources)), deadline_seconds)
    except GuestError:
        with contextlib.suppress(GuestError):
            ends.sink.ask(SinkCloseRequest(), deadline_seconds)
        raise
    sink_cpu = received.cpu.to_json()
    cpu = {**sent.cpu.to_json(), "sink_processors": sink_cpu.pop("processors", None), **sink_cpu}
    return TrafficReply.of(
        sent,
        sink=received.sink,
        interfaces=(*(sent.interfaces or ()), *received.interfaces),
        cpu=TrafficCpu.from_json(cpu),
    )


def totals(sources: Iterable[SentSource]) -> tuple[SourceTotals, ...]:
    """What the sink is told of each source."""
    return tuple(
        SourceTotals(
            intended_frames=source.intended_frames,
            offered_frames=source.offered_frames,
            unsent_frames=source.unsent_frames,
        )
        for source in sources
    )


def unbalanced(points: Sequence[MeasuredPoint]) -> str | None:
    """Why the books of a point do not balance, or None when all do: integers, so exactly."""
    return next(filter(None, (_unbalanced(point.traffic) for point in points)), None)


def _unbalanced(point: TrafficReply) -> str | None:
    sinks = {sink.source: sink for sink in point.sink.per_source}
    for source in point.sources:
        sink = sinks.get(source.source)
        if sink is None:
            return f"source {source.source} is not in the sink's books"
        if source.offered_frames + source.unsent_frames != source.intended_frames:
            return f"source {source.source}: offered + unsent is not intended"
        if sink.forwarded_frames + sink.lost_frames != source.offered_frames:
            return f"source {source.source}: forwarded + lost is not offered"
    return None if point.sink.drained else "frames still arrived when the drain's deadline had passed"
