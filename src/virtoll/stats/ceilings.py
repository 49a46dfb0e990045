"""The instrument's own limits, from calibrations: the largest rate with nothing between, and the latency's floor.

A result within 10 % of the ceiling says something about the generator and not about the platform: *generator-bound*.
The lower of a campaign's calibrations counts, so that a host that became slower marks too much rather than too little.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import CalibrationRecord, Point
from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Task, canonical, forwarded_rate

BOUND_SHARE = 0.9
_UNSAID: Mapping[str, Any] = {
    "sources": 1,
    "mix": "none",
    "ip_version": 4,
    "vlan": 0,
    "batch_frames": 0,
    "destinations": 1,
}
_SHAPE = ("frame_size_bytes", *_UNSAID)


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

    shape: str
    frame_size_bytes: int
    sources: int
    mix: str
    ip_version: int
    vlan: int
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


def shape_of(parameters: Mapping[str, Any]) -> str:
    """What of a workload's parameters shapes its frames, as canonical JSON; older records leave some unsaid.

    Where several guests are sent to, each is so many sources more for the generator.
    """
    said = {key: parameters.get(key, _UNSAID.get(key)) for key in _SHAPE}
    return canonical({**said, "sources": said["sources"] * parameters.get("routers", 1)})


def ceilings(calibrations: Sequence[CalibrationRecord]) -> tuple[Ceiling, ...]:
    """One for each shape, back end and sink that was calibrated, in order of first appearance."""
    groups: dict[tuple[str, str, str | None], list[tuple[CalibrationRecord, Point]]] = {}
    for record in calibrations:
        if record.status == "ok":
            for point in record.points:
                key = (shape_of(record.parameters), point.backend, point.sink.backend)
                groups.setdefault(key, []).append((record, point))
    found = []
    for (shape, backend, sink), own in groups.items():
        flat_out = [forwarded_rate(point) for _, point in own if point.intended_rate_frames_per_second is None]
        rates = tuple(rate for rate in flat_out if rate)
        if rates:
            said = {**_UNSAID, **own[0][0].parameters}
            paced = [point for _, point in own if point.intended_rate_frames_per_second is not None]
            found.append(
                Ceiling(
                    shape=shape,
                    frame_size_bytes=said["frame_size_bytes"],
                    sources=said["sources"],
                    mix=said["mix"],
                    ip_version=said["ip_version"],
                    vlan=said["vlan"],
                    backend=backend,
                    sink=sink,
                    rates=rates,
                    floor=_floor(paced),
                )
            )
    return tuple(found)


def _floor(points: Sequence[Point]) -> Floor | None:
    delays = [(point, one.delay_ns) for point in points for one in point.sink.per_source]
    known = [(point, told) for point, told in delays if told is not None]
    full = [
        (told.minimum, told.p50, told.p99, told.maximum)
        for _, told in known
        if told.minimum is not None and told.p50 is not None and told.p99 is not None and told.maximum is not None
    ]
    if not full:
        return None
    least, middle, high, most = zip(*full, strict=True)
    rate = known[0][0].intended_rate_frames_per_second or 0.0
    return Floor(rate, min(least), statistics.median(middle), statistics.median(high), max(most))


def ceiling_of(found: Sequence[Ceiling], parameters: Mapping[str, Any], point: Point) -> Ceiling | None:
    """The ceiling of what a point really used, or None where that was not calibrated."""
    key = (shape_of(parameters), point.backend, point.sink.backend)
    return next((one for one in found if (one.shape, one.backend, one.sink) == key), None)


def headrooms(
    found: Sequence[Ceiling], cells: Mapping[tuple[str, Task], CellSummary], trials: Sequence[TrialRecord]
) -> dict[tuple[str, Task], Headroom]:
    """Each cell of a rate against the ceiling of the points where its trials forwarded most."""
    by_number = {trial.trial: trial for trial in trials}
    told = {}
    for (platform, task), cell in cells.items():
        if task.metric.source != "points":
            continue
        pairs = [_best(found, by_number[one.trial]) for one in cell.observations]
        known = [(rate, ceiling) for rate, ceiling in pairs if ceiling is not None]
        share = statistics.median(rate / ceiling.rate for rate, ceiling in known) if known else None
        told[platform, task] = Headroom(share, known[0][1] if known else None)
    return told


def _best(found: Sequence[Ceiling], trial: TrialRecord) -> tuple[float, Ceiling | None]:
    rated = [(forwarded_rate(point) or 0.0, index) for index, point in enumerate(trial.points or ())]
    rate, index = max(rated)
    return rate, ceiling_of(found, trial.parameters, (trial.points or ())[index])
