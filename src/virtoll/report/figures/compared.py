"""Two runs compared: the second's performance as a share of the first's, a row a task, on a logarithmic axis."""

from dataclasses import replace

from virtoll.report import words
from virtoll.report.figures.choice import chosen_rows, rows_left_out
from virtoll.report.figures.marks import figure
from virtoll.report.figures.shares import (
    SharePanel,
    left_of,
    line_points,
    rows_of,
    share_legend,
    share_limits,
    share_panel,
)
from virtoll.report.figures.style import Specification, Width
from virtoll.stats.analysis import Analysis
from virtoll.stats.between_runs import Between
from virtoll.stats.compare import Comparison


def _shown(between: Between) -> list[Comparison]:
    return [
        comparison
        for comparison in between.comparisons
        if comparison.share is not None and comparison.task.metric.primary
    ]


def compared_figure_why_not(between: Between) -> str | None:
    """Why there is nothing to draw; None where there is."""
    return None if _shown(between) else "no primary metric has a value on both sides"


def draw_compared(between: Between, first: str, second: str, width: Width) -> Specification:
    """Dots with their intervals; what is left of 100 % became slower."""
    by_task = rows_of(between.tasks, _shown(between))
    tasks = chosen_rows(by_task)
    shown = [comparison for task in tasks for comparison in by_task[task].values()]
    analysis = _as_analysis(between)
    panel = SharePanel(
        rows={task.label: by_task[task] for task in tasks},
        platforms=analysis.platforms,
        reference=first,
        limits=share_limits(analysis, shown),
        line_points=line_points(len(tasks)),
        axis=f"performance of {second} in % of {first} (logarithmic); left of 100 % is slower",
    )
    left = left_of(panel.rows, width)
    legend = share_legend(analysis, panel.platforms, first, width=width, left=left)
    return figure([share_panel(analysis, panel, width, left), *legend])


def compared_caption(between: Between, first: str, second: str) -> str:
    """What to see."""
    rows = rows_of(between.tasks, _shown(between))
    left_out = rows_left_out(len(chosen_rows(rows)), len(rows), "tables/compared.csv")
    margin = words.amount(_as_analysis(between).margin)
    of = "ratio of the shares of the baseline's performance" if between.by == "cost" else "ratio of the performances"
    return (
        f"Each marker is the {of}, {second} against {first}; its line is the 95 % interval, by itself. Filled: slower "
        f"or faster after Holm's correction. Half filled: alike within {margin} or less. Open: not known. Grey: within "
        f"{margin} of {first}.{left_out}"
    )


def _as_analysis(between: Between) -> Analysis:
    """The second run with the pairs in the place of its platforms: what a panel asks for looks, margin and caveats."""
    names = tuple(dict.fromkeys(comparison.platform for comparison in _shown(between)))
    labels = {pair.name: pair.second for pair in between.pairs}
    caveats = {name: between.second.caveats[labels[name]] for name in names if labels[name] in between.second.caveats}
    return replace(between.second, platforms=names, caveats=caveats)
