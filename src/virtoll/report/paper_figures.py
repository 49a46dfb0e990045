"""The papers' figures and tables again, as text: what of each is replayed, by which run, and its values.

No numbers are computed here: they come from `claims/paper_figures.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from virtoll import units
from virtoll.claims.paper_figures import (
    Form,
    Mark,
    PaperFigure,
    Part,
    Printed,
    figures_of_study,
    placed_text,
    printed_of,
)
from virtoll.report import words
from virtoll.report.reproduction_runs import Reproduction
from virtoll.report.rows import Shown, TableRow, grouped
from virtoll.report.sections.then_and_now.page import share_words
from virtoll.stats.compared import Scalar

OfRun = tuple[str, Mark]
"""A run's name, and a value of it."""
_UNITS = {
    "frame_size_bytes": "B",
    "working_set_bytes": "B working set",
    "total_rate_frames_per_second": "frames/s in all",
    "each_rate_frames_per_second": "frames/s each",
    "rate_requests_per_second": "requests/s",
    "sources": "sources",
    "guests": "guests",
    "threads": "threads",
    "processes": "processes",
    "jobs": "jobs",
    "transmitters": "transmitters",
    "routers": "routers",
}


_AXES = {
    "frame_size_bytes": "frame size, B",
    "working_set_bytes": "working set, B",
    "rate_requests_per_second": "requests/s",
    "offered": "offered, Mbit/s",
    "neighbour_load": "load of the guests beside",
}


@dataclass(frozen=True)
class PartData:
    """One part with what all runs measured of it, each value by its run, and what the paper prints."""

    figure: PaperFigure
    part: Part
    marks: tuple[OfRun, ...]
    printed: tuple[Printed, ...]

    @property
    def form(self) -> Form:
        """How the paper draws it."""
        return self.part.form or self.figure.form

    @property
    def title(self) -> str:
        """'Figure 5(a): Super Pi, a share of native'."""
        number = f"{self.figure.title_words}{f'({self.part.name})' if len(self.part.name) == 1 else ''}"
        return f"{number}: {self.part.shows}"


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

    `workloads`: what it was measured by.
    """

    figure: PaperFigure
    state: str
    parts: tuple[PartView, ...]
    workloads: tuple[str, ...]


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
    return [
        _view(figure, parts)
        for figure, parts in zip(figures_of_study(reproduction.study.name), data_of(reproduction), strict=True)
    ]


def _view(figure: PaperFigure, parts: Sequence[PartData]) -> PaperFigureView:
    runs = list(dict.fromkeys(run for part in parts for run, _ in part.marks))
    there = [part for part in parts if part.marks]
    if figure.why_not:
        state = f"not replayed: {figure.why_not}"
    elif not runs:
        state = "not measured by these runs"
    else:
        state = f"replayed by {', '.join(runs)}"
        if len(there) < len(parts):
            state += f"; {len(parts) - len(there)} of {len(parts)} parts not measured"
    shown = tuple(PartView(place, part.title, tuple(_rows(part))) for place, part in enumerate(parts) if part.marks)
    workloads = dict.fromkeys(mark.workload for part in there for _, mark in part.marks)
    return PaperFigureView(figure, state, shown, tuple(workloads))


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
    value = _value(part, mark)
    blocks = words.counted(mark.blocks, "block")
    text = words.with_commas(value.main, value.small, blocks, mark.caveat)
    return f"{words.with_commas(mark.platform, place_words(part, mark), mark.task)}: {text}"


def said_printed(part: Part, printed: Printed) -> str:
    """A printed value in words, as a pointer shows it."""
    where = words.with_commas("then", printed.platform, place_words(part, printed))
    return f"{where}: {share_words(printed.question.then)}"


def place_words(part: Part, mark: Mark | Printed) -> str:
    """Where a value stands: '68 B, 2 sources'."""
    return words.with_commas(panel_words(part, mark.panel), value_words(part.x, mark.x))


def panel_words(part: Part, values: Iterable[Scalar | None]) -> str:
    """Which panel: 'beside heavy, affinity apart'."""
    return words.with_commas(*map(value_words, part.panel, values))


def value_words(name: str | None, value: Scalar | None) -> str:
    """A parameter's value in words: '68 B', '50 % of its maximum', 'beside heavy'; empty for none."""
    if name is None or value is None:
        return ""
    if name == "neighbour_rate_share" and isinstance(value, float):
        return f"beside {units.percent(value)} of its maximum"
    if name == "neighbour_load":
        return "alone" if value == "nothing" else f"beside {value}"
    if name in _UNITS:
        return f"{placed_text(value)} {_UNITS[name].removesuffix('s') if value == 1 else _UNITS[name]}"
    return f"{name.removeprefix('neighbour_').replace('_', ' ')} {placed_text(value)}"


def _rows(data: PartData) -> Iterator[TableRow]:
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
        by = Shown(run, "" if data.part.x else mark.task)
        places[place_words(data.part, mark)].append(
            TableRow(mark.platform, (Shown("now"), _value(data.part, mark), by))
        )
    for place, rows in places.items():
        for row in rows:
            yield TableRow(place, (Shown(row.head), *row.cells))


def _value(part: Part, mark: Mark) -> Shown:
    kind = "caveat" if mark.caveat else ""
    small = ""
    ends = words.ends_of(mark.low, mark.high)
    if part.share:
        main = units.percent_estimate(mark.value, ends if ends is not None and math.isfinite(ends[1]) else None)
        small = words.ends(*ends) if ends is not None else ""
    elif part.over is not None:
        main = f"{units.significant(mark.value)} {mark.unit}"
        small = f"of {units.significant(float(mark.x or 0))} offered"
    else:
        main = units.estimate(mark.value, ends, mark.unit)
        small = units.between(*ends, mark.unit) if ends is not None else ""
    return Shown(main, small or mark.reason, kind, mark.reason, mark.caveat or "")
