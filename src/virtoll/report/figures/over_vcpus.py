"""The same work in guests with more and more virtual CPUs (Suresh and Kannan 2014, Figure 3): value and CPU time."""

from typing import TYPE_CHECKING

from virtoll import units
from virtoll.report.figures.base import blocks_text, drawn_in_a_column
from virtoll.report.figures.old import caveat_signs
from virtoll.report.figures.old.base import OldFigureSpec, new_figure
from virtoll.report.figures.old.style import plot
from virtoll.report.figures.style import platform_styles
from virtoll.stats.analysis import Analysis
from virtoll.stats.guests_at_once import ScaleRow
from virtoll.stats.values import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def _panels(analysis: Analysis) -> dict[tuple[Task, int], list[ScaleRow]]:
    """Each task and number of guests that was measured with two numbers of virtual CPUs or more, and its rows."""
    found: dict[tuple[Task, int], list[ScaleRow]] = {}
    for row in analysis.at_once.rows:
        if row.task.metric.primary:
            found.setdefault((row.task, row.point.guests), []).append(row)
    return {key: rows for key, rows in found.items() if len({row.point.vcpus for row in rows}) > 1}


def draw(analysis: Analysis) -> "Figure":
    """A row for each task and number of guests: what one guest does, and the CPU time that it takes of the host."""
    panels = _panels(analysis)
    figure = new_figure(0.9 + 2.3 * len(panels))
    grid = figure.subplots(len(panels), 2, squeeze=False)
    for (value, cpu), ((task, guests), rows) in zip(grid, panels.items(), strict=True):
        value.set_title(task.label if guests == 1 else f"{task.label}, {rows[0].point.label}", loc="left")
        _panel(value, analysis, {row: row.each for row in rows}, (task.metric.unit, "one guest"))
        times = {row: row.cpu_ns for row in rows if row.cpu_ns is not None}
        if times:
            _panel(cpu, analysis, times, ("ns", "host CPU time of a guest"))
        else:
            cpu.set_visible(False)
    shown = [row.platform for row in analysis.at_once.rows]
    caveat_signs.legend_of_panels(figure, analysis, grid[:, 0], shown)
    return figure


def _panel(panel: "Axes", analysis: Analysis, values: dict[ScaleRow, float], named: tuple[str, str]) -> None:
    """A line for each platform, upwards from zero; ``named``: the values' unit, and what they are."""
    unit, title = named
    scale, shown_unit = units.axis_unit(max(values.values()), unit)
    styles = platform_styles(analysis.platforms)
    for platform in dict.fromkeys(row.platform for row in values):
        own = sorted((row.point.vcpus, value) for row, value in values.items() if row.platform == platform)
        places, heights = [vcpus for vcpus, _ in own], [value / scale for _, value in own]
        name = caveat_signs.name(analysis, platform)
        plot(panel, styles[platform], places, heights, label=name, width=1.1)
    panel.set_xticks(sorted({row.point.vcpus for row in values}))
    panel.set_xlabel("virtual CPUs of a guest")
    panel.set_ylabel(f"{title}, {shown_unit}")
    panel.set_ylim(0, 1.1 * max(values.values()) / scale)


def caption(analysis: Analysis) -> str:
    """What to see."""
    return (
        "Left: what one guest does, by how many virtual CPUs it has. Right: the CPU time that its processes take of "
        "the host, with what the workload made ready; a rising line is work that more CPUs add. "
        f"Markers are medians over the trials of {blocks_text(analysis)}."
    )


def why_not(analysis: Analysis) -> str | None:
    """Two numbers of virtual CPUs are needed."""
    return None if _panels(analysis) else "no workload was measured with two numbers of virtual CPUs"


OVER_VCPUS = OldFigureSpec("Over virtual CPUs", caption, draw, why_not, section="scale", in_a_column=drawn_in_a_column)
