"""forward: the guest as an IP router between the generator and the sink (Schlosser et al. 2011; RFC 2544, RFC 5180).

``routes`` gives it a table to look up in (Mattos et al. 2012, section V), loaded before the sweep and taken away after.

A trial is a sweep: the intended rate doubles from point to point until the guest forwards less than a stated share of
what is offered (or the generator cannot offer more), then one point flat out. Traffic stops and settles before counters
are read. The books of each point must balance, or the trial is invalid. Beside each point stand the counters of every
hop, read before and after it.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from virtoll.experiment import Parameters
from virtoll.hops import surroundings
from virtoll.workloads.base import Bench, Image, Measurement, Metric, Needs
from virtoll.workloads.router import routing
from virtoll.workloads.routing_table import routing_table, table_memory_bytes, table_seconds
from virtoll.workloads.traffic import (
    MOST_DESTINATIONS,
    MOST_ROUTES,
    FrameParameters,
    Lane,
    Stream,
    Table,
    send,
    unbalanced,
)

_MAXIMUM_POINTS = 24
# For estimates only: what a bare host and an emulated guest may forward, and what a point takes besides its traffic.
_FAST_FRAMES_PER_SECOND, _SLOW_FRAMES_PER_SECOND, _BESIDES_SECONDS = 4e6, 1e5, 0.09


class ForwardParameters(FrameParameters):
    """Rates per source in frames/s; the length of a point; where the sweep ends.

    ``routes``: the size of the guest's routing table besides the routes to its links; 0 for none. With a table, and
    unless it is said otherwise, frames go to 65536 destinations that are spread over it. ``routes_seed`` makes the table.
    """

    first_rate_frames_per_second: float = Field(default=4000, gt=0)
    rate_factor: float = Field(default=2.0, gt=1)
    point_milliseconds: int = Field(default=150, ge=10, le=600_000)
    stop_below_share: float = Field(default=0.7, ge=0, le=1)
    routes: int = Field(default=0, ge=0, le=MOST_ROUTES)
    routes_seed: int = Field(default=1, ge=0, lt=2**63)

    @model_validator(mode="before")
    @classmethod
    def _goes_all_over_the_table(cls, given: Any) -> Any:
        """A table that one destination is looked up in would be measured as one route is."""
        if isinstance(given, dict) and given.get("routes") and "destinations" not in given:
            return {**given, "destinations": MOST_DESTINATIONS}
        return given

    @model_validator(mode="after")
    def _has_a_table_for_them(self) -> Self:
        if self.routes and self.ip_version != 4:
            raise ValueError("the table of 'routes' is one of IPv4; set ip_version 4, or routes 0")
        if self.destinations > 1 and not self.routes:
            raise ValueError("several destinations need a table that leads to them; set routes, or destinations 1")
        return self


class Forward:
    """The router experiment."""

    name: ClassVar[str] = "forward"
    title: ClassVar[str] = "IP forwarding"
    resource: ClassVar[str] = "packet path"
    parameter_model: ClassVar[type[Parameters]] = ForwardParameters
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("maximum_forwarded_rate", "frames/s", "higher", "points"),)
    image: ClassVar[Image] = "tiny"

    def needs(self, parameters: Parameters) -> Needs:
        """Nothing but the agent, and room for the table."""
        routes = _forward(parameters).routes
        return Needs(memory_bytes=table_memory_bytes(routes) if routes else 0)

    def estimate_seconds(self, parameters: Parameters, slowdown: float) -> float:
        """One point a step up to a rate that such a platform may forward, the first one, and one flat out."""
        wanted = _forward(parameters)
        reach = _FAST_FRAMES_PER_SECOND if slowdown < 3 else _SLOW_FRAMES_PER_SECOND
        steps = math.log(max(reach / wanted.first_rate_frames_per_second, 1.0), wanted.rate_factor)
        points = (math.ceil(steps) + 2) * (wanted.point_milliseconds / 1000 + _BESIDES_SECONDS)
        return points + table_seconds(wanted.routes, slowdown)

    def measure(self, bench: Bench, parameters: Parameters) -> Measurement:
        """The sweep; every point is kept as the agent answered it."""
        wanted = _forward(parameters)
        points: list[dict[str, Any]] = []
        rate = wanted.first_rate_frames_per_second
        with routing(bench, wanted), routing_table(bench, _table(wanted), tagged=wanted.vlan > 0) as table:
            while len(points) < _MAXIMUM_POINTS:
                points.append(self._point(bench, wanted, rate))
                if _saturated(points[-1], wanted.stop_below_share):
                    break
                rate *= wanted.rate_factor
            points.append(self._point(bench, wanted, None))
        problem = unbalanced(points)
        if table is None:
            return Measurement(points=points, problem=problem)
        return Measurement(
            result={"routing_table": table.record}, check=table.check, points=points, problem=table.problem or problem
        )

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
    return Stream(lanes, (sink.peer_interface,), bench.generator_cpu, bench.sink_cpu, _table(wanted))


def _table(wanted: ForwardParameters) -> Table | None:
    return Table(wanted.routes, wanted.routes_seed) if wanted.routes else None


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
