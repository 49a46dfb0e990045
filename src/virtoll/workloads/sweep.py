"""A sweep over rates: how ``forward`` and ``virtual-routers`` find what is forwarded at most.

*Rising*: the intended rate of each source grows from point to point until less than a stated share of what is offered
is forwarded, or the generator cannot offer more. Then comes one point flat out.
*From flat out*: that point comes first, and is the maximum of most platforms. Some forward less of more frames, as
emulators do; their maximum is climbed to on the same grid of rates. The last point is below the maximum: at a rate at
which most platforms lose nothing. A platform that does no worse flat out, and still loses frames there, gets up to
three points at lower rates, so that a trial has a rate that came through whole.
*Rates*: a list of rates on the wire, as a paper has them, each offered whatever is lost; then one point flat out.
Each is an iterative set of measurements, whose highest is the maximum forwarding rate (RFC 2285, section 3.6.3). It
must not know what the frames are sent through.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from virtoll.runfolder.frame_shape import GRID_KEYS, OVERLOAD_HARMS
from virtoll.runfolder.traffic_records import Point, TrafficReply
from virtoll.workloads.traffic import RESIDUAL_NS, FrameParameters

_MAXIMUM_POINTS = 24
MOST_RATES: Final = 32
_LARGEST_MBIT_PER_SECOND: Final = 1_000_000
# From flat out: what is offered next, by what was forwarded flat out.
_PROBED_AT = 2.0
# From flat out: the last point at most, by the maximum. Queues do not fill yet, and it tells of most lower rates.
_BELOW_MAXIMUM = 0.8
_POINTS_BELOW: Final = 4  # each at so much of the one before, until all frames but so many come through
_LOST_SHARE: Final = 0.001
# For estimates only: what a bare host and an emulated guest may forward, and what a point takes besides its traffic.
_FAST_FRAMES_PER_SECOND, _SLOW_FRAMES_PER_SECOND, BESIDES_SECONDS = 4e6, 1e5, 0.1
_LOSING_FROM = 3.0  # times slower than a bare host
# What QEMU's emulation forwarded at most on two cores of an AMD EPYC, of any size: it loses frames at rates above.
_EMULATED_FRAMES_PER_SECOND = 2e4
_FAST_POINTS, _SLOW_POINTS, _LOSING_POINTS = 2, 6, 4  # from flat out


class SweepParameters(FrameParameters):
    """Which way it goes; its grid of rates per source, frames/s; the length of a point; where a rising sweep ends.

    ``rates_mbit_per_second``: what the sweep ``rates`` offers, of each source, on the wire (``FrameShape``).
    """

    sweep: Literal["rising", "from-flat-out", "rates"] = Field(
        default="rising",
        description="which way the rates go: up until frames are lost, down from flat out, or over a list",
    )
    rates_mbit_per_second: tuple[float, ...] = Field(
        default=(), description="for the sweep 'rates': rates of each source on the wire, in Mbit/s"
    )
    first_rate_frames_per_second: float = Field(
        default=4000, gt=0, description="rate of each source at a rising sweep's first point, in frames/s"
    )
    rate_factor: float = Field(default=2.0, gt=1, description="by how much the rate grows from point to point")
    point_milliseconds: int = Field(default=150, ge=10, le=600_000, description="length of a point, in ms")
    stop_below_share: float = Field(
        default=0.7, ge=0, le=1, description="a rising sweep ends when less than this share of the frames is forwarded"
    )

    @field_validator("rates_mbit_per_second", mode="before")
    @classmethod
    def _is_a_list(cls, written: object) -> object:
        if not isinstance(written, list | tuple):
            raise ValueError(f"must be a list of rates in Mbit/s, such as [10, 100, 1000], got {written!r}")
        return written

    @field_validator("rates_mbit_per_second")
    @classmethod
    def _rises(cls, rates: tuple[float, ...]) -> tuple[float, ...]:
        beyond = [rate for rate in rates if not 0 < rate <= _LARGEST_MBIT_PER_SECOND]
        if beyond:
            raise ValueError(f"rates are above 0 and at most {_LARGEST_MBIT_PER_SECOND} Mbit/s, got {beyond[0]:g}")
        if list(rates) != sorted(set(rates)):
            raise ValueError("rates must ascend, each of them once; sort them")
        if len(rates) > MOST_RATES:
            raise ValueError(f"there are {len(rates)} rates; give at most {MOST_RATES}")
        return rates

    @model_validator(mode="after")
    def _has_the_keys_of_its_sweep(self) -> Self:
        if self.sweep != "rates":
            if self.rates_mbit_per_second:
                raise ValueError("rates_mbit_per_second is for another sweep; set sweep: rates, or leave the list out")
            return self
        if not self.rates_mbit_per_second:
            raise ValueError("the sweep 'rates' has no rates; add rates_mbit_per_second, such as [10, 100, 1000]")
        others = [key for key in GRID_KEYS if key in self.model_fields_set]
        if others:
            raise ValueError(f"{others[0]} is for the other sweeps; leave it out, or set sweep: rising")
        return self

    @property
    def point_ns(self) -> int:
        """The length of a point in nanoseconds."""
        return self.point_milliseconds * 1_000_000

    @property
    def listed_rates(self) -> tuple[float, ...]:
        """The list of the sweep ``rates`` in frames/s of each source."""
        return tuple(map(self.frames_per_second, self.rates_mbit_per_second))


MeasurePoint = Callable[[float | None], Point]
"""Measures one point, at a rate of each source or flat out."""
Points = Callable[[SweepParameters, MeasurePoint], list[Point]]
"""Which points are measured, and in what order."""


def first_point(parameters: SweepParameters, point: MeasurePoint) -> list[Point]:
    """The first of a sweep's points alone: it has seen the whole path, and warms it up."""
    match parameters.sweep:
        case "rising":
            rate: float | None = parameters.first_rate_frames_per_second
        case "from-flat-out":
            rate = None
        case "rates":
            rate = parameters.listed_rates[0]
    return [point(rate)]


def sweep(parameters: SweepParameters, point: MeasurePoint) -> list[Point]:
    """The points in the order measured."""
    match parameters.sweep:
        case "rising":
            return _rising(parameters, point)
        case "from-flat-out":
            return _from_flat_out(parameters, point)
        case "rates":
            return [point(rate) for rate in (*parameters.listed_rates, None)]


def _rising(parameters: SweepParameters, point: MeasurePoint) -> list[Point]:
    points: list[Point] = []
    rate = parameters.first_rate_frames_per_second
    while len(points) < _MAXIMUM_POINTS:
        points.append(point(rate))
        if _saturated(points[-1], parameters.stop_below_share):
            break
        rate *= parameters.rate_factor
    return [*points, point(None)]


def _from_flat_out(parameters: SweepParameters, point: MeasurePoint) -> list[Point]:
    """Flat out, the next rate above twice what that forwarded, and if that forwards more, its neighbours to the top.

    Where the generator offered no more than that flat out, it is left out: it would be the same point again. At the top
    comes one point between the best rate and the better one next to it, so that the grid alone does not decide. Last
    come those below the maximum.
    """
    first, factor = parameters.first_rate_frames_per_second, parameters.rate_factor
    flat_out = point(None)
    ratio = _PROBED_AT * source_rate(flat_out) / first
    step = max(0, math.floor(math.log(ratio, factor)) + 1) if ratio > 0 else 0
    points: dict[int, Point] = {}
    if first * factor**step < parameters.stop_below_share * _offered_rate(flat_out):
        points[step] = point(first * factor**step)
    overload_harms = step in points and source_rate(points[step]) > OVERLOAD_HARMS * source_rate(flat_out)
    while overload_harms and len(points) < _MAXIMUM_POINTS:
        next_step = _next_step(parameters, points)
        if next_step is None:
            break
        points[next_step] = point(first * factor**next_step)
    swept = [flat_out, *points.values()]
    if overload_harms and len(points) > 1:
        swept.append(point(first * factor ** _top_step(points)))
    below = _below_maximum(max(map(source_rate, swept)), swept, 1 if overload_harms else _POINTS_BELOW)
    for rate in below:
        swept.append(point(rate))
        if _comes_through(swept[-1]):
            break
    return swept


def _below_maximum(most: float, swept: Sequence[Point], number: int) -> list[float]:
    """So many preferred rates below the maximum, from the highest, without those that were tried."""
    tried = {point.intended_rate_frames_per_second for point in swept}
    rates = [preferred_rate(_BELOW_MAXIMUM**power * most) for power in range(1, number + 1)]
    return [rate for rate in dict.fromkeys(rates) if rate > 0 and rate not in tried]


def _comes_through(point: Point) -> bool:
    """Whether the sender offered what was intended, and all of it was forwarded, but for a thousandth."""
    intended, _, forwarded = frame_totals(point)
    return forwarded >= (1 - _LOST_SHARE) * intended


def _top_step(points: Mapping[int, Point]) -> float:
    """Halfway between the best step and the better one next to it."""
    best = max(points, key=lambda step: source_rate(points[step]))
    next_to_it = [step for step in points if abs(step - best) == 1]
    return (best + max(next_to_it, key=lambda step: source_rate(points[step]))) / 2


def preferred_rate(most: float) -> float:
    """The largest preferred number (ISO 3, R20: 1, 1.12, 1.26, 1.41 ...) that is not above, so that trials agree.

    0 of nothing.
    """
    if most <= 0:
        return 0.0
    return float(f"{10 ** (math.floor(20 * math.log10(most) + 1e-9) / 20):.3g}")


def _next_step(parameters: SweepParameters, points: Mapping[int, Point]) -> int | None:
    """The step beside the best that may forward more: the next above if the generator can offer more, or the next below
    if it has frames enough. None at the top.
    """
    best = max(points, key=lambda step: source_rate(points[step]))
    above, below = best + 1, best - 1
    intended, offered, _ = frame_totals(points[best])
    if above not in points and offered >= parameters.stop_below_share * intended:
        return above
    enough = parameters.first_rate_frames_per_second * parameters.rate_factor**below > source_rate(points[best])
    return below if below >= 0 and below not in points and enough else None


def source_rate(point: Point) -> float:
    """Forwarded frames/s of a source, on average, over the point's own length."""
    _, _, forwarded = frame_totals(point)
    return _of_each(point, forwarded)


def _offered_rate(point: Point) -> float:
    """Offered frames/s of a source, on average, over the point's own length."""
    _, offered, _ = frame_totals(point)
    return _of_each(point, offered)


def _of_each(point: Point, frames: int) -> float:
    return frames * 1e9 / point.duration_ns / len(point.sources)


def sweep_seconds(parameters: SweepParameters, slowdown: float) -> float:
    """Rising: one point a step up to a rate that such a platform may forward, the first one, and one flat out.

    What is slow loses frames at the last two, and the sink waits for them. From flat out as few as may do. Of a list
    every point: what is slow loses frames flat out and at each rate that such a platform does not forward.
    """
    slow = slowdown >= _LOSING_FROM
    if parameters.sweep == "rates":
        losing = 0
        if slow:
            losing = 1 + sum(
                rate * parameters.streams > _EMULATED_FRAMES_PER_SECOND for rate in parameters.listed_rates
            )
        return (len(parameters.listed_rates) + 1) * point_seconds(parameters) + losing * RESIDUAL_NS / 1e9
    if parameters.sweep == "from-flat-out":
        waits = _LOSING_POINTS * RESIDUAL_NS / 1e9 if slow else 0.0
        return (_SLOW_POINTS if slow else _FAST_POINTS) * point_seconds(parameters) + waits
    reach = _SLOW_FRAMES_PER_SECOND if slow else _FAST_FRAMES_PER_SECOND
    steps = math.log(max(reach / parameters.first_rate_frames_per_second, 1.0), parameters.rate_factor)
    waits = 2 * RESIDUAL_NS / 1e9 if slow else 0.0
    return (math.ceil(steps) + 2) * point_seconds(parameters) + waits


def best_point_seconds(parameters: SweepParameters, slowdown: float) -> float:
    """The point of a sweep that forwarded the most, alone; what is slow loses frames at it."""
    return point_seconds(parameters) + (RESIDUAL_NS / 1e9 if slowdown >= _LOSING_FROM else 0.0)


def point_seconds(parameters: SweepParameters) -> float:
    """One point, with the drain and the counters."""
    return parameters.point_milliseconds / 1000 + BESIDES_SECONDS


def frame_totals(point: TrafficReply) -> tuple[int, int, int]:
    """Intended, offered and forwarded frames of all sources."""
    intended = sum(source.intended_frames for source in point.sources)
    offered = sum(source.offered_frames for source in point.sources)
    return intended, offered, sum(source.forwarded_frames for source in point.sink.per_source)


def _saturated(point: TrafficReply, share: float) -> bool:
    """The guest forwards less than ``share`` of what is offered, or the generator offers less than that of intended."""
    intended, offered, forwarded = frame_totals(point)
    return forwarded < share * offered or offered < share * intended
