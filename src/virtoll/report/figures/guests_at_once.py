"""The same work in n guests at once: all together, and one of them (Camargos et al. 2008, Figures 10 to 12)."""

from typing import TYPE_CHECKING

from virtoll.report.figures.base import blocks_text, drawn_in_a_column
from virtoll.report.figures.old import caveat_signs
from virtoll.report.figures.old.base import OldFigureSpec, new_figure
from virtoll.report.figures.old.style import plot
from virtoll.report.figures.style import nice_log_ticks, platform_styles, whole
from virtoll.stats.analysis import Analysis
from virtoll.stats.guests_at_once import ScaleRow
from virtoll.stats.values import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SCALES = {"ns": (1e9, "s")}


def _tasks(analysis: Analysis) -> list[Task]:
    """Those of which all guests together have a value, at two numbers of guests or more."""
    rows = [row for row in analysis.at_once.rows if row.task.metric.primary and row.together is not None]
    return [task for task in analysis.at_once.tasks if len({row.point.guests for row in rows if row.task == task}) > 1]


def draw(analysis: Analysis) -> "Figure":
    """A row for each task: what all do together, and what one of them does."""
    tasks = _tasks(analysis)
    figure = new_figure(0.9 + 2.3 * len(tasks))
    panels = figure.subplots(len(tasks), 2, squeeze=False)
    for (together, each), task in zip(panels, tasks, strict=True):
        rows = [row for row in analysis.at_once.rows if row.task == task]
        scale, unit = _SCALES.get(task.metric.unit, (1.0, task.metric.unit))
        _panel(together, analysis, rows, {row: row.together or 0.0 for row in rows})
        _panel(each, analysis, rows, {row: row.each / scale for row in rows})
        together.set_title(task.label, loc="left")
        together.set_ylabel(f"all together, {rows[0].together_unit}")
        each.set_ylabel(f"one guest, {unit}")
    for panel in panels[-1]:
        panel.set_xlabel("guests at once")
    shown = [row.platform for row in analysis.at_once.rows]
    caveat_signs.legend_of_panels(figure, analysis, panels[:, 0], shown)
    return figure


def _panel(panel: "Axes", analysis: Analysis, rows: list[ScaleRow], values: dict[ScaleRow, float]) -> None:
    """A line for each platform and number of vCPUs, both axes logarithmic."""
    from matplotlib.ticker import NullLocator

    styles = platform_styles(analysis.platforms)
    vcpus = sorted({row.point.vcpus for row in rows})
    for platform in dict.fromkeys(row.platform for row in rows):
        for number in vcpus:
            own = [row for row in rows if row.platform == platform and row.point.vcpus == number]
            style, name = styles[platform], caveat_signs.name(analysis, platform)
            label = name if len(vcpus) == 1 else f"{name}, {number} vCPU{'s' if number > 1 else ''}"
            places, width = [row.point.guests for row in own], 0.8 + 0.6 * vcpus.index(number)
            plot(panel, style, places, [values[row] for row in own], label=label, width=width)
    panel.set_xscale("log")
    panel.set_yscale("log")
    numbers = sorted({row.point.guests for row in rows})
    panel.set_xticks(numbers, [str(number) for number in numbers])
    panel.xaxis.set_minor_locator(NullLocator())
    low, high = min(values.values()) / 1.2, max(values.values()) * 1.2
    panel.set_ylim(low, high)
    panel.set_yticks(nice_log_ticks(low, high))
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}" if value < 1000 else whole(value))
    panel.yaxis.set_minor_formatter("")


def caption(analysis: Analysis) -> str:
    """What to see."""
    return (
        "Left: what all guests do together; a level line on the right end: the host is full. Right: one guest of them "
        "(of durations the harmonic mean). Both axes are logarithmic. "
        f"Markers are medians over the trials of {blocks_text(analysis)}."
    )


def why_not(analysis: Analysis) -> str | None:
    """Two numbers of guests are needed."""
    return None if _tasks(analysis) else "no workload was measured with two numbers of guests at once"


AT_ONCE = OldFigureSpec(
    "Several guests at once", caption, draw, why_not, section="scale", in_a_column=drawn_in_a_column
)
