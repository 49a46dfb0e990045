"""The instrument's own limits, from calibrations: the largest rate with nothing between, and the latency's floor.

A result within 10 % of the ceiling says something about the generator and not about the platform: *generator-bound*.
The lower of a run's calibrations counts, so that a host that became slower marks too much rather than too little.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtoll.runfolder.frame_shape import FrameShape
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import CalibrationRecord, Point
from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Task, forwarded_rate

BOUND_SHARE = 0.9


@dataclass(frozen=True)
class Floor:
    """One-way delay of the instrument back to back, ns: smallest, medians over calibrations, largest."""

    rate: float
    minimum_ns: int
    p50_ns: float
    p99_ns: float
    maximum_ns: int


@dataclass(frozen=True)
class Ceiling:
    """One shape of frames with one back end and sink: the largest rate, frames/s, by calibration, and the floor."""

    shape: FrameShape
    backend: str
    sink: str | None
    rates: tuple[float, ...]
    floor: Floor | None

    @property
    def rate(self) -> float:
        """The lower of the calibrations."""
        return min(self.rates)


@dataclass(frozen=True)
class Headroom:
    """A cell against its ceiling: the median over trials of the largest rate as a share of it; None: no ceiling."""

    share: float | None
    ceiling: Ceiling | None

    @property
    def generator_bound(self) -> bool:
        """Within 10 % of what the instrument reaches with nothing between."""
        return self.share is not None and self.share >= BOUND_SHARE


def shape_of(parameters: Mapping[str, Any]) -> FrameShape | None:
    """What the generator was to send at once, by a workload's parameters; None for a workload without frames.

    Where several guests are sent to, each is so many sources more. The links out of a guest make no difference.
    """
    shape = FrameShape.of(parameters)
    return shape and shape.model_copy(update={"sources": shape.sources * parameters.get("routers", 1), "egress": "one"})


def ceilings(calibrations: Sequence[CalibrationRecord]) -> tuple[Ceiling, ...]:
    """One for each shape, back end and sink that was calibrated, in order of first appearance."""
    groups: dict[tuple[FrameShape, str, str | None], list[Point]] = {}
    for record in calibrations:
        shape = shape_of(record.parameters)
        if record.status == "ok" and shape is not None:
            for point in record.points:
                groups.setdefault((shape, point.backend, point.sink.backend), []).append(point)
    measured = []
    for (shape, backend, sink), points in groups.items():
        flat_out = [forwarded_rate(point) for point in points if point.intended_rate_frames_per_second is None]
        rates = tuple(rate for rate in flat_out if rate)
        if rates:
            paced = [point for point in points if point.intended_rate_frames_per_second is not None]
            measured.append(Ceiling(shape, backend, sink, rates, _floor(paced)))
    return tuple(measured)


def _floor(points: Sequence[Point]) -> Floor | None:
    full = []
    for point in points:
        for delay in (counts.delay_ns for counts in point.sink.per_source):
            if point.intended_rate_frames_per_second is not None and delay is not None:
                values = delay.minimum, delay.p50, delay.p99, delay.maximum
                full.append((point.intended_rate_frames_per_second, *values))
    if not full:
        return None
    rates, least, middle, high, most = zip(*full, strict=True)
    return Floor(rates[0], min(least), statistics.median(middle), statistics.median(high), max(most))


def ceiling_of(calibrated: Sequence[Ceiling], shape: FrameShape | None, point: Point) -> Ceiling | None:
    """The ceiling of what a point really used, of the shape that was sent, or None where that was not calibrated."""
    key = (shape, point.backend, point.sink.backend)
    return next((ceiling for ceiling in calibrated if (ceiling.shape, ceiling.backend, ceiling.sink) == key), None)


def headrooms(
    calibrated: Sequence[Ceiling], cells: Mapping[tuple[str, Task], CellSummary], trials: Sequence[TrialRecord]
) -> dict[tuple[str, Task], Headroom]:
    """Each cell of a rate against the ceiling of the points where its trials forwarded most."""
    by_number = {trial.trial: trial for trial in trials}
    reported = {}
    for (platform, task), cell in cells.items():
        if task.metric.source != "points":
            continue
        shape = shape_of(json.loads(task.parameters))
        pairs = [_best(calibrated, shape, by_number[observation.trial]) for observation in cell.observations]
        known = [(rate, ceiling) for rate, ceiling in pairs if ceiling is not None]
        if known:
            share = statistics.median(rate / ceiling.rate for rate, ceiling in known)
            reported[platform, task] = Headroom(share, known[0][1])
        else:
            reported[platform, task] = Headroom(None, None)
    return reported


def _best(calibrated: Sequence[Ceiling], shape: FrameShape | None, trial: TrialRecord) -> tuple[float, Ceiling | None]:
    rated = [(forwarded_rate(point) or 0.0, index) for index, point in enumerate(trial.points or ())]
    rate, index = max(rated)
    return rate, ceiling_of(calibrated, shape, (trial.points or ())[index])
