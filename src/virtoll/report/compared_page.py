"""The page of a comparison: both sides beside each other, with a figure and a table. It touches the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from virtoll.report import words
from virtoll.report.changes import change_lines
from virtoll.report.compared import Compared, cautions, notes, of_task, sample_words
from virtoll.report.compared_table import compared_table
from virtoll.report.csv_table import CsvTable
from virtoll.report.drawing import Drawer, Drawing
from virtoll.report.figures.compared import compared_caption, compared_figure_why_not, draw_compared
from virtoll.report.page_files import write_folder
from virtoll.report.page_parts import FigureView, browser_context, drawn_view, page_text
from virtoll.report.rows import VERDICT_CLASS
from virtoll.stats.compare import Comparison


@dataclass(frozen=True)
class RowView:
    """A platform on a task: both sides, the verdict in words and as a class, and the share with its interval."""

    comparison: Comparison
    first: str
    second: str
    verdict: words.VerdictWords
    kind: str
    small: str


@dataclass(frozen=True)
class PartView:
    """One comparison of the page: what is said of it, and its rows by task."""

    number: int
    compared: Compared
    cautions: Sequence[str]
    notes: Sequence[str]
    figure: FigureView
    rows: Sequence[tuple[str, Sequence[RowView]]]
    changes: Sequence[str]


def build_comparison(comparisons: Sequence[Compared], target: Path) -> Path:
    """Make `index.html`, `figures/` and `tables/` in `target`, anew, and give the page's path.

    Raises DrawingError (a figure is not drawn) and StorageError (it cannot be written); the old page is then as it was.
    """
    with Drawer() as drawer:
        drawn = [_drawn(drawer, number, compared) for number, compared in enumerate(comparisons, 1)]
        drawings = [drawing for drawing in drawn if drawing is not None]
        write_folder(target, _tables(comparisons), partial(render_comparison, comparisons, drawn), drawings)
    return target / "index.html"


def _drawn(drawer: Drawer, number: int, compared: Compared) -> Drawing | None:
    if compared_figure_why_not(compared.between) is not None:
        return None
    draw = partial(draw_compared, compared.between, compared.first, compared.second)
    return drawer.rendered(_name(number), draw, in_a_column=True)


def _name(number: int) -> str:
    return f"compared-{number}"


def render_comparison(comparisons: Sequence[Compared], drawn: Sequence[Drawing | None], tables: Sequence[str]) -> str:
    """The whole page as HTML; `drawn`: the figure of each comparison, None where there is nothing to draw.

    `tables`: the names of those beside it.
    """
    parts = [
        _part(number, compared, figure)
        for number, (compared, figure) in enumerate(zip(comparisons, drawn, strict=True), 1)
    ]
    platforms = list(
        dict.fromkeys(comparison.platform for each in comparisons for comparison in each.between.comparisons)
    )
    tasks = {task.label: task.workload for compared in comparisons for task in compared.between.tasks}
    figures = [part.figure for part in parts]
    analyses = (analysis for each in comparisons for analysis in (each.between.first, each.between.second))
    runs = list(dict.fromkeys(analysis.data.manifest.run for analysis in analyses))
    context = {
        **browser_context(figures, ", ".join(runs), platforms, tasks.values(), workload_of=tasks),
        "parts": parts,
        "tables": tables,
    }
    return page_text("compared.html.j2", context, figures)


def _part(number: int, compared: Compared, drawn: Drawing | None) -> PartView:
    title = f"Performance of {compared.second} in % of {compared.first}"
    why_not = compared_figure_why_not(compared.between)
    figure = (
        FigureView(_name(number), title, "compared", "", None, why_not)
        if drawn is None
        else drawn_view(drawn, title, "compared", compared_caption(compared.between, compared.first, compared.second))
    )
    between = compared.between
    rows = [(task.label, [_row(compared, each) for each in of_task(between, task)]) for task in between.tasks]
    changes = () if between.paired else change_lines(compared.changes)
    return PartView(number, compared, cautions(compared), notes(compared), figure, rows=rows, changes=changes)


def _row(compared: Compared, comparison: Comparison) -> RowView:
    unit = comparison.task.metric.unit
    first, second = (sample_words(sample, unit) for sample in compared.between.samples(comparison))
    small = ""
    if comparison.share is not None:
        small = f"{words.share_and_interval(comparison.share, comparison.interval)} of {compared.first}"
    kind = VERDICT_CLASS[comparison.verdict]
    return RowView(comparison, first, second, words.said(comparison), kind, small=small)


def _tables(comparisons: Sequence[Compared]) -> list[CsvTable]:
    """`compared`, and of several comparisons `compared-2` and so on."""
    first, *rest = (compared_table(compared.between) for compared in comparisons)
    return [first, *(replace(table, name=f"{table.name}-{number}") for number, table in enumerate(rest, 2))]
