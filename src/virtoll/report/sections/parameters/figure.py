"""A workload's values over a number that it was given several of: a figure a workload, a line a platform.

Suresh and Kannan 2014, Figures 2 to 5: over processes, jobs, threads and requests a second, under each condition.
"""

import functools
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from virtoll import units
from virtoll.report import words
from virtoll.report.figures import legends
from virtoll.report.figures.base import FigureSeries, FigureSpec, blocks_text, coverage_text, said_cell
from virtoll.report.figures.lines import LinePanel, LinePoint, axis, line_panel, upright_room, where_room
from virtoll.report.figures.marks import figure, panel_width
from virtoll.report.figures.style import COUNTS, Specification, Width, nice_log_ticks, pixels
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import grouped, platforms_of
from virtoll.runfolder.conditions import ALONE
from virtoll.stats import cpu_over_parameters
from virtoll.stats.analysis import Analysis
from virtoll.stats.over_parameters import OverParameter, ParameterPoint
from virtoll.stats.summaries import CellSummary

TITLE = "Values over a parameter"
_WIDE = 5.0
"""From this largest value by the smallest on an axis is logarithmic; below, it is linear, upwards from zero."""
_MOST_BESIDE = 4
_ROW_INCHES = 2.0
_TITLE_LETTERS = 96  # in all columns together
_BEYOND = 3.0  # times a median: an interval that goes further is cut there
_SMALL = 1.0  # values of an axis below which it is labelled with all their digits


@dataclass(frozen=True)
class Upright:
    """The axis of one metric in all its panels: values are divided by `scale`, and then in `unit`."""

    scale: float
    unit: str
    low: float
    high: float

    @property
    def logarithmic(self) -> bool:
        """Whether it does not begin at zero."""
        return self.low > 0


def draw(analysis: Analysis, width: Width, panels: Sequence[OverParameter]) -> Specification:
    """A row a metric, a column a condition or else whatever differs; metrics of one panel each flow."""
    conditions = len({panel.condition for panel in panels}) > 1
    rows = list(grouped(panels, lambda panel: (panel.metric, panel.others if conditions else "")).values())
    flow = all(len(row) == 1 for row in rows)
    if flow:
        rows = [list(panels)]
    columns = _columns(max(map(len, rows)), flow=flow)
    axes = {metric: _upright(its) for metric, its in grouped(panels, lambda panel: panel.metric).items()}
    left = upright_room(width)
    each = left if flow else 0.0
    size = (panel_width(width, columns, left - each, each=each + 6), pixels(72 * _ROW_INCHES - 50))
    lines: list[list[Specification]] = []
    for row in rows:
        for place, panel in enumerate(row):
            if place % columns == 0:
                lines.append([])
            title = textwrap.wrap(_title(panel, conditions), _TITLE_LETTERS // columns)
            upright, first = axes[panel.metric], flow or not lines[-1]
            lines[-1].append(_panel(analysis, panel, upright, size=size, first=first, title=title))
    drawn = [{"hconcat": line, "spacing": 14} for line in lines]
    shown = platforms_of(analysis, (curve for panel in panels for curve in panel.curves))
    entries = [*legends.platforms(analysis, shown), *legends.of_caveats(analysis, shown)]
    return figure([*drawn, *legends.legend(width, entries, left)])


def _columns(count: int, *, flow: bool) -> int:
    """Four beside one another have one axis together; with an axis each, they take two lines."""
    if count == _MOST_BESIDE:
        return 2 if flow else _MOST_BESIDE
    return min(count, 3)


def _cells(panels: Sequence[OverParameter]) -> list[CellSummary]:
    """Every value that their curves have."""
    points = (point for panel in panels for curve in panel.curves for point in curve.points)
    return [point.cell for point in points if point.cell is not None]


def _upright(panels: Sequence[OverParameter]) -> Upright:
    cells = _cells(panels)
    medians = [cell.median for cell in cells]
    scale, unit = units.axis_unit(max(medians), panels[0].metric.unit)
    ends = list(medians)
    for cell in cells:
        if cell.interval is not None:
            ends += max(cell.interval.low, cell.median / _BEYOND), min(cell.interval.high, cell.median * _BEYOND)
    low, high = min(ends) / scale, max(ends) / scale
    if max(medians) > _WIDE * min(medians):
        return Upright(scale, unit, low / 1.2, high * 1.2)
    return Upright(scale, unit, 0.0, high * 1.1)


def _title(panel: OverParameter, conditions: bool) -> str:
    """What tells a panel from the others in its line; where nothing does, its metric."""
    beside = panel.condition if panel.condition == ALONE else f"beside {panel.condition}"
    telling = words.with_commas(panel.others, beside if conditions else "")
    return telling or units.metric_words(panel.metric.name)


def _panel(
    analysis: Analysis,
    panel: OverParameter,
    upright: Upright,
    *,
    size: tuple[float, float],
    first: bool,
    title: Sequence[str],
) -> Specification:
    limits = (upright.low, upright.high)
    named = words.with_commas(units.metric_words(panel.metric.name), upright.unit)
    scale: Specification | None = None
    ticks = None
    if upright.logarithmic:
        scale, ticks = {"type": "log"}, nice_log_ticks(*limits)
    up = axis(limits, textwrap.wrap(named, 26) if first else None, scale=scale, ticks=ticks, labelled=first)
    if not (upright.logarithmic and upright.low < _SMALL):
        up["axis"] |= COUNTS
    up["axis"] |= {"tickCount": 5}
    lines = {curve.platform: [_point(panel, point, upright) for point in curve.points] for curve in panel.curves}
    across = _across(panel, size[0])
    return line_panel(analysis, LinePanel(title, panel.metric.workload, lines, across, up, limits=limits, size=size))


def _point(panel: OverParameter, point: ParameterPoint, upright: Upright) -> LinePoint:
    """In the axis' unit."""
    cell = point.cell
    if cell is None:
        return LinePoint(point.value, None)
    place = f"{words.parameter_axis(panel.parameter)} {words.parameter_place(panel.parameter, point.value)}"
    text = f"{place}, {units.metric_words(panel.metric.name)}: {said_cell(cell, panel.metric.unit)}"
    scale, interval = upright.scale, cell.interval
    if interval is None:
        return LinePoint(point.value, cell.median / scale, tooltip=text)
    return LinePoint(point.value, cell.median / scale, interval.low / scale, interval.high / scale, text)


def _across(panel: OverParameter, width: float) -> Specification:
    """The parameter's axis, with a mark at each value, named where there is room for it."""
    values = panel.values
    above = [value for value in values if value > 0]
    scale: Specification | None = None
    at = list(values)
    if values[-1] > _WIDE * min(above, default=values[-1]) and values[0] >= 0:
        if values[0] > 0:
            scale, at = {"type": "log"}, list(map(math.log, values))
        else:
            scale = {"type": "symlog", "constant": above[0]}
            at = [math.log1p(value / above[0]) for value in values]
    named = where_room([words.parameter_place(panel.parameter, value) for value in values], at, width)
    ends = (values[0], values[-1])
    return axis(ends, words.parameter_axis(panel.parameter), scale=scale, ticks=values, names=named)


def caption(analysis: Analysis, panels: Sequence[OverParameter]) -> str:
    """What to see."""
    cells = _cells(panels)
    parameter = words.parameter_axis(panels[0].parameter)
    shown = {curve.platform for panel in panels for curve in panel.curves}
    missing = [platform for platform in analysis.platforms if platform not in shown]
    unseen = f"No value at all: {', '.join(missing)}. " if missing else ""
    beside = ""
    if len({panel.condition for panel in panels}) > 1:
        beside = "A panel is a condition: the guest alone, or beside others. "
    return (
        f"Each line is a platform of {panels[0].metric.workload} over {parameter}; only that parameter differs along "
        f"it. {beside}{_cpu_words(panels)}"
        f"Markers are medians over {blocks_text(analysis)}. Bars are {coverage_text(cells)}. "
        "A line has a gap where a value is missing. "
        f"{unseen}An axis that does not begin at zero is logarithmic. The numbers are in tables/curves.csv."
    )


def _cpu_words(panels: Sequence[OverParameter]) -> str:
    """What the CPU use among them is."""
    if all(panel.metric.name != cpu_over_parameters.NAME for panel in panels):
        return ""
    return (
        "Host CPU use is the CPU time of the guest's processes, by the time over which it was read: around what is "
        "measured. What the host's kernel does outside them is not in it. "
    )


def parts(source: ReportInput) -> dict[str, FigureSpec]:
    """One for each workload and parameter."""
    groups = grouped(source.analysis.over_parameters, lambda panel: (panel.metric.workload, panel.parameter))
    return {
        f"{workload}-{parameter}".replace("_", "-"): FigureSpec(
            f"{workload} over {words.parameter_axis(parameter)}",
            functools.partial(caption, panels=of_parameter),
            functools.partial(draw, panels=of_parameter),
        )
        for (workload, parameter), of_parameter in groups.items()
    }


CURVES = FigureSeries(TITLE, parts)
