"""The guests themselves for the page and the terminal: readiness, memory, host CPU, consolidation, as rows of text.

No numbers are computed here: they come from `stats/guests.py` and `stats/consolidation.py`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import UNKNOWN, Shown, TableRow, known, platforms_of
from virtoll.stats.analysis import Analysis
from virtoll.stats.consolidation import Consolidation, Slope
from virtoll.stats.guests import CpuUse, GuestCost, Quantity
from virtoll.stats.values import Task


def guests_values(source: ReportInput) -> dict[str, Any]:
    """What the template prints; no rows if nothing of the guests was read."""
    analysis = source.analysis
    uses = {(use.task, use.platform): use for use in analysis.host_cpu}
    tasks = list(dict.fromkeys(use.task for use in analysis.host_cpu))
    platforms = platforms_of(analysis, analysis.host_cpu)
    names = list(dict.fromkeys(name for row in analysis.guests for name in row.shared))
    harness = any(row.harness is not None for row in analysis.guests)
    cpu = [_cpu_row(task, [uses.get((task, platform)) for platform in platforms]) for task in tasks]
    return {
        "rows": [_guest_row(row, names, harness=harness) for row in analysis.guests],
        "harness": harness,
        "shared": names,
        "cpu_platforms": platforms,
        "cpu": cpu,
        "consolidations": list(map(_consolidation_row, analysis.consolidations)),
    }


def _cpu_row(task: Task, uses: Sequence[CpuUse | None]) -> TableRow:
    unit = next(use.unit for use in uses if use is not None)
    return TableRow(task.label, (Shown(f"per {unit}"), *map(_cpu_cell, uses)))


def _guest_row(row: GuestCost, shared: list[str], *, harness: bool) -> TableRow:
    """`harness`: whether the table has a column for it."""
    after = (row.spawn, row.kernel, row.init)
    times = (row.ready, row.harness, *after) if harness else (row.ready, *after)
    sizes = (row.idle, row.worked, row.page_tables, row.charged, row.files)
    return TableRow(
        row.platform,
        (
            *(_cell(time, units.nanoseconds) for time in times),
            *(_cell(size, _size) for size in sizes),
            known(row.processes, str),
            *(_cell(row.shared.get(name), _size) for name in shared),
        ),
    )


def _cell(quantity: Quantity | None, show: Callable[[float], str]) -> Shown:
    if quantity is None:
        return UNKNOWN
    interval = quantity.interval
    between = f"{show(interval.low)} to {show(interval.high)}" if interval else "one block"
    return Shown(show(quantity.median), between)


def _cpu_cell(use: CpuUse | None) -> Shown:
    if use is None:
        return UNKNOWN
    main = units.nanoseconds(use.per_unit.median)
    if use.ratio is None:
        return Shown(main)
    interval = use.interval
    between = f" ({units.between(interval.low, interval.high, '')})" if interval else ""
    return Shown(main, f"{words.estimate(use.ratio, interval, '×')}{between}")


def _consolidation_row(series: Consolidation) -> TableRow:
    slopes = (*_slope(series.available), *_slope(series.processes))
    return TableRow(series.platform, (Shown(str(series.guests)), *slopes, Shown(series.reason)))


def consolidation_lines(analysis: Analysis) -> list[str]:
    """Each platform's consolidation in a sentence, for the terminal."""
    lines = []
    for series in analysis.consolidations:
        parts = [f"{series.platform}: {series.guests} idle guests"]
        for slope, by in ((series.available, "available memory"), (series.processes, "their processes")):
            each, fit = _slope(slope)
            if slope is not None:
                parts.append(
                    f"{each.main} each by {by} ({each.small}), {fit.main} a GiB ({fit.small})".replace(" ()", "")
                )
        lines.append("; ".join([*parts, f"ended because {series.reason}"]))
    return lines


def _slope(slope: Slope | None) -> tuple[Shown, Shown]:
    """Bytes a guest, and guests a GiB."""
    if slope is None:
        return UNKNOWN, UNKNOWN
    mean, fit = slope.bytes_per_guest, slope.guests_per_gib
    small = f"{_size(mean.interval.low)} to {_size(mean.interval.high)}" if mean.interval else "one guest"
    each = Shown(_size(mean.value), small)
    if fit is None:
        return each, UNKNOWN
    middle, low, high = fit
    ends = "one guest"
    if low is not None:
        most = "∞" if high is None else units.significant(high)
        ends = f"{units.significant(low)} to {most}"
    return each, Shown(units.significant(middle), ends)


def _size(value: float) -> str:
    """Bytes, also negative ones: a slope's interval may reach below zero."""
    return units.size(round(value)) if value >= 0 else f"−{units.size(round(-value))}"
