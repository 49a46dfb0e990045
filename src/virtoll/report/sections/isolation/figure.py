"""What guests beside the measured one do to it: a panel a victim, a line a condition, a dot a platform."""

from virtoll.report import words
from virtoll.report.figures.base import FigureSpec
from virtoll.report.figures.marks import figure
from virtoll.report.figures.shares import SharePanel, left_of, rows_of, share_legend, share_limits, share_panel
from virtoll.report.figures.style import Specification, Width
from virtoll.report.rows import platforms_of
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import Comparison
from virtoll.stats.values import Task


def _shown(analysis: Analysis) -> list[Comparison]:
    """Primary metrics alone: the tables have the others."""
    return [
        comparison
        for comparison in analysis.isolation.comparisons
        if comparison.share is not None and comparison.task.metric.primary
    ]


def draw(analysis: Analysis, width: Width) -> Specification:
    """Shares of the guest alone, on a logarithmic axis that all victims share."""
    shown = _shown(analysis)
    platforms = platforms_of(analysis, shown)
    labels = [condition.label for condition in analysis.isolation.conditions]
    rows: dict[Task, dict[str, dict[str, Comparison]]] = {}
    for label in labels:
        of_label = rows_of(analysis.tasks, (row for row in shown if row.condition == label))
        for task, comparisons in of_label.items():
            rows.setdefault(task, {})[label] = comparisons
    tasks = [task for task in analysis.tasks if task in rows]
    limits, left = share_limits(analysis, shown), left_of(labels, width)
    axis = "performance in % of the guest alone (logarithmic); left of 100 % is slower"
    drawn = []
    for task in tasks:
        panel = SharePanel(
            rows=rows[task],
            platforms=platforms,
            reference="the guest alone",
            limits=limits,
            line_points=5.4,
            title=task.label,
            axis=axis if task == tasks[-1] else "",
        )
        drawn.append(share_panel(analysis, panel, width, left))
    return figure([*drawn, *share_legend(analysis, platforms, "the guest alone", width=width, left=left)])


def caption(analysis: Analysis) -> str:
    """What to see."""
    shown = _shown(analysis)
    if not any(comparison.interval for comparison in shown):
        return "Each marker is the ratio to the guest alone in the one block that was measured: there is no verdict."
    return (
        f"Each marker is a guest's performance in % of itself alone, over {words.blocks_words(analysis)}; its line "
        "is the 95 % interval, by itself. Filled: slower or faster, after Holm's correction over "
        f"{analysis.isolation.family} comparisons. Half filled: alike. Open: not known, or no verdict as the rate "
        f"is the sender's. Grey: within {words.amount(analysis.margin)} of the guest alone."
    )


def why_not(analysis: Analysis) -> str | None:
    """A condition with a value is needed."""
    return None if _shown(analysis) else "nothing was measured beside other guests"


BESIDE = FigureSpec("What other guests cost", caption, draw, why_not)
