"""How far the CPUs of a run were from each other, by how fast they handed a cache line over.

Main types: `CpuDistance`, one pair over a run. A pair whose readings are of two distances was moved by the host's own
hypervisor, and what passes from one CPU to the other then takes as much longer. Main function: `with_distances`, for
values of frames. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from virtoll.runfolder.hand_over import FAR_RATIO, Distance, HandOver, HandOverSpan
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import CalibrationRecord, Point
from virtoll.stats.summaries import known, median_of_known
from virtoll.stats.values import Observation, Task, best_point, grouped

_LEAST_FAR = 2  # a single reading may be of something else that had the CPU


@dataclass(frozen=True)
class CpuDistance:
    """A pair of CPUs: how many readings it has, and the reason of the first of those that are `missing`.

    `near_ns` and `far_ns`: the median round trip of the readings at each distance; None: there is none. `far`: how many
    are further than `limit_ns`, which is `FAR_RATIO` times the lower decile; None: they are at one distance.
    """

    cpus: tuple[int, int]
    readings: int
    missing: int
    reason: str | None
    near_ns: float | None
    far_ns: float | None
    far: int
    limit_ns: float | None

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
    limit = FAR_RATIO * times[len(times) // 10] if times else None
    near = [time for time in times if limit is not None and time <= limit]
    far = times[len(near) :]
    if len(far) < _LEAST_FAR:
        near, far, limit = times, [], None
    return CpuDistance(
        cpus=cpus,
        readings=len(times),
        missing=len(readings) - len(times),
        reason=next(iter(known(reading.reason for reading in readings)), None),
        near_ns=median_of_known(near),
        far_ns=median_of_known(far),
        far=len(far),
        limit_ns=limit,
    )


def with_distances(
    observations: Iterable[Observation], trials: Iterable[TrialRecord], distances: Iterable[CpuDistance]
) -> tuple[Observation, ...]:
    """Values of frames with how far the CPUs were from each other around the points that they are of.

    `trials`: their records, of several guests one for each. All else was measured on one CPU, and stays as it is.
    """
    pairs = {distance.cpus: distance for distance in distances}
    if all(distance.limit_ns is None for distance in pairs.values()):
        return tuple(observations)
    by_number = grouped(trials, lambda trial: trial.trial)
    return tuple(
        observation._replace(distance=value_distance(observation.task, by_number[observation.trial], pairs))
        for observation in observations
    )


def value_distance(
    task: Task, trials: Iterable[TrialRecord], pairs: Mapping[tuple[int, int], CpuDistance]
) -> Distance | None:
    """Of the CPUs around what a value is of; `trials`: of each guest."""
    return distance_around(chain.from_iterable(_spans_of_value(task, trial) for trial in trials), pairs)


def _spans_of_value(task: Task, trial: TrialRecord) -> Iterator[HandOverSpan]:
    """What was read around the points that a value is of: the best of a sweep, or all for the CPU time of a frame."""
    points: Sequence[Point] = ()
    if task.metric.source == "points":
        best = best_point(trial.points or ())
        points = () if best is None else (best,)
    elif task.metric.source == "cpu_points":
        points = trial.cpu_points or ()
    yield from known(point.hand_over for point in points)


def distance_around(spans: Iterable[HandOverSpan], pairs: Mapping[tuple[int, int], CpuDistance]) -> Distance | None:
    """By the readings around it; `pairs`: of the run. None: none was read of a pair that has two distances."""
    far: dict[tuple[int, int], set[bool]] = {}
    for span in spans:
        for reading in (*span.before, *span.after):
            pair, time = pairs.get(reading.cpus), reading.round_trip_ns
            if pair is not None and pair.limit_ns is not None and time is not None:
                far.setdefault(reading.cpus, set()).add(time > pair.limit_ns)
    if not far:
        return None
    if any(len(readings) > 1 for readings in far.values()):
        return Distance.CHANGED
    return Distance.FAR if {True} in far.values() else Distance.NEAR


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
