"""Rates over the size of what is asked: routes in the table, routers or transmitting guests (Mattos et al. 2012, V)."""

import statistics
from collections.abc import Sequence

from virtoll import units
from virtoll.report import words
from virtoll.report.figures import legends
from virtoll.report.figures.base import FigureSpec, blocks_text
from virtoll.report.figures.lines import LinePanel, LinePoint, axis, line_panel
from virtoll.report.figures.marks import figure, panel_width, panels, text_width
from virtoll.report.figures.style import COUNTS, SIZES, Specification, Width, nice_log_ticks, pixels, whole
from virtoll.report.rows import grouped, platforms_of
from virtoll.stats.analysis import Analysis
from virtoll.stats.scaling import FACTORS, Scaling, Step

_WIDE = 5.0
"""From this largest rate by the smallest on an axis is logarithmic; a narrower one has no marks on it."""
_PANEL_POINTS = 118.0  # high


def draw(analysis: Analysis, width: Width) -> Specification:
    """A row for each factor, and what else was asked: frames/s of all guests together, and by the smallest size."""
    points = SIZES[width].text
    left = text_width("17.5 k", points) + 1.5 * pixels(points) + 8
    size = (panel_width(width, 2, 0.0, each=left + 7), round(pixels(_PANEL_POINTS), 1))
    drawn = []
    for scalings in _rows(analysis.scalings):
        drawn += [_panel(analysis, scalings, size, share=share) for share in (False, True)]
    shown = platforms_of(analysis, analysis.scalings)
    entries = [*legends.platforms(analysis, shown), *legends.of_caveats(analysis, shown)]
    return figure([panels(drawn, 2), *legends.legend(width, entries, left)])


def _rows(scalings: Sequence[Scaling]) -> list[list[Scaling]]:
    """By factor, in the order of `FACTORS`, and then by what else was asked."""
    rows = grouped(scalings, lambda scaling: (scaling.factor, scaling.others))
    order = list(FACTORS)
    return [rows[key] for key in sorted(rows, key=lambda key: order.index(key[0]))]


def _panel(analysis: Analysis, rows: Sequence[Scaling], size: tuple[float, float], *, share: bool) -> Specification:
    """Medians as markers, the range over blocks as a bar; shares in percent."""
    upright, limits = _shares(rows) if share else _rates(rows)
    panel = LinePanel(
        title="" if share else rows[0].words,
        workload=rows[0].steps[0].task.workload,
        lines={row.platform: [_point(row, step, share=share) for step in row.steps] for row in rows},
        across=_across(rows),
        upright=upright,
        limits=limits,
        size=size,
    )
    return line_panel(analysis, panel)


def _point(row: Scaling, step: Step, *, share: bool) -> LinePoint:
    values, unit = sorted(step.rates), "frames/s"
    if share:
        values, unit = sorted(100 * ratio for ratio in step.ratios), "% of the smallest size"
    if not values:
        return LinePoint(step.size, None)
    middle, blocks = statistics.median(values), words.counted(len(values), "block")
    size = words.with_commas(str(step.size), row.words)
    ends = units.between(values[0], values[-1], unit)
    text = f"{FACTORS[row.factor]}: {size}; median {units.value(middle, unit)}, blocks {ends}, {blocks}"
    return LinePoint(step.size, middle, values[0], values[-1], text)


def _across(rows: Sequence[Scaling]) -> Specification:
    """Sizes, and a little room at both ends; tables of routes begin with none, and go far."""
    sizes = sorted({step.size for row in rows for step in row.steps})
    scale: Specification = {}
    margin, names = 0.04 * (sizes[-1] - sizes[0]), list(map(str, sizes))
    if rows[0].factor == "routes":
        scale, margin, names = {"type": "symlog", "constant": 1}, 0.0, list(map(whole, sizes))
    title = FACTORS[rows[0].factor]
    across = axis((sizes[0] - margin, sizes[-1] + margin), title, scale=scale, ticks=sizes, names=names)
    across["axis"]["labelOverlap"] = "greedy"
    return across


def _shares(rows: Sequence[Scaling]) -> tuple[Specification, tuple[float, float]]:
    """From zero."""
    limits = 0.0, 110 * max((ratio for row in rows for step in row.steps for ratio in step.ratios), default=1.0)
    upright = axis(limits, "of the smallest size")
    upright["axis"] |= {"tickCount": 6, "labelExpr": "datum.value + ' %'"}
    return upright, limits


def _rates(rows: Sequence[Scaling]) -> tuple[Specification, tuple[float, float]]:
    """From zero, or logarithmic."""
    shown = [rate for row in rows for step in row.steps for rate in step.rates]
    title = "frames/s, all together"
    limits = 0.0, 1.1 * max(shown)
    if max(shown) < _WIDE * min(shown):
        upright = axis(limits, title)
        upright["axis"]["tickCount"] = 6
    else:
        limits = min(shown) / 1.2, max(shown) * 1.2
        upright = axis(limits, title, scale={"type": "log"}, ticks=nice_log_ticks(*limits))
    upright["axis"] |= COUNTS
    return upright, limits


def caption(analysis: Analysis) -> str:
    """What to see."""
    return (
        "Left: the largest rate of each trial, summed over all guests that work side by side (logarithmic where they "
        "are far apart). Right: the same in % of the smallest size in the same block. A level line on the right: "
        "the size costs nothing. "
        f"Markers are medians over {blocks_text(analysis)}, bars reach from the smallest to the largest."
    )


def why_not(analysis: Analysis) -> str | None:
    """A factor with at least two sizes is needed."""
    if analysis.scalings:
        return None
    return "no routing table, virtual routers or transmitters were measured at two sizes in this run"


RATES = FigureSpec("Routing tables, and guests side by side", caption, draw, why_not)
