"""How far the CPUs of a run were from each other, by how fast they handed a cache line over.

Main types: `CpuDistance`, one pair over a run. A pair whose readings are of two distances was moved by the host's own
hypervisor, and what passes from one CPU to the other then takes as much longer. Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from virtoll.runfolder.hand_over import FAR_RATIO, HandOver, HandOverSpan
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import CalibrationRecord, Point
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
    spans: list[HandOverSpan | None] = []
    for trial in trials:
        spans += [trial.hand_over, *_of_points(trial.points, trial.cpu_points)]
    for calibration in calibrations:
        spans += _of_points(calibration.points, calibration.cpu_points)
    readings: list[HandOver] = []
    for span in spans:
        if span is not None:
            readings += (*span.before, *span.after)
    return readings


def _of_points(*lists: Sequence[Point] | None) -> list[HandOverSpan | None]:
    return [point.hand_over for points in lists for point in points or ()]
