"""The platforms' clock error: the guest's own duration against the outside clock's, with the outside clock's bound."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from virtoll.runfolder.records import TrialRecord, duration_ns


@dataclass(frozen=True)
class ClockReading:
    """One trial: `error` = (guest - outside) / outside, `bound` = error bound / outside; `method`: the marks' path."""

    trial: int
    block: int
    platform: str
    workload: str
    method: str
    outside_ns: int
    guest_ns: int
    error_bound_ns: int

    @property
    def error(self) -> float:
        """Relative clock error; positive: the guest's clock runs fast."""
        return (self.guest_ns - self.outside_ns) / self.outside_ns

    @property
    def bound(self) -> float:
        """The relative error that the outside clock itself may have on this duration."""
        return self.error_bound_ns / self.outside_ns

    @property
    def within(self) -> bool:
        """Whether the difference may be the outside clock's own."""
        return abs(self.guest_ns - self.outside_ns) <= self.error_bound_ns


@dataclass(frozen=True)
class ClockError:
    """One platform: median, range and how many of its readings lie within their bound."""

    platform: str
    readings: tuple[ClockReading, ...]
    median: float
    low: float
    high: float
    bound: float
    within: int

    @property
    def words(self) -> str:
        """The finding in words."""
        count = len(self.readings)
        if self.within == count:
            return "within the bound"
        if self.within * 2 >= count:
            return f"within the bound in {self.within} of {count} trials"
        return f"beyond the bound in {count - self.within} of {count} trials"


def clock_readings(trials: Sequence[TrialRecord]) -> tuple[ClockReading, ...]:
    """A reading for every `ok` trial with marks, a guest's reading and an error bound."""
    found = []
    for trial in trials:
        clock = trial.clock
        if trial.status != "ok" or clock is None or clock.guest is None or clock.error_bound_ns is None:
            continue
        outside = duration_ns(clock)
        if outside is None or outside <= 0:
            continue
        guest = clock.guest.end_monotonic_ns - clock.guest.start_monotonic_ns
        found.append(
            ClockReading(
                trial=trial.trial,
                block=trial.block,
                platform=trial.platform,
                workload=trial.workload,
                method=clock.method,
                outside_ns=outside,
                guest_ns=guest,
                error_bound_ns=clock.error_bound_ns,
            )
        )
    return tuple(found)


def clock_errors(readings: Sequence[ClockReading], platforms: Sequence[str]) -> tuple[ClockError, ...]:
    """One row for each platform that has readings, in the given order; `bound` is the median of the trials' bounds."""
    rows = []
    for platform in platforms:
        own = tuple(reading for reading in readings if reading.platform == platform)
        if own:
            errors = [reading.error for reading in own]
            bound = statistics.median(reading.bound for reading in own)
            within = sum(reading.within for reading in own)
            rows.append(
                ClockError(
                    platform=platform,
                    readings=own,
                    median=statistics.median(errors),
                    low=min(errors),
                    high=max(errors),
                    bound=bound,
                    within=within,
                )
            )
    return tuple(rows)
