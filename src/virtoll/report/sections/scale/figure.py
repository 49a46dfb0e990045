"""The same work in n guests at once: all together, and one of them (Camargos et al. 2008, Figures 10 to 12)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from virtoll import units
from virtoll.report import words
from virtoll.report.figures import legends
from virtoll.report.figures.base import FigureSpec, blocks_text, drawn_in_a_column
from virtoll.report.figures.lines import (
    LinePanel,
    LinePoint,
    axis,
    labels_room,
    line_panel,
    side_by_side,
    upright_room,
    where_room,
)
from virtoll.report.figures.marks import figure, panel_width
from virtoll.report.figures.style import Specification, Width, nice_log_ticks, pixels, whole
from virtoll.stats.analysis import Analysis
from virtoll.stats.guests_at_once import ScaleRow
from virtoll.stats.values import Task

_PANEL_POINTS = 120.0  # high
_BEYOND = 1.2  # times the largest value, and the smallest by it: the axis' ends


@dataclass(frozen=True)
class Upright:
    """What a panel shows of each row, what that is, and its unit; rows without a value are left out."""

    values: Mapping[ScaleRow, float]
    title: str
    unit: str


def _tasks(analysis: Analysis) -> list[Task]:
    """Those of which all guests together have a value, at two numbers of guests or more."""
    guests: dict[Task, set[int]] = {}
    for row in analysis.at_once.rows:
        if row.task.metric.primary and row.together is not None:
            guests.setdefault(row.task, set()).add(row.point.guests)
    return [task for task in analysis.at_once.tasks if len(guests.get(task, ())) > 1]


def draw(analysis: Analysis, width: Width) -> Specification:
    """A row for each task: what all do together, and what one of them does."""
    tasks = _tasks(analysis)
    left = upright_room(width, lines=1)
    size = (panel_width(width, 2, 0, each=left + 6), pixels(_PANEL_POINTS))
    drawn = []
    for task in tasks:
        rows = [row for row in analysis.at_once.rows if row.task == task]
        together = {row: row.together for row in rows if row.together is not None}
        shown = (
            Upright(together, "all together", rows[0].together_unit),
            Upright({row: row.each for row in rows}, "one guest", task.metric.unit),
        )
        beside = [_panel(analysis, upright, width, size=size, last=task == tasks[-1]) for upright in shown]
        drawn.append(side_by_side(task.label, beside, width))
    shown_rows = [row for row in analysis.at_once.rows if row.task in tasks]
    entries = _entries(analysis, shown_rows)
    return figure([*drawn, *legends.legend(width, entries, left)])


def _entries(analysis: Analysis, rows: Sequence[ScaleRow]) -> list[legends.Entry]:
    """Each platform; with several numbers of vCPUs, each of its lines."""
    shown = list(dict.fromkeys(row.platform for row in rows))
    entries = []
    widths = _widths(rows)
    for entry in legends.platforms(analysis, shown):
        for vcpus in widths if len(widths) > 1 else ():
            if any(row.platform == entry.platform and row.point.vcpus == vcpus for row in rows):
                label = f"{entry.label}, {words.counted(vcpus, 'vCPU')}"
                entries.append(replace(entry, label=label, width=widths[vcpus]))
        entries += [] if len(widths) > 1 else [entry]
    return [*entries, *legends.of_caveats(analysis, shown)]


def _widths(rows: Sequence[ScaleRow]) -> dict[int, float]:
    """How wide a line is, in pixels, by its guests' number of vCPUs."""
    numbers = sorted({row.point.vcpus for row in rows})
    return {vcpus: 1.2 + 0.8 * place for place, vcpus in enumerate(numbers)}


def _panel(
    analysis: Analysis, upright: Upright, width: Width, *, size: tuple[float, float], last: bool
) -> Specification:
    """A line for each platform and number of vCPUs, both axes logarithmic."""
    scale, unit = units.axis_unit(max(upright.values.values()), upright.unit)
    values = {row: value / scale for row, value in upright.values.items()}
    widths = _widths([*values])
    lines: dict[str, list[LinePoint]] = {}
    for row, value in sorted(values.items(), key=lambda item: (item[0].point.vcpus, item[0].point.guests)):
        thick = widths[row.point.vcpus] if len(widths) > 1 else None
        point = LinePoint(row.point.guests, value, tooltip=_words(analysis, row), width=thick)
        lines.setdefault(row.platform, []).append(point)
    limits = (min(values.values()) / _BEYOND, max(values.values()) * _BEYOND)
    ticks = nice_log_ticks(*limits)
    names = [f"{tick:g}" if tick < 1000 else whole(tick) for tick in ticks]
    title, extent = f"{upright.title}, {unit}", labels_room(width)
    up = axis(limits, title, scale={"type": "log"}, ticks=ticks, names=names, extent=extent)
    across = _across([*values], size[0], last=last)
    in_order = {platform: lines[platform] for platform in analysis.platforms if platform in lines}
    workload = next(iter(values)).task.workload
    return line_panel(analysis, LinePanel("", workload, in_order, across, up, limits=limits, size=size))


def _across(rows: Sequence[ScaleRow], width: float, *, last: bool) -> Specification:
    """The numbers of guests, named where there is room."""
    numbers = sorted({row.point.guests for row in rows})
    names = where_room(list(map(str, numbers)), list(map(math.log, numbers)), width)
    title = "guests at once" if last else None
    return axis((numbers[0], numbers[-1]), title, scale={"type": "log"}, ticks=numbers, names=names)


def _words(analysis: Analysis, row: ScaleRow) -> str:
    """'4 guests, sysbench cpu: all together 2.51 jobs/s, one guest 1.59 s, 6 trials'."""
    what = f"one guest {units.value(row.each, row.task.metric.unit)}"
    if row.together is not None:
        what = f"all together {units.value(row.together, row.together_unit)}, {what}"
    trials = words.counted(row.trials, "trial")
    return f"{analysis.at_once.words(row.point)}, {row.task.label}: {what}, {trials}"


def caption(analysis: Analysis) -> str:
    """What to see."""
    ratio = f"; of others than {analysis.baseline} its median times their ratio" if analysis.baseline else ""
    return (
        "Left: what all guests do together; a level line on the right end: the host is full. Right: one guest of them "
        "(of durations the harmonic mean). Both axes are logarithmic. "
        f"Markers are medians over the trials of {blocks_text(analysis)}{ratio}."
    )


def why_not(analysis: Analysis) -> str | None:
    """Two numbers of guests are needed."""
    return None if _tasks(analysis) else "no workload was measured with two numbers of guests at once"


AT_ONCE = FigureSpec("Several guests at once", caption, draw, why_not, in_a_column=drawn_in_a_column)
