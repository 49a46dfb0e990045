"""What shapes a stream of frames, and how it is asked of the agent: shared by ``forward`` and the calibration.

Main types: ``FrameParameters`` (a ``FrameShape``, what sends it and what counts it: what the instrument's own ceiling
depends on) and ``Lane`` (where one source's frames leave and what is written into them). It must not know what the
frames are sent through.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from virtoll.agent.client import Answer, Ends
from virtoll.errors import GuestError
from virtoll.experiment.model import Parameters
from virtoll.runfolder.frame_shape import FrameShape

Backend = Literal["auto", "live-frames", "af-xdp", "af-packet"]
BACKENDS: tuple[str, ...] = get_args(Backend)[1:]
# How long the sink waits after the last frame: where all have arrived, where some are missing (a guest that was off its
# CPU goes on with what it held), and at most.
QUIET_NS, RESIDUAL_NS, DRAIN_LIMIT_NS = 20_000_000, 500_000_000, 5_000_000_000
TOLD = ("intended_frames", "offered_frames", "unsent_frames")
_SOURCE_PORT, _DESTINATION_PORT = 1024, 9
MOST_ROUTES = 2_000_000  # as in the agent (crates/wire/src/routes.rs)


class FrameParameters(Parameters, FrameShape):
    """The shape of frames, what sends and what counts (``auto``: the best that the host allows)."""

    backend: Backend = "auto"
    sink: Literal["auto", "xdp", "tpacket"] = "auto"

    @property
    def guests(self) -> int:
        """How many guests are sent to at once, each by so many sources."""
        return 1

    def shape(self) -> FrameParameters:
        """These fields alone, of all guests at once: equal for all parameters that one calibration serves."""
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

    def request(self, wanted: FrameParameters, tag: int, duration_ns: int, rate: float | None) -> Answer:
        """The ``traffic`` request; fields that are as they were in the protocol's first form are left out."""
        sources: list[Answer] = [
            {
                "interface": lane.interface,
                "source_mac": lane.source_mac,
                "destination_mac": lane.destination_mac,
                "source_address": lane.source_address,
                "destination_address": lane.destination_address,
                "source_port": _SOURCE_PORT + number,
                "destination_port": _DESTINATION_PORT,
                "rate_frames_per_second": rate,
                "cpu": self.generator_cpu,
            }
            for number, lane in enumerate(self.lanes)
        ]
        sink: Answer = {"interfaces": list(self.sink_interfaces), "cpu": self.sink_cpu}
        request: Answer = {
            "trial": tag,
            "frame_size_bytes": wanted.frame_size_bytes,
            "duration_ns": duration_ns,
            "backend": wanted.backend,
            "sources": sources,
            "sink": sink,
            "quiet_ns": QUIET_NS,
            "residual_ns": RESIDUAL_NS,
            "drain_limit_ns": DRAIN_LIMIT_NS,
        }
        if wanted.sink != "auto":
            sink["backend"] = wanted.sink
        if wanted.batch_frames:
            request["batch_frames"] = wanted.batch_frames
        if wanted.mix != "none":
            request["mix"] = [{"frame_size_bytes": size, "weight": weight} for size, weight in wanted.parts]
        if wanted.vlan:
            for source in sources:
                source["vlan"] = wanted.vlan
        if wanted.destinations > 1:
            table = self.table or Table(wanted.destinations, 0)
            for source in sources:
                source["destinations"] = {"count": wanted.destinations, "routes": table.routes, "seed": table.seed}
        return request


def send(
    peer: Ends,
    stream: Stream,
    wanted: FrameParameters,
    tag: int,
    duration_ns: int,
    rate: float | None,
    *,
    histograms: bool,
) -> dict[str, Any]:
    """One point as the run folder stores it: the answer as it came, with what was intended.

    On two hosts the answer is joined from its halves. Whatever fails, no sink is left open.
    """
    request = stream.request(wanted, tag, duration_ns, rate)
    if histograms:
        request["histograms"] = True
    deadline_seconds = 60 + (2 * duration_ns + DRAIN_LIMIT_NS) / 1e9
    if len(peer.agents) == 1:
        answer = peer.generator.call("traffic", deadline_seconds, **request)
    else:
        answer = _by_halves(peer, request, deadline_seconds)
    return {"intended_rate_frames_per_second": rate, "duration_ns": duration_ns, **answer}


def _by_halves(ends: Ends, request: Answer, deadline_seconds: float) -> Answer:
    """The sink is opened, the sources send, and the sink is told what they sent; both are given the same request."""
    ends.sink.call("sink-open", **request)
    try:
        sent = ends.generator.call("send", deadline_seconds, **request)
        told = [{key: source[key] for key in TOLD} for source in sent["sources"]]
        received = ends.sink.call("sink-finish", deadline_seconds, sources=told)
    except GuestError:
        with contextlib.suppress(GuestError):
            ends.sink.call("sink-close", deadline_seconds)
        raise
    sink_cpu = {key: value for key, value in received["cpu"].items() if key != "processors"}
    cpu = {**sent["cpu"], **sink_cpu, "sink_processors": received["cpu"]["processors"]}
    interfaces = [*sent["interfaces"], *received["interfaces"]]
    return {**sent, "sink": received["sink"], "interfaces": interfaces, "cpu": cpu}


def unbalanced(points: Sequence[dict[str, Any]]) -> str | None:
    """Why the books of a point do not balance, or None when all do: integers, so exactly."""
    return next(filter(None, map(_unbalanced, points)), None)


def _unbalanced(point: dict[str, Any]) -> str | None:
    sinks = {sink["source"]: sink for sink in point["sink"]["per_source"]}
    for source in point["sources"]:
        sink = sinks.get(source["source"])
        if sink is None:
            return f"source {source['source']} is not in the sink's books"
        if source["offered_frames"] + source["unsent_frames"] != source["intended_frames"]:
            return f"source {source['source']}: offered + unsent is not intended"
        if sink["forwarded_frames"] + sink["lost_frames"] != source["offered_frames"]:
            return f"source {source['source']}: forwarded + lost is not offered"
    return None if point["sink"]["drained"] else "frames still arrived when the drain's deadline had passed"
