"""How far the CPUs of a run were from each other, by how fast they handed a cache line over.

Main types: `CpuDistance`, one pair over a run. A pair whose readings are of two distances was moved by the host's own
hypervisor, and what passes from one CPU to the other then takes as much longer. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from virtoll.runfolder.hand_over import FAR_RATIO, HandOver, HandOverSpan
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import CalibrationRecord
from virtoll.stats.summaries import known, median_of_known
from virtoll.stats.values import grouped

_LEAST_FAR = 2  # a single reading may be of something else that had the CPU


@dataclass(frozen=True)
class CpuDistance:
    """A pair of CPUs: how many readings it has, and the reason of the first of those that are `missing`.

    `near_ns` and `far_ns`: the median round trip of the readings at each distance; None: there is none. `far`: how many
    are further than `FAR_RATIO` times the lower decile.
    """

    cpus: tuple[int, int]
    readings: int
    missing: int
    reason: str | None
    near_ns: float | None
    far_ns: float | None
    far: int

    @property
    def far_share(self) -> float:
        """Of its readings."""
        return self.far / max(1, self.readings)


def cpu_distances(readings: Iterable[HandOver]) -> tuple[CpuDistance, ...]:
    """Each pair, in the order of its first reading."""
    pairs = grouped(readings, lambda reading: reading.cpus)
    return tuple(_distance(cpus, of_pair) for cpus, of_pair in pairs.items())


def _distance(cpus: tuple[int, int], readings: Sequence[HandOver]) -> CpuDistance:
    times = sorted(known(reading.round_trip_ns for reading in readings))
    near = [time for time in times if time <= FAR_RATIO * times[len(times) // 10]]
    far = times[len(near) :]
    if len(far) < _LEAST_FAR:
        near, far = times, []
    return CpuDistance(
        cpus=cpus,
        readings=len(times),
        missing=len(readings) - len(times),
        reason=next(iter(known(reading.reason for reading in readings)), None),
        near_ns=median_of_known(near),
        far_ns=median_of_known(far),
        far=len(far),
    )


def hand_overs_of(trials: Iterable[TrialRecord], calibrations: Iterable[CalibrationRecord] = ()) -> list[HandOver]:
    """Every reading of a run: around its trials, their points and those of its calibrations."""
    readings: list[HandOver] = []
    records: list[TrialRecord | CalibrationRecord] = [*trials, *calibrations]
    for record in records:
        for around in spans_of(record):
            readings += (*around.span.before, *around.span.after)
    return readings


@dataclass(frozen=True)
class SpanOfRecord:
    """What was read around a trial, or around a point: its place in one of the record's lists, points or cpu_points."""

    points: str | None
    place: int | None
    span: HandOverSpan


def spans_of(record: TrialRecord | CalibrationRecord) -> Iterator[SpanOfRecord]:
    """All that were read, the trial's own first."""
    if isinstance(record, TrialRecord) and record.hand_over is not None:
        yield SpanOfRecord(None, None, record.hand_over)
    for name, points in (("points", record.points), ("cpu_points", record.cpu_points)):
        for place, point in enumerate(points or ()):
            if point.hand_over is not None:
                yield SpanOfRecord(name, place, point.hand_over)
