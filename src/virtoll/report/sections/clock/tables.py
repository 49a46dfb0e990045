"""`clock.csv`: what each trial's duration is by the outside clock and by the guest's own."""

from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import Table, WithCaveat, answer, number, shared, text, with_caveats
from virtoll.stats.clocks import ClockReading


def _timed_trials(source: ReportInput) -> list[WithCaveat[ClockReading]]:
    readings = [reading for clock in source.analysis.clocks for reading in clock.readings]
    return with_caveats(source.analysis, sorted(readings, key=lambda reading: reading.trial))


READINGS: Final = Table[WithCaveat[ClockReading]](
    "clock",
    "a trial that the outside clock and the guest's own clock timed",
    _timed_trials,
    (
        shared("trial", lambda row: row.measured.trial),
        shared("block", lambda row: row.measured.block + 1),
        shared("platform", lambda row: row.measured.platform),
        shared("workload", lambda row: row.measured.workload),
        text("method", "icmp: marks on their own link; channel: the agent's", lambda row: row.measured.method),
        number("outside_ns", "ns", "the duration by the outside clock", lambda row: row.measured.outside_ns),
        number("guest_ns", "ns", "the same by the guest's clock", lambda row: row.measured.guest_ns),
        number(
            "error_estimate_ns",
            "ns",
            "how wrong the outside duration may be",
            lambda row: row.measured.error_estimate_ns,
        ),
        number(
            "relative_error",
            "share",
            "(guest - outside) / outside; positive: the guest's clock runs fast",
            lambda row: row.measured.error,
        ),
        number("relative_estimate", "share", "error estimate / outside", lambda row: row.measured.estimate),
        answer("within_estimate", "whether the difference is within the estimate", lambda row: row.measured.within),
        shared("caveat", lambda row: row.caveat),
    ),
)
