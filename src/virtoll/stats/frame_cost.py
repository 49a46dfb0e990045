"""Host CPU time per forwarded frame: of the router alone, whoever's core does its work.

A trial has two points, with few frames and with many, at which the sender wakes equally often. The CPU time of a frame
is the difference of the CPUs' busy times over the difference of the frames: what a guest costs at rest is in both. The
same slope with nothing between generator and sink (the calibrations) comes off.

Summed up are the CPUs that forward for the guest, where its boot names them and neither generator nor sink has one of
them; otherwise all CPUs that were read. Pure.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from virtoll.runfolder.records import BootRecord, TrialRecord
from virtoll.runfolder.traffic_records import CalibrationRecord, Point
from virtoll.stats.ceilings import shape_of
from virtoll.stats.summaries import median_of_known

# A frame that is lost half-way saves work: with this share lost, a frame's cost is at most that much too small.
MISSING_SHARE = 0.05
MODEL = "model"  # the back end of models, whose generator and sink cost nothing


@dataclass(frozen=True)
class FrameCost:
    """CPU time of one frame, ns; `none_because` where it is None. `own` of it was read, `instrument` came off."""

    value: float | None
    none_because: str = ""
    own: float | None = None
    instrument: float | None = None


def frame_costs(
    trials: Sequence[TrialRecord], boots: Sequence[BootRecord], calibrations: Sequence[CalibrationRecord]
) -> dict[int, FrameCost]:
    """By number of trial: one for each trial that has such points."""
    forwarding: dict[str | None, frozenset[int]] = {
        boot.boot: frozenset(boot.forwarding.cpus)
        for boot in boots
        if boot.forwarding is not None and boot.forwarding.cpus is not None
    }
    return {
        trial.trial: _frame_cost(trial, trial.cpu_points, forwarding.get(trial.boot), calibrations)
        for trial in trials
        if trial.status == "ok" and trial.cpu_points
    }


def _frame_cost(
    trial: TrialRecord,
    points: Sequence[Point],
    forwarding: Collection[int] | None,
    calibrations: Sequence[CalibrationRecord],
) -> FrameCost:
    cpus = _cpus(points[-1], forwarding)
    cost = slope(points, cpus)
    if cost is None:
        return FrameCost(None, "more than 5 % of the frames were lost, or the idle time of a CPU is not known")
    instrument = _instrument(trial.parameters, points[-1], cpus, calibrations)
    if instrument is None:
        return FrameCost(None, "what generator and sink cost with nothing between was not measured", cost)
    value = cost - instrument
    if value <= 0:
        return FrameCost(None, "it is no more than what generator and sink cost with nothing between", cost, instrument)
    return FrameCost(value, own=cost, instrument=instrument)


def _cpus(point: Point, forwarding: Collection[int] | None) -> frozenset[int]:
    """Over which CPUs to sum up; none where none was read."""
    if point.cpu.idle is None:
        return frozenset()
    read = frozenset(reading.cpu for reading in point.cpu.idle)
    others = {*(point.cpu.generator_cores or ()), point.cpu.sink_core}
    apart = forwarding is not None and read.issuperset(forwarding) and others.isdisjoint(forwarding)
    return frozenset(forwarding) if forwarding is not None and apart else read


def slope(points: Sequence[Point], cpus: Collection[int]) -> float | None:
    """CPU time of a frame, ns, over these CPUs: the median over pairs of points, of few and of many frames.

    Of each pair it is `(busy of many - busy of few) / (frames of many - frames of few)`. None where it is not known of
    any, and where more than 5 % of the frames did not arrive.
    """
    return median_of_known(_slope(few, many, cpus) for few, many in zip(points[::2], points[1::2], strict=True))


def _slope(few: Point, many: Point, cpus: Collection[int]) -> float | None:
    rest, busy = _busy(few, cpus), _busy(many, cpus)
    least, most = _forwarded(few), _forwarded(many)
    if rest is None or busy is None or least is None or most is None or most <= least:
        return None
    return (busy - rest) / (most - least)


def _busy(point: Point, cpus: Collection[int]) -> int | None:
    known = {reading.cpu: reading.busy_ns for reading in point.cpu.idle or ()}
    if not cpus or not known.keys() >= set(cpus):
        return None
    return sum(known[cpu] for cpu in cpus)


def _forwarded(point: Point) -> int | None:
    intended = sum(source.intended_frames for source in point.sources)
    forwarded = sum(counts.forwarded_frames for counts in point.sink.per_source)
    return forwarded if forwarded >= (1 - MISSING_SHARE) * intended else None


def _instrument(
    parameters: Mapping[str, object], point: Point, cpus: Collection[int], calibrations: Sequence[CalibrationRecord]
) -> float | None:
    """What generator and sink take a frame on these CPUs: of all pairs of all calibrations of this shape of frames."""
    if point.backend == MODEL:
        return 0.0
    used = (point.backend, point.sink.backend)
    pairs = [
        calibrated
        for record in calibrations
        if record.status == "ok" and record.cpu_points and shape_of(record.parameters) == shape_of(parameters)
        for calibrated in record.cpu_points
        if (calibrated.backend, calibrated.sink.backend) == used
    ]
    return slope(pairs, cpus)
