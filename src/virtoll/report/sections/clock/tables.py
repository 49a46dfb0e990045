"""`clock.csv`: what each trial's duration is by the outside clock and by the guest's own."""

from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import Table, answer, caveat, number, shared, text
from virtoll.stats.clocks import ClockReading


def _timed_trials(source: ReportInput) -> list[ClockReading]:
    readings = [reading for clock in source.analysis.clocks for reading in clock.readings]
    return sorted(readings, key=lambda reading: reading.trial)


READINGS: Final = Table[ClockReading](
    "clock",
    "a trial that the outside clock and the guest's own clock timed",
    _timed_trials,
    (
        shared("trial", lambda row: row.trial),
        shared("block", lambda row: row.block + 1),
        shared("platform", lambda row: row.platform),
        shared("workload", lambda row: row.workload),
        text("method", "icmp: marks on their own link; channel: the agent's", lambda row: row.method),
        number("outside_ns", "ns", "the duration by the outside clock", lambda row: row.outside_ns),
        number("guest_ns", "ns", "the same by the guest's clock", lambda row: row.guest_ns),
        number(
            "error_estimate_ns",
            "ns",
            "how wrong the outside duration may be",
            lambda row: row.error_estimate_ns,
        ),
        number(
            "relative_error",
            "share",
            "(guest - outside) / outside; positive: the guest's clock runs fast",
            lambda row: row.error,
        ),
        number("relative_estimate", "share", "error estimate / outside", lambda row: row.estimate),
        answer("within_estimate", "whether the difference is within the estimate", lambda row: row.within),
        caveat(lambda row: row.platform),
    ),
)
