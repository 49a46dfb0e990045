"""The same work in n guests at once, for the page, the terminal and CSV."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from virtoll import units
from virtoll.report import words
from virtoll.report.csv_table import CsvTable, times_slower
from virtoll.report.headline import host_line, observer_line
from virtoll.report.rows import Shown, TableRow, comparison_cell, reasons
from virtoll.report.terminal import beginning, matrices, text
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import Analysis
from virtoll.stats.guests_at_once import GroupRow, ScaleRow
from virtoll.stats.values import Task

if TYPE_CHECKING:
    from rich.console import RenderableType


def at_once_context(analysis: Analysis) -> dict[str, Any] | None:
    """What the template prints; None where no guests were measured at once."""
    found = analysis.at_once
    if not found.points:
        return None
    shown = [platform for platform in analysis.platforms if any(row.platform == platform for row in found.rows)]
    return {
        "platforms": shown,
        "matrices": [_matrix_and_reasons(analysis, task, shown) for task in found.tasks],
        "rows": [_row(analysis, row) for row in found.rows if row.task.metric.primary],
        "groups": [_group_row(analysis, row) for row in found.groups],
        "family": found.family,
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


def _matrix_and_reasons(
    analysis: Analysis, task: Task, platforms: list[str]
) -> tuple[str, list[TableRow], list[tuple[str, str, str]]]:
    rows = _matrix(analysis, task, platforms)
    return task.label, rows, reasons(rows, platforms)


def _matrix(analysis: Analysis, task: Task, platforms: list[str]) -> list[TableRow]:
    """One task: a line for each number of guests; the baseline's value of one guest, and the others against it."""
    found, baseline = analysis.at_once, analysis.data.manifest.baseline

    def shown(platform: str, point: ScalePoint) -> Shown:
        comparison = found.comparison(platform, task, point)
        if comparison is not None:
            return comparison_cell(comparison)
        row = found.row(platform, task, point)
        note = "one guest" if platform == baseline else ""
        return Shown("–") if row is None else Shown(units.value(row.each, task.metric.unit), note, kind="value")

    points = [point for point in found.points if any(found.row(one, task, point) for one in platforms)]
    return [TableRow(found.words(point), tuple(shown(one, point) for one in platforms)) for point in points]


def _row(analysis: Analysis, row: ScaleRow) -> TableRow:
    task = row.task
    return TableRow(
        row.platform,
        (
            Shown(task.work, kind="text"),
            Shown(analysis.at_once.words(row.point), kind="text"),
            Shown(together_words(row)),
            Shown("–" if row.speedup is None else f"{units.significant(row.speedup)} ×"),
            Shown(units.value(row.each, task.metric.unit)),
            Shown("–" if row.jain is None else units.significant(row.jain)),
            Shown("–" if row.point.guests == 1 or row.slowest is None else f"{units.significant(row.slowest)} ×"),
            Shown("–" if row.finished_ns is None else units.nanoseconds(row.finished_ns)),
            Shown("–" if row.skew is None or row.point.guests == 1 else units.percent(row.skew)),
            Shown("–" if row.cpu_ns is None else units.nanoseconds(row.cpu_ns)),
            Shown(str(row.trials)),
        ),
    )


def together_words(row: ScaleRow) -> str:
    """What all guests do together, with its unit."""
    if row.together is None:
        return "–"
    return units.rate(row.together, row.together_unit)


def _group_row(analysis: Analysis, row: GroupRow) -> TableRow:
    def time(value: float | None) -> Shown:
        return Shown("–") if value is None else Shown(units.nanoseconds(value))

    def memory(value: float | None) -> Shown:
        return Shown("–") if value is None else Shown(units.size(round(value)) if value >= 0 else "none")

    failed = f"{row.failed} failed" if row.failed else ""
    return TableRow(
        row.platform,
        (
            Shown(analysis.at_once.words(row.point), kind="text"),
            Shown(units.size(row.point.memory_bytes)),
            time(row.first_ns),
            time(row.last_ns),
            time(row.up_ns),
            memory(row.held_bytes),
            memory(row.taken_bytes),
            Shown(str(row.starts), failed),
        ),
    )


def at_once_terminal(analysis: Analysis, width: int, damage: Sequence[str] = ()) -> "list[RenderableType]":
    """For the terminal, primary metrics alone: a table a task, a line a number of guests, a column a platform.

    `damage`: what of the run folder is not as it was when the run ended.
    """
    found = analysis.at_once
    shown = beginning(analysis, damage)
    for task in (task for task in found.tasks if task.metric.primary):
        having = {row.platform for row in found.rows if row.task == task}
        platforms = [one for one in analysis.platforms if one in having]
        rows = []
        for point in found.points:
            own = [found.row(platform, task, point) for platform in platforms]
            if any(own):
                rows.append((found.words(point), [_terminal_cell(analysis, row) for row in own]))
        shown += [text(""), *matrices(task.label, platforms, rows, width)]
    lines = (
        f"What all guests do together, and each platform against {analysis.baseline} with as many guests."
        if analysis.baseline
        else "What all guests do together.",
        control_line(analysis),
        f"Verdicts are corrected (Holm) over {found.family} comparisons." if found.family else "",
        host_line(analysis),
        observer_line(analysis),
    )
    return [*shown, text(""), *(text(line) for line in lines if line)]


def _terminal_cell(analysis: Analysis, row: ScaleRow | None) -> str:
    if row is None:
        return "–"
    value = together_words(row) if row.together is not None else units.value(row.each, row.task.metric.unit)
    comparison = analysis.at_once.comparison(row.platform, row.task, row.point)
    if comparison is None or comparison.share is None:
        return value
    return f"{value}\n{words.said(comparison).short_head}"


def at_once_tables(analysis: Analysis) -> tuple[CsvTable, ...]:
    """`scale.csv`: a row a platform, metric and number of guests; `groups.csv`: how they came up, and their memory."""
    found = analysis.at_once
    if not found.points:
        return ()
    header = (
        "platform", "guests", "vcpus", "memory_bytes", "workload", "parameters", "metric", "unit", "label", "trials",
        "each", "together", "together_unit", "speedup", "jain", "slowest_to_fastest", "skew_share", "finished_ns",
        "cpu_ns_per_guest", "share", "low", "high", "times_slower", "pairs", "p_adjusted", "verdict", "at_least",
        "margin", "smallest_detectable_factor", "reason", "caveat",
    )  # fmt: skip
    rows = []
    for row in found.rows:
        one = found.comparison(row.platform, row.task, row.point)
        rows.append(
            (
                row.platform,
                row.point.guests,
                row.point.vcpus,
                row.point.memory_bytes,
                row.task.workload,
                row.task.parameters,
                row.task.metric.name,
                row.task.metric.unit,
                row.task.label,
                row.trials,
                row.each,
                row.together,
                None if row.together is None else row.together_unit,
                row.speedup,
                row.jain,
                row.slowest,
                row.skew,
                row.finished_ns,
                row.cpu_ns,
                one.share if one else None,
                one.interval.low if one and one.interval else None,
                one.interval.high if one and one.interval else None,
                times_slower(one.share) if one else None,
                len(one.pairs) if one else None,
                one.p_adjusted if one else None,
                str(one.verdict) if one else None,
                one.at_least if one else None,
                one.margin if one else None,
                one.smallest if one else None,
                one.reason if one else None,
                one.caveat if one else None,
            )
        )
    named = (
        "platform", "guests", "vcpus", "memory_bytes", "starts", "failed", "fastest_start_ns", "slowest_start_ns",
        "all_up_ns", "held_bytes_per_guest", "taken_bytes_per_guest",
    )  # fmt: skip
    groups = tuple(
        (
            one.platform,
            one.point.guests,
            one.point.vcpus,
            one.point.memory_bytes,
            one.starts,
            one.failed,
            one.first_ns,
            one.last_ns,
            one.up_ns,
            one.held_bytes,
            one.taken_bytes,
        )
        for one in found.groups
    )
    return CsvTable("scale", header, tuple(rows)), CsvTable("groups", named, groups)
