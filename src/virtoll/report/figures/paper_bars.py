"""What each workload gave on each platform, as the papers draw it: bars from zero, summed up in the paper's own way.

Mattos et al. 2012, Figures 5 to 7; Camargos et al. 2008, Figures 3 to 9, whose bars are shares of the baseline.
"""

import functools
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from virtoll import units
from virtoll.report.figures import caveat_signs
from virtoll.report.figures.base import FigureSeries, FigureSpec, drawn_always, new_figure
from virtoll.report.figures.horizontal_bars import bar, beside, in_place_of_a_bar, whisker
from virtoll.report.figures.style import INK
from virtoll.stats.analysis import Analysis
from virtoll.stats.papers import PaperRow
from virtoll.stats.values import Task, printed_tasks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Bars as the paper draws them"
_COLUMNS = 3
_PAGE_INCHES = 9.4  # of panels: a figure that is higher fits no page of paper
_BAR_INCHES, _TITLE_INCHES, _AXIS_INCHES = 0.16, 0.13, 0.52  # of a line of a platform's name and of a title
_NAME_LETTERS, _TITLE_LETTERS = 22, 34
_BEYOND = 1.5  # times the longest bar: whiskers of few values go far, and would leave no room for the bars
_ROOM = 1.42  # for a value beside the longest


@dataclass(frozen=True)
class Shown:
    """One bar in the unit of its panel; `low` and `high` are its whisker's ends."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Panel:
    """One task: its axis, and what each platform has there. `shares`: of the baseline, in percent."""

    task: Task
    axis: str
    shares: bool
    bars: Mapping[str, Shown]


def panels_of(analysis: Analysis) -> list[Panel]:
    """Every task that a paper would show, in the analysis' order."""
    return [_panel_of(analysis, task) for task in analysis.paper.drawn]


def _panel_of(analysis: Analysis, task: Task) -> Panel:
    rows = [row for row in analysis.paper.rows if row.task == task]
    method = analysis.paper_method
    if method is not None and method.drawn == "shares" and any(row.share is not None for row in rows):
        bars = {row.platform: Shown(*_percent(row)) for row in rows if row.share is not None}
        return Panel(task, f"% of {analysis.baseline}, higher is better", True, bars)
    scale, unit = units.axis_unit(max(row.summary.centre for row in rows), task.metric.unit)
    bars = {row.platform: Shown(*_scaled(row, scale)) for row in rows}
    return Panel(task, ", ".join(filter(None, (unit, f"{task.metric.better} is better"))), False, bars)


def _percent(row: PaperRow) -> tuple[float, float | None, float | None]:
    low, high = (None if end is None else 100 * end for end in (row.share_low, row.share_high))
    return 100 * (row.share or 0.0), low, high


def _scaled(row: PaperRow, scale: float) -> tuple[float, float | None, float | None]:
    low, high = (None if end is None else end / scale for end in (row.summary.low, row.summary.high))
    return row.summary.centre / scale, low, high


def draw(analysis: Analysis, panels: Sequence[Panel]) -> "Figure":
    """Three columns of panels; platforms are named on the left of each row."""
    columns = min(_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(0.4 + rows * _height(analysis, panels))
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for place, one in enumerate(axes.flat):
        if place < len(panels):
            _panel(one, analysis, panels[place])
        else:
            one.set_visible(False)
    names = _names(analysis)
    for one in axes[:, 0]:
        one.set_yticks(range(len(names)), names)
        one.set_ylim(len(names) - 0.4, -0.6)
    caveat_signs.legend(figure, analysis, analysis.platforms)
    return figure


def _names(analysis: Analysis) -> list[str]:
    return ["\n".join(textwrap.wrap(caveat_signs.name(analysis, one), _NAME_LETTERS)) for one in analysis.platforms]


def _title(panel: Panel) -> str:
    return "\n".join(textwrap.wrap(panel.task.label, _TITLE_LETTERS))


def _height(analysis: Analysis, panels: Sequence[Panel]) -> float:
    """Of a row of these panels, in inches: each platform has room for the longest name, each panel for its title."""
    name = max(name.count("\n") + 1 for name in _names(analysis))
    title = max((_title(panel).count("\n") + 1 for panel in panels), default=1)
    return _AXIS_INCHES + _TITLE_INCHES * title + _BAR_INCHES * name * len(analysis.platforms)


def _panel(panel: "Axes", analysis: Analysis, own: Panel) -> None:
    from matplotlib.ticker import MaxNLocator

    panel.set_title(_title(own), fontsize=7)
    panel.tick_params(axis="y", length=0)
    panel.tick_params(axis="both", labelsize=6.5)
    panel.grid(visible=False, axis="y")
    panel.set_xlabel(own.axis, fontsize=6.5)
    panel.xaxis.set_major_locator(MaxNLocator(4))
    longest = max(one.value for one in own.bars.values())
    limit = longest * _BEYOND
    furthest = max([longest, *(min(one.high, limit) for one in own.bars.values() if one.high is not None)])
    panel.set_xlim(0, furthest * _ROOM)
    if own.shares:
        panel.axvline(100, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    for place, platform in enumerate(analysis.platforms):
        shown = own.bars.get(platform)
        if shown is None:
            in_place_of_a_bar(panel, analysis.paper.missing[platform, own.task], place, 6)
            continue
        bar(panel, analysis, platform, shown.value, place)
        reach = shown.value
        if shown.low is not None:
            high = float("inf") if shown.high is None else shown.high  # a time that may be zero has no largest share
            reach = max(reach, min(high, limit))
            whisker(panel, place, shown.low, high, limit)
        sign = f" {caveat_signs.SIGN}" if platform in analysis.caveats else ""
        beside(panel, f"{units.significant(shown.value)}{sign}", reach, place, 6)


def caption(analysis: Analysis) -> str:
    """What to see."""
    method = analysis.paper_method
    if method is None:
        return ""
    counts = sorted({row.summary.count for row in analysis.paper.rows})
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    base = analysis.baseline if method.drawn == "shares" else None
    asked, drawn = len(printed_tasks(analysis.tasks)), len(analysis.paper.drawn)
    shares = (
        f"It is drawn as a share of {base}'s (100 %, dashed), so that twice as fast is 200 %. "
        f"A panel has its own unit where {base} has no value. "
        if base is not None
        else ""
    )
    return (
        f"Each bar with its whisker is a platform's {method.title}, of n = {number} values. {shares}"
        f"The whisker is the {method.spread}{'' if base is None else f', over the same centre of {base}'}. "
        "One value has none, and an arrow means that it goes on. Axes begin at zero. "
        "A word in the place of a bar says why there is no value: it is not zero. "
        f"{'The guest is alone: no other runs beside it. ' if analysis.isolation.conditions else ''}"
        f"{f'{asked - drawn} of {asked} panels are left out: no platform has a value there. ' if drawn < asked else ''}"
        f"No verdict rests on these numbers, which are in tables/paper_summary.csv. After {method.used_by}."
    )


def parts(analysis: Analysis) -> dict[str, FigureSpec]:
    """As many figures as it takes, each no higher than a page."""
    panels = panels_of(analysis)
    pages = _pages(panels, max(1, int(_PAGE_INCHES / _height(analysis, panels))) * _COLUMNS)
    titles = (
        [TITLE] if len(pages) == 1 else [f"{TITLE}, {number} of {len(pages)}" for number in range(1, len(pages) + 1)]
    )
    return {
        str(number): FigureSpec(title, caption, functools.partial(draw, panels=page), drawn_always, section="paper")
        for number, (title, page) in enumerate(zip(titles, pages, strict=True), 1)
    }


def _pages(panels: Sequence[Panel], most: int) -> list[Sequence[Panel]]:
    """As few pages as hold them, with as many whole rows on each."""
    if not panels:
        return []
    pages, rows = -(-len(panels) // most), -(-len(panels) // _COLUMNS)
    each = -(-rows // pages) * _COLUMNS
    return [panels[start : start + each] for start in range(0, len(panels), each)]


BARS = FigureSeries(TITLE, parts)
