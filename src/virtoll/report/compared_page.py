"""The page of a comparison: both sides beside each other, with a figure and a table. It touches the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from virtoll.errors import StorageError
from virtoll.report import words
from virtoll.report.changes import change_lines
from virtoll.report.compared import (
    Compared,
    cautions,
    notes,
    of_task,
    sample_words,
)
from virtoll.report.compared_table import compared_table
from virtoll.report.csv_table import CsvTable
from virtoll.report.drawing import Drawer, Drawing
from virtoll.report.figures.compared import compared_caption, compared_figure_why_not, draw_compared
from virtoll.report.gate import measured_words
from virtoll.report.page_files import write_page, write_tables
from virtoll.report.page_parts import FigureView, browser_context, drawn_view, page_text
from virtoll.report.renewal import renewed
from virtoll.report.rows import VERDICT_CLASS
from virtoll.stats.compare import Comparison


@dataclass(frozen=True)
class RowView:
    """A platform on a task: both sides, the verdict in two parts, its class, and why it is so."""

    platform: str
    first: str
    second: str
    head: str
    tail: str
    small: str
    kind: str
    reason: str


@dataclass(frozen=True)
class PartView:
    """One comparison of the page: what is on either side, what is said of it, and its rows by task."""

    number: int
    title: str
    summary: str
    names: tuple[str, str]
    sides: tuple[str, str]
    cautions: tuple[str, ...]
    notes: tuple[str, ...]
    figure: FigureView
    rows: tuple[tuple[str, tuple[RowView, ...]], ...]
    changes: tuple[str, ...]
    gate: Any


def build_comparison(told: Sequence[Compared], target: Path) -> Path:
    """Make `index.html`, `figures/` and `tables/` in `target`, anew, and give the page's path.

    Raises DrawingError (a figure is not drawn) and StorageError (it cannot be written); the old page is then as it was.
    """
    with Drawer() as drawer:
        drawn = [_drawn(drawer, number, one) for number, one in enumerate(told, 1)]
        try:
            with renewed(target, may_be_link=True) as folder:
                names = write_tables(folder, _tables(told))
                page = render_comparison(told, drawn, names)
                write_page(folder, page, [one for one in drawn if one is not None])
        except OSError as error:
            reason = error.strerror or str(error)
            raise StorageError(f"cannot write the page to {target}: {reason}. Give another folder.") from error
    return target / "index.html"


def _drawn(drawer: Drawer, number: int, one: Compared) -> Drawing | None:
    if compared_figure_why_not(one.between) is not None:
        return None
    draw = partial(draw_compared, one.between, one.first, one.second)
    return drawer.rendered(_name(number), draw, in_a_column=True)


def _name(number: int) -> str:
    return f"compared-{number}"


def render_comparison(told: Sequence[Compared], drawn: Sequence[Drawing | None], tables: Sequence[str]) -> str:
    """The whole page as HTML; `drawn`: the figure of each comparison, None where there is nothing to draw.

    `tables`: the names of those beside it.
    """
    parts = [_part(number, one, figure) for number, (one, figure) in enumerate(zip(told, drawn, strict=True), 1)]
    platforms = list(dict.fromkeys(one.platform for each in told for one in each.between.comparisons))
    tasks = {task.label: task.workload for one in told for task in one.between.tasks}
    figures = [part.figure for part in parts]
    runs = list(
        dict.fromkeys(one.data.manifest.run for each in told for one in (each.between.first, each.between.second))
    )
    context = {
        **browser_context(figures, ", ".join(runs), platforms, list(dict.fromkeys(tasks.values()))),
        "platform_names": set(platforms),
        "workload_of": tasks,
        "caveats": {},
        "parts": parts,
        "tables": tables,
    }
    return page_text("compared.html.j2", context, figures)


def _part(number: int, one: Compared, drawn: Drawing | None) -> PartView:
    title = f"Performance of {one.second} in % of {one.first}"
    why_not = compared_figure_why_not(one.between)
    figure = (
        FigureView(_name(number), title, "compared", "", None, why_not)
        if drawn is None
        else drawn_view(drawn, title, "compared", compared_caption(one.between, one.first, one.second))
    )
    rows = tuple(
        (task.label, tuple(_row(one, each) for each in of_task(one.between, task))) for task in one.between.tasks
    )
    return PartView(
        number=number,
        title=one.title,
        summary=one.summary,
        names=(one.first, one.second),
        sides=one.sides,
        cautions=tuple(cautions(one)),
        notes=tuple(notes(one)),
        figure=figure,
        rows=rows,
        changes=() if one.between.paired else change_lines(one.changes),
        gate=_gate(one),
    )


def _gate(one: Compared) -> Any:
    """The outcome, and each check in three texts; None where nothing was asked."""
    if one.gate is None:
        return None
    checks = [(each.kind, each.outcome, measured_words(each), "; ".join(each.rest)) for each in one.gate.checks]
    return {"kind": one.gate.kind, "words": one.gate.words, "checks": checks}


def _row(compared: Compared, one: Comparison) -> RowView:
    first, second = compared.between.samples(one)
    said = words.said(one)
    estimate = words.share_and_interval(one.share, one.interval) if one.share is not None else ""
    return RowView(
        platform=one.platform,
        first=sample_words(first, one.task.metric.unit),
        second=sample_words(second, one.task.metric.unit),
        head=said.head,
        tail=said.tail,
        small=f"{estimate} of {compared.first}" if estimate else "",
        kind=VERDICT_CLASS[one.verdict],
        reason=one.reason,
    )


def _tables(told: Sequence[Compared]) -> list[CsvTable]:
    """`compared`, and of several comparisons `compared-2` and so on."""
    tables = [compared_table(one.between) for one in told]
    return [
        table if number == 1 else CsvTable(f"{table.name}-{number}", table.header, table.rows)
        for number, table in enumerate(tables, 1)
    ]
