"""forward: the guest as an IPv4 router between the generator and the sink (Schlosser et al. 2011; RFC 2544, RFC 2889).

A trial is a sweep: the intended rate doubles from point to point until the guest forwards less than a stated share of
what is offered (or the generator cannot offer more), then one point flat out. Traffic stops and settles before counters
are read. The books of each point must balance, or the trial is invalid.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from virtoll.agent import Answer
from virtoll.experiment import Parameters
from virtoll.workloads.base import Bench, Measurement, Metric

_SOURCE_PORT, _DESTINATION_PORT = 1024, 9
_QUIET_NS, _DRAIN_LIMIT_NS = 20_000_000, 2_000_000_000
_MAXIMUM_POINTS = 24


class ForwardParameters(Parameters):
    """Frame size without FCS; rates per source in frames/s; the length of a point; where the sweep ends."""

    frame_size_bytes: int = Field(default=64, ge=64, le=1518)
    sources: int = Field(default=1, ge=1, le=3)
    first_rate_frames_per_second: float = Field(default=4000, gt=0)
    rate_factor: float = Field(default=2.0, gt=1)
    point_milliseconds: int = Field(default=150, ge=10, le=600_000)
    stop_below_share: float = Field(default=0.7, ge=0, le=1)


class Forward:
    """The router experiment."""

    name: ClassVar[str] = "forward"
    title: ClassVar[str] = "IPv4 forwarding"
    resource: ClassVar[str] = "packet path"
    parameter_model: ClassVar[type[Parameters]] = ForwardParameters
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("maximum_forwarded_rate", "frames/s", "higher", "points"),)

    def estimate_seconds(self, parameters: Parameters, slowdown: float) -> float:
        """One point for each doubling up to a rate that a bare host may forward, fewer where the CPU is slow."""
        wanted = _forward(parameters)
        points = 9 if slowdown < 3 else 6
        return points * (wanted.point_milliseconds / 1000 + 0.06)

    def measure(self, bench: Bench, parameters: Parameters) -> Measurement:
        """The sweep; every point is kept as the agent answered it."""
        wanted = _forward(parameters)
        points: list[dict[str, Any]] = []
        rate = wanted.first_rate_frames_per_second
        while len(points) < _MAXIMUM_POINTS:
            points.append(self._point(bench, wanted, rate))
            if _saturated(points[-1], wanted.stop_below_share):
                break
            rate *= wanted.rate_factor
        points.append(self._point(bench, wanted, None))
        return Measurement(points=points, problem=next(filter(None, map(_unbalanced, points)), None))

    def _point(self, bench: Bench, wanted: ForwardParameters, rate: float | None) -> dict[str, Any]:
        duration_ns = wanted.point_milliseconds * 1_000_000
        answer = bench.peer.call(
            "traffic", deadline_seconds=30 + 2 * duration_ns / 1e9, **self._request(bench, wanted, rate)
        )
        return {"intended_rate_frames_per_second": rate, "duration_ns": duration_ns, **answer}

    def _request(self, bench: Bench, wanted: ForwardParameters, rate: float | None) -> Answer:
        sink = bench.network.sink
        sources = [
            {
                "interface": link.peer_interface,
                "source_mac": link.peer_mac,
                "destination_mac": link.guest_mac,
                "source_address": link.peer_address,
                "destination_address": sink.peer_address,
                "source_port": _SOURCE_PORT + number,
                "destination_port": _DESTINATION_PORT,
                "rate_frames_per_second": rate,
                "cpu": bench.generator_cpu,
            }
            for number, link in enumerate(bench.network.sources[: wanted.sources])
        ]
        return {
            "trial": bench.next_tag(),
            "frame_size_bytes": wanted.frame_size_bytes,
            "duration_ns": wanted.point_milliseconds * 1_000_000,
            "backend": "auto",
            "sources": sources,
            "sink": {"interfaces": [sink.peer_interface], "cpu": bench.sink_cpu},
            "quiet_ns": _QUIET_NS,
            "drain_limit_ns": _DRAIN_LIMIT_NS,
        }


def _forward(parameters: Parameters) -> ForwardParameters:
    if not isinstance(parameters, ForwardParameters):
        raise TypeError("ForwardParameters expected")
    return parameters


def _totals(point: dict[str, Any]) -> tuple[int, int, int]:
    """Intended, offered and forwarded frames of all sources."""
    intended = sum(source["intended_frames"] for source in point["sources"])
    offered = sum(source["offered_frames"] for source in point["sources"])
    return intended, offered, sum(source["forwarded_frames"] for source in point["sink"]["per_source"])


def _saturated(point: dict[str, Any], share: float) -> bool:
    """The guest forwards less than ``share`` of what is offered, or the generator offers less than that of intended."""
    intended, offered, forwarded = _totals(point)
    return forwarded < share * offered or offered < share * intended


def _unbalanced(point: dict[str, Any]) -> str | None:
    """Why the books of a point do not balance, or None when they do: integers, so exactly."""
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
