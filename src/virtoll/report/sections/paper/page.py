"""The page's table "as the paper summarised": a study's own way to sum up, beside the project's.

No numbers are computed here: they come from ``stats/papers.py``.
"""

import itertools
from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import Shown, TableRow, grouped, platforms_of
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import Analysis
from virtoll.stats.papers import PaperRow
from virtoll.stats.values import Task


def paper_values(source: ReportInput) -> dict[str, Any] | None:
    """What the template prints; None if the experiment names no summary, or there are no values."""
    analysis, method = source.analysis, source.analysis.paper_method
    if method is None or not analysis.paper.rows:
        return None
    by_place = grouped(analysis.paper.rows, lambda row: (row.task, row.point))
    platforms = platforms_of(analysis, analysis.paper.rows)
    rows = []
    for task, point in itertools.product(analysis.tasks, analysis.at_once.points or (None,)):
        if (task, point) in by_place:
            there = {row.platform: row for row in by_place[task, point]}
            cells = tuple(_cell(analysis, there.get(label), task) for label in platforms)
            rows.append(TableRow(task_words(analysis, task, point), cells))
    return {"method": method, "platforms": platforms, "rows": rows}


def task_words(analysis: Analysis, task: Task, point: ScalePoint | None) -> str:
    """A task in words, of several guests at once with their number."""
    if point is None:
        return task.label
    return f"{task.label}, {analysis.at_once.words(point)}"


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
    ends = words.ends_of(summary.low, summary.high)
    spread = units.between(*ends, unit) if ends is not None else "no spread"
    share = "" if row.share is None or row.platform == analysis.baseline else f"{words.share(row.share)}, "
    kind = "caveat" if row.platform in analysis.caveats else ""
    return Shown(units.estimate(summary.centre, ends, unit), spread, kind, but=f"{share}n = {summary.count}")
