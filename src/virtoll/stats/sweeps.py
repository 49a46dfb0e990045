"""Rate sweeps: each point's rates and losses, and the curve offered against forwarded over blocks."""

import math
import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from virtoll.runfolder.hand_over import HandOverSpan
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import Point
from virtoll.stats.summaries import known, median_of_known
from virtoll.stats.values import canonical, forwarded_rate, grouped, offered_rate

LOSSLESS_SHARE = 0.005  # loss at flat out up to which the generator, not the guest, may be what set the rate


class PointValue(NamedTuple):
    """One point of one `ok` trial: rates in frames/s (None where there is none), frames over all sources.

    A tuple, since a large run has tens of thousands: a frozen dataclass sets each field by a call.
    """

    trial: int
    block: int
    platform: str
    parameters: str
    frame_size_bytes: int
    place: int
    intended_rate: float | None
    duration_ns: int
    offered_rate: float | None
    forwarded_rate: float | None
    intended_frames: int
    offered_frames: int
    unsent_frames: int
    refused_frames: int
    forwarded_frames: int
    lost_frames: int
    duplicate_frames: int
    reordered_frames: int
    foreign_frames: int
    late_trial_frames: int
    forged_frames: int | None
    kernel_dropped_frames: int | None
    hand_over: HandOverSpan | None = None

    @property
    def flat_out(self) -> bool:
        """Whether the generator sent as fast as it could."""
        return self.intended_rate is None

    @property
    def loss(self) -> float | None:
        """Lost frames as a share of those offered; None where none were offered."""
        return self.lost_frames / self.offered_frames if self.offered_frames else None

    @property
    def turned_away(self) -> float | None:
        """Frames lost, or refused by the first interface, as a share of those that the sender had for it."""
        offered = self.offered_frames + self.refused_frames
        return (self.lost_frames + self.refused_frames) / offered if offered else None


@dataclass(frozen=True)
class Spread:
    """Median and range over the blocks."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class CurvePoint:
    """The same intended rate (None: flat out) over the blocks that reached it."""

    intended_rate: float | None
    blocks: int
    offered: Spread
    forwarded: Spread
    loss: Spread


@dataclass(frozen=True)
class Curve:
    """One platform's sweep with one set of parameters (canonical JSON), by intended rate; flat out last.

    `lossless`: see `curves`.
    """

    platform: str
    parameters: str
    frame_size_bytes: int
    points: tuple[CurvePoint, ...]
    lossless: bool


def point_values(trials: Sequence[TrialRecord]) -> tuple[PointValue, ...]:
    """Every point of every `ok` trial, in the order of the records."""
    return tuple(
        point_value(trial, index, point)
        for trial in trials
        if trial.status == "ok"
        for index, point in enumerate(trial.points or ())
    )


def point_value(trial: TrialRecord, index: int, point: Point) -> PointValue:
    """One point of a trial; `index`: its place in the sweep, from 0."""
    intended = offered = unsent = refused = 0
    for source in point.sources:
        intended += source.intended_frames
        offered += source.offered_frames
        unsent += source.unsent_frames
        refused += source.refused_frames or 0
    forwarded = lost = duplicate = reordered = 0
    for sink in point.sink.per_source:
        forwarded += sink.forwarded_frames
        lost += sink.lost_frames
        duplicate += sink.duplicate_frames
        reordered += sink.reordered_frames
    return PointValue(
        trial=trial.trial,
        block=trial.block,
        platform=trial.platform,
        parameters=canonical(trial.parameters),
        frame_size_bytes=point.frame_size_bytes,
        place=index,
        intended_rate=point.intended_rate_frames_per_second,
        duration_ns=point.duration_ns,
        offered_rate=offered_rate(point),
        forwarded_rate=forwarded_rate(point),
        intended_frames=intended,
        offered_frames=offered,
        unsent_frames=unsent,
        refused_frames=refused,
        forwarded_frames=forwarded,
        lost_frames=lost,
        duplicate_frames=duplicate,
        reordered_frames=reordered,
        foreign_frames=point.sink.foreign_frames,
        late_trial_frames=point.sink.late_trial_frames,
        forged_frames=point.sink.forged_frames,
        kernel_dropped_frames=point.sink.kernel_dropped_frames,
        hand_over=point.hand_over,
    )


def curves(
    points: Sequence[PointValue], apart: Collection[str] = (), senders: Collection[str] = ()
) -> tuple[Curve, ...]:
    """One curve for each platform and set of parameters, in order of first appearance.

    *Lossless*: at flat out the guest lost at most 0.5 % of what was offered (median over blocks). So the largest rate
    seen is what generator and path could offer; the platform's own maximum is at least that. Platforms `apart` receive
    on CPUs of their own (`lab/receiving.py`): what their first interface refuses, they have turned away. With the
    parameters `senders` the guests send themselves: what they send flat out is their maximum.
    """
    groups: dict[tuple[str, str], list[PointValue]] = {}
    for point in points:
        if point.offered_rate is not None and point.forwarded_rate is not None and point.loss is not None:
            groups.setdefault((point.platform, point.parameters), []).append(point)
    return tuple(
        _curve(platform, parameters, group, apart=platform in apart, sends=parameters in senders)
        for (platform, parameters), group in groups.items()
    )


def _curve(platform: str, parameters: str, measured: list[PointValue], *, apart: bool, sends: bool) -> Curve:
    rates = grouped(measured, lambda point: point.intended_rate)
    ordered = sorted(rates, key=lambda rate: math.inf if rate is None else rate)
    points = tuple(_curve_point(rate, rates[rate]) for rate in ordered)
    flat_out = rates.get(None, ())
    if apart:
        missing = median_of_known(point.turned_away for point in flat_out)
    else:
        missing = median_of_known(point.loss for point in flat_out)
    lossless = not sends and missing is not None and missing <= LOSSLESS_SHARE
    return Curve(platform, parameters, measured[0].frame_size_bytes, points, lossless)


def _curve_point(rate: float | None, measured: list[PointValue]) -> CurvePoint:
    def spread(of: Callable[[PointValue], float | None]) -> Spread:
        values = known(map(of, measured))
        return Spread(statistics.median(values), min(values), max(values))

    blocks = len({point.block for point in measured})
    return CurvePoint(
        rate,
        blocks,
        spread(lambda point: point.offered_rate),
        spread(lambda point: point.forwarded_rate),
        spread(lambda point: point.loss),
    )
