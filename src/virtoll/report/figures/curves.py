"""A workload's values over a number that it was given several of: a figure a workload, a line a platform.

Suresh and Kannan 2014, Figures 2 to 5: over processes, jobs, threads and requests a second, under each condition.
"""

import functools
import itertools
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from virtoll import units
from virtoll.report import words
from virtoll.report.figures import caveat_signs
from virtoll.report.figures.base import FigureSeries, FigureSpec, blocks_text, coverage_text, drawn_always, new_figure
from virtoll.report.figures.style import PlatformStyle, nice_log_ticks, platform_styles
from virtoll.runfolder.conditions import ALONE
from virtoll.runfolder.records import MetricRecord
from virtoll.stats import cpu_over_parameters
from virtoll.stats.analysis import Analysis
from virtoll.stats.over_parameters import OverParameter, ParameterPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Values over a parameter"
_WIDE = 5.0
"""From this largest value by the smallest on an axis is logarithmic; below, it is linear, upwards from zero."""
_MOST_BESIDE = 4
_ROW_INCHES = 2.0
_TITLE_LETTERS = 96  # in all columns together
_BEYOND = 3.0  # times a median: an interval that goes further is cut there
_LETTER_INCHES = 0.08  # that a letter of a place's name takes on the axis


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


def draw(analysis: Analysis, panels: Sequence[OverParameter]) -> "Figure":
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
    lines = [row[start : start + columns] for row in rows for start in range(0, len(row), columns)]
    figure = new_figure(0.7 + _ROW_INCHES * len(lines))
    grid = figure.subplots(len(lines), columns, squeeze=False)
    axes = {metric: _upright([one for one in panels if one.metric == metric]) for metric in metrics}
    for line, own in zip(grid, lines, strict=True):
        for panel, one in itertools.zip_longest(line, own):
            if one is None:
                panel.set_visible(False)
                continue
            _panel(panel, analysis, one, axes[one.metric], columns)
            panel.set_title("\n".join(textwrap.wrap(_title(one, conditions), _TITLE_LETTERS // columns)), fontsize=7)
            named = ", ".join(filter(None, (units.metric_words(one.metric.name), axes[one.metric].unit)))
            if flow or panel is line[0]:
                panel.set_ylabel("\n".join(textwrap.wrap(named, 26)), fontsize=7)
            else:
                panel.tick_params(axis="y", labelleft=False)
    shown = {curve.platform for one in panels for curve in one.curves}
    caveat_signs.legend_of_panels(figure, analysis, grid.flat, [one for one in analysis.platforms if one in shown])
    return figure


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


def _panel(panel: "Axes", analysis: Analysis, own: OverParameter, upright: Upright, columns: int) -> None:
    styles = platform_styles(analysis.platforms)
    for curve in own.curves:
        style = styles[curve.platform]
        places = [point.value for point in curve.points]
        medians = [math.nan if point.cell is None else point.cell.median / upright.scale for point in curve.points]
        style.plot(panel, places, medians, caveat_signs.name(analysis, curve.platform), 1.1)
        _intervals(panel, curve.points, upright, style)
        for point, median in zip(curve.points, medians, strict=True):
            if point.cell is not None:
                caveat_signs.cross(panel, analysis, curve.platform, point.value, median)
    _across(panel, own, columns)
    panel.tick_params(axis="both", labelsize=6.5)
    panel.set_xlabel(words.parameter_axis(own.parameter), fontsize=7)
    if upright.logarithmic:
        panel.set_yscale("log")
        panel.set_yticks(nice_log_ticks(upright.low, upright.high))
        panel.minorticks_off()
    panel.yaxis.set_major_formatter(lambda value, _: units.count(value) if value >= 1e6 else f"{value:g}")
    panel.set_ylim(upright.low, upright.high)


def _intervals(panel: "Axes", points: Sequence[ParameterPoint], upright: Upright, style: PlatformStyle) -> None:
    """Those of a platform's medians, cut at the axis' ends."""
    known = [(one.value, one.cell.interval) for one in points if one.cell is not None and one.cell.interval is not None]
    if known:
        panel.vlines(
            [value for value, _ in known],
            [max(interval.low / upright.scale, upright.low) for _, interval in known],
            [min(interval.high / upright.scale, upright.high) for _, interval in known],
            color=style.colour,
            linewidth=0.9,
        )


def _across(panel: "Axes", own: OverParameter, columns: int) -> None:
    """The parameter's axis, with a mark at each value, named where there is room for it."""
    from matplotlib.ticker import NullLocator

    values = own.values
    above = [value for value in values if value > 0]
    if values[-1] > _WIDE * min(above, default=values[-1]) and values[0] >= 0:
        if values[0] > 0:
            panel.set_xscale("log")
        else:
            panel.set_xscale("symlog", linthresh=above[0])
    panel.set_xticks(values)
    panel.xaxis.set_minor_locator(NullLocator())
    named = [words.parameter_place(own.parameter, value) for value in values]
    width = 7.0 / columns - 0.5
    at = [float(one) for one in panel.xaxis.get_transform().transform(list(values))]
    reach = at[-1] - at[0]
    last, free = len(values) - 1, -math.inf
    for place, x in enumerate((one - at[0]) / reach * width for one in at):
        room = _LETTER_INCHES * (len(named[place]) + 0.7)
        if place != last and (x < free or x + room > width):
            named[place] = ""
        else:
            free = x + room
    panel.set_xticks(values, named)


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


def parts(analysis: Analysis) -> dict[str, FigureSpec]:
    """One for each workload and parameter."""
    found: dict[tuple[str, str], list[OverParameter]] = {}
    for one in analysis.over_parameters:
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
