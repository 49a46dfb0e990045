"""forward: the guest as an IP router between the generator and the sink (Schlosser et al. 2011; RFC 2544, RFC 5180).

``routes`` gives it a table to look up in (Mattos et al. 2012, section V), loaded before the sweep and taken away after.

A trial is a sweep (``sweep.py``). Traffic stops and settles before counters are read. The books of each point must
balance, or the trial is invalid. Beside each point stand the counters of every hop, read before and after it.
From flat out, later rounds of a block measure a platform's best point again and nothing else: what a host does changes
within a second, so that many short trials in turn tell more of a maximum than a few long ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from virtoll.agent.path_counters import surroundings
from virtoll.experiment.topology import Testbed
from virtoll.lab.network import MAXIMUM_SOURCES, Link
from virtoll.runfolder.frame_shape import MOST_DESTINATIONS, FrameShape
from virtoll.runfolder.traffic_records import Point
from virtoll.workloads.base import Bench, Measurement, Metric, Needs, Workload
from virtoll.workloads.frame_cost import Meter
from virtoll.workloads.in_turn import measure_in_turn, takes_turns
from virtoll.workloads.retakes import RequireCalm, retaken
from virtoll.workloads.router import routing
from virtoll.workloads.routing_table import routing_table, table_memory_bytes, table_seconds
from virtoll.workloads.starvation import why_no_result
from virtoll.workloads.sweep import (
    BESIDES_SECONDS,
    Points,
    SweepParameters,
    best_point_seconds,
    first_point,
    point_seconds,
    source_rate,
    sweep,
    sweep_seconds,
)
from virtoll.workloads.traffic import MOST_ROUTES, FrameParameters, Lane, Table, TrafficStream, send


class ForwardParameters(SweepParameters):
    """A sweep through one guest.

    ``egress``: with ``each``, source k enters by link in<k> and leaves by a sink link of its own; ``one``: all by one.
    ``routes``: the size of the guest's routing table besides the routes to its links, made from ``routes_seed``; 0 for
    none. With a table, and unless it is said otherwise, frames go to 65536 destinations that are spread over it.
    ``cpu_milliseconds``: length of each of the two points that give the CPU time of a frame; 0: none. Their rate is at
    most ``cpu_rate_frames_per_second`` of each source.
    """

    sources: int = Field(default=1, ge=1, le=MAXIMUM_SOURCES, description="links that frames come in by, at once")
    routes: int = Field(
        default=0,
        ge=0,
        le=MOST_ROUTES,
        description="size of the guest's routing table besides the routes to its links; 0: none",
    )
    routes_seed: int = Field(default=1, ge=0, lt=2**63, description="seed that the routing table is made from")
    cpu_milliseconds: int = Field(
        default=200,
        ge=0,
        le=600_000,
        description="length of each of the two points that give the CPU time of a frame, in ms; 0: none",
    )
    cpu_rate_frames_per_second: float = Field(
        default=100_000, gt=0, le=200_000, description="rate of these two points at most, of each source, in frames/s"
    )

    def conflict(self, testbed: Testbed | None) -> tuple[str, str] | None:
        """Each source sends from a NIC of its own, and may arrive at one of its own."""
        nics = len(testbed.source_interfaces) if testbed is not None else self.sources
        if self.sources > nics:
            return "sources", (
                f"{self.sources} sources need as many NICs, and 'testbed.generator.interfaces' has {nics}; name more "
                "of them there, or use fewer sources"
            )
        nics = len(testbed.sink_interfaces) if testbed is not None else self.egress_links
        if self.egress_links > nics:
            return "egress", (
                f"{self.sources} sources with an egress link each need as many NICs, and 'testbed.sink.interfaces' has "
                f"{nics}; name more of them there, or set egress one"
            )
        return super().conflict(testbed)

    @model_validator(mode="before")
    @classmethod
    def _goes_all_over_the_table(cls, values: Any) -> Any:
        """A table that one destination is looked up in would be measured as one route is."""
        if isinstance(values, dict) and values.get("routes") and "destinations" not in values:
            return {**values, "destinations": MOST_DESTINATIONS}
        return values

    @model_validator(mode="after")
    def _has_a_table_for_them(self) -> Self:
        if self.routes and self.ip_version != 4:
            raise ValueError("the table of 'routes' is one of IPv4; set ip_version 4, or routes 0")
        if self.destinations > 1 and not self.routes:
            raise ValueError("several destinations need a table that leads to them; set routes, or destinations 1")
        if self.routes and self.egress == "each":
            raise ValueError("the table of 'routes' leads out by one link; set egress one, or routes 0")
        return self


class Forward(Workload[ForwardParameters]):
    """The router experiment."""

    name: ClassVar[str] = "forward"
    title: ClassVar[str] = "IP forwarding"
    about: ClassVar[str] = "frames forwarded per second, CPU time of one"
    origin: ClassVar[str] = "Schlosser 2011, Mattos 2012"
    resource: ClassVar[str] = "packet path"
    loads_peer: ClassVar[bool] = True
    parameter_model = ForwardParameters
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("maximum_forwarding_rate", "frames/s", "higher", "points"),
        Metric("cpu_per_frame", "ns", "lower", "cpu_points"),
    )

    def needs(self) -> Needs:
        """The links of its sources, and room for the table."""
        parameters = self.parameters
        memory_bytes = table_memory_bytes(parameters.routes) if parameters.routes else 0
        return Needs(
            memory_bytes, sources=parameters.sources, sinks=parameters.egress_links, mtu_bytes=parameters.mtu_bytes
        )

    def estimate_seconds(self, slowdown: float) -> float:
        """The sweep, the points for the CPU time, and loading the table."""
        parameters = self.parameters
        seconds = sweep_seconds(parameters, slowdown) + metered_seconds(parameters)
        return seconds + table_seconds(parameters.routes, slowdown)

    def warm_up_seconds(self, slowdown: float) -> float:
        """One point, and the table."""
        return point_seconds(self.parameters) + table_seconds(self.parameters.routes, slowdown)

    def later_seconds(self, slowdown: float) -> float:
        """The best point alone, from flat out."""
        parameters = self.parameters
        if parameters.sweep != "from-flat-out":
            return self.estimate_seconds(slowdown)
        return best_point_seconds(parameters, slowdown) + table_seconds(parameters.routes, slowdown)

    def measure(self, bench: Bench) -> Measurement:
        """The sweep and the points for the CPU time; every point is kept as the agent answered it."""
        return self._measure(bench, sweep, metered=True)

    def measure_later(self, bench: Bench, first: Measurement) -> Measurement | None:
        """From flat out, the point that forwarded the most in the first round."""
        best = max(first.points or (), key=source_rate, default=None)
        if self.parameters.sweep != "from-flat-out" or best is None:
            return None
        return self._measure(bench, lambda _, point: [point(best.intended_rate_frames_per_second)], metered=False)

    def has_turns(self) -> bool:
        """From flat out through a guest without a table of its own."""
        parameters = self.parameters
        plain = parameters.sources == 1 and not parameters.routes and not parameters.both_directions
        return plain and parameters.sweep == "from-flat-out"

    def takes_turns(self, bench: Bench, first: Measurement) -> bool:
        """Where flat out was the best of the first round."""
        best = max(first.points or (), key=source_rate, default=None)
        return self.has_turns() and best is not None and takes_turns(bench, best)

    def measure_in_turn(self, benches: Sequence[Bench]) -> list[Measurement]:
        """One point of each, flat out, in bursts in turn."""
        parameters = self.parameters
        with contextlib.ExitStack() as routed:
            for bench in benches:
                routed.enter_context(routing(bench, parameters))
            return measure_in_turn(benches, stream_through_all(benches, parameters), parameters, parameters.point_ns)

    def warm_up(self, bench: Bench) -> Measurement:
        """Its first point."""
        return self._measure(bench, first_point, metered=False)

    def _measure(self, bench: Bench, points_of: Points, *, metered: bool) -> Measurement:
        parameters = self.parameters
        with routing(bench, parameters), routing_table(bench, _table(parameters), parameters) as table:
            points = points_of(parameters, lambda rate: self.point(bench, rate))
            cpu = self._cpu_points(bench, points) if metered else None
        measured = Measurement(points=points, cpu_points=cpu, problem=why_no_result([*points, *(cpu or ())]))
        if table is None:
            return measured
        problem = table.problem or measured.problem
        return replace(measured, result={"routing_table": table.record}, check=table.check, problem=problem)

    def _cpu_points(self, bench: Bench, points: Sequence[Point]) -> list[Point] | None:
        parameters = self.parameters
        if not parameters.cpu_milliseconds or not bench.cpus:
            return None
        stream = stream_through(bench, parameters, _table(parameters))
        length_ns = parameters.cpu_milliseconds * 1_000_000
        meter = Meter(bench.peer, stream, parameters, bench.cpus, bench.next_tag, length_ns)
        return meter.points_below(points, parameters.cpu_rate_frames_per_second) or None

    def point(self, bench: Bench, rate: float | None) -> Point:
        """One point of the sweep, at a rate of each source or flat out."""
        parameters = self.parameters
        stream = stream_through(bench, parameters, _table(parameters))
        return point_between_hops(bench, stream, parameters, parameters.point_ns, rate)


def metered_seconds(parameters: ForwardParameters) -> float:
    """The two points for the CPU time."""
    return 2 * (parameters.cpu_milliseconds / 1000 + BESIDES_SECONDS) if parameters.cpu_milliseconds else 0.0


def point_between_hops(
    bench: Bench, stream: TrafficStream, parameters: FrameParameters, duration_ns: int, rate: float | None
) -> Point:
    """One point at a rate of each source, or flat out, between two readings of its hops."""

    def measure(require_calm: RequireCalm) -> Point:
        before = bench.hops.read()
        with bench.timekeeper.measuring():
            point = send(bench.peer, stream, parameters, bench.next_tag(), duration_ns, rate, histograms=True)
            require_calm(point)
        after = bench.hops.read()
        hops = bench.hops.hops(
            before, after, parameters.sources, sinks=parameters.egress_links, both_directions=parameters.both_directions
        )
        return point.replace(hops=hops, surroundings=surroundings(before, after))

    return retaken(measure)


def stream_through(bench: Bench, shape: FrameShape, table: Table | None = None) -> TrafficStream:
    """Traffic from the first sources to the sink through the guest, by one link out of it or by one of each source.

    In both directions, the second lane leads back.
    """
    sources, sinks = bench.network.sources[: shape.sources], bench.network.sinks[: shape.egress_links]
    exits = sinks if shape.egress_links > 1 else sinks * len(sources)
    lanes = [lane(link, sink, shape) for link, sink in zip(sources, exits, strict=True)]
    arrives_at = [sink.peer_interface for sink in sinks]
    if shape.both_directions:
        lanes += [lane(sinks[0], link, shape) for link in sources]
        arrives_at += [link.peer_interface for link in sources]
    generator_cpu, sink_cpu = bench.generator_cpu, bench.sink_cpu
    return TrafficStream(
        tuple(lanes), tuple(arrives_at), generator_cpu, sink_cpu, table=table, hand_overs=bench.hand_overs
    )


def stream_through_all(benches: Sequence[Bench], shape: FrameShape) -> TrafficStream:
    """The streams through several guests side by side; what reads their CPUs reads those of all."""
    streams = [stream_through(bench, shape) for bench in benches]
    readers = [stream.hand_overs for stream in streams if stream.hand_overs is not None]
    cpus = tuple(dict.fromkeys(cpu for reader in readers for cpu in reader.cpus))
    return replace(
        streams[0],
        lanes=tuple(source for stream in streams for source in stream.lanes),
        sink_interfaces=tuple(name for stream in streams for name in stream.sink_interfaces),
        hand_overs=replace(readers[0], cpus=cpus) if readers else None,
    )


def lane(link: Link, sink: Link, shape: FrameShape) -> Lane:
    """A source that sends such frames on a link, to the peer's address on another, the ``sink``'s."""
    source, target = (end_link.ends(shape.ip_version, tagged=shape.tagged).peer for end_link in (link, sink))
    return Lane(link.peer_interface, link.peer_mac, link.peer_next_hop_mac, source, target)


def _table(parameters: ForwardParameters) -> Table | None:
    return Table(parameters.routes, parameters.routes_seed) if parameters.routes else None
