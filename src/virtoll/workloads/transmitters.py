"""transmitters: n guests of one platform side by side that send, to one sink outside (Mattos et al. 2012, V).

The agent's generator runs inside each guest, on a link of its own towards the sink, or on one to a NIC that all share
and that may have a rate, as the paper's had. Then each gets its part of that rate. It sends prepared frames past the
guest's stack, or datagrams by a UDP socket through it, as the paper's guests did. The sink is the peer's, and its clock
is the one that rates are made of. Source k of the point is guest k. All are asked to send at once, and begin as
their channels let them. When they did not send together for at least half of the time, the trial is invalid.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from virtoll.agent.hand_over import hand_over_around
from virtoll.agent.operations.traffic import SendRequest, SinkCloseRequest, SinkFinishRequest, SinkOpenRequest, Traffic
from virtoll.errors import GuestCannot, GuestError
from virtoll.experiment.model import Parameters
from virtoll.lab.network import Link
from virtoll.lab.shaping import Shape
from virtoll.runfolder.conditions import Affinity
from virtoll.runfolder.frame_shape import LARGEST_FRAME_BYTES, MOST_SOURCES, SMALLEST_FRAME_BYTES
from virtoll.runfolder.traffic_records import Cpu, Point, SendReply, TrafficReply
from virtoll.workloads.base import Bench, Measurement, Metric, Needs, Workload
from virtoll.workloads.network_path import shaped
from virtoll.workloads.retakes import RequireCalm, retaken
from virtoll.workloads.several_agents import generators_cpu, totals, with_generators
from virtoll.workloads.starvation import why_no_result
from virtoll.workloads.traffic import Backend, FrameParameters, Lane, TrafficStream
from virtoll.workloads.virtual_routers import refuse_shared_links

_LEAST_TOGETHER = 0.5
# From the first guest that is asked to the first frame: by then all must have been asked and stand ready.
_LEAD_SECONDS, _LEAD_SECONDS_A_GUEST = 0.5, 0.25
_BESIDES_SECONDS = 0.3


class TransmittersParameters(Parameters):
    """``transmitters``: how many guests send at once, each at ``rate_frames_per_second`` (0: as fast as it goes).

    ``nic``: ``own``, a link for each guest, or ``shared``, one for all; ``link_rate_bits_per_second``: of the shared
    one (0: as fast as the host makes it).
    ``frame_size_bytes`` is with FCS; the default carries the paper's 1472 bytes of UDP payload. ``sender``: whether the
    guests send prepared ``frames``, or by a ``udp`` socket through their own stack and queues. ``backend``: what sends
    frames; the default is what all kernels have. ``affinity``: whether all guests are on the host CPUs
    of one, each on its own, or all on any.
    """

    transmitters: int = Field(default=2, ge=1, le=MOST_SOURCES, description="how many guests send at once")
    frame_size_bytes: int = Field(
        default=LARGEST_FRAME_BYTES,
        ge=SMALLEST_FRAME_BYTES,
        le=LARGEST_FRAME_BYTES,
        description="frame size with FCS (RFC 2544), in bytes",
    )
    rate_frames_per_second: float = Field(
        default=0, ge=0, le=1e8, description="rate of each guest, in frames/s; 0: as fast as it goes"
    )
    duration_milliseconds: int = Field(default=1000, ge=100, le=600_000, description="how long they send, in ms")
    sender: Literal["frames", "udp"] = Field(
        default="frames", description="frames: prepared ones, past the guest's stack; udp: a UDP socket, through it"
    )
    backend: Backend = Field(
        default="af-packet", description="what sends frames inside the guests; the default is what all kernels have"
    )
    nic: Literal["own", "shared"] = Field(default="own", description="own: a link for each guest; shared: one for all")
    link_rate_bits_per_second: int = Field(
        default=0, ge=0, le=10**12, description="rate of the shared link, in bit/s; 0: as fast as the host makes it"
    )
    affinity: Affinity = Field(
        default="shared", description="host CPUs of the guests: all on one guest's, each on its own, or all on any"
    )

    @model_validator(mode="after")
    def _rate_is_of_the_shared_nic(self) -> Self:
        if self.link_rate_bits_per_second and self.nic != "shared":
            raise ValueError("link_rate_bits_per_second is of the NIC that all share; set nic: shared, or leave it out")
        return self

    @model_validator(mode="after")
    def _backend_is_of_frames(self) -> Self:
        if self.sender == "udp" and "backend" in self.model_fields_set:
            raise ValueError("backend is what sends frames; set sender: frames, or leave it out")
        return self

    @property
    def frames(self) -> FrameParameters:
        """The shape of what is sent."""
        return FrameParameters(frame_size_bytes=self.frame_size_bytes, backend=self.backend)

    @property
    def duration_ns(self) -> int:
        """How long each guest sends."""
        return self.duration_milliseconds * 1_000_000


class Transmitters(Workload[TransmittersParameters]):
    """Guests that send, side by side."""

    name: ClassVar[str] = "transmitters"
    title: ClassVar[str] = "Transmitting guests side by side"
    about: ClassVar[str] = "several guests that send at once"
    origin: ClassVar[str] = "Mattos 2012"
    resource: ClassVar[str] = "packet path"
    loads_peer: ClassVar[bool] = True
    parameter_model = TransmittersParameters
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("transmitted_rate", "frames/s", "higher", "points"),)

    def needs(self) -> Needs:
        """As many guests as transmitters."""
        parameters = self.parameters
        return Needs(
            guests=parameters.transmitters,
            affinity=parameters.affinity,
            mtu_bytes=parameters.frames.mtu_bytes,
            shared_nic=parameters.nic == "shared",
        )

    def estimate_seconds(self, slowdown: float) -> float:
        """One point, whatever the platform; starts of the guests are not in it."""
        del slowdown
        parameters = self.parameters
        return _lead_seconds(parameters.transmitters) + parameters.duration_milliseconds / 1000 + _BESIDES_SECONDS

    def measure(self, bench: Bench) -> Measurement:
        """One point: the sink is opened, all guests send, the sink gets the counts of what they sent."""
        parameters = self.parameters
        benches = (bench, *bench.co_located)
        if parameters.nic == "own":
            refuse_shared_links(benches)
        links = [_towards_the_sink(member, parameters) for member in benches]
        with shaped(bench, links[0], Shape(parameters.link_rate_bits_per_second)) as shaped_by:
            point = retaken(partial(_point, benches, links, parameters))
        together = _together(point)
        problem = why_no_result([point]) or apart(point, together)
        result = {"together_share": together, "shaped_by": shaped_by}
        return Measurement(result=result, points=[point], problem=problem)


def _point(
    benches: Sequence[Bench], links: Sequence[Link], parameters: TransmittersParameters, require_calm: RequireCalm
) -> Point:
    """What all guests sent at once."""
    request = _request(benches, links, parameters, benches[0].next_tag())
    with benches[0].timekeeper.measuring():
        with hand_over_around(benches[0].hand_overs) as around:
            reply, guests_cpu = _send_together(benches, request, 30 + 2 * parameters.duration_ns / 1e9)
        point = Point.from_record(
            reply,
            intended_rate_frames_per_second=parameters.rate_frames_per_second or None,
            duration_ns=parameters.duration_ns,
            guests_cpu=guests_cpu,
            shared_link=parameters.nic == "shared",
            shared_cpus=parameters.transmitters > 1 and parameters.affinity != "apart",
            hand_over=around.span,
        )
        require_calm(point)
    return point


def _towards_the_sink(bench: Bench, parameters: TransmittersParameters) -> Link:
    link = bench.network.sink if parameters.nic == "own" else bench.network.shared
    if link is None:
        raise GuestCannot("its guests have no NIC in common that leads to the sink; set nic: own")
    return link


def _request(benches: Sequence[Bench], links: Sequence[Link], parameters: TransmittersParameters, tag: int) -> Traffic:
    lanes = []
    for bench, link in zip(benches, links, strict=True):
        ends = link.ends()
        interface = bench.hops.guest_names[link.guest_mac]
        lanes.append(Lane(interface, link.guest_mac, link.guest_next_hop_mac, ends.guest, ends.peer))
    sinks = tuple(dict.fromkeys(link.peer_interface for link in links))
    stream = TrafficStream(tuple(lanes), sinks, None, benches[0].sink_cpu)
    rate = parameters.rate_frames_per_second or None
    request = stream.request(parameters.frames, tag, parameters.duration_ns, rate)
    return request.replace(backend="udp") if parameters.sender == "udp" else request


def _send_together(
    benches: Sequence[Bench], request: Traffic, deadline_seconds: float
) -> tuple[TrafficReply, tuple[Cpu, ...]]:
    """The answers of all guests and of the sink, joined as ``traffic`` would have answered; the guests' CPU times."""
    from concurrent.futures import ThreadPoolExecutor  # it brings in logging, which every start would pay for

    sink = benches[0].peer.sink
    sink.ask(SinkOpenRequest.from_record(request))
    try:
        with ThreadPoolExecutor(max_workers=len(benches)) as threads:
            begins = time.monotonic() + _lead_seconds(len(benches))
            futures = [
                threads.submit(_send, bench, request, number, begins, deadline_seconds)
                for number, bench in enumerate(benches)
            ]
            sent = [future.result() for future in futures]
        sources = tuple(reply.sources[0].replace(source=number) for number, reply in enumerate(sent))
        received = sink.ask(SinkFinishRequest(sources=totals(sources)), deadline_seconds)
    except GuestError:
        with contextlib.suppress(GuestError):
            sink.ask(SinkCloseRequest(), deadline_seconds)
        raise
    guests = tuple(reply.cpu for reply in sent)  # by the guests' clocks
    cpu = with_generators(received.cpu, generators_cpu(guests))
    joined = TrafficReply.from_record(
        sent[0], sources=sources, sink=received.sink, interfaces=received.interfaces, cpu=cpu
    )
    return joined, guests


def _lead_seconds(guests: int) -> float:
    return _LEAD_SECONDS + _LEAD_SECONDS_A_GUEST * guests


def _send(bench: Bench, request: Traffic, number: int, begins: float, deadline_seconds: float) -> SendReply:
    """One guest's half; all begin at the same moment, so that who is asked last need not wait for those that send."""
    source = request.sources[number].replace(number=number)
    delay_ns = max(0, int((begins - time.monotonic()) * 1e9))
    return bench.guest.ask(SendRequest.from_record(request, sources=(source,), delay_ns=delay_ns), deadline_seconds)


def apart(point: TrafficReply, together: float | None) -> str | None:
    """Why the guests did not share what they sent over, in one sentence; None: they did, or nobody sent."""
    if any(source.offered_frames for source in point.sources):
        lacking = [number for number, source in enumerate(point.sink.per_source) if not source.forwarded_frames]
        if lacking:
            return f"no frame of guest {lacking[0] + 1} of {len(point.sources)} arrived"
    if together is not None and together < _LEAST_TOGETHER:
        return f"the guests sent together for only {together:.0%} of the time: lengthen duration_milliseconds"
    return None


def _together(point: TrafficReply) -> float | None:
    """For which share of the time in which any guest's frames arrived those of all did; None where some's did not."""
    begins, ends = [], []
    for source in point.sink.per_source:
        if source.first_received_monotonic_ns is None or source.last_received_monotonic_ns is None:
            return None
        begins.append(source.first_received_monotonic_ns)
        ends.append(source.last_received_monotonic_ns)
    whole, common = max(ends) - min(begins), min(ends) - max(begins)
    return max(0, common) / whole if whole > 0 else None
