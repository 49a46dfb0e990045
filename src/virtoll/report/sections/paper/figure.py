"""What each workload gave on each platform, as the papers draw it: bars from zero, summed up in the paper's own way.

Mattos et al. 2012, Figures 5 to 7; Camargos et al. 2008, Figures 3 to 9, whose bars are shares of the baseline.
"""

import functools
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from virtoll import units
from virtoll.report import words
from virtoll.report.figures import caveats, legends
from virtoll.report.figures.bars import Bar, BarPanel, bar_panel, names_width
from virtoll.report.figures.base import FigureSeries, FigureSpec
from virtoll.report.figures.marks import figure, panel_width
from virtoll.report.figures.marks import panels as side_by_side
from virtoll.report.figures.style import SIZES, SMALLEST_POINTS, Specification, Width, pixels
from virtoll.report.report_input import ReportInput
from virtoll.report.sections.paper.page import task_words
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import Analysis
from virtoll.stats.papers import PaperRow
from virtoll.stats.values import Task, printed_tasks

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
    """One task, of several guests at once at one number of them: its axis, and what each platform has there.

    `shares`: of the baseline, in percent.
    """

    task: Task
    point: ScalePoint | None
    title: str
    axis: str
    shares: bool
    bars: Mapping[str, Shown]


def panels_of(analysis: Analysis) -> list[Panel]:
    """Every task that a paper would show, in the analysis' order."""
    return [_panel_of(analysis, task, point) for task, point in analysis.paper.drawn]


def _panel_of(analysis: Analysis, task: Task, point: ScalePoint | None) -> Panel:
    rows = [row for row in analysis.paper.rows if (row.task, row.point) == (task, point)]
    title = task_words(analysis, task, point)
    method = analysis.paper_method
    if method is not None and method.drawn == "shares" and any(row.share is not None for row in rows):
        bars = {row.platform: Shown(*_percent(row)) for row in rows if row.share is not None}
        return Panel(task, point, title, f"% of {analysis.baseline}, higher is better", True, bars)
    scale, unit = units.axis_unit(max(row.summary.centre for row in rows), task.metric.unit)
    bars = {row.platform: Shown(*_scaled(row, scale)) for row in rows}
    return Panel(task, point, title, words.with_commas(unit, f"{task.metric.better} is better"), False, bars)


def _percent(row: PaperRow) -> tuple[float, float | None, float | None]:
    low, high = (None if end is None else 100 * end for end in (row.share_low, row.share_high))
    return 100 * (row.share or 0.0), low, high


def _scaled(row: PaperRow, scale: float) -> tuple[float, float | None, float | None]:
    low, high = (None if end is None else end / scale for end in (row.summary.low, row.summary.high))
    return row.summary.centre / scale, low, high


def draw(analysis: Analysis, width: Width, panels: Sequence[Panel]) -> Specification:
    """Three columns of panels; platforms are named on the left of each row."""
    columns = min(_COLUMNS, len(panels))
    names = {platform: _name(analysis, platform) for platform in analysis.platforms}
    left = names_width(names, SIZES[width].text)
    step = pixels(72 * _BAR_INCHES * max(map(len, names.values())))
    size = (panel_width(width, columns, left, each=6), step)
    drawn = [
        bar_panel(analysis, _bars(analysis, panel, names, size=size, labelled=place % columns == 0))
        for place, panel in enumerate(panels)
    ]
    below = legends.legend(width, legends.of_caveats(analysis, analysis.platforms), left, most=2)
    return figure([side_by_side(drawn, columns), *below])


def _name(analysis: Analysis, platform: str) -> list[str]:
    return textwrap.wrap(caveats.name(analysis, platform), _NAME_LETTERS)


def _title(panel: Panel) -> list[str]:
    return textwrap.wrap(panel.title, _TITLE_LETTERS)


def _height(analysis: Analysis, panels: Sequence[Panel]) -> float:
    """Of a row of these panels, in inches: each platform has room for the longest name, each panel for its title."""
    name = max(len(_name(analysis, platform)) for platform in analysis.platforms)
    title = max((len(_title(panel)) for panel in panels), default=1)
    return _AXIS_INCHES + _TITLE_INCHES * title + _BAR_INCHES * name * len(analysis.platforms)


def _bars(
    analysis: Analysis, panel: Panel, names: Mapping[str, list[str]], *, size: tuple[float, float], labelled: bool
) -> BarPanel:
    longest = max(bar.value for bar in panel.bars.values())
    limit = longest * _BEYOND
    furthest = max([longest, *(min(bar.high, limit) for bar in panel.bars.values() if bar.high is not None)])
    bars = {platform: _bar(analysis, platform, panel, shown) for platform, shown in panel.bars.items()}
    without = (label for label in analysis.platforms if label not in panel.bars)
    return BarPanel(
        title=_title(panel),
        axis=panel.axis,
        bars=bars,
        missing={label: analysis.paper.missing[label, panel.task, panel.point] for label in without},
        names=names,
        reach=furthest * _ROOM,
        size=size,
        limit=limit,
        reference=100 if panel.shares else None,
        text=SMALLEST_POINTS + 0.2,
        labelled=labelled,
    )


def _bar(analysis: Analysis, platform: str, panel: Panel, shown: Shown) -> Bar:
    method = analysis.paper_method
    unit = panel.axis.partition(",")[0]
    ends = [units.significant(end) for end in (shown.low, shown.high) if end is not None]
    spread = ""
    if len(ends) == 2:
        spread = f", {method.spread if method else 'interval'} {' to '.join(ends)}"
    text = f"{platform}, {panel.title}: {units.significant(shown.value)} {unit}{spread}"
    return Bar(shown.value, shown.low, shown.high, units.significant(shown.value), text, panel.task.workload)


def caption(analysis: Analysis) -> str:
    """What to see."""
    method = analysis.paper_method
    if method is None:
        return ""
    counts = sorted({row.summary.count for row in analysis.paper.rows})
    number = words.joined(str(counts[0]), str(counts[-1]))
    sentences = [f"Each bar with its whisker is a platform's {method.title}, of n = {number} values."]
    whisker = f"The whisker is the {method.spread}"
    if method.drawn == "shares" and analysis.baseline is not None:
        base = analysis.baseline
        sentences.append(f"It is drawn in % of {base}'s (100 %, dashed), so that twice as fast is 200 %.")
        sentences.append(f"A panel has its own unit where {base} has no value.")
        whisker += f", over the same centre of {base}"
    sentences.append(f"{whisker}. One value has none, and an arrow means that it goes on. Axes begin at zero.")
    sentences.append("A word in the place of a bar says why there is no value: it is not zero.")
    if analysis.isolation.conditions:
        sentences.append("The guest is alone: no other runs beside it.")
    if analysis.at_once.points:
        sentences.append("Of several guests at once a value is their mean, of durations the harmonic mean.")
    panels = len(printed_tasks(analysis.tasks)) * max(1, len(analysis.at_once.points))
    drawn = len(analysis.paper.drawn)
    if drawn < panels:
        sentences.append(f"{panels - drawn} of {panels} panels are left out: no platform has a value there.")
    sentences.append("No verdict rests on these numbers, which are in tables/paper_summary.csv.")
    return f"{' '.join(sentences)} After {method.used_by}."


def parts(source: ReportInput) -> dict[str, FigureSpec]:
    """As many figures as it takes, each no higher than a page."""
    panels = panels_of(source.analysis)
    rows = max(1, int(_PAGE_INCHES / _height(source.analysis, panels)))
    pages = _pages(panels, rows * _COLUMNS)
    figures = {}
    for number, page in enumerate(pages, 1):
        title = f"{TITLE}, {number} of {len(pages)}" if len(pages) > 1 else TITLE
        figures[str(number)] = FigureSpec(title, caption, functools.partial(draw, panels=page))
    return figures


def _pages(panels: Sequence[Panel], most: int) -> list[Sequence[Panel]]:
    """As few pages as hold them, with as many whole rows on each."""
    if not panels:
        return []
    pages, rows = -(-len(panels) // most), -(-len(panels) // _COLUMNS)
    each = -(-rows // pages) * _COLUMNS
    return [panels[start : start + each] for start in range(0, len(panels), each)]


BARS = FigureSeries(TITLE, parts)
