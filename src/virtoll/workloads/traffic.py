"""What shapes a stream of frames, and how it is asked of the agent: shared by ``forward`` and the calibration.

Main types: ``FrameParameters`` (a ``FrameShape``, what sends it and what counts it: what the instrument's own ceiling
depends on) and ``Lane`` (where one source's frames leave and what is written into them). It must not know what the
frames are sent through.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import Field

from virtoll.agent.client import TrafficAgents
from virtoll.agent.hand_over import HandOverReader, hand_over_around
from virtoll.agent.operations.traffic import (
    Bursts,
    Destinations,
    MixPart,
    SinkEnd,
    Source,
    Traffic,
    TrafficRequest,
)
from virtoll.experiment.model import Parameters
from virtoll.experiment.topology import Testbed
from virtoll.runfolder.frame_shape import FrameShape
from virtoll.runfolder.traffic_records import Point, TrafficReply
from virtoll.system.locks import turn
from virtoll.workloads.several_agents import by_several

Backend = Literal["auto", "live-frames", "af-xdp", "af-packet"]
BACKENDS: tuple[str, ...] = get_args(Backend)[1:]
# How long the sink waits after the last frame: where all have arrived, where some are missing (a guest that was off its
# CPU goes on with what it held), and at most.
QUIET_NS, RESIDUAL_NS, DRAIN_LIMIT_NS = 20_000_000, 500_000_000, 5_000_000_000
_SOURCE_PORT, _DESTINATION_PORT = 1024, 9
_KEY_BYTES = 16
LONGEST_TURN_SECONDS = 5.0
"""Runs on one host pin their generators to the same CPU: one sends a point at a time, and waits so long for others."""
MOST_ROUTES = 2_000_000  # as in the agent (crates/wire/src/routes.rs)


class FrameParameters(Parameters, FrameShape):
    """The shape of frames, what sends and what counts (``auto``: the best that the host allows)."""

    backend: Backend = Field(default="auto", description="what sends the frames; auto: the best that the host allows")
    sink: Literal["auto", "xdp", "tpacket"] = Field(
        default="auto", description="what counts the frames; auto: the best that the host allows"
    )

    def conflict(self, testbed: Testbed | None) -> tuple[str, str] | None:
        """The end that sends and the one that counts are one agent's for both directions."""
        if self.both_directions and testbed is not None and not testbed.one_host:
            return "directions", (
                "both directions need generator and sink on one host, and 'testbed' has them on several; "
                "set directions one, or name one host for both"
            )
        return None

    @property
    def guests(self) -> int:
        """How many guests are sent to at once, each by so many sources."""
        return 1

    def shape(self) -> FrameParameters:
        """These fields alone, of all guests at once: equal for all parameters that one calibration serves.

        It has a pair for each source, whatever these leave a guest by.
        """
        values = self.model_dump(include=set(FrameParameters.model_fields))
        return FrameParameters.model_validate({**values, "sources": self.sources * self.guests, "egress": "one"})


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
class TrafficStream:
    """Where traffic of any rate goes: lanes, the sink's interfaces, and the CPUs of generator and sink.

    ``table``: what several destinations are spread over; without one (in a calibration) over one of as many routes.
    ``hand_overs`` reads around each point how far apart its CPUs are; None: nobody does.
    """

    lanes: tuple[Lane, ...]
    sink_interfaces: tuple[str, ...]
    generator_cpu: int | None
    sink_cpu: int | None
    table: Table | None = None
    hand_overs: HandOverReader | None = None

    def request(self, parameters: FrameParameters, tag: int, duration_ns: int, rate: float | None) -> Traffic:
        """The trial as its agents are asked for it; fields of later forms of the protocol only where they are used.

        Each source has a key of its own, so that what is between it and the sink can write no frame that counts.
        """
        request = Traffic(
            trial=tag,
            frame_size_bytes=parameters.frame_size_bytes,
            duration_ns=duration_ns,
            backend=parameters.backend,
            sources=tuple(self._source(number, parameters, rate) for number in range(len(self.lanes))),
            sink=self._sink(parameters),
            quiet_ns=QUIET_NS,
            residual_ns=RESIDUAL_NS,
            drain_limit_ns=DRAIN_LIMIT_NS,
        )
        if parameters.batch_frames:
            request = request.replace(batch_frames=parameters.batch_frames)
        if parameters.mix != "none":
            parts = tuple(MixPart(frame_size_bytes=size, weight=weight) for size, weight in parameters.parts)
            request = request.replace(mix=parts)
        return request

    def _source(self, number: int, parameters: FrameParameters, rate: float | None) -> Source:
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
            key=secrets.token_hex(_KEY_BYTES),
        )
        if parameters.vlan:
            source = source.replace(vlan=parameters.vlan)
        if parameters.destinations > 1:
            table = self.table or Table(parameters.destinations, 0)
            spread = Destinations(count=parameters.destinations, routes=table.routes, seed=table.seed)
            source = source.replace(destinations=spread)
        return source

    def _sink(self, parameters: FrameParameters) -> SinkEnd:
        sink = SinkEnd(interfaces=self.sink_interfaces, cpu=self.sink_cpu)
        return sink.replace(backend=parameters.sink) if parameters.sink != "auto" else sink


@dataclass(frozen=True)
class Metering:
    """The host CPUs whose idle time is read around a point, and how often a paced sender wakes."""

    cpus: tuple[int, ...]
    wake_ns: int


def send(
    peer: TrafficAgents,
    stream: TrafficStream,
    parameters: FrameParameters,
    tag: int,
    duration_ns: int,
    rate: float | None,
    *,
    histograms: bool = False,
    metering: Metering | None = None,
    bursts: Bursts | None = None,
) -> Point:
    """One point: the answer as it came, with what was intended.

    With ``bursts``, flat out, the lanes take turns. On several hosts the answer is joined from its parts. Whatever
    fails, no sink is left open. Points of several runs that one host measures take turns.
    """
    request = stream.request(parameters, tag, duration_ns, rate)
    if histograms:
        request = request.replace(histograms=True)
    if metering is not None:
        request = request.replace(idle_of=metering.cpus, wake_ns=metering.wake_ns)
    longest_ns = duration_ns
    if bursts is not None:
        request = request.replace(bursts=bursts)
        longest_ns = len(stream.lanes) * bursts.count * (bursts.burst_ns + bursts.pause_ns)
    deadline_seconds = 60 + (2 * longest_ns + DRAIN_LIMIT_NS) / 1e9
    with turn(LONGEST_TURN_SECONDS), hand_over_around(stream.hand_overs) as around:
        if len(peer.agents) == 1:
            reply, clocks = peer.generator.ask(TrafficRequest.from_record(request), deadline_seconds), None
        else:
            reply, clocks = by_several(peer, request, deadline_seconds)
    return Point.from_record(
        reply,
        intended_rate_frames_per_second=rate,
        duration_ns=duration_ns,
        generator_clocks=clocks,
        hand_over=around.span,
    )


def unbalanced(points: Sequence[Point]) -> str | None:
    """Why the counts of a point are no result, or None when all are.

    Its books do not balance (integers, so exactly), or the sink's wait was over before the guest had forwarded what it
    held.
    """
    return next(filter(None, (_unbalanced(point) for point in points)), None) or _late(points)


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
    limit = f"{DRAIN_LIMIT_NS / 1e9:g} s"
    if not point.sink.drained:
        return (
            f"frames still arrived {limit} after the last was sent: the guest got almost no CPU time, "
            "or a queue is as long"
        )
    offered = sum(source.offered_frames for source in point.sources)
    # Overload fills a guest's queues, and what they held comes out afterwards, unless the guest did not run at all.
    if offered and not any(sink.forwarded_frames for sink in point.sink.per_source):
        return f"none of {offered} frames arrived within {limit}: the guest did not get to run, or it forwards nothing"
    return None


def _late(points: Sequence[Point]) -> str | None:
    """A point of which more was forwarded after its books were closed than before, as the point after it tells."""
    for point, after in itertools.pairwise(points):
        counted = sum(sink.forwarded_frames for sink in point.sink.per_source)
        late = after.sink.late_trial_frames
        if late > counted:
            return (
                f"{counted} frames of a point arrived in time and {late} when it was over: "
                "the guest got almost no CPU time"
            )
    return None
