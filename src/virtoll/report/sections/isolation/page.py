"""The isolation matrix for the page and the terminal: what guests beside the measured one do to it."""

from typing import TYPE_CHECKING, Any

from virtoll import units
from virtoll.report import words
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import Shown, TableRow, comparison_cell, matrix, or_dash, platforms_of
from virtoll.report.sections.isolation.routers import routers_values
from virtoll.report.terminal import matrices, text
from virtoll.runfolder.conditions import ALONE, TRAFFIC_LOADS
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import DECIDED, Comparison
from virtoll.stats.isolation import LoadUse
from virtoll.stats.values import Task

if TYPE_CHECKING:
    from rich.console import RenderableType


def isolation_values(source: ReportInput) -> dict[str, Any] | None:
    """What the template prints; None where nothing ran beside other guests."""
    analysis = source.analysis
    isolation = analysis.isolation
    if not isolation.conditions:
        return None
    tasks = isolated_tasks(analysis)
    shown = platforms_of(analysis, (row for row in isolation.comparisons if row.share is not None))
    uses = [use for use in isolation.uses if use.offered is not None or use.cpus is not None]
    return {
        "platforms": shown,
        "matrices": [matrix(task.label, _matrix(analysis, task, shown), shown) for task in tasks],
        "family": isolation.family,
        "control_line": control_line(analysis),
        "by_threads": _by_threads(analysis),
        "routers": routers_values(analysis),
        "uses": list(map(_use_row, uses)),
    }


def _by_threads(analysis: Analysis) -> bool:
    """Whether any guest's frames were forwarded by threads of the host's kernel while others had frames as well."""
    if all(condition.load not in TRAFFIC_LOADS for condition in analysis.isolation.conditions):
        return False
    return any(boot.forwarding is not None and boot.forwarding.by_threads for boot in analysis.data.boots)


def isolated_tasks(analysis: Analysis) -> list[Task]:
    """The victims: each task that has a value under some condition, in the analysis' order."""
    having = {comparison.task for comparison in analysis.isolation.comparisons if comparison.share is not None}
    return [task for task in analysis.tasks if task in having]


def _matrix(analysis: Analysis, task: Task, platforms: list[str]) -> list[TableRow]:
    """One victim: a line for the medians alone, then one for each condition."""
    isolation = analysis.isolation

    def alone(platform: str) -> Shown:
        cell = isolation.cells.get((platform, task, ALONE))
        return or_dash(cell, lambda there: units.value(there.median, task.metric.unit), "median")

    rows = [TableRow(ALONE, tuple(map(alone, platforms)))]
    for condition in isolation.conditions:
        comparisons = [isolation.comparison(platform, task, condition.label) for platform in platforms]
        if any(comparison is not None and comparison.share is not None for comparison in comparisons):
            rows.append(TableRow(condition.label, tuple(map(comparison_cell, comparisons))))
    return rows


def control_line(analysis: Analysis) -> str:
    """The guests alone against themselves (A/A): the shares, and what a difference there means."""
    line = words.control_line(
        analysis.isolation.control,
        "The guest alone against itself (A/A)",
        "Do not trust this matrix: the guest alone differs from itself in",
    )
    return line or "There is no A/A control: the guest alone was not compared with itself."


def _use_row(use: LoadUse) -> TableRow:
    what = (use.task.work, use.condition, use.neighbour)
    rates = (use.maximum, use.asked, use.offered, use.forwarded)
    return TableRow(
        use.platform,
        (
            *(Shown(text, kind="text") for text in what),
            *(or_dash(rate, units.frame_rate) for rate in rates),
            or_dash(use.lost_share, units.percent),
            or_dash(use.skipped_share, units.percent),
            or_dash(use.cpus, lambda cpus: units.significant(cpus, 2)),
            Shown(str(use.trials)),
        ),
    )


def isolation_terminal(analysis: Analysis, width: int) -> "list[RenderableType]":
    """The matrix for the terminal, primary metrics alone: a table a victim, a line a condition, a column a platform."""
    isolation = analysis.isolation
    if not isolation.conditions:
        return []
    shown: list[RenderableType] = []
    for task in (task for task in isolated_tasks(analysis) if task.metric.primary):
        having = [row for row in isolation.comparisons if row.task == task and row.share is not None]
        platforms = platforms_of(analysis, having)
        rows = []
        for condition in isolation.conditions:
            comparisons = (isolation.comparison(platform, task, condition.label) for platform in platforms)
            rows.append((condition.label, list(map(_short, comparisons))))
        shown += [text(""), *matrices(f"{task.label} beside", platforms, rows, width)]
    lead = f"Each guest against itself alone, in the same block and round. {control_line(analysis)}"
    return [*shown, text(f"{lead} Verdicts are corrected (Holm) over {isolation.family} comparisons.")]


def _short(comparison: Comparison | None) -> str:
    """A verdict for a narrow column: of what is not known, the page has the interval."""
    if comparison is None:
        return "–"
    sentence = words.said(comparison)
    decided = comparison.verdict in DECIDED
    return f"{sentence.short_head}\n{sentence.short_tail}" if sentence.short_tail and decided else sentence.short_head
