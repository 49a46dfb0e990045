"""What each platform costs against the baseline, for the page: slowdowns and values."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import Shown, TableRow, comparison_cell, platforms_of, reasons
from virtoll.stats.analysis import Analysis
from virtoll.stats.values import Task


def cost_values(source: ReportInput) -> dict[str, Any] | None:
    """The table of slowdowns and that of values; None if guests were measured at once."""
    analysis = source.analysis
    if analysis.at_once.points:
        return None
    compared = _compared(analysis)
    rows = [_cost_row(analysis, task, compared) for task in analysis.tasks]
    blocks = {len(comparison.pairs) for comparison in (*analysis.control, *analysis.comparisons)} - {0}
    return {
        "compared": compared,
        "rows": rows,
        "reasons": reasons(rows, compared),
        "same_blocks": blocks.pop() if len(blocks) == 1 else None,
        "value_rows": list(map(partial(_value_row, analysis), analysis.tasks)),
        "coverages": coverages(analysis),
    }


def _compared(analysis: Analysis) -> list[str]:
    """Platforms that have at least one ratio: the columns of the table of slowdowns. The A/A control is the last."""
    control = analysis.data.manifest.control
    having = (row for row in (*analysis.control, *analysis.comparisons) if row.share is not None)
    return sorted(platforms_of(analysis, having), key=lambda platform: platform == control)


def _cost_row(analysis: Analysis, task: Task, compared: Sequence[str]) -> TableRow:
    base = analysis.cells.get((analysis.baseline or "", task))
    first = Shown("–", "not measured")
    if base:
        first = Shown(units.value(base.median, task.metric.unit), _blocks(base.blocks))
    if analysis.generator_bound(analysis.baseline or "", task):
        first = replace(first, small=f"{first.small}, generator-bound")
    cells = (
        comparison_cell(analysis.comparison(platform, task), _but(analysis, platform, task)) for platform in compared
    )
    return TableRow(task.label, (first, *cells))


def _but(analysis: Analysis, platform: str, task: Task) -> str:
    """What limits a comparison, in short."""
    unlike = (f"other {name}" for name in analysis.unlike.get(platform, ()))
    bound = "generator-bound" if analysis.generator_bound(platform, task) else ""
    return words.with_commas(bound, *unlike)


def _value_row(analysis: Analysis, task: Task) -> TableRow:
    cells = []
    for platform in analysis.platforms:
        estimate = analysis.estimates.get((platform, task))
        if estimate is None:
            cells.append(Shown("–", "not measured", "missing"))
            continue
        spread = words.spread(estimate, task.metric.unit) or "no interval"
        outliers = analysis.cells[platform, task].outliers
        flagged = f", {len(outliers)} flagged" if outliers else ""
        small = f"{spread}, n = {estimate.blocks}{flagged}"
        caveat = analysis.caveats.get(platform)
        value = words.told_value(analysis, platform, task)
        cells.append(Shown(value, small, "caveat" if caveat else "", but=caveat or ""))
    return TableRow(task.label, tuple(cells))


def coverages(analysis: Analysis) -> str:
    """What the intervals of the medians cover, by the number of blocks: '87.5 % at n = 4'."""
    medians = [estimate for estimate in analysis.estimates.values() if not estimate.of_share]
    pairs = sorted({(estimate.blocks, estimate.interval.coverage) for estimate in medians if estimate.interval})
    return "; ".join(f"{units.percent(coverage)} at n = {blocks}" for blocks, coverage in pairs)


def _blocks(count: int) -> str:
    return f"n = {count}" if count > 1 else "one block"
