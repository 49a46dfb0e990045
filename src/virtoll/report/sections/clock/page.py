"""The platforms' clock errors for the page, a row each."""

from typing import Any

from virtoll import units
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import Shown, TableRow
from virtoll.stats.clocks import ClockError


def clock_values(source: ReportInput) -> dict[str, Any]:
    """What the template prints; no rows if no guest's clock was read."""
    return {"rows": list(map(_row, source.analysis.clocks))}


def _row(clock: ClockError) -> TableRow:
    ppm = units.parts_per_million
    methods = ", ".join(sorted({reading.method for reading in clock.readings}))
    slope = clock.slope
    if slope is None:
        rate, marks = Shown("–", hint=clock.why_no_slope), Shown("–")
    else:
        between = f"{ppm(slope.low)} to {ppm(slope.high)}"
        rate = Shown(ppm(slope.rate), between, "slower" if clock.wrong else "same")
        marks = Shown(units.nanoseconds(slope.marks_ns).replace("-", "−"))
    return TableRow(
        clock.platform,
        (
            rate,
            marks,
            Shown(clock.words, clock.why_no_slope),
            Shown(ppm(clock.median)),
            Shown(f"{ppm(clock.low)} to {ppm(clock.high)}"),
            Shown("±" + ppm(clock.estimate).lstrip("+")),
            Shown(str(len(clock.readings))),
            Shown(methods),
        ),
    )
