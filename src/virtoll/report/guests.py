"""The page's part on the guests themselves: readiness, memory, host CPU, consolidation, as rows of text.

No numbers are computed here: they come from ``stats/guests.py`` and ``stats/consolidation.py``.
"""

from collections.abc import Callable, Sequence
from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.rows import Shown, TableRow
from virtoll.stats.analysis import Analysis
from virtoll.stats.consolidation import Consolidation, Slope
from virtoll.stats.guests import CpuUse, GuestCost, Quantity
from virtoll.stats.values import Task

_UNKNOWN = Shown("–", kind="missing")


def guests_context(analysis: Analysis) -> dict[str, Any]:
    """What ``guests.html.j2`` prints."""
    uses = {(use.task, use.platform): use for use in analysis.host_cpu}
    tasks = list(dict.fromkeys(use.task for use in analysis.host_cpu))
    platforms = [one for one in analysis.platforms if any(use.platform == one for use in analysis.host_cpu)]
    names = {name: None for row in analysis.guests for name in row.shared}
    harness = any(row.harness is not None for row in analysis.guests)
    return {
        "rows": [_guest_row(row, list(names), harness=harness) for row in analysis.guests],
        "harness": harness,
        "shared": list(names),
        "cpu_platforms": platforms,
        "cpu": [_cpu_row(task, [uses.get((task, one)) for one in platforms]) for task in tasks],
        "consolidations": [_consolidation_row(one) for one in analysis.consolidations],
    }


def _cpu_row(task: Task, uses: Sequence[CpuUse | None]) -> TableRow:
    unit = next(use.unit for use in uses if use is not None)
    return TableRow(task.label, (Shown(f"per {unit}"), *map(_cpu_cell, uses)))


def _guest_row(row: GuestCost, shared: list[str], *, harness: bool) -> TableRow:
    """``harness``: whether the table has a column for it."""
    time, size = units.nanoseconds, _size
    return TableRow(
        row.platform,
        (
            _cell(row.ready, time),
            *([_cell(row.harness, time)] if harness else []),
            _cell(row.spawn, time),
            _cell(row.kernel, time),
            _cell(row.init, time),
            _cell(row.idle, size),
            _cell(row.worked, size),
            _cell(row.page_tables, size),
            _cell(row.charged, size),
            _cell(row.files, size),
            Shown(str(row.processes)) if row.processes is not None else _UNKNOWN,
            *(_cell(row.shared.get(name), size) for name in shared),
        ),
    )


def _cell(found: Quantity | None, show: Callable[[float], str]) -> Shown:
    if found is None:
        return _UNKNOWN
    interval = found.interval
    return Shown(show(found.median), f"{show(interval.low)} to {show(interval.high)}" if interval else "one block")


def _cpu_cell(use: CpuUse | None) -> Shown:
    if use is None:
        return _UNKNOWN
    main = units.nanoseconds(use.per_unit.median)
    if use.ratio is None:
        return Shown(main)
    interval = use.interval
    between = f" ({units.between(interval.low, interval.high, '')})" if interval else ""
    return Shown(main, f"{words.estimate(use.ratio, interval, '×')}{between}")


def _consolidation_row(one: Consolidation) -> TableRow:
    return TableRow(
        one.platform,
        (Shown(str(one.guests)), *_slope(one.available), *_slope(one.processes), Shown(one.reason)),
    )


def consolidation_lines(analysis: Analysis) -> list[str]:
    """Each platform's consolidation in a sentence, for the terminal."""
    lines = []
    for one in analysis.consolidations:
        parts = [f"{one.platform}: {one.guests} idle guests"]
        for slope, by in ((one.available, "available memory"), (one.processes, "their processes")):
            each, fit = _slope(slope)
            if slope is not None:
                parts.append(
                    f"{each.main} each by {by} ({each.small}), {fit.main} a GiB ({fit.small})".replace(" ()", "")
                )
        lines.append("; ".join([*parts, f"ended because {one.reason}"]))
    return lines


def _slope(slope: Slope | None) -> tuple[Shown, Shown]:
    """Bytes a guest, and guests a GiB."""
    if slope is None:
        return _UNKNOWN, _UNKNOWN
    found, fit = slope.bytes_per_guest, slope.guests_per_gib
    small = f"{_size(found.interval.low)} to {_size(found.interval.high)}" if found.interval else "one guest"
    each = Shown(_size(found.value), small)
    if fit is None:
        return each, _UNKNOWN
    middle, low, high = fit
    ends = (
        "one guest"
        if low is None
        else f"{units.significant(low)} to {'∞' if high is None else units.significant(high)}"
    )
    return each, Shown(units.significant(middle), ends)


def _size(value: float) -> str:
    """Bytes, also negative ones: a slope's interval may reach below zero."""
    return units.size(round(value)) if value >= 0 else f"−{units.size(round(-value))}"
