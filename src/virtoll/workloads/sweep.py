"""A sweep over rates: how ``forward`` and ``virtual-routers`` find what is forwarded at most.

The intended rate of each source grows from point to point until less than a stated share of what is offered is
forwarded, or the generator cannot offer more. Then comes one point flat out. It must not know what the frames are sent
through.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pydantic import Field

from virtoll.agent.operations.traffic import TrafficReply
from virtoll.workloads.points import MeasuredPoint
from virtoll.workloads.traffic import RESIDUAL_NS, FrameParameters

_MAXIMUM_POINTS = 24
# For estimates only: what a bare host and an emulated guest may forward, and what a point takes besides its traffic.
_FAST_FRAMES_PER_SECOND, _SLOW_FRAMES_PER_SECOND, BESIDES_SECONDS = 4e6, 1e5, 0.15
_LOSING_FROM = 3.0  # times slower than a bare host


class SweepParameters(FrameParameters):
    """Rates per source in frames/s; the length of a point; where the sweep ends."""

    first_rate_frames_per_second: float = Field(default=4000, gt=0)
    rate_factor: float = Field(default=2.0, gt=1)
    point_milliseconds: int = Field(default=150, ge=10, le=600_000)
    stop_below_share: float = Field(default=0.7, ge=0, le=1)

    @property
    def point_ns(self) -> int:
        """The length of a point in nanoseconds."""
        return self.point_milliseconds * 1_000_000


Points = Callable[[SweepParameters, Callable[[float | None], MeasuredPoint]], list[MeasuredPoint]]
"""Which points are measured, and in what order."""


def first_point(wanted: SweepParameters, point: Callable[[float | None], MeasuredPoint]) -> list[MeasuredPoint]:
    """The first of a sweep's points alone: it has seen the whole path, and warms it up."""
    return [point(wanted.first_rate_frames_per_second)]


def sweep(wanted: SweepParameters, point: Callable[[float | None], MeasuredPoint]) -> list[MeasuredPoint]:
    """The points in the order measured; ``point`` measures one, at a rate of each source or flat out."""
    points: list[MeasuredPoint] = []
    rate = wanted.first_rate_frames_per_second
    while len(points) < _MAXIMUM_POINTS:
        points.append(point(rate))
        if _saturated(points[-1].traffic, wanted.stop_below_share):
            break
        rate *= wanted.rate_factor
    return [*points, point(None)]


def sweep_seconds(wanted: SweepParameters, slowdown: float) -> float:
    """One point a step up to a rate that such a platform may forward, the first one, and one flat out.

    What is slow loses frames at the last two, and the sink waits for them.
    """
    reach = _FAST_FRAMES_PER_SECOND if slowdown < _LOSING_FROM else _SLOW_FRAMES_PER_SECOND
    steps = math.log(max(reach / wanted.first_rate_frames_per_second, 1.0), wanted.rate_factor)
    waits = 2 * RESIDUAL_NS / 1e9 if slowdown >= _LOSING_FROM else 0.0
    return (math.ceil(steps) + 2) * point_seconds(wanted) + waits


def point_seconds(wanted: SweepParameters) -> float:
    """One point, with the drain and the counters."""
    return wanted.point_milliseconds / 1000 + BESIDES_SECONDS


def frame_totals(point: TrafficReply) -> tuple[int, int, int]:
    """Intended, offered and forwarded frames of all sources."""
    intended = sum(source.intended_frames for source in point.sources)
    offered = sum(source.offered_frames for source in point.sources)
    return intended, offered, sum(source.forwarded_frames for source in point.sink.per_source)


def _saturated(point: TrafficReply, share: float) -> bool:
    """The guest forwards less than ``share`` of what is offered, or the generator offers less than that of intended."""
    intended, offered, forwarded = frame_totals(point)
    return forwarded < share * offered or offered < share * intended
