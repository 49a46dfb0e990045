"""virtual-routers: n guests of one platform side by side, each an IP router of its own flow (Mattos et al. 2012, V).

All are loaded at the same time and alike, by one generator, and counted by one sink. Source k of a point is router k,
so that each router's rate is in the point and their sum is the metric. They share the host's CPUs that one guest is
pinned to, unless ``affinity`` says otherwise. A trial is a sweep (``sweep.py``), whose rates are of each router. Or it
is one point, at a rate that is of all together or of each. The paper's 130 000 frames/s may be either.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from virtoll.errors import GuestCannot
from virtoll.runfolder.conditions import Affinity
from virtoll.runfolder.frame_shape import MOST_SOURCES, SWEEP_KEYS
from virtoll.runfolder.traffic_records import Point
from virtoll.workloads.base import Bench, Measurement, Metric, Needs, Workload
from virtoll.workloads.forward import stream_through_all
from virtoll.workloads.retakes import RequireCalm, retaken
from virtoll.workloads.router import routing
from virtoll.workloads.starvation import why_no_result
from virtoll.workloads.sweep import Points, SweepParameters, first_point, point_seconds, sweep, sweep_seconds
from virtoll.workloads.traffic import TrafficStream, send


class VirtualRoutersParameters(SweepParameters):
    """``routers``: how many guests forward at once; ``first_rate_frames_per_second`` is of each of them.

    ``total_rate_frames_per_second``: what all are offered together, in parts of equal size;
    ``each_rate_frames_per_second``: what each is offered, whatever their number (both 0: a sweep instead).
    ``affinity``: whether all are on the host CPUs of one guest, each on its own, or all on any.
    """

    sources: Literal[1] = 1
    destinations: Literal[1] = 1
    directions: Literal["one"] = "one"
    egress: Literal["one"] = "one"
    routers: int = Field(default=2, ge=1, le=MOST_SOURCES, description="how many guests forward at once")
    total_rate_frames_per_second: float = Field(
        default=0, ge=0, le=1e9, description="rate that all are offered together, in frames/s; 0: a sweep instead"
    )
    each_rate_frames_per_second: float = Field(
        default=0, ge=0, le=1e8, description="rate that each is offered, in frames/s; 0: a sweep instead"
    )
    affinity: Affinity = Field(
        default="shared", description="host CPUs of the guests: all on one guest's, each on its own, or all on any"
    )

    @model_validator(mode="after")
    def _one_rate_has_no_sweep(self) -> Self:
        rates = ("total_rate_frames_per_second", "each_rate_frames_per_second")
        named = [key for key in rates if getattr(self, key)]
        swept = [key for key in SWEEP_KEYS if key in self.model_fields_set]
        if len(named) > 1:
            raise ValueError(f"{named[0]} and {named[1]} are two rates of one point; leave one out")
        if named and swept:
            raise ValueError(f"{swept[0]} is for a sweep; leave it out, or {named[0]}")
        return self

    @property
    def router_rate(self) -> float:
        """What each is offered in a trial of one point, frames/s; 0: the trial is a sweep."""
        return self.each_rate_frames_per_second or self.total_rate_frames_per_second / self.routers

    @property
    def guests(self) -> int:
        """One for each router."""
        return self.routers


class VirtualRouters(Workload[VirtualRoutersParameters]):
    """Routers side by side."""

    name: ClassVar[str] = "virtual-routers"
    title: ClassVar[str] = "Virtual routers side by side"
    about: ClassVar[str] = "several guests that forward at once"
    origin: ClassVar[str] = "Mattos 2012"
    resource: ClassVar[str] = "packet path"
    loads_peer: ClassVar[bool] = True
    parameter_model = VirtualRoutersParameters
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("maximum_forwarding_rate", "frames/s", "higher", "points"),)

    def needs(self) -> Needs:
        """As many guests as routers."""
        parameters = self.parameters
        return Needs(guests=parameters.routers, affinity=parameters.affinity, mtu_bytes=parameters.mtu_bytes)

    def estimate_seconds(self, slowdown: float) -> float:
        """The sweep or one point; that the guests share a CPU makes it shorter, their starts are not in it."""
        if self.parameters.router_rate:
            return point_seconds(self.parameters)
        return sweep_seconds(self.parameters, slowdown)

    def warm_up_seconds(self, slowdown: float) -> float:
        """One point."""
        del slowdown
        return point_seconds(self.parameters)

    def measure(self, bench: Bench) -> Measurement:
        """The sweep or its one point; every point is kept as the agent answered it."""
        return self._measure(bench, sweep)

    def warm_up(self, bench: Bench) -> Measurement:
        """Its first point."""
        return self._measure(bench, first_point)

    def _measure(self, bench: Bench, points_of: Points) -> Measurement:
        parameters = self.parameters
        benches = (bench, *bench.co_located)
        refuse_shared_links(benches)
        with contextlib.ExitStack() as configured:
            for router in benches:
                configured.enter_context(routing(router, parameters))
            stream = stream_through_all(benches, parameters)

            def point(rate: float | None) -> Point:
                return retaken(partial(self._point, bench, stream, rate))

            rate = parameters.router_rate
            points = [point(rate)] if rate else points_of(parameters, point)
        return Measurement(points=points, problem=why_no_result(points))

    def _point(self, bench: Bench, stream: TrafficStream, rate: float | None, require_calm: RequireCalm) -> Point:
        """One point, at a rate of each source or flat out."""
        parameters, tag = self.parameters, bench.next_tag()
        with bench.timekeeper.measuring():
            point = send(bench.peer, stream, parameters, tag, parameters.point_ns, rate, histograms=True)
            require_calm(point)
        return point


def refuse_shared_links(benches: tuple[Bench, ...]) -> None:
    """Guests that are reached by the same NIC would be measured against each other there and not in their host."""
    if len(benches) > 1 and any(link.trunk for bench in benches for link in bench.network.traffic):
        raise GuestCannot(
            "in a testbed all guests are reached by the same NICs, and those would be measured; leave the testbed out"
        )
