"""The page's table "as the paper summarised": a study's own way to sum up, beside the project's.

No numbers are computed here: they come from ``stats/papers.py``.
"""

from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import Shown, TableRow, platforms_of
from virtoll.stats.analysis import Analysis
from virtoll.stats.papers import PaperRow
from virtoll.stats.values import Task


def paper_values(source: ReportInput) -> dict[str, Any] | None:
    """What the template prints; None if the experiment names no summary, or there are no values."""
    analysis, method = source.analysis, source.analysis.paper_method
    if method is None or not analysis.paper.rows:
        return None
    rows = {(row.platform, row.task): row for row in analysis.paper.rows}
    platforms = platforms_of(analysis, analysis.paper.rows)
    return {
        "method": method,
        "platforms": platforms,
        "rows": [
            TableRow(task.label, tuple(_cell(analysis, rows.get((platform, task)), task) for platform in platforms))
            for task in analysis.tasks
            if any(row.task == task for row in analysis.paper.rows)
        ],
    }


def substitutes(analysis: Analysis) -> list[tuple[str, list[str]]]:
    """What of the paper's is stood for, each with the labels that do, in the experiment's order."""
    labels: dict[str, list[str]] = {}
    for entry in analysis.data.manifest.platforms:
        if entry.stands_for is not None:
            labels.setdefault(entry.stands_for, []).append(entry.label)
    return list(labels.items())


def _cell(analysis: Analysis, row: PaperRow | None, task: Task) -> Shown:
    if row is None:
        return Shown("–", "not measured", "missing")
    unit, summary = task.metric.unit, row.summary
    ends = (summary.low, summary.high) if summary.low is not None and summary.high is not None else None
    spread = units.between(*ends, unit) if ends is not None else "no spread"
    share = "" if row.share is None or row.platform == analysis.baseline else f"{words.share(row.share)}, "
    kind = "caveat" if row.platform in analysis.caveats else ""
    return Shown(units.estimate(summary.centre, ends, unit), spread, kind, but=f"{share}n = {summary.count}")
