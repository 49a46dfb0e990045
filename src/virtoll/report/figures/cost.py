"""What each platform costs: its performance as a share of the baseline's, for every workload."""

from typing import TYPE_CHECKING

from virtoll.report import words
from virtoll.report.figures import caveat_signs
from virtoll.report.figures.base import FigureSpec, new_figure
from virtoll.report.figures.edge_names import edge_name
from virtoll.report.figures.shares import share_axes, share_legend, share_limits, share_lines
from virtoll.report.figures.style import MUTED
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import Comparison
from virtoll.stats.values import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# With more platforms colours come again, and each line gets its platform's name at the right edge.
_DISTINGUISHABLE = 8
# With more workloads than this the lines move together, so that two of them can still be seen at once.
_ROOMY = 20


def _shown(analysis: Analysis) -> list[Comparison]:
    return [one for one in (*analysis.control, *analysis.comparisons) if one.share is not None]


def draw(analysis: Analysis) -> "Figure":
    """Dots on a logarithmic axis, one row a workload and within it one line a platform."""
    shown = _shown(analysis)
    by_task: dict[Task, dict[str, Comparison]] = {}
    for one in shown:
        by_task.setdefault(one.task, {})[one.platform] = one
    tasks = [task for task in analysis.tasks if task in by_task]
    platforms = [label for label in analysis.platforms if any(one.platform == label for one in shown)]
    line = 0.125 if len(tasks) <= _ROOMY else 0.075
    figure = new_figure(1.1 + len(tasks) * (0.12 + line * len(platforms)))
    panel = figure.subplots()
    limits = share_limits(analysis, shown)
    rows = [by_task[task] for task in tasks]
    named: dict[str, list[float]] = {}
    for comparison, height in share_lines(panel, analysis, rows, platforms, limits):
        platform, share = comparison.platform, 100 * (comparison.share or 0.0)
        caveat_signs.cross(panel, analysis, platform, share, height)
        if len(platforms) > _DISTINGUISHABLE or platform in analysis.caveats:
            named.setdefault(platform, []).append(height)
        if any(analysis.generator_bound(one, comparison.task) for one in (platform, analysis.baseline or "")):
            panel.annotate(
                "generator-bound",
                (share, height),
                (0, 3.5),
                ha="center",
                textcoords="offset points",
                fontsize=6,
                color=MUTED,
            )
    for platform, heights in named.items():
        edge_name(panel, caveat_signs.name(analysis, platform), heights)
    xlabel = f"performance as a share of {analysis.baseline} (logarithmic); left of 100 % is slower"
    share_axes(panel, [task.label for task in tasks], limits, xlabel)
    share_legend(figure, analysis, platforms, analysis.baseline or "")
    return figure


def caption(analysis: Analysis) -> str:
    """What to see."""
    if not any(one.interval for one in _shown(analysis)):
        return (
            f"Each dot is the ratio to {analysis.baseline} in the one block that was measured: there are no "
            "intervals, so there is no verdict."
        )
    margin = words.amount(analysis.margin)
    others = f" and, as a second family, {analysis.second_family} others" if analysis.second_family else ""
    return (
        f"Each marker is a platform's share of {analysis.baseline}, over {words.blocks_words(analysis)}; its line is "
        "the 95 % interval, by itself. Filled: slower or faster, after Holm's correction over "
        f"{analysis.family} comparisons of primary metrics{others}. "
        f"Half filled: alike, no difference above {margin} or a smaller margin is left. Open: not known, or no verdict "
        f"because it is no result; anything on its line is possible. Grey: within {margin} of {analysis.baseline}."
    )


def why_not(analysis: Analysis) -> str | None:
    """A ratio is needed."""
    if analysis.baseline is None:
        return "there is no baseline in this run, so there are no shares"
    return None if _shown(analysis) else "no platform has a value in the same block as the baseline"


def in_a_column(analysis: Analysis) -> bool:
    """Without platforms' names on the right, and with lines as far apart as a row's name in three lines takes."""
    shown = _shown(analysis)
    platforms, tasks = {one.platform for one in shown}, {one.task for one in shown}
    return len(platforms) <= _DISTINGUISHABLE and not platforms & analysis.caveats.keys() and len(tasks) <= _ROOMY


COST = FigureSpec("What it costs", caption, draw, why_not, section="cost", in_a_column=in_a_column)
