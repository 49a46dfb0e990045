"""The same work in several guests at once, for the page and the terminal."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from virtoll import units
from virtoll.report import words
from virtoll.report.headline import host_line, overhead_line
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import Shown, TableRow, comparison_cell, factor, matrix, or_dash, platforms_of
from virtoll.report.terminal import beginning, matrices, text
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import Analysis
from virtoll.stats.guests_at_once import GroupRow, ScaleRow
from virtoll.stats.values import Task

if TYPE_CHECKING:
    from rich.console import RenderableType


def scale_values(source: ReportInput) -> dict[str, Any] | None:
    """What the template prints; None if no guests were measured at once."""
    analysis = source.analysis
    at_once = analysis.at_once
    if not at_once.points:
        return None
    platforms = platforms_of(analysis, at_once.rows)
    primary = (row for row in at_once.rows if row.task.metric.primary)
    return {
        "platforms": platforms,
        "matrices": [matrix(task.label, _matrix(analysis, task, platforms), platforms) for task in at_once.tasks],
        "rows": list(map(partial(_row, analysis), primary)),
        "groups": list(map(partial(_group_row, analysis), at_once.groups)),
        "family": at_once.family,
        "control_line": control_line(analysis),
    }


def control_line(analysis: Analysis) -> str:
    """The host against itself at the same number of guests (A/A), and what a difference there means."""
    control, baseline = analysis.data.manifest.control, analysis.data.manifest.baseline
    line = words.control_line(
        analysis.at_once.control,
        f"The host against itself ({control} against {baseline}, at each number of guests)",
        "Do not trust these comparisons: the host differs from itself in",
    )
    return line or "There is no A/A control: the host was not compared with itself."


def _matrix(analysis: Analysis, task: Task, platforms: list[str]) -> list[TableRow]:
    """One task: a line for each number of guests; the baseline's value of one guest, and the others against it."""
    at_once, baseline = analysis.at_once, analysis.data.manifest.baseline

    def cell(platform: str, point: ScalePoint) -> Shown:
        comparison = at_once.comparison(platform, task, point)
        if comparison is not None:
            return comparison_cell(comparison)
        row = at_once.row(platform, task, point)
        note = "one guest" if platform == baseline else ""
        return or_dash(row, lambda there: units.value(there.each, task.metric.unit), note, kind="value")

    rows = []
    for point in at_once.points:
        if any(at_once.row(label, task, point) for label in platforms):
            cells = (cell(label, point) for label in platforms)
            rows.append(TableRow(at_once.words(point), tuple(cells)))
    return rows


def _row(analysis: Analysis, row: ScaleRow) -> TableRow:
    slowest, skew = (row.slowest, row.skew) if row.point.guests > 1 else (None, None)
    return TableRow(
        row.platform,
        (
            Shown(row.task.work, kind="text"),
            Shown(analysis.at_once.words(row.point), kind="text"),
            Shown(together_words(row)),
            or_dash(row.speedup, factor),
            Shown(units.value(row.each, row.task.metric.unit)),
            or_dash(row.jain, units.significant),
            or_dash(slowest, factor),
            or_dash(row.finished_ns, units.nanoseconds),
            or_dash(skew, units.percent),
            or_dash(row.cpu_ns, units.nanoseconds),
            Shown(str(row.trials)),
        ),
    )


def together_words(row: ScaleRow) -> str:
    """What all guests do together, with its unit."""
    if row.together is None:
        return "–"
    return units.rate(row.together, row.together_unit)


def _group_row(analysis: Analysis, row: GroupRow) -> TableRow:
    failed = f"{row.failed} failed" if row.failed else ""
    return TableRow(
        row.platform,
        (
            Shown(analysis.at_once.words(row.point), kind="text"),
            Shown(units.size(row.point.memory_bytes)),
            *(or_dash(time, units.nanoseconds) for time in (row.first_ns, row.last_ns, row.up_ns)),
            or_dash(row.held_bytes, _memory),
            or_dash(row.taken_bytes, _memory),
            Shown(str(row.starts), failed),
        ),
    )


def _memory(value: float) -> str:
    return units.size(round(value)) if value >= 0 else "none"


def at_once_terminal(analysis: Analysis, width: int, damage: Sequence[str] = ()) -> "list[RenderableType]":
    """For the terminal, primary metrics alone: a table a task, a line a number of guests, a column a platform.

    `damage`: what of the run folder is not as it was when the run ended.
    """
    at_once = analysis.at_once
    lines = beginning(analysis, damage)
    for task in at_once.tasks:
        if not task.metric.primary:
            continue
        platforms = platforms_of(analysis, (row for row in at_once.rows if row.task == task))
        rows = []
        for point in at_once.points:
            scale_rows = [at_once.row(platform, task, point) for platform in platforms]
            if any(scale_rows):
                rows.append((at_once.words(point), [_terminal_cell(analysis, row) for row in scale_rows]))
        lines += [text(""), *matrices(task.label, platforms, rows, width)]
    note = "What all guests do together"
    if analysis.baseline:
        note += f", and each platform against {analysis.baseline} with as many guests"
    notes = [f"{note}.", control_line(analysis)]
    if at_once.family:
        notes.append(f"Verdicts are corrected (Holm) over {at_once.family} comparisons.")
    notes += host_line(analysis), overhead_line(analysis)
    return [*lines, text(""), *(text(note) for note in notes if note)]


def _terminal_cell(analysis: Analysis, row: ScaleRow | None) -> str:
    if row is None:
        return "–"
    value = together_words(row) if row.together is not None else units.value(row.each, row.task.metric.unit)
    comparison = analysis.at_once.comparison(row.platform, row.task, row.point)
    if comparison is None or comparison.share is None:
        return value
    return f"{value}\n{words.said(comparison).short_head}"
