"""transmitters: n guests of one platform side by side that send, to one sink outside (Mattos et al. 2012, V).

The agent's generator runs inside each guest, on the link towards the sink; the sink is the peer's, and its clock is the
one that rates are made of. Source k of the point is guest k. All are asked to send at once, and begin as their channels
let them: when they did not send together for at least half of the time, the trial is invalid.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from pydantic import Field

from virtoll.agent.client import Answer
from virtoll.errors import GuestError
from virtoll.experiment.model import Parameters
from virtoll.runfolder.frame_shape import MOST_SOURCES
from virtoll.workloads.base import Bench, Measurement, Metric, Needs, Workload
from virtoll.workloads.traffic import TOLD, Backend, FrameParameters, Lane, Stream, unbalanced
from virtoll.workloads.virtual_routers import refuse_shared_links

_LEAST_TOGETHER = 0.5
# From the first guest that is asked to the first frame: by then all must have been asked and stand ready.
_LEAD_SECONDS, _LEAD_SECONDS_A_GUEST = 0.5, 0.25
_BESIDES_SECONDS = 0.3


class TransmittersParameters(Parameters):
    """``transmitters``: how many guests send at once, each at ``rate_frames_per_second`` (0: as fast as it goes).

    ``frame_size_bytes`` is without FCS; the default carries the paper's 1472 bytes of UDP payload. ``backend``: what
    sends inside the guests; the default is what all kernels have.
    """

    transmitters: int = Field(default=2, ge=1, le=MOST_SOURCES)
    frame_size_bytes: int = Field(default=1514, ge=64, le=1518)
    rate_frames_per_second: float = Field(default=0, ge=0, le=1e8)
    duration_milliseconds: int = Field(default=1000, ge=100, le=600_000)
    backend: Backend = "af-packet"

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
    resource: ClassVar[str] = "packet path"
    parameter_model = TransmittersParameters
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("transmitted_rate", "frames/s", "higher", "points"),)

    def needs(self) -> Needs:
        """As many guests as transmitters."""
        return Needs(guests=self.parameters.transmitters, mtu_bytes=self.parameters.frames.mtu_bytes)

    def estimate_seconds(self, slowdown: float) -> float:
        """One point, whatever the platform; starts of the guests are not in it."""
        del slowdown
        wanted = self.parameters
        return _lead_seconds(wanted.transmitters) + wanted.duration_milliseconds / 1000 + _BESIDES_SECONDS

    def measure(self, bench: Bench) -> Measurement:
        """One point: the sink is opened, all guests send, the sink is told what they sent."""
        wanted = self.parameters
        benches = (bench, *bench.beside)
        refuse_shared_links(benches)
        request = _request(benches, wanted, bench.next_tag())
        point = _send_together(benches, request, 30 + 2 * wanted.duration_ns / 1e9)
        point = {
            "intended_rate_frames_per_second": wanted.rate_frames_per_second or None,
            "duration_ns": wanted.duration_ns,
            **point,
        }
        together = _together(point)
        problem = unbalanced([point])
        if problem is None and together is not None and together < _LEAST_TOGETHER:
            problem = f"the guests sent together for only {together:.0%} of the time: lengthen duration_milliseconds"
        return Measurement(result={"together_share": together}, points=[point], problem=problem)


def _request(benches: Sequence[Bench], wanted: TransmittersParameters, tag: int) -> Answer:
    lanes = []
    for one in benches:
        link = one.network.sink
        ends = link.ends()
        interface = one.hops.guest_names[link.guest_mac]
        lanes.append(Lane(interface, link.guest_mac, link.guest_next_hop_mac, ends.guest, ends.peer))
    sinks = tuple(one.network.sink.peer_interface for one in benches)
    stream = Stream(tuple(lanes), sinks, None, benches[0].sink_cpu)
    return stream.request(wanted.frames, tag, wanted.duration_ns, wanted.rate_frames_per_second or None)


def _send_together(benches: Sequence[Bench], request: Answer, deadline_seconds: float) -> dict[str, Any]:
    """The answers of all guests and of the sink, joined as ``traffic`` would have answered."""
    sink = benches[0].peer.sink
    sink.call("sink-open", **request)
    try:
        with ThreadPoolExecutor(max_workers=len(benches)) as threads:
            begins = time.monotonic() + _lead_seconds(len(benches))
            asked = [
                threads.submit(_send, one, request, number, begins, deadline_seconds)
                for number, one in enumerate(benches)
            ]
            sent = [one.result() for one in asked]
        sources = [{**one["sources"][0], "source": number} for number, one in enumerate(sent)]
        told = [{key: source[key] for key in TOLD} for source in sources]
        received = sink.call("sink-finish", deadline_seconds, sources=told)
    except GuestError:
        with contextlib.suppress(GuestError):
            sink.call("sink-close", deadline_seconds)
        raise
    shared = {key: sent[0].get(key) for key in ("backend", "backend_reason", "frame_size_bytes", "sizes_bytes")}
    guests = [one["cpu"] for one in sent]  # by the guests' clocks
    names = ("generator_user_ns", "generator_system_ns", "generator_cpu_ns")
    cpu = {name: sum(one[name] for one in guests) for name in names if all(name in one for one in guests)}
    return {
        **shared,
        "sources": sources,
        "sink": received["sink"],
        "interfaces": received.get("interfaces"),
        "cpu": {**cpu, "generator_cores": [None] * len(guests), **received["cpu"]},
        "guests_cpu": guests,
    }


def _lead_seconds(guests: int) -> float:
    return _LEAD_SECONDS + _LEAD_SECONDS_A_GUEST * guests


def _send(bench: Bench, request: Answer, number: int, begins: float, deadline_seconds: float) -> Answer:
    """One guest's half; all begin at the same moment, so that who is asked last need not wait for those that send."""
    own = {**request["sources"][number], "number": number}
    delay_ns = max(0, int((begins - time.monotonic()) * 1e9))
    return bench.guest.call("send", deadline_seconds, **{**request, "sources": [own], "delay_ns": delay_ns})


def _together(point: dict[str, Any]) -> float | None:
    """For which share of the time in which any guest's frames arrived those of all did; None where some's did not."""
    seen = [
        (one["first_received_monotonic_ns"], one["last_received_monotonic_ns"]) for one in point["sink"]["per_source"]
    ]
    if any(first is None or last is None for first, last in seen):
        return None
    whole = max(last for _, last in seen) - min(first for first, _ in seen)
    common = min(last for _, last in seen) - max(first for first, _ in seen)
    return max(0, common) / whole if whole > 0 else None
