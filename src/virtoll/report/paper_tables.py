"""A paper's table again: its rows and columns, its printed numbers, and beside them what was measured of the same.

No numbers are computed here: they come from `claims/paper_figures.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from virtoll import units
from virtoll.claims.paper_figures import Mark, Part, Printed
from virtoll.reference.published import PublishedValue
from virtoll.report import words
from virtoll.report.paper_parts import PartData, value_of
from virtoll.report.paper_sizes import stands_in
from virtoll.report.paper_words import place_text, value_words
from virtoll.report.reproduction_runs import Reproduction
from virtoll.report.rows import UNKNOWN, Shown
from virtoll.report.sections.then_and_now.page import RELATION_WORDS
from virtoll.stats.compared import Against, Scalar
from virtoll.stats.readings import USUAL

Place = tuple[tuple[Scalar | None, ...], Scalar | None]
"""The values of a panel, and the one on the axis."""
_IN_UNITS: Final[Mapping[tuple[str, str], float]] = {
    ("ns", "us"): 1e3,
    ("ns", "s"): 1e9,
    ("bytes/s", "MB/s"): 1e6,
}
"""By our unit and the paper's, by what a value is divided."""


@dataclass(frozen=True)
class TableColumn:
    """One platform: `when` is then or now; `small`: what it stands for, and its run where there are several."""

    when: str
    name: str
    small: str = ""


@dataclass(frozen=True)
class TableGroup:
    """Rows under one title: each a head, and a cell for each column."""

    title: str
    rows: tuple[tuple[str, tuple[Shown, ...]], ...]


@dataclass(frozen=True)
class PaperTable:
    """One table: what stands above its first column, its columns, and its rows in groups."""

    corner: str
    columns: tuple[TableColumn, ...]
    groups: tuple[TableGroup, ...]


@dataclass
class _Cells:
    """The cells of one part, by place and column; of several for one the first stays."""

    places: dict[Place, dict[TableColumn, Shown]] = field(default_factory=dict)

    def put(self, place: Place, column: TableColumn, cell: Shown) -> None:
        self.places.setdefault(place, {}).setdefault(column, cell)


def table_of(reproduction: Reproduction, parts: Sequence[PartData]) -> PaperTable:
    """All parts of a table as one."""
    of_parts = [(data, _cells(reproduction, data)) for data in parts]
    names = [place.name for place in reproduction.study.platforms]
    columns: dict[TableColumn, None] = {}
    for _, cells in of_parts:
        for there in cells.places.values():
            columns.update(dict.fromkeys(there))
    ordered = sorted(columns, key=lambda column: (column.when != "then", column.name in names))
    groups: list[TableGroup] = []
    for data, cells in of_parts:
        groups += _groups(data, cells, ordered)
    corner = value_words_of_axis(parts[0].part)
    return PaperTable(corner, tuple(ordered), tuple(groups))


def value_words_of_axis(part: Part) -> str:
    """What stands above the first column."""
    return "frame size, B" if part.x == "frame_size_bytes" else (part.x or "").removeprefix("neighbour_")


def _groups(data: PartData, cells: _Cells, columns: Sequence[TableColumn]) -> Iterator[TableGroup]:
    panels = dict.fromkeys(panel for panel, _ in cells.places)
    for panel in panels:
        rows = []
        for x in _in_order([x for other, x in cells.places if other == panel]):
            there = cells.places[panel, x]
            head = place_text(data.part.x, x).replace("nothing", "alone")
            rows.append((head, tuple(there.get(column, UNKNOWN) for column in columns)))
        title = words.with_commas(data.part.shows, *map(value_words, data.part.panel, panel))
        yield TableGroup(title, tuple(rows))


def _in_order(values: Sequence[Scalar | None]) -> list[Scalar | None]:
    if all(isinstance(value, int | float) for value in values):
        return sorted(values, key=lambda value: float(value or 0))
    return list(values)


def _cells(reproduction: Reproduction, data: PartData) -> _Cells:
    cells = _Cells()
    for printed in data.printed:
        _put_printed(reproduction, cells, data, printed)
    unit = _unit(data)
    stands = stands_in(reproduction)
    for run, mark in data.marks:
        small = f"for {stands[mark.platform]}" if mark.platform in stands else ""
        if len(reproduction.runs) > 1:
            small = words.with_commas(small, f"run {run}")
        cells.put((mark.panel, mark.x), TableColumn("now", mark.platform, small), _now(data.part, mark, unit))
    return cells


def _unit(data: PartData) -> str:
    """The unit in which the paper prints its numbers; empty where it prints none."""
    for printed in data.printed:
        for value, _ in printed.question.then.values:
            return value.unit
    return ""


def _now(part: Part, mark: Mark, unit: str) -> Shown:
    shown = value_of(part, mark)
    if part.over == "neighbour":
        text = f"{units.significant(mark.offered or 0)} in, {units.significant(mark.value)} out"
        return Shown(text, "", shown.kind, but=shown.but)
    divisor = _IN_UNITS.get((mark.unit, unit))
    if divisor is None:
        return shown
    small = ""
    if mark.low is not None and mark.high is not None:
        small = f"{units.significant(mark.low / divisor)} to {units.significant(mark.high / divisor)}"
    main = f"{units.significant(mark.value / divisor)} {unit}".replace(" us", " µs")
    return Shown(main, small or mark.reason, shown.kind, but=shown.but)


def _put_printed(reproduction: Reproduction, cells: _Cells, data: PartData, printed: Printed) -> None:
    """The paper's own numbers, each at its place: what others are shares of stands beside them."""
    question, study = printed.question, reproduction.study
    place = _place(data, question.now.where)
    base_place = place
    if isinstance(question.now.against, Against) and question.now.against.where:
        base_place = _place(data, {**question.now.where, **question.now.against.where})
    column = TableColumn("then", printed.platform)
    texts: dict[str, None] = {}
    for value, base in question.then.values:
        if data.part.over == "neighbour" and base is not None:
            texts[f"{base.value:g} in, {value.value:g} out"] = None
            continue
        texts[_number(value)] = None
        if base is None:
            continue
        name = "the bare host" if base.platform == study.baseline else study.platform(base.platform).name
        cells.put(base_place, TableColumn("then", name), Shown(_number(base)))
    cells.put(place, column, Shown(", ".join(texts)))


def _place(data: PartData, where: Mapping[str, object]) -> Place:
    """Where a number stands, by what it says itself; what it does not say is as usual."""
    panel = tuple(_level(data, number, where, name) for number, name in enumerate(data.part.panel))
    return panel, None if data.part.x is None else _level(data, None, where, data.part.x)


def _level(data: PartData, number: int | None, where: Mapping[str, object], name: str) -> Scalar | None:
    """A parameter's value: of several that count, the one that was measured, or else the first."""
    value = where.get(name, USUAL.get(name))
    if isinstance(value, list):
        measured = [mark.x if number is None else mark.panel[number] for _, mark in data.marks]
        value = next((level for level in value if level in measured), value[0])
    return value if isinstance(value, bool | int | float | str) else None


def _number(value: PublishedValue) -> str:
    unit = {"percent": " %", "ratio": ""}.get(value.unit, f" {value.unit}")
    return f"{RELATION_WORDS[value.relation]}{value.value:g}{unit}".replace(" us", " µs")
