"""forward: the guest as an IP router between the generator and the sink (Schlosser et al. 2011; RFC 2544, RFC 5180).

A trial is a sweep: the intended rate doubles from point to point until the guest forwards less than a stated share of
what is offered (or the generator cannot offer more), then one point flat out. Traffic stops and settles before counters
are read. The books of each point must balance, or the trial is invalid. Beside each point stand the counters of every
hop, read before and after it.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from pydantic import Field

from virtoll.experiment import Parameters
from virtoll.hops import surroundings
from virtoll.workloads.base import Bench, Image, Measurement, Metric, Needs
from virtoll.workloads.router import routing
from virtoll.workloads.traffic import FrameParameters, Lane, Stream, send, unbalanced

_MAXIMUM_POINTS = 24
# For estimates only: what a bare host and an emulated guest may forward, and what a point takes besides its traffic.
_FAST_FRAMES_PER_SECOND, _SLOW_FRAMES_PER_SECOND, _BESIDES_SECONDS = 4e6, 1e5, 0.09


class ForwardParameters(FrameParameters):
    """Rates per source in frames/s; the length of a point; where the sweep ends."""

    first_rate_frames_per_second: float = Field(default=4000, gt=0)
    rate_factor: float = Field(default=2.0, gt=1)
    point_milliseconds: int = Field(default=150, ge=10, le=600_000)
    stop_below_share: float = Field(default=0.7, ge=0, le=1)


class Forward:
    """The router experiment."""

    name: ClassVar[str] = "forward"
    title: ClassVar[str] = "IP forwarding"
    resource: ClassVar[str] = "packet path"
    parameter_model: ClassVar[type[Parameters]] = ForwardParameters
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("maximum_forwarded_rate", "frames/s", "higher", "points"),)
    image: ClassVar[Image] = "tiny"

    def needs(self, parameters: Parameters) -> Needs:
        """Nothing but the agent."""
        del parameters
        return Needs()

    def estimate_seconds(self, parameters: Parameters, slowdown: float) -> float:
        """One point a step up to a rate that such a platform may forward, the first one, and one flat out."""
        wanted = _forward(parameters)
        reach = _FAST_FRAMES_PER_SECOND if slowdown < 3 else _SLOW_FRAMES_PER_SECOND
        steps = math.log(max(reach / wanted.first_rate_frames_per_second, 1.0), wanted.rate_factor)
        return (math.ceil(steps) + 2) * (wanted.point_milliseconds / 1000 + _BESIDES_SECONDS)

    def measure(self, bench: Bench, parameters: Parameters) -> Measurement:
        """The sweep; every point is kept as the agent answered it."""
        wanted = _forward(parameters)
        points: list[dict[str, Any]] = []
        rate = wanted.first_rate_frames_per_second
        with routing(bench, wanted):
            while len(points) < _MAXIMUM_POINTS:
                points.append(self._point(bench, wanted, rate))
                if _saturated(points[-1], wanted.stop_below_share):
                    break
                rate *= wanted.rate_factor
            points.append(self._point(bench, wanted, None))
        return Measurement(points=points, problem=unbalanced(points))

    def _point(self, bench: Bench, wanted: ForwardParameters, rate: float | None) -> dict[str, Any]:
        """One point between two readings of its hops. An agent of before ``counters`` knows no histograms either."""
        duration_ns = wanted.point_milliseconds * 1_000_000
        before = bench.hops.read()
        known = before.answers["peer"] is not None
        point = send(bench.peer, _stream(bench, wanted), wanted, bench.next_tag(), duration_ns, rate, histograms=known)
        after = bench.hops.read()
        hops = bench.hops.hops(before, after, wanted.sources)
        return {**point, "hops": hops, "surroundings": surroundings(before, after)}


def _stream(bench: Bench, wanted: ForwardParameters) -> Stream:
    sink = bench.network.sink
    version, tagged = wanted.ip_version, wanted.vlan > 0
    target = sink.ends(version, tagged=tagged).peer
    lanes = tuple(
        Lane(link.peer_interface, link.peer_mac, link.peer_next_hop_mac, link.ends(version, tagged=tagged).peer, target)
        for link in bench.network.sources[: wanted.sources]
    )
    return Stream(lanes, (sink.peer_interface,), bench.generator_cpu, bench.sink_cpu)


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
