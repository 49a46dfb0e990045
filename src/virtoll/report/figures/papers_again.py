"""A paper's figure or table again: this host's values in the paper's form, and the paper's own as hollow marks.

Bars in groups and lines, upright and from zero as the papers draw them. A hollow bar or ring is the paper's share; the
name of its platform stands in it or below. Values of several runs are in panels of their own, because hosts may differ.
"""

from __future__ import annotations

import itertools
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from virtoll import units
from virtoll.claims.paper_figures import MBIT, Mark, Printed
from virtoll.report import words
from virtoll.report.figures import legends, markers
from virtoll.report.figures.caveats import SIGN
from virtoll.report.figures.lines import axis
from virtoll.report.figures.marks import (
    SAID,
    bars_from_zero,
    crosses,
    figure,
    flags,
    layer,
    number,
    of_styles,
    on_paper,
    panel_width,
    panels,
    rule_through,
    with_data,
)
from virtoll.report.figures.style import INK, MUTED, PAPER, PlatformStyle, Specification, Width, platform_styles
from virtoll.report.paper_figures import (
    PanelData,
    axis_words,
    data_of,
    panels_of,
    said_mark,
    said_printed,
    share_of,
    then_value,
)
from virtoll.report.paper_parts import PartData
from virtoll.report.paper_sizes import stands_in
from virtoll.report.paper_words import place_text
from virtoll.report.reproduction_runs import Reproduction
from virtoll.report.rows import grouped
from virtoll.stats.compared import Scalar

_LEFT: Final = 52.0  # pixels left of a panel: the numbers of its axis, and the first one's title
_HEIGHT: Final = 150.0
_LEAST_BAR: Final = 13.0  # pixels: the name of a paper's platform stands in a bar upright
_MOST_BAR: Final = 64.0
_LETTER: Final = 5.4  # pixels of a title's letter, on average
_SMALL_LETTER: Final = 5.0  # of a platform's name below its bar
_MOST_COLUMNS: Final = 3
_SIDE_BY_SIDE: Final = 2
_DIGITS: Final = 2  # of a value above its bar; the table below has more
_GAP: Final = 1.4  # bars between two groups
_REACH: Final = 1.5  # times the largest value: what goes on beyond it is cut
_HEADROOM: Final = 1.06
_DASH: Final = (4, 3)
_HALO: Final[Specification] = {"stroke": PAPER, "strokeWidth": 3, "strokeJoin": "round"}
_LOGARITHMIC: Final = 8  # the largest place by the smallest: from there on an axis is logarithmic
_SIGNS: Final[Mapping[str, str]] = {"at_most": "≤ ", "at_least": "≥ ", "about": "≈ ", "equal": ""}


@dataclass(frozen=True)
class _Scale:
    """What values are multiplied by for the upright axis, its title, whether 100 % has a line, and its end."""

    factor: float
    title: str
    share: bool
    end: float


@dataclass(frozen=True)
class _Look:
    """What all panels of a part have in common; `styles`: each platform's look; `stands`: what it stands for."""

    data: PartData
    styles: Mapping[str, PlatformStyle]
    stands: Mapping[str, str]
    scale: _Scale

    def upright(self) -> Specification:
        """The upright channel without its field."""
        return axis((0, self.scale.end), self.scale.title) | {"stack": None}

    def reference(self) -> list[Specification]:
        """The line at all of what a share is of."""
        return [rule_through("y", 100, _DASH)] if self.scale.share else []


def draw(parts: Sequence[PartData], platforms: Sequence[str], stands: Mapping[str, str], width: Width) -> Specification:
    """Parts of a figure that something was measured of, side by side where they are several.

    `platforms`: all of the runs', which colours go by. `stands`: what of the paper's they stand for, by label.
    """
    styles, drawn, entries = platform_styles(platforms), [], dict[str, legends.Entry]()
    for data in parts:
        panel_data = panels_of(data)
        lines = data.form == "lines" and all(isinstance(mark.x, int | float) for _, mark in data.marks)
        look = _Look(data, styles, stands, _scale(data, panel_data))
        if len(parts) > 1:
            drawn += _side_by_side(look, panel_data, _room(width, _SIDE_BY_SIDE))
        else:
            drawn = [(_line_panels if lines else _bar_panels)(look, panel_data, width)]
        for entry in _entries(look, panel_data, lines=lines):
            entries.setdefault(entry.label, entry)
    whole = panels(drawn, _SIDE_BY_SIDE) if len(parts) > 1 else drawn[0]
    return figure([whole, *legends.legend(width, list(entries.values()), _LEFT)])


def _side_by_side(look: _Look, panel_data: Sequence[PanelData], room: float) -> list[Specification]:
    """The panels of one part among others: what it shows is in each title."""
    name = f"({look.data.part.name}) " if look.data.part.name else ""
    shows = f"{name}{look.data.part.shows}"
    titled = [replace(panel, title=words.with_commas(shows, panel.title)) for panel in panel_data]
    return _bars_in(look, titled, room)


def _scale(data: PartData, panel_data: Sequence[PanelData]) -> _Scale:
    marks = [mark for panel in panel_data for mark in panel.marks]
    largest = max(mark.value for mark in marks)
    values = [largest]
    for panel in panel_data:
        values += [then_value(data.part, panel.marks, printed) or 0.0 for printed in panel.printed]
    values += [min(mark.high, _REACH * largest) for mark in marks if mark.high is not None]
    if data.part.share:
        return _Scale(100.0, share_of(data.part), share=True, end=100.0 * max(*values, 1.0) * _HEADROOM)
    divisor, unit = (1.0, MBIT) if data.part.over is not None else units.axis_unit(largest, marks[0].unit)
    return _Scale(1 / divisor, unit, share=False, end=max(values) / divisor * _HEADROOM)


def _bar_panels(look: _Look, panel_data: Sequence[PanelData], width: Width) -> Specification:
    """Panels in as many columns as leave each bar room for a name."""
    across = max(
        len(_groups(look, panel)) * (len(bars) + _GAP)
        for panel, bars in zip(panel_data, _slots(look, panel_data), strict=True)
    )
    columns = min(len(panel_data), _MOST_COLUMNS)
    if len(panel_data) == 2 * _SIDE_BY_SIDE:
        columns = _SIDE_BY_SIDE  # two rows of two
    while columns > 1 and _room(width, columns) < across * _LEAST_BAR:
        columns -= 1
    return panels(_bars_in(look, panel_data, _room(width, columns)), columns)


def _bars_in(look: _Look, panel_data: Sequence[PanelData], room: float) -> list[Specification]:
    """Panels at most so wide; one with too many groups is several."""
    drawn = []
    for panel, bars in zip(panel_data, _slots(look, panel_data), strict=True):
        places = _groups(look, panel)
        fitting = max(1, int(room / _LEAST_BAR / (len(bars) + _GAP)))
        most = max(1, math.ceil(len(places) / math.ceil(len(places) / fitting)))  # as many in each row
        for start in range(0, len(places), most):
            title = words.with_commas(panel.title, "continued" if start else "")
            placed = _Placed(title, panel, tuple(places[start : start + most]), tuple(bars))
            drawn.append(_bar_panel(look, placed, room))
    return drawn


def _slots(look: _Look, panel_data: Sequence[PanelData]) -> list[list[str]]:
    """The bars of a group by name, of each panel: the platforms measured in any of them, and then the paper's."""
    measured = list(dict.fromkeys(mark.platform for panel in panel_data for mark in panel.marks))
    slots = []
    for panel in panel_data:
        printed = dict.fromkeys(_paper_key(then) for then in panel.printed if _is_placed(look, then))
        slots.append([*measured, *printed])
    return slots


def _room(width: Width, columns: int) -> float:
    return panel_width(width, columns, 0.0, each=_LEFT)


@dataclass(frozen=True)
class _Placed:
    """A panel of bars: its groups from the left, and the bars of each by name, measured ones first."""

    title: str
    panel: PanelData
    groups: tuple[Scalar | None, ...]
    slots: tuple[str, ...]

    @property
    def step(self) -> float:
        """From one group to the next, in bars."""
        return len(self.slots) + _GAP

    def place(self, group: Scalar | None, slot: str) -> float | None:
        """Where a bar stands; None where its group is in another panel."""
        if group not in self.groups:
            return None
        return number(self.groups.index(group) * self.step + self.slots.index(slot))


_THEN: Final = "then: "


def _paper_key(printed: Printed) -> str:
    return f"{_THEN}{printed.platform}"


def _is_placed(look: _Look, printed: Printed) -> bool:
    return look.data.part.x is None or printed.x is not None


def _groups(look: _Look, panel: PanelData) -> list[Scalar | None]:
    """What stands on the axis: the values of `x` in their order, or what was run."""
    if look.data.part.x is None:
        return list(dict.fromkeys(mark.task for mark in panel.marks))
    groups = dict.fromkeys(mark.x for mark in panel.marks)
    groups |= dict.fromkeys(printed.x for printed in panel.printed if printed.x is not None)
    numbers = sorted(group for group in groups if isinstance(group, int | float))
    return [*numbers, *(group for group in groups if not isinstance(group, int | float))]


def _bar_panel(look: _Look, placed: _Placed, room: float) -> Specification:
    whole = placed.step * len(placed.groups)
    bar = min(_MOST_BAR, room / whole)
    size = round(bar * 0.86, 1)
    centres = [place * placed.step + (len(placed.slots) - 1) / 2 for place in range(len(placed.groups))]
    labels: list[str | list[str]] = [""] * len(placed.groups)
    if look.data.part.x:
        labels = [place_text(look.data.part.x, group) for group in placed.groups]
    elif len(placed.groups) == 1:
        centres = list(range(len(placed.slots)))
        labels = [_below(slot, bar) for slot in placed.slots]
    ends = (-(_GAP + 1) / 2, whole - (_GAP + 1) / 2)
    across = axis(ends, axis_words(look.data.part.x), ticks=centres, names=labels)
    across["axis"] |= {"grid": False, "ticks": False, "domain": False}
    data = list(_bar_data(look, placed))
    return {
        "title": textwrap.wrap(placed.title, max(int(room / _LETTER), 1)),
        "width": round(bar * whole, 1),
        "height": _HEIGHT,
        "data": {"values": data},
        "layer": [*look.reference(), *with_data(_bar_layers(look, across, size), data)],
    }


def _below(slot: str, bar: float) -> list[str]:
    """The lines below one bar: its platform, as the paper has them along the axis; none where a piece is too wide."""
    letters, lines = bar / _SMALL_LETTER, [""]
    for piece in re.split(r"(?<=-)|(?<= )", slot.removeprefix(_THEN)):
        if len(lines[-1] + piece.rstrip()) > letters and lines[-1]:
            lines.append("")
        lines[-1] += piece
    if max(map(len, map(str.rstrip, lines))) > letters + 1:
        return []
    return [*map(str.rstrip, lines), "(then)"] if slot.startswith(_THEN) else lines


def _bar_layers(look: _Look, across: Specification, size: float) -> Iterator[tuple[str, Specification]]:
    """Each with the field without which it shows nothing."""
    upright, paint = look.upright(), of_styles(look.styles)
    place: Specification = {"x": {"field": "slot", **across}}
    at = place | {"y": {"field": "value", **upright}}
    bar: Specification = {"type": "bar", "orient": "vertical", "size": size}
    hollow = {"fill": None, "stroke": INK, "strokeWidth": 1.1, "strokeDash": [2, 1.5], "size": size - 1}
    name: Specification = {"type": "text", "angle": 270, "align": "left", "baseline": "middle", "dx": 4}
    named = place | {"y": {"datum": 0, **upright}, "text": {"field": "name"}}
    then = place | {"y": {"field": "then", **upright}, "tooltip": SAID}
    yield "value", bars_from_zero(at, paint, size, upright=True)
    yield "then", layer(bar | hollow, then, "isValid(datum.then)")
    for whisker in on_paper(place | {"y": {"field": "from", **upright}, "y2": {"field": "to"}}, "isValid(datum.from)"):
        yield "from", whisker
    yield "name", layer(name | _HALO, named, "datum.name")
    yield "name", layer(name, named, "datum.name")
    amount: Specification = {"type": "text", "baseline": "bottom", "dx": 2, "dy": -3, "align": "left"}
    for field, channel in (("amount", at), ("printed", then)):
        text = {"text": {"field": field}, **{key: channel[key] for key in ("x", "y")}}
        yield field, layer(amount | _HALO, text, f"datum.{field}")
        yield field, layer(amount, text, f"datum.{field}")


def _bar_data(look: _Look, placed: _Placed) -> Iterator[Specification]:
    by_x = look.data.part.x is not None
    for mark in placed.panel.marks:
        slot = placed.place(mark.x if by_x else mark.task, mark.platform)
        if slot is not None:
            digits = _DIGITS + look.scale.share  # 104 % is not 100 %
            amount = {} if by_x else {"amount": units.significant(mark.value * look.scale.factor, digits)}
            yield {"slot": slot, **_datum(look, mark), **amount}
    for printed in placed.panel.printed:
        if not _is_placed(look, printed):
            continue
        for group in [printed.x] if by_x else placed.groups:
            slot = placed.place(group, _paper_key(printed))
            if slot is not None:
                yield {"slot": slot, **_then(look, printed, placed.panel.marks, named=by_x)}


def _datum(look: _Look, mark: Mark) -> Specification:
    scale = look.scale
    made: Specification = {
        "platform": mark.platform,
        "workload": mark.workload,
        "said": said_mark(look.data.part, mark),
    }
    made["value"] = number(mark.value * scale.factor)
    made |= flags(caveat=mark.caveat)
    if mark.low is not None and mark.high is not None:
        low, high = mark.low * scale.factor, mark.high * scale.factor
        made |= {"low": number(low), "from": number(max(low, 0.0)), "to": number(min(high, scale.end))}
        made |= {"high": number(high)} if math.isfinite(high) else {}
    return made


def _then(look: _Look, printed: Printed, marks: Sequence[Mark], *, named: bool) -> Specification:
    value = then_value(look.data.part, marks, printed) or 0.0
    made: Specification = {"then": number(value * look.scale.factor), "said": said_printed(look.data.part, printed)}
    sign = _SIGNS[printed.question.then.relation]
    if named:
        return made | {"name": f"{sign}{printed.platform}"}
    return made | {"printed": f"{sign}{units.significant(value * look.scale.factor, _DIGITS + look.scale.share)}"}


def _line_panels(look: _Look, panel_data: Sequence[PanelData], width: Width) -> Specification:
    columns = min(2, len(panel_data))
    room = _room(width, columns)
    return panels([_line_panel(look, panel, room) for panel in panel_data], columns)


def _line_panel(look: _Look, panel: PanelData, room: float) -> Specification:
    places = sorted({float(mark.x) for mark in panel.marks if isinstance(mark.x, int | float)})
    diagonal = []
    if look.data.part.over is None:
        across = _places(look, places)
    else:  # each panel has its own reach
        look = replace(look, scale=_scale(look.data, [panel]))
        across = axis((0, places[-1] * _HEADROOM), axis_words("offered"))
        diagonal.append(_diagonal(look, across, min(places[-1], look.scale.end)))
    data = list(_line_data(look, panel))
    return {
        "title": panel.title,
        "width": room,
        "height": _HEIGHT,
        "data": {"values": data},
        "layer": [*look.reference(), *diagonal, *with_data(_line_layers(look, across), data)],
    }


def _places(look: _Look, places: Sequence[float]) -> Specification:
    """The axis over a parameter's values, logarithmic where they go far."""
    names = [place_text(look.data.part.x, place) for place in places]
    title = axis_words(look.data.part.x)
    if places[0] > 0 and places[-1] / places[0] >= _LOGARITHMIC:
        ends = (places[0] / 1.15, places[-1] * 1.15)
        return axis(ends, title, scale={"type": "log"}, ticks=places, names=names)
    margin = max((places[-1] - places[0]) * 0.06, 0.5)
    return axis((places[0] - margin, places[-1] + margin), title, ticks=places, names=names)


def _line_layers(look: _Look, across: Specification) -> Iterator[tuple[str, Specification]]:
    """Each with the field without which it shows nothing."""
    upright, paint = look.upright(), of_styles(look.styles)
    at: Specification = {"x": {"field": "place", **across}, "y": {"field": "value", **upright}}
    whisker = at | {"y": {"field": "from", **upright}, "y2": {"field": "to"}, "stroke": paint}
    line = at | {"stroke": paint, "strokeDash": of_styles(look.styles, "dash")}
    point = at | {"fill": paint, "shape": of_styles(look.styles, "shape"), "tooltip": SAID}
    ring: Specification = {"type": "point", "shape": "circle", "size": markers.area(6), "fill": PAPER, "stroke": INK}
    name: Specification = {"type": "text", "align": "right", "baseline": "bottom", "dx": 4, "dy": -6}
    then = at | {"y": {"field": "then", **upright}}
    named = then | {"text": {"field": "name"}}
    yield "value", layer({"type": "line", "strokeWidth": 1.5}, line, "isValid(datum.platform)")
    yield "from", layer({"type": "rule", "strokeWidth": 1.2}, whisker, "isValid(datum.from)")
    marker: Specification = {"type": "point", "size": markers.area(4), "strokeWidth": 0}
    yield "value", layer(marker, point, "isValid(datum.value)")
    yield "caveat", crosses(at)
    yield "then", layer(ring | {"strokeWidth": 1.2}, then | {"tooltip": SAID}, "isValid(datum.then)")
    yield "named", layer(name | _HALO, named, "datum.named")
    yield "named", layer(name, named, "datum.named")


def _diagonal(look: _Look, across: Specification, end: float) -> Specification:
    """Where all that is offered is forwarded."""
    ends = [{"place": 0, "value": 0}, {"place": number(end), "value": number(end)}]
    mark: Specification = {"type": "line", "stroke": MUTED, "strokeWidth": 1, "strokeDash": [1.3, 2]}
    at = {"x": {"field": "place", **across}, "y": {"field": "value", **look.upright()}}
    return {"data": {"values": ends}, "mark": mark, "encoding": at}


def _line_data(look: _Look, panel: PanelData) -> Iterator[Specification]:
    """The values, a gap in a line where one is missing, and the paper's; of its platforms the last one is named."""
    shared: set[float] = set()
    if look.data.part.over is None:
        shared.update(map(_across, panel.marks))
    for platform, marks in grouped(panel.marks, lambda mark: mark.platform).items():
        by_place = {_across(mark): mark for mark in marks}
        for place in sorted(shared.union(by_place)):
            mark = by_place.get(place)
            made = {"platform": platform, "value": None} if mark is None else _datum(look, mark)
            yield {"place": number(place), **made}
    printed = sorted((value for value in panel.printed if isinstance(value.x, int | float)), key=_across)
    last = {value.platform: _across(value) for value in printed}
    for value in printed:
        place = _across(value)
        then = _then(look, value, panel.marks, named=True)
        yield {"place": number(place), **then, **flags(named=place == last[value.platform])}


def _across(value: Mark | Printed) -> float:
    return float(value.x) if isinstance(value.x, int | float) else 0.0


def _entries(look: _Look, panel_data: Sequence[PanelData], *, lines: bool) -> list[legends.Entry]:
    """The measured platforms, what is the paper's, and what a dashed outline means."""
    marks = [mark for panel in panel_data for mark in panel.marks]
    marked = {mark.platform: mark.caveat for mark in marks if mark.caveat}
    entries = []
    for platform in dict.fromkeys(mark.platform for mark in marks):
        stands_for = f"for {look.stands[platform]}" if platform in look.stands else ""
        label = f"now: {words.with_commas(f'{platform} {SIGN}' if platform in marked else platform, stands_for)}"
        entry = legends.of_style(label, platform, look.styles[platform])
        entries.append(entry if lines else replace(entry, line=None, shape=markers.BOX, points=8))
    if any(panel.printed for panel in panel_data):
        shape, points = ("circle", 6) if lines else (markers.BOX, 8)
        entries.append(legends.Entry("then: the paper's, named", shape=shape, fill=PAPER, stroke=INK, points=points))
    sign = legends.Entry("", shape=markers.BOX, fill=PAPER, stroke=MUTED, points=8)
    return entries + [replace(sign, label=f"{SIGN}  {caveat}") for caveat in dict.fromkeys(marked.values())]


def caption(parts: Sequence[PartData]) -> str:
    """What to see."""
    of_runs = [of_run for data in parts for of_run in data.marks]
    blocks = sorted(mark.blocks for _, mark in of_runs)
    number_of = words.joined(f"{blocks[0]} blocks", f"{blocks[-1]} blocks")
    sentences = [f"After {parts[0].figure.title_words} of the paper; n = {number_of}."]
    if any(data.part.over is not None for data in parts):
        sentences.append("Means with 95 % t intervals; below the dotted diagonal frames are lost.")
        sentences.append("What was offered flat out beyond the list of rates is left out.")
    elif any(mark.low is not None for _, mark in of_runs):
        sentences.append("Whiskers are 95 % intervals, each of its comparison alone.")
    if any(data.part.share and data.form == "bars" for data in parts):
        sentences.append("The dashed line is 100 % of what it is compared with.")
    drawn = [data for data in parts if any(panel.printed for panel in panels_of(data))]
    if any(not data.part.share for data in drawn):
        sentences.append("Hollow: what the paper prints in % of its host, drawn as the same % of the bare host here.")
    elif drawn:
        sentences.append(
            "Hollow: what the paper prints, in % of its host, with its platform's name; ≤, ≥, ≈: a bound, or about."
        )
    else:
        sentences.append("The paper prints no numbers of it, or only some in units of its own machine.")
    if len({run for run, _ in of_runs}) > 1:
        sentences.append("Each run has panels of its own.")
    return " ".join(sentences)


def titles(parts: Sequence[PartData]) -> str:
    """What a drawing shows: 'Figure 5(a): Super Pi, a share of native; 5(b): MASR, a share of native'."""
    kind = f"{parts[0].figure.kind.capitalize()} "
    return "; ".join([parts[0].title, *(part.title.removeprefix(kind) for part in parts[1:])])


def labels(reproduction: Reproduction) -> list[str]:
    """The platforms of all runs, which the page's colours go by."""
    return list(dict.fromkeys(entry.label for run in reproduction.runs for entry in run.manifest.platforms))


def again_figures(
    reproduction: Reproduction,
) -> dict[str, tuple[tuple[PartData, ...], Callable[[Width], Specification]]]:
    """By the name of its first part, each figure that is drawn again, with its parts and what draws it.

    Parts of the same figure in which platforms stand side by side are one drawing. A table of the paper is none.
    """
    platforms, stands = labels(reproduction), stands_in(reproduction)
    made: dict[str, tuple[tuple[PartData, ...], Callable[[Width], Specification]]] = {}
    for parts in data_of(reproduction):
        there = [(place, data) for place, data in enumerate(parts) if data.marks and data.figure.kind == "figure"]
        for together, group in itertools.groupby(there, key=lambda pair: _is_single(pair[1])):
            members = list(group)
            for drawn in [members] if together else [[member] for member in members]:
                shown = tuple(data for _, data in drawn)
                made[f"{shown[0].figure.anchor}-{drawn[0][0]}"] = shown, partial(draw, shown, platforms, stands)
    return made


def _is_single(data: PartData) -> bool:
    """Whether a part is bars of platforms side by side, and nothing else."""
    return data.part.x is None and data.form == "bars"
