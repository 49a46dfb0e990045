"""The platforms' clock error: the guest's own durations against the outside clock's.

A wrong clock is wrong by a share of the time that passes, and a late mark by as much for a short job as for a long one.
So the clock's error is the slope of the differences over the durations, and the marks' error their intercept.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from virtoll.runfolder.records import TrialRecord, between_marks_ns

# A slope needs durations that differ, and more readings than two lines can share.
LEAST_READINGS, LEAST_SPREAD = 5, 1.5
_LEVEL = 0.95
_MOST_READINGS = 1000  # the method takes all pairs


@dataclass(frozen=True, slots=True)
class ClockReading:
    """One trial, from mark to mark: `error` = (guest - outside) / outside; `method`: the marks' path.

    `estimate`: of the outside clock's own error, as a share of the duration.
    """

    trial: int
    block: int
    platform: str
    workload: str
    method: str
    outside_ns: int
    guest_ns: int
    error_estimate_ns: int

    @property
    def error(self) -> float:
        """Relative clock error; positive: the guest's clock runs fast."""
        return (self.guest_ns - self.outside_ns) / self.outside_ns

    @property
    def estimate(self) -> float:
        """The relative error that the outside clock itself may have on this duration."""
        return self.error_estimate_ns / self.outside_ns

    @property
    def within(self) -> bool:
        """Whether the difference may be the outside clock's own."""
        return abs(self.guest_ns - self.outside_ns) <= self.error_estimate_ns


@dataclass(frozen=True)
class ClockSlope:
    """`rate`: relative error of the clock (positive: fast), with its 95 % interval; `marks_ns`: what the marks add.

    Theil's method (1950): the median of the slopes of all pairs of readings, with the interval of Sen (1968). A few
    trials whose marks were late do not move it.
    """

    rate: float
    low: float
    high: float
    marks_ns: float

    @property
    def finds_an_error(self) -> bool:
        """Whether the interval leaves out a right clock."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class ClockError:
    """One platform: the slope (None: `why_no_slope`); median and range of single trials' errors, and how many lie
    within their estimate."""

    platform: str
    readings: tuple[ClockReading, ...]
    slope: ClockSlope | None
    why_no_slope: str
    median: float
    low: float
    high: float
    estimate: float
    within: int

    @property
    def wrong(self) -> bool:
        """Whether the clock is found to be wrong; without a slope, whether most trials are beyond their estimate."""
        return self.slope.finds_an_error if self.slope is not None else self.within * 2 < len(self.readings)

    @property
    def words(self) -> str:
        """The finding in words."""
        count = len(self.readings)
        if self.slope is not None:
            return "the clock is wrong" if self.wrong else "no clock error found"
        if self.within == count:
            return "within the error estimate"
        if not self.wrong:
            return f"within the error estimate in {self.within} of {count} trials"
        return f"beyond the error estimate in {count - self.within} of {count} trials"


def clock_readings(trials: Sequence[TrialRecord]) -> tuple[ClockReading, ...]:
    """A reading for every `ok` trial with marks, a guest's reading and an error estimate."""
    readings = []
    for trial in trials:
        clock = trial.clock
        if trial.status != "ok" or clock is None or clock.guest is None or clock.error_estimate_ns is None:
            continue
        outside = between_marks_ns(clock)
        if outside is None or outside <= 0:
            continue
        readings.append(
            ClockReading(
                trial=trial.trial,
                block=trial.block,
                platform=trial.platform,
                workload=trial.workload,
                method=clock.method,
                outside_ns=outside,
                guest_ns=clock.guest.between_marks_ns,
                error_estimate_ns=clock.error_estimate_ns,
            )
        )
    return tuple(readings)


def clock_errors(readings: Sequence[ClockReading], platforms: Sequence[str]) -> tuple[ClockError, ...]:
    """One row for each platform that has readings, in the given order; `estimate` is the median of the trials' own."""
    rows = []
    for platform in platforms:
        of_platform = tuple(reading for reading in readings if reading.platform == platform)
        if not of_platform:
            continue
        errors = [reading.error for reading in of_platform]
        slope, why = _slope(of_platform)
        estimate = statistics.median(reading.estimate for reading in of_platform)
        rows.append(
            ClockError(
                platform=platform,
                readings=of_platform,
                slope=slope,
                why_no_slope=why,
                median=statistics.median(errors),
                low=min(errors),
                high=max(errors),
                estimate=estimate,
                within=sum(reading.within for reading in of_platform),
            )
        )
    return tuple(rows)


def _slope(readings: Sequence[ClockReading]) -> tuple[ClockSlope | None, str]:
    if len(readings) < LEAST_READINGS:
        return None, f"{len(readings)} trials; a slope needs {LEAST_READINGS}"
    durations = [reading.outside_ns for reading in readings]
    if max(durations) < LEAST_SPREAD * min(durations):
        return None, f"the durations are alike; a slope needs some that are {LEAST_SPREAD:g} times as long as others"
    taken = readings[:: math.ceil(len(readings) / _MOST_READINGS)]
    differences = [reading.guest_ns - reading.outside_ns for reading in taken]
    if len({reading.guest_ns for reading in taken}) < 2:
        return None, "the durations on the guest's clock are all the same"
    # Over the guest's durations: the outside ones have the marks' noise, with the other sign than the differences, so
    # that trials of one length would pull the slope towards -1.
    slope, marks_ns, *interval = theil_sen(differences, [reading.guest_ns for reading in taken])
    if any(bound >= 1 for bound in (slope, *interval)):
        return None, "the guest's clock runs on where the outside clock stands still: they do not go together"
    rate, low, high = (bound / (1 - bound) for bound in (slope, *interval))  # of the outside durations
    return ClockSlope(rate, low, high, marks_ns), ""


def theil_sen(y: Sequence[float], x: Sequence[float]) -> tuple[float, float, float, float]:
    """Slope, intercept and the slope's 95 % interval (low, high; NaN where ties leave none) of x that differ.

    Theil 1950, with the interval of Sen 1968 (equation 2.6). It is `scipy.stats.theilslopes` with `method="joint"`, to
    the last digit (`tests/stats/test_clocks.py`): all of `scipy.stats` takes half a second and 50 MB to import.
    """
    from virtoll.stats.arrays import ndtri, np

    ys, xs = np.asarray(y, dtype=float), np.asarray(x, dtype=float)
    across, up = xs[:, np.newaxis] - xs, ys[:, np.newaxis] - ys
    rising = across > 0
    slopes = np.sort(up[rising] / across[rising])
    slope = np.median(slopes)
    count, pairs = len(ys), len(slopes)
    repeats = [np.unique(values, return_counts=True)[1] for values in (xs, ys)]
    ties = sum(int(k * (k - 1) * (2 * k + 5)) for counts in repeats for k in counts)
    variance = 1 / 18 * (count * (count - 1) * (2 * count + 5) - ties)
    middle, intercept = float(slope), float(np.median(ys - slope * xs))
    if variance < 0:  # more ties than values: there is no interval
        return middle, intercept, math.nan, math.nan
    reach = ndtri((1 - _LEVEL) / 2) * np.sqrt(variance)
    high = min(int(np.round((pairs - reach) / 2)), pairs - 1)
    low = max(int(np.round((pairs + reach) / 2)) - 1, 0)
    return middle, intercept, float(slopes[low]), float(slopes[high])
