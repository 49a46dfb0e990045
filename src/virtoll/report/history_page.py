"""The page of a history: one file, whose figures are drawn in it. Besides writing it, no numbers are computed here."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from virtoll import units
from virtoll.errors import StorageError
from virtoll.report.changes import change_lines
from virtoll.report.drawing import Drawer, Drawing
from virtoll.report.figures.history import draw
from virtoll.report.figures.style import Specification, Width
from virtoll.report.history import lead, moment, outcome, places, remarks, series_level, series_outcome
from virtoll.report.history_runs import Gathered
from virtoll.report.page_parts import FigureView, browser_context, page_text
from virtoll.runfolder.jsonlines import write_whole
from virtoll.stats.history import History, Series

CAPTION = (
    "Each panel is a platform. Values are performance by their median over all runs, in percent: higher is faster. "
    "Upright lines are changes, between the two runs that they stand between; level lines are medians."
)


@dataclass(frozen=True)
class TaskView:
    """One task: its figure, and whether anything of it changed."""

    name: str
    workload: str
    changed: bool
    figure: FigureView


@dataclass(frozen=True)
class RowView:
    """One series as a row."""

    platform: str
    task: str
    workload: str
    kind: str
    runs: int
    level: str
    outcome: str
    mark: str


def write_history(found: History, gathered: Gathered, target: Path) -> None:
    """Make the page, whole or not at all. DrawingError where a figure is not drawn, StorageError for the file."""
    with Drawer() as drawer:
        page = history_page(found, gathered, drawer.rendered)
    try:
        write_whole(target, page)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {error.strerror or error}. Give another file.") from error


def history_page(
    found: History, gathered: Gathered, rendered: Callable[[str, Callable[[Width], Specification]], Drawing]
) -> str:
    """The whole page as HTML; `rendered` has a figure drawn (`drawing.Drawer`)."""
    by_task: dict[str, list[Series]] = {}
    for one in found.series:
        by_task.setdefault(one.task.label, []).append(one)
    drawings = {
        name: rendered(f"history-{number}", partial(draw, found, own))
        for number, (name, own) in enumerate(by_task.items(), 1)
    }
    tasks = [
        TaskView(name, own[0].of.workload, any(one.changes for one in own), _figure(drawings[name], name))
        for name, own in by_task.items()
    ]
    tasks.sort(key=lambda one: not one.changed)
    platforms = list(dict.fromkeys(one.of.platform for one in found.series))
    views = [one.figure for one in tasks]
    host = found.runs[-1].manifest.host
    context: dict[str, Any] = {
        **browser_context(
            views, f"history of {gathered.experiment}", platforms, list(dict.fromkeys(one.workload for one in tasks))
        ),
        "platform_names": set(platforms),
        "workload_of": {},
        "caveats": {},
        "experiment": gathered.experiment,
        "question": found.runs[-1].manifest.experiment.get("question") or "",
        "lead": lead(found, gathered),
        "host": ", ".join(
            [str(host[key]) for key in ("cpu_model", "os", "kernel") if host.get(key)]
            + ([units.size(host["memory_bytes"])] if isinstance(host.get("memory_bytes"), int) else [])
        ),
        "outcome": outcome(found),
        "places": places(found),
        "remarks": remarks(found, gathered),
        "tasks": tasks,
        "rows": [_row(one) for one in found.series],
        "steps": [
            (found.runs[one.after - 1].name, found.runs[one.after].name, change_lines(one.changes))
            for one in reversed(found.steps)
        ],
        "runs": [(run.name, moment(run), run.manifest.virtoll) for run in reversed(found.runs)],
    }
    return page_text("history.html.j2", context, views)


def _figure(drawing: Drawing, name: str) -> FigureView:
    """Drawn in the page alone: a browser draws nothing, and there are no files beside it."""
    mark = f"<!-- drawing {drawing.name} -->"
    return FigureView(drawing.name, name, "history", CAPTION, mark, None, drawing=drawing)


def _row(one: Series) -> RowView:
    mark = "" if not one.changes else "slower" if one.changes[-1].factor < 1 else "faster"
    return RowView(
        platform=one.of.platform,
        task=one.task.label,
        workload=one.of.workload,
        kind=str(one.of.kind),
        runs=len(one.runs),
        level=series_level(one),
        outcome=series_outcome(one),
        mark="unknown" if one.changes is None else mark,
    )
