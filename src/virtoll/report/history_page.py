"""The page of a history: one file, whose figures are drawn in it. Besides writing it, no numbers are computed here."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from virtoll.errors import StorageError
from virtoll.report import words
from virtoll.report.changes import change_lines
from virtoll.report.drawing import Drawer, Drawing
from virtoll.report.figures.history import draw
from virtoll.report.figures.style import Specification, Width
from virtoll.report.history import host_remarks, lead, moment, outcome, places, remarks, series_level, series_outcome
from virtoll.report.history_runs import Gathered
from virtoll.report.page_parts import FigureView, browser_context, page_text
from virtoll.report.rows import grouped
from virtoll.runfolder.jsonlines import write_whole
from virtoll.stats.history import History, Series

CAPTION = (
    "Each panel is a platform. Values are performance by their median over all runs, in percent: higher is faster. "
    "Upright lines are changes, between the two runs that they stand between; level lines are medians."
)


def write_history(history: History, gathered: Gathered, target: Path) -> None:
    """Make the page, whole or not at all. DrawingError where a figure is not drawn, StorageError for the file."""
    with Drawer() as drawer:
        page = history_page(history, gathered, drawer.rendered)
    try:
        write_whole(target, page)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {error.strerror or error}. Give another file.") from error


def history_page(
    history: History, gathered: Gathered, rendered: Callable[[str, Callable[[Width], Specification]], Drawing]
) -> str:
    """The whole page as HTML; `rendered` has a figure drawn (`drawing.Drawer`)."""
    by_task = grouped(history.series, lambda series: series.task.label)
    changed: list[tuple[str, FigureView]] = []
    unchanged: list[tuple[str, FigureView]] = []
    for number, (name, task_series) in enumerate(by_task.items(), 1):
        drawing = rendered(f"history-{number}", partial(draw, history, task_series))
        has_changes = any(series.changes for series in task_series)
        (changed if has_changes else unchanged).append((task_series[0].of.workload, _figure(drawing, name)))
    platforms = list(dict.fromkeys(series.of.platform for series in history.series))
    workloads = [workload for workload, _ in (*changed, *unchanged)]
    views = [view for _, view in (*changed, *unchanged)]
    host = history.runs[-1].manifest.host
    context: dict[str, Any] = {
        **browser_context(views, f"history of {gathered.experiment}", platforms, workloads),
        "experiment": gathered.experiment,
        "question": history.runs[-1].manifest.experiment.get("question") or "",
        "lead": lead(history, gathered),
        "host": words.machine(host, "cpu_model", "os", "kernel"),
        "outcome": outcome(history),
        "places": places(history),
        "remarks": [*host_remarks(history), *remarks(history, gathered)],
        "changed": changed,
        "unchanged": unchanged,
        "rows": list(map(_row, history.series)),
        "steps": list(_steps(history)),
        "runs": [(run.name, moment(run), run.manifest.virtoll) for run in reversed(history.runs)],
    }
    return page_text("history.html.j2", context, views)


def _figure(drawing: Drawing, name: str) -> FigureView:
    """Drawn in the page alone: a browser draws nothing, and there are no files beside it."""
    mark = f"<!-- drawing {drawing.name} -->"
    return FigureView(drawing.name, name, "history", CAPTION, mark, None, drawing=drawing)


def _row(series: Series) -> tuple[Series, str, str, str]:
    return series, _mark(series), series_level(series), series_outcome(series)


def _steps(history: History) -> Iterator[tuple[str, str, Sequence[str]]]:
    """The newest first."""
    for step in reversed(history.steps):
        before, after = history.runs[step.after - 1], history.runs[step.after]
        yield before.name, after.name, change_lines(step.changes)


def _mark(series: Series) -> str:
    """A class of the page's, by the last change."""
    if series.changes is None:
        return "unknown"
    if not series.changes:
        return ""
    return "slower" if series.changes[-1].factor < 1 else "faster"
