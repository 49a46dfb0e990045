"""A sweep over rates: how ``forward`` and ``virtual-routers`` find what is forwarded at most.

*Rising*: the intended rate of each source grows from point to point until less than a stated share of what is offered
is forwarded, or the generator cannot offer more. Then comes one point flat out.
*From flat out*: that point comes first, and is the maximum of most platforms. Some forward less of more frames, as
emulators do; their maximum is climbed to on the same grid of rates. Either is an iterative set of measurements, whose
highest is the maximum forwarding rate (RFC 2285, section 3.6.3). It must not know what the frames are sent through.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal

from pydantic import Field

from virtoll.agent.operations.traffic import TrafficReply
from virtoll.workloads.points import MeasuredPoint
from virtoll.workloads.traffic import RESIDUAL_NS, FrameParameters

_MAXIMUM_POINTS = 24
# From flat out: what is offered next, by what was forwarded flat out, and what must then be forwarded, by the same, for
# overload to do harm.
_PROBED_AT, _CLEARLY_MORE = 2.0, 1.1
# For estimates only: what a bare host and an emulated guest may forward, and what a point takes besides its traffic.
_FAST_FRAMES_PER_SECOND, _SLOW_FRAMES_PER_SECOND, BESIDES_SECONDS = 4e6, 1e5, 0.1
_LOSING_FROM = 3.0  # times slower than a bare host
_FAST_POINTS, _SLOW_POINTS, _LOSING_POINTS = 2, 4, 3  # from flat out


class SweepParameters(FrameParameters):
    """Which way it goes; its grid of rates per source, frames/s; the length of a point; where a rising sweep ends."""

    sweep: Literal["rising", "from-flat-out"] = "rising"
    first_rate_frames_per_second: float = Field(default=4000, gt=0)
    rate_factor: float = Field(default=2.0, gt=1)
    point_milliseconds: int = Field(default=150, ge=10, le=600_000)
    stop_below_share: float = Field(default=0.7, ge=0, le=1)

    @property
    def point_ns(self) -> int:
        """The length of a point in nanoseconds."""
        return self.point_milliseconds * 1_000_000


Point = Callable[[float | None], MeasuredPoint]
"""Measures one point, at a rate of each source or flat out."""
Points = Callable[[SweepParameters, Point], list[MeasuredPoint]]
"""Which points are measured, and in what order."""


def first_point(wanted: SweepParameters, point: Point) -> list[MeasuredPoint]:
    """The first of a sweep's points alone: it has seen the whole path, and warms it up."""
    return [point(None if wanted.sweep == "from-flat-out" else wanted.first_rate_frames_per_second)]


def sweep(wanted: SweepParameters, point: Point) -> list[MeasuredPoint]:
    """The points in the order measured."""
    return _from_flat_out(wanted, point) if wanted.sweep == "from-flat-out" else _rising(wanted, point)


def _rising(wanted: SweepParameters, point: Point) -> list[MeasuredPoint]:
    points: list[MeasuredPoint] = []
    rate = wanted.first_rate_frames_per_second
    while len(points) < _MAXIMUM_POINTS:
        points.append(point(rate))
        if _saturated(points[-1].traffic, wanted.stop_below_share):
            break
        rate *= wanted.rate_factor
    return [*points, point(None)]


def _from_flat_out(wanted: SweepParameters, point: Point) -> list[MeasuredPoint]:
    """Flat out, the next rate above twice what that forwarded, and if that forwards more, its neighbours to the top."""
    first, factor = wanted.first_rate_frames_per_second, wanted.rate_factor
    flat_out = point(None)
    ratio = _PROBED_AT * source_rate(flat_out) / first
    step = max(0, math.floor(math.log(ratio, factor)) + 1) if ratio > 0 else 0
    points = {step: point(first * factor**step)}
    overload_harms = source_rate(points[step]) > _CLEARLY_MORE * source_rate(flat_out)
    while overload_harms and len(points) < _MAXIMUM_POINTS:
        beside = _neighbour(wanted, points)
        if beside is None:
            break
        points[beside] = point(first * factor**beside)
    return [flat_out, *points.values()]


def _neighbour(wanted: SweepParameters, points: Mapping[int, MeasuredPoint]) -> int | None:
    """The step beside the best that may forward more: the next above if the generator can offer more, or the next below
    if it has frames enough. None at the top.
    """
    best = max(points, key=lambda step: source_rate(points[step]))
    above, below = best + 1, best - 1
    intended, offered, _ = frame_totals(points[best].traffic)
    if above not in points and offered >= wanted.stop_below_share * intended:
        return above
    enough = wanted.first_rate_frames_per_second * wanted.rate_factor**below > source_rate(points[best])
    return below if below >= 0 and below not in points and enough else None


def source_rate(point: MeasuredPoint) -> float:
    """Forwarded frames/s of a source, on average, over the point's own length."""
    _, _, forwarded = frame_totals(point.traffic)
    return forwarded * 1e9 / point.duration_ns / len(point.traffic.sources)


def sweep_seconds(wanted: SweepParameters, slowdown: float) -> float:
    """Rising: one point a step up to a rate that such a platform may forward, the first one, and one flat out.

    What is slow loses frames at the last two, and the sink waits for them. From flat out as few as may do.
    """
    slow = slowdown >= _LOSING_FROM
    if wanted.sweep == "from-flat-out":
        waits = _LOSING_POINTS * RESIDUAL_NS / 1e9 if slow else 0.0
        return (_SLOW_POINTS if slow else _FAST_POINTS) * point_seconds(wanted) + waits
    reach = _SLOW_FRAMES_PER_SECOND if slow else _FAST_FRAMES_PER_SECOND
    steps = math.log(max(reach / wanted.first_rate_frames_per_second, 1.0), wanted.rate_factor)
    waits = 2 * RESIDUAL_NS / 1e9 if slow else 0.0
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
