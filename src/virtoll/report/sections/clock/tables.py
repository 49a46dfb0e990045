"""`clock.csv`: what each trial's duration is by the outside clock and by the guest's own."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import Table, answer, number, shared, text
from virtoll.stats.clocks import ClockReading


@dataclass(frozen=True)
class TimedTrial:
    """A trial's reading, and what must be known of its platform."""

    reading: ClockReading
    caveat: str | None


def _timed_trials(source: ReportInput) -> Iterator[TimedTrial]:
    readings = [reading for clock in source.analysis.clocks for reading in clock.readings]
    readings.sort(key=lambda reading: reading.trial)
    for reading in readings:
        yield TimedTrial(reading, source.analysis.caveats.get(reading.platform))


READINGS: Final = Table[TimedTrial](
    "clock",
    "a trial that the outside clock and the guest's own clock timed",
    _timed_trials,
    (
        shared("trial", lambda row: row.reading.trial),
        shared("block", lambda row: row.reading.block + 1),
        shared("platform", lambda row: row.reading.platform),
        shared("workload", lambda row: row.reading.workload),
        text("method", "icmp: marks on their own link; channel: the agent's", lambda row: row.reading.method),
        number("outside_ns", "ns", "the duration by the outside clock", lambda row: row.reading.outside_ns),
        number("guest_ns", "ns", "the same by the guest's clock", lambda row: row.reading.guest_ns),
        number(
            "error_estimate_ns",
            "ns",
            "how wrong the outside duration may be",
            lambda row: row.reading.error_estimate_ns,
        ),
        number(
            "relative_error",
            "share",
            "(guest - outside) / outside; positive: the guest's clock runs fast",
            lambda row: row.reading.error,
        ),
        number("relative_estimate", "share", "error estimate / outside", lambda row: row.reading.estimate),
        answer("within_estimate", "whether the difference is within the estimate", lambda row: row.reading.within),
        shared("caveat", lambda row: row.caveat),
    ),
)
