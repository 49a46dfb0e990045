"""What each platform costs: its performance as a share of the baseline's, for every workload.

Of very many sets of parameters it shows the ends (`choice`).
"""

from virtoll.report import words
from virtoll.report.figures.base import FigureSpec
from virtoll.report.figures.choice import chosen_rows, rows_left_out
from virtoll.report.figures.marks import figure
from virtoll.report.figures.shares import (
    ROOMY,
    SharePanel,
    left_of,
    line_points,
    rows_of,
    share_legend,
    share_limits,
    share_panel,
)
from virtoll.report.figures.style import Specification, Width
from virtoll.report.rows import platforms_of
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import Comparison

# With more platforms colours come again, and each line gets its platform's name at the right edge.
_DISTINGUISHABLE = 8


def _shown(analysis: Analysis) -> list[Comparison]:
    return [comparison for comparison in (*analysis.control, *analysis.comparisons) if comparison.share is not None]


def draw(analysis: Analysis, width: Width) -> Specification:
    """Dots on a logarithmic axis, one row a workload and within it one line a platform."""
    by_task = rows_of(analysis.tasks, _shown(analysis))
    tasks = chosen_rows(by_task)
    shown = [comparison for task in tasks for comparison in by_task[task].values()]
    platforms = platforms_of(analysis, shown)
    edge = frozenset(platforms)
    if len(platforms) <= _DISTINGUISHABLE:
        edge = edge.intersection(analysis.caveats)
    bound = ((comparison.platform, comparison.task.label) for comparison in shown if _bound(analysis, comparison))
    panel = SharePanel(
        rows={task.label: by_task[task] for task in tasks},
        platforms=platforms,
        reference=analysis.baseline or "",
        limits=share_limits(analysis, shown),
        line_points=line_points(len(tasks)),
        axis=f"performance in % of {analysis.baseline} (logarithmic); left of 100 % is slower",
        edge=edge,
        bound=frozenset(bound),
    )
    left = left_of(panel.rows, width)
    legend = share_legend(analysis, platforms, panel.reference, width=width, left=left)
    return figure([share_panel(analysis, panel, width, left), *legend])


def _bound(analysis: Analysis, comparison: Comparison) -> bool:
    return any(
        analysis.generator_bound(each, comparison.task) for each in (comparison.platform, analysis.baseline or "")
    )


def caption(analysis: Analysis) -> str:
    """What to see."""
    rows = rows_of(analysis.tasks, _shown(analysis))
    left_out = rows_left_out(len(chosen_rows(rows)), len(rows), "tables/comparisons.csv")
    if not any(comparison.interval for comparison in _shown(analysis)):
        return (
            f"Each dot is the ratio to {analysis.baseline} in the one block that was measured: there are no "
            f"intervals, so there is no verdict.{left_out}"
        )
    margin = words.amount(analysis.margin)
    others = f" and, as a second family, {analysis.second_family} others" if analysis.second_family else ""
    return (
        f"Each marker is a platform's performance in % of {analysis.baseline}, over {words.blocks_words(analysis)}; "
        "its line is the 95 % interval, by itself. Filled: slower or faster, after Holm's correction over "
        f"{analysis.family} comparisons of primary metrics{others}. "
        f"Half filled: alike, no difference above {margin} or a smaller margin is left. Open: not known, or no verdict "
        f"because it is no result; anything on its line is possible. Grey: within {margin} of {analysis.baseline}."
        f"{left_out}"
    )


def why_not(analysis: Analysis) -> str | None:
    """A ratio is needed."""
    if analysis.baseline is None:
        return "there is no baseline in this run, so there are no ratios"
    return None if _shown(analysis) else "no platform has a value in the same block as the baseline"


def in_a_column(analysis: Analysis) -> bool:
    """Without platforms' names on the right, and with lines as far apart as a row's name in three lines takes."""
    platforms, tasks = (
        {comparison.platform for comparison in _shown(analysis)},
        chosen_rows(rows_of(analysis.tasks, _shown(analysis))),
    )
    return len(platforms) <= _DISTINGUISHABLE and not platforms & analysis.caveats.keys() and len(tasks) <= ROOMY


COST = FigureSpec("What it costs", caption, draw, why_not, in_a_column=in_a_column)
