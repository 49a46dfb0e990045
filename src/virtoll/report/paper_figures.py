"""The papers' figures and tables again, as text: what of each is replayed, by which run, and its values.

No numbers are computed here: they come from `claims/paper_figures.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from virtoll.claims.paper_figures import Mark, PaperFigure, Part, Printed, figures_of_study, printed_of
from virtoll.report import words
from virtoll.report.paper_parts import PartData, value_of
from virtoll.report.paper_sizes import lacking_words, stands_in
from virtoll.report.paper_tables import PaperTable, table_of
from virtoll.report.paper_words import as_the_paper_counts, value_words
from virtoll.report.reproduction_runs import Reproduction
from virtoll.report.rows import Shown, TableRow, grouped
from virtoll.report.sections.then_and_now.page import share_words
from virtoll.stats.compared import Against, Scalar

_AXES = {
    "frame_size_bytes": "frame size, B, as the paper counts",
    "working_set_bytes": "working set, B",
    "rate_requests_per_second": "requests/s",
    "offered": "offered, Mbit/s",
    "transmitters": "senders",
    "neighbour_load": "load of the guests beside",
}


@dataclass(frozen=True)
class PanelData:
    """One panel of a part: what one run measured there, and what the paper prints of the same."""

    title: str
    marks: tuple[Mark, ...]
    printed: tuple[Printed, ...]


@dataclass(frozen=True)
class PartView:
    """One drawing of it: `place` among the figure's parts, and its values as rows."""

    place: int
    title: str
    rows: tuple[TableRow, ...]


@dataclass(frozen=True)
class PaperFigureView:
    """One figure or table of the paper: `state` says who replays it, or why nobody does; `parts`: what is measured.

    `workloads`: what it was measured by. `table`: where the paper has a table, it again; else None.
    """

    figure: PaperFigure
    state: str
    parts: tuple[PartView, ...]
    workloads: tuple[str, ...]
    table: PaperTable | None


def data_of(reproduction: Reproduction) -> list[list[PartData]]:
    """Every part of every figure of the study, in order."""
    figures = figures_of_study(reproduction.study.name)
    return [list(_parts(reproduction, place, figure)) for place, figure in enumerate(figures)]


def _parts(reproduction: Reproduction, place: int, figure: PaperFigure) -> Iterator[PartData]:
    for number, part in enumerate(figure.parts):
        marks = tuple((run.name, mark) for run in reproduction.runs for mark in run.figures[place][number])
        yield PartData(figure, part, marks, printed_of(figure, part, [mark for _, mark in marks]))


def figure_views(reproduction: Reproduction) -> list[PaperFigureView]:
    """What the page says of each figure and table of the paper."""
    figures = figures_of_study(reproduction.study.name)
    views = []
    for place, (figure, parts) in enumerate(zip(figures, data_of(reproduction), strict=True)):
        views.append(_view(reproduction, place, figure, parts))
    return views


def _view(reproduction: Reproduction, place: int, figure: PaperFigure, parts: Sequence[PartData]) -> PaperFigureView:
    there = [part for part in parts if part.marks]
    shown = []
    if figure.kind == "figure":
        for number, part in enumerate(parts):
            if part.marks:
                shown.append(PartView(number, part.title, tuple(_rows(part, stands_in(reproduction)))))
    table = None
    if figure.kind == "table" and there:
        table = table_of(reproduction, parts)
    workloads = dict.fromkeys(mark.workload for part in there for _, mark in part.marks)
    return PaperFigureView(figure, _state(reproduction, place, figure, parts), tuple(shown), tuple(workloads), table)


def _state(reproduction: Reproduction, place: int, figure: PaperFigure, parts: Sequence[PartData]) -> str:
    """Who replays it, and what of the paper's is absent: never just replayed where something is."""
    runs = list(dict.fromkeys(run for part in parts for run, _ in part.marks))
    if figure.why_not:
        return f"not replayed: {figure.why_not}"
    if not runs:
        return "not measured by these runs"
    lacking = lacking_words(reproduction, place, figure)
    missing = sum(not part.marks for part in parts)
    if missing:
        lacking.insert(0, f"{missing} of {words.counted(len(parts), 'part')} not measured")
    by = f"by {', '.join(runs)}"
    if lacking:
        return f"replayed in part {by}: {'; '.join(lacking)}"
    if not reproduction.paper:
        return f"replayed {by}, of which sizes none is compared with the paper's"
    return f"replayed {by}"


def panels_of(data: PartData) -> list[PanelData]:
    """A panel for each run, and for each value of what the part has panels by, in the order measured."""
    by_run: dict[str, list[Mark]] = {}
    for run, mark in data.marks:
        by_run.setdefault(run, []).append(mark)
    panels = []
    for run, marks in by_run.items():
        printed = grouped(printed_of(data.figure, data.part, marks), lambda value: value.panel)
        for panel, of_panel in grouped(marks, lambda mark: mark.panel).items():
            title = words.with_commas(panel_words(data.part, panel), f"run {run}" if len(by_run) > 1 else "")
            panels.append(PanelData(title, tuple(of_panel), tuple(printed.get(panel, ()))))
    return panels


def axis_words(name: str | None) -> str | None:
    """The title of an axis over a parameter; None for none."""
    return None if name is None else _AXES.get(name, name.removeprefix("neighbour_").replace("_", " "))


def said_mark(part: Part, mark: Mark) -> str:
    """A measured value in words, as a pointer shows it."""
    value = value_of(part, mark)
    blocks = words.counted(mark.blocks, "block")
    text = words.with_commas(value.main, value.small, blocks, mark.caveat)
    return f"{words.with_commas(mark.platform, place_words(part, mark), as_the_paper_counts(mark.task))}: {text}"


def said_printed(part: Part, printed: Printed) -> str:
    """A printed value in words, as a pointer shows it."""
    where = words.with_commas("then", printed.platform, place_words(part, printed))
    return f"{where}: {share_words(printed.question.then)}"


def place_words(part: Part, mark: Mark | Printed) -> str:
    """Where a value stands: '64 B, 2 sources'."""
    return words.with_commas(panel_words(part, mark.panel), value_words(part.x, mark.x))


def panel_words(part: Part, values: Iterable[Scalar | None]) -> str:
    """Which panel: 'beside heavy, affinity apart'."""
    return words.with_commas(*map(value_words, part.panel, values))


def share_of(part: Part) -> str:
    """What a share is a share of, as the title of an axis: '% of native', '% of 1 sender'."""
    against = part.now.against
    if against == "baseline":
        return "% of native"
    if isinstance(against, Against) and against.where:
        named = []
        for name, value in against.where.items():
            named.append(value_words(name, value) if isinstance(value, bool | int | float | str) else "")
        return f"% of {words.with_commas(*named)}"
    return "%"


def then_value(part: Part, marks: Sequence[Mark], printed: Printed) -> float | None:
    """Where a printed share stands on a part's axis; None for nowhere.

    Where a run's values are in units of their own, it is the paper's share of this run's bare host.
    """
    share = printed.question.then.high
    if share is None or part.share:
        return share
    for mark in marks:
        if mark.of_baseline and mark.panel == printed.panel and mark.x == printed.x and share:
            return mark.value / share if mark.lower_is_better else mark.value * share
    return None


def _rows(data: PartData, stands: Mapping[str, str]) -> Iterator[TableRow]:
    """The paper's values and then the measured ones at each place, in the order measured."""
    places: dict[str, list[TableRow]] = {}
    for _, mark in data.marks:
        places.setdefault(place_words(data.part, mark), [])
    for printed in data.printed:
        then = printed.question.then
        places.setdefault(place_words(data.part, printed), []).append(
            TableRow(printed.platform, (Shown("then"), Shown(share_words(then), then.words), Shown("")))
        )
    for run, mark in data.marks:
        task = "" if data.part.x else as_the_paper_counts(mark.task)
        by = Shown(run, words.with_commas(f"for {stands[mark.platform]}" if mark.platform in stands else "", task))
        places[place_words(data.part, mark)].append(
            TableRow(mark.platform, (Shown("now"), value_of(data.part, mark), by))
        )
    for place, rows in places.items():
        for row in rows:
            yield TableRow(place, (Shown(row.head), *row.cells))
