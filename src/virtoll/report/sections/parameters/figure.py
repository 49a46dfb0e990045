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
from virtoll.report.figures.base import FigureSeries, FigureSpec, blocks_text, coverage_text, drawn_always, said_cell
from virtoll.report.figures.lines import LinePanel, LinePoint, axis, line_panel, upright_room, where_room
from virtoll.report.figures.marks import figure, panel_width
from virtoll.report.figures.style import COUNTS, Specification, Width, nice_log_ticks, pixels
from virtoll.report.report_input import ReportInput
from virtoll.runfolder.conditions import ALONE
from virtoll.runfolder.records import MetricRecord
from virtoll.stats import cpu_over_parameters
from virtoll.stats.analysis import Analysis
from virtoll.stats.over_parameters import OverParameter, ParameterPoint

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
    metrics = list(dict.fromkeys(one.metric for one in panels))
    conditions = len({one.condition for one in panels}) > 1
    lines_of: dict[tuple[MetricRecord, str], list[OverParameter]] = {}
    for one in panels:
        lines_of.setdefault((one.metric, one.others if conditions else ""), []).append(one)
    rows = list(lines_of.values())
    flow = all(len(row) == 1 for row in rows)
    rows = [list(panels)] if flow else rows
    columns = _columns(max(map(len, rows)), flow=flow)
    axes = {metric: _upright([one for one in panels if one.metric == metric]) for metric in metrics}
    left = upright_room(width)
    each = left if flow else 0.0
    size = (panel_width(width, columns, left - each, each=each + 6), pixels(72 * _ROW_INCHES - 50))
    drawn = []
    for line in (row[start : start + columns] for row in rows for start in range(0, len(row), columns)):
        beside = [
            _panel(
                analysis,
                one,
                axes[one.metric],
                size=size,
                first=flow or one is line[0],
                title=_titled(one, conditions, columns),
            )
            for one in line
        ]
        drawn.append({"hconcat": beside, "spacing": 14})
    seen = {curve.platform for one in panels for curve in one.curves}
    shown = [one for one in analysis.platforms if one in seen]
    entries = [*legends.platforms(analysis, shown), *legends.of_caveats(analysis, shown)]
    return figure([*drawn, *legends.legend(width, entries, left)])


def _titled(one: OverParameter, conditions: bool, columns: int) -> list[str]:
    return textwrap.wrap(_title(one, conditions), _TITLE_LETTERS // columns)


def _columns(count: int, *, flow: bool) -> int:
    """Four beside one another have one axis together; with an axis each, they take two lines."""
    if count == _MOST_BESIDE:
        return 2 if flow else _MOST_BESIDE
    return min(count, 3)


def _upright(panels: Sequence[OverParameter]) -> Upright:
    cells = [point.cell for one in panels for curve in one.curves for point in curve.points if point.cell is not None]
    medians = [cell.median for cell in cells]
    scale, unit = units.axis_unit(max(medians), panels[0].metric.unit)
    ends = [
        end
        for cell in cells
        if cell.interval is not None
        for end in (max(cell.interval.low, cell.median / _BEYOND), min(cell.interval.high, cell.median * _BEYOND))
    ]
    low, high = min([*medians, *ends]) / scale, max([*medians, *ends]) / scale
    wide = max(medians) > _WIDE * min(medians)
    return Upright(scale, unit, low / 1.2 if wide else 0.0, high * (1.2 if wide else 1.1))


def _title(one: OverParameter, conditions: bool) -> str:
    """What tells a panel from the others in its line; where nothing does, its metric."""
    beside = one.condition if one.condition == ALONE else f"beside {one.condition}"
    telling = [one.others, beside if conditions else ""]
    return ", ".join(filter(None, telling)) or units.metric_words(one.metric.name)


def _panel(
    analysis: Analysis,
    own: OverParameter,
    upright: Upright,
    *,
    size: tuple[float, float],
    first: bool,
    title: Sequence[str],
) -> Specification:
    limits = (upright.low, upright.high)
    named = ", ".join(filter(None, (units.metric_words(own.metric.name), upright.unit)))
    ticks = nice_log_ticks(*limits) if upright.logarithmic else None
    scale: Specification | None = {"type": "log"} if upright.logarithmic else None
    up = axis(limits, textwrap.wrap(named, 26) if first else None, scale=scale, ticks=ticks, labelled=first)
    up["axis"] |= {} if ticks is not None and upright.low < _SMALL else COUNTS
    up["axis"] |= {"tickCount": 5}
    parts = {curve.platform: [_point(own, point, upright) for point in curve.points] for curve in own.curves}
    return line_panel(
        analysis,
        LinePanel(
            title=title,
            workload=own.metric.workload,
            lines=parts,
            across=_across(own, size[0]),
            upright=up,
            limits=limits,
            size=size,
        ),
    )


def _point(own: OverParameter, point: ParameterPoint, upright: Upright) -> LinePoint:
    """In the axis' unit."""
    cell = point.cell
    if cell is None:
        return LinePoint(point.value, None)
    place = f"{words.parameter_axis(own.parameter)} {words.parameter_place(own.parameter, point.value)}"
    said = f"{place}, {units.metric_words(own.metric.name)}: {said_cell(cell, own.metric.unit)}"
    scale, interval = upright.scale, cell.interval
    if interval is None:
        return LinePoint(point.value, cell.median / scale, said=said)
    return LinePoint(point.value, cell.median / scale, interval.low / scale, interval.high / scale, said)


def _across(own: OverParameter, width: float) -> Specification:
    """The parameter's axis, with a mark at each value, named where there is room for it."""
    values = own.values
    above = [value for value in values if value > 0]
    scale: Specification | None = None
    at = list(values)
    if values[-1] > _WIDE * min(above, default=values[-1]) and values[0] >= 0:
        if values[0] > 0:
            scale, at = {"type": "log"}, [math.log(value) for value in values]
        else:
            scale, at = {"type": "symlog", "constant": above[0]}, [math.log1p(value / above[0]) for value in values]
    named = where_room([words.parameter_place(own.parameter, value) for value in values], at, width)
    ends = (values[0], values[-1])
    return axis(ends, words.parameter_axis(own.parameter), scale=scale, ticks=values, names=named)


def caption(analysis: Analysis, panels: Sequence[OverParameter]) -> str:
    """What to see."""
    cells = [point.cell for one in panels for curve in one.curves for point in curve.points if point.cell is not None]
    parameter = words.parameter_axis(panels[0].parameter)
    shown = {curve.platform for one in panels for curve in one.curves}
    missing = [one for one in analysis.platforms if one not in shown]
    unseen = f"No value at all: {', '.join(missing)}. " if missing else ""
    beside = (
        "A panel is a condition: the guest alone, or beside others. "
        if len({one.condition for one in panels}) > 1
        else ""
    )
    return (
        f"Each line is a platform of {panels[0].metric.workload} over {parameter}; only that parameter differs along "
        f"it. {beside}{_cpu_words(panels)}"
        f"Markers are medians over {blocks_text(analysis)}. Bars are {coverage_text(cells)}. "
        "A line has a gap where a value is missing. "
        f"{unseen}An axis that does not begin at zero is logarithmic. The numbers are in tables/curves.csv."
    )


def _cpu_words(panels: Sequence[OverParameter]) -> str:
    """What the CPU use among them is."""
    if all(one.metric.name != cpu_over_parameters.NAME for one in panels):
        return ""
    return (
        "Host CPU use is the CPU time of the guest's processes, by the time over which it was read: around what is "
        "measured. What the host's kernel does outside them is not in it. "
    )


def parts(source: ReportInput) -> dict[str, FigureSpec]:
    """One for each workload and parameter."""
    found: dict[tuple[str, str], list[OverParameter]] = {}
    for one in source.analysis.over_parameters:
        found.setdefault((one.metric.workload, one.parameter), []).append(one)
    return {
        f"{workload}-{parameter}".replace("_", "-"): FigureSpec(
            f"{workload} over {words.parameter_axis(parameter)}",
            functools.partial(caption, panels=own),
            functools.partial(draw, panels=own),
            drawn_always,
            section="parameters",
        )
        for (workload, parameter), own in found.items()
    }


CURVES = FigureSeries(TITLE, parts)
