"""Maximum forwarding rate (RFC 2285, 3.6.3) by platform and frame size (Schlosser et al. 2011, Figure 4)."""

from typing import TYPE_CHECKING

from virtoll import units
from virtoll.report.figures import caveat_signs
from virtoll.report.figures.base import FigureSpec, blocks_text, interval_text, panel_grid
from virtoll.report.figures.horizontal_bars import bar, beside, in_place_of_a_bar, whiskers
from virtoll.report.figures.style import INK, whole
from virtoll.stats.analysis import Analysis
from virtoll.stats.values import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def _tasks(analysis: Analysis) -> list[Task]:
    measured = {task for _, task in analysis.cells}
    return [task for task in analysis.tasks if task.metric.source == "points" and task in measured]


def draw(analysis: Analysis) -> "Figure":
    """Horizontal bars from zero, one panel a frame size; the baseline's median runs through as a line."""
    tasks = _tasks(analysis)
    platforms = [one for one in analysis.platforms if any((one, task) in analysis.cells for task in tasks)]
    figure, panels, columns = panel_grid(len(tasks), (0.4, 0.55 + 0.27 * len(platforms)), shared=True)
    for panel, task in zip(panels, tasks, strict=True):
        _panel(panel, analysis, task, platforms)
    largest = max(
        analysis.cells[one, task].median for one in platforms for task in tasks if (one, task) in analysis.cells
    )
    panels[0].set_xlim(0, largest * 1.42)
    panels[max(0, len(tasks) - columns)].set_xlabel("maximum forwarding rate (RFC 2285), frames/s")
    caveat_signs.legend(figure, analysis, platforms)
    return figure


def _panel(panel: "Axes", analysis: Analysis, task: Task, platforms: list[str]) -> None:
    panel.set_title(task.label)
    panel.set_yticks(range(len(platforms)), [caveat_signs.name(analysis, one) for one in platforms])
    panel.set_ylim(len(platforms) - 0.4, -0.6)
    panel.tick_params(axis="y", length=0)
    panel.grid(visible=False, axis="y")
    panel.xaxis.set_major_formatter(lambda value, _: whole(value))
    base = analysis.cells.get((analysis.baseline or "", task))
    if base is not None:
        panel.axvline(base.median, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    intervals: list[tuple[int, float, float]] = []
    for place, platform in enumerate(platforms):
        cell = analysis.cells.get((platform, task))
        if cell is None:
            in_place_of_a_bar(panel, "not measured", place)
            continue
        bar(panel, analysis, platform, cell.median, place)
        reach = cell.median
        if cell.interval is not None:
            reach = cell.interval.high
            intervals.append((place, cell.interval.low, cell.interval.high))
        beside(panel, _text(analysis, platform, task), reach, place)
    if intervals:
        whiskers(panel, intervals)


def _text(analysis: Analysis, platform: str, task: Task) -> str:
    """'412 k (86 %)'; '≥' in front where the generator, not the platform, set the limit."""
    cell = analysis.cells[platform, task]
    bound = "≥ " if _at_least(analysis, platform, task) else ""
    comparison = analysis.comparison(platform, task)
    share = f" ({units.percent(comparison.share)})" if comparison and comparison.share is not None else ""
    marked = ", generator-bound" if analysis.generator_bound(platform, task) else ""
    sign = f" {caveat_signs.SIGN}" if platform in analysis.caveats else ""
    return f"{bound}{units.count(cell.median)}{share}{marked}{sign}"


def _at_least(analysis: Analysis, platform: str, task: Task) -> bool:
    """Whether the platform's own maximum may be higher than the rate that was seen."""
    curve = analysis.curve(platform, task)
    return analysis.generator_bound(platform, task) or (curve is not None and curve.lossless)


def caption(analysis: Analysis) -> str:
    """What to see."""
    share = f", in brackets as a share of {analysis.baseline} (pairs of the same block)" if analysis.baseline else ""
    line = f" The dashed line is {analysis.baseline}." if analysis.baseline else ""
    bound = (
        " ≥: flat out hardly a frame was lost, so generator and path together set the limit; the "
        "platform's own may be higher."
        if any(curve.lossless for curve in analysis.curves)
        else ""
    )
    if any(headroom.generator_bound for headroom in analysis.headrooms.values()):
        bound += " Generator-bound: within 10 % of what generator and sink reach with nothing between."
    return (
        f"Bars are medians over {blocks_text(analysis)} with {interval_text(analysis)}. Beside each bar is its "
        f"value{share}.{line}{bound} The maximum need not be at the largest offered rate (there it is "
        "FRMOL, the rate flat out), and frames may be lost at it: it is not a no-drop rate. "
        "After Schlosser et al. 2011, Figure 4."
    )


def why_not(analysis: Analysis) -> str | None:
    """A cell with a maximum is needed."""
    return None if _tasks(analysis) else "no forwarding trial has a value"


THROUGHPUT = FigureSpec("Maximum forwarding rate", caption, draw, why_not, section="forwarding")
