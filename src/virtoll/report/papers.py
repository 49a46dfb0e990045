"""The page's table "as the paper summarised", and its CSV: a study's own way to sum up, beside the project's.

No numbers are computed here: they come from ``stats/papers.py``.
"""

from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.csv_table import CsvTable
from virtoll.report.rows import Shown, TableRow
from virtoll.stats.analysis import Analysis
from virtoll.stats.papers import PaperRow
from virtoll.stats.values import Task


def paper_context(analysis: Analysis) -> dict[str, Any] | None:
    """What ``paper.html.j2`` prints; None for an experiment that names no summary, or has no values."""
    method = analysis.paper_method
    if method is None or not analysis.paper.rows:
        return None
    rows = {(one.platform, one.task): one for one in analysis.paper.rows}
    platforms = [one for one in analysis.platforms if any(row.platform == one for row in analysis.paper.rows)]
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
    found: dict[str, list[str]] = {}
    for entry in analysis.data.manifest.platforms:
        if entry.stands_for is not None:
            found.setdefault(entry.stands_for, []).append(entry.label)
    return list(found.items())


def paper_tables(analysis: Analysis) -> tuple[CsvTable, ...]:
    """One row a cell; no table where the experiment names no summary."""
    method = analysis.paper_method
    if method is None:
        return ()
    header = (
        "platform",
        "workload",
        "parameters",
        "metric",
        "unit",
        "label",
        "summary",
        "values",
        "dropped",
        "centre",
        "low",
        "high",
        "share_of_baseline",
        "share_low",
        "share_high",
        "caveat",
    )
    rows = tuple(
        (
            one.platform,
            one.task.workload,
            one.task.parameters,
            one.task.metric.name,
            one.task.metric.unit,
            one.task.label,
            method.name,
            one.summary.count,
            one.summary.dropped,
            one.summary.centre,
            one.summary.low,
            one.summary.high,
            one.share,
            one.share_low,
            one.share_high,
            analysis.caveats.get(one.platform),
        )
        for one in analysis.paper.rows
    )
    return (CsvTable("paper_summary", header, rows),)


def _cell(analysis: Analysis, row: PaperRow | None, task: Task) -> Shown:
    if row is None:
        return Shown("–", "not measured", "missing")
    unit, own = task.metric.unit, row.summary
    ends = (own.low, own.high) if own.low is not None and own.high is not None else None
    spread = units.between(*ends, unit) if ends is not None else "no spread"
    share = "" if row.share is None or row.platform == analysis.baseline else f"{words.share(row.share)}, "
    kind = "caveat" if row.platform in analysis.caveats else ""
    return Shown(units.estimate(own.centre, ends, unit), spread, kind, but=f"{share}n = {own.count}")
