"""Between which rates a sweep's points place the largest one that is forwarded within bounds of loss and delay. Pure.

A point is *within* the bounds where no source lost a larger share than the bound, or was delayed more, and so many
frames were sent that a loss of that share would have been seen: three times the bound's inverse (the rule of three,
Hanley and Lippman-Hand 1983). It is *beyond* them where a source lost more by what the platform itself lost
(`stats/hops.py`), or was delayed more. Every other point says nothing. Whatever the bounds, no more comes through
within them than the maximum forwarding rate. Main types: `RateBounds`, `Bracket`.

Hanley, J. A., Lippman-Hand, A. (1983): If nothing goes wrong, is everything all right? JAMA 249, 1743-1745.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from virtoll.runfolder.traffic_records import Point, SourceCounts
from virtoll.stats.hops import Owner, locate
from virtoll.stats.values import forwarded_rate, offered_rate, sent_rate

ENOUGH = 3.0


@dataclass(frozen=True)
class RateBounds:
    """What must hold at a rate: `loss` of each source as a share, percentiles of its one-way delay, ns; None: any."""

    loss: float | None = None
    p50_ns: float | None = None
    p99_ns: float | None = None


@dataclass(frozen=True)
class Bracket:
    """Frames/s of all sources: the largest rate `within`, and the least that was offered `beyond`; None: there is none.

    `within` is below every rate beyond that is larger than another within, so it is the smaller where rates go up and
    down. `most`: the largest that came through, whatever was lost.
    """

    within: float | None
    beyond: float | None
    most: float | None = None


def bracket(
    points: Sequence[Point], bounds: RateBounds, *, apart: bool, each: bool = False, metered: Sequence[Point] = ()
) -> Bracket:
    """What the points of one trial say.

    `metered`: those for the CPU time. Their frames come in bursts, which a router may lose more of: what came through
    counts, and what did not says nothing.

    `apart`: what the first interface refused was turned away as well (`stats/bounds.py`). `each`: rates of the source
    of which least came through, and not of all.
    """
    within: list[tuple[float, float]] = []
    beyond: list[float] = []
    came_through: list[float] = []
    for place, point in enumerate((*points, *metered)):
        offered, through = _given(point, apart), forwarded_rate(point)
        if offered is None or through is None:
            continue
        if each:
            offered, through = offered / len(point.sources), through * _least(point)
        holds = _all((_loss_holds(point, bounds.loss, apart), _delay_holds(point, bounds)))
        came_through.append(through)
        if holds:
            within.append((offered, through))
        elif holds is False and place < len(points):
            beyond.append(offered)
    least = min(beyond, default=math.inf)
    below = [through for offered, through in within if offered < least]
    highest = max((offered for offered, _ in within), default=0.0)
    above = [rate for rate in beyond if rate > highest]
    return Bracket(max(below, default=None), min(above, default=None), max(came_through, default=None))


def _given(point: Point, apart: bool) -> float | None:
    """What the generator had for the platform, frames/s of all sources."""
    return sent_rate(point) if apart else offered_rate(point)


def _refused(source: SourceCounts, apart: bool) -> int:
    return (source.refused_frames or 0) if apart else 0


def _least(point: Point) -> float:
    """The part of the source of which least came through."""
    parts = [counts.forwarded_frames for counts in point.sink.per_source]
    least = min(parts, default=0)
    return least / sum(parts) if least else 0.0


def _all(holds: Sequence[bool | None]) -> bool | None:
    """Whether all bounds hold; None: one of them does not say, and none is known not to."""
    if False in holds:
        return False
    return None if None in holds else True


def _loss_holds(point: Point, bound: float | None, apart: bool) -> bool | None:
    if bound is None:
        return True
    lost = {counts.source: counts.lost_frames for counts in point.sink.per_source}
    holds: list[bool | None] = []
    for source in point.sources:
        refused = _refused(source, apart)
        allowed = bound * (source.offered_frames + refused)
        if lost[source.source] + refused <= allowed:
            holds.append(True if allowed >= ENOUGH or bound == 0 else None)
            continue
        losses = [loss for loss in locate(point) if loss.source == source.source and loss.owner is Owner.PLATFORM]
        inside = sum(loss.frames for loss in losses)
        holds.append(False if inside + refused > allowed else None)
    return _all(holds) if holds else None


def _delay_holds(point: Point, bounds: RateBounds) -> bool | None:
    holds: list[bool | None] = []
    for counts in point.sink.per_source:
        p50, p99 = (None, None) if counts.delay_ns is None else (counts.delay_ns.p50, counts.delay_ns.p99)
        for limit, known in ((bounds.p50_ns, p50), (bounds.p99_ns, p99)):
            if limit is not None:
                holds.append(None if known is None else known <= limit)
    return _all(holds)
