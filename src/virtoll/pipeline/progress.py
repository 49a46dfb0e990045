"""What the pipeline reports while a run goes on, and its trials in words; ``virtoll.cli.progress`` shows it.

Main types: ``Progress`` (the seam), ``SilentProgress``.
"""

from __future__ import annotations

from typing import Protocol

from virtoll import units
from virtoll.experiment.plan import Trial
from virtoll.runfolder.records import TrialRecord, duration_ns
from virtoll.runfolder.traffic_records import Point


class Progress(Protocol):
    """What the pipeline reports while it works."""

    def message(self, text: str) -> None:
        """Something that takes a moment is being done."""
        ...

    def begin(self, done: int, total: int, estimated_seconds: float) -> None:
        """Measuring begins: trials done before (a resumed run), trials in all, seconds that the rest will take."""
        ...

    def trial_begins(self, trial: Trial) -> None:
        """A trial begins."""
        ...

    def trial_ends(self, trial: Trial, record: TrialRecord) -> None:
        """A trial has ended and is stored."""
        ...


class SilentProgress:
    """Says nothing."""

    def message(self, text: str) -> None:
        """Nothing."""

    def begin(self, done: int, total: int, estimated_seconds: float) -> None:
        """Nothing."""

    def trial_begins(self, trial: Trial) -> None:
        """Nothing."""

    def trial_ends(self, trial: Trial, record: TrialRecord) -> None:
        """Nothing."""


def describe(trial: Trial, work: str | None = None) -> str:
    """A trial in a few words: `work` is the report's name for what it runs.

    Without one it is the workload with the parameters that the experiment gives, so that no two trials look alike.
    """
    part = "warm-up" if trial.warm_up else f"round {trial.round + 1}"
    condition = [] if trial.condition is None else [f"beside {trial.condition.label}"]
    at_once = [] if trial.scale is None else [f"in {trial.scale.label} at once"]
    what = _asked(trial) if work is None else f"{trial.platform.label}, {work}"
    return " ".join([f"block {trial.block + 1}", part, what, *condition, *at_once])


def _asked(trial: Trial) -> str:
    parameters = trial.workload.parameters.model_dump(mode="json", exclude_unset=True)
    words = [f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in parameters.items()]
    return " ".join([trial.platform.label, trial.workload.workload, *words])


def outcome(record: TrialRecord) -> str:
    """A trial's result in a few words, from its record."""
    if record.status != "ok":
        return f"{record.status}: {record.reason}"
    pdr = ((record.result or {}).get("figures") or {}).get("pdr")
    if pdr is not None:
        return f"PDR {units.frame_rate(pdr)}"
    if record.points:
        return f"{units.frame_rate(max(map(_forwarded_per_second, record.points)))} forwarded at most"
    clocks = [member.clock for member in record.members] if record.members else [record.clock]
    durations = [duration_ns(clock) for clock in clocks if clock is not None]
    known = [took_ns for took_ns in durations if took_ns is not None]
    if not known:  # its duration is given, and no result
        return "ok"
    if record.members:
        return f"{units.nanoseconds(min(known))} to {units.nanoseconds(max(known))}"
    took = units.nanoseconds(known[0])
    return took if record.repeats == 1 else f"{took} for {record.repeats} repeats"


def _forwarded_per_second(point: Point) -> float:
    return sum(source.forwarded_frames for source in point.sink.per_source) / point.duration_ns * 1e9
