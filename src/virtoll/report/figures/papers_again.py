"""A paper's figure or table again: this host's values in the paper's form, and the paper's own as hollow marks.

Bars in groups and lines, upright and from zero as the papers draw them. A hollow bar or ring is the paper's share; the
name of its platform stands in it. Values of several runs are in panels of their own, because hosts may differ.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

from virtoll import units
from virtoll.claims.model import Scalar
from virtoll.claims.paper_figures import MBIT, Mark, Printed, placed_text
from virtoll.report.figures import legends, markers
from virtoll.report.figures.caveats import SIGN
from virtoll.report.figures.lines import axis
from virtoll.report.figures.marks import (
    SAID,
    bars_from_zero,
    crosses,
    figure,
    layer,
    number,
    on_paper,
    panel_width,
    panels,
    rule_through,
)
from virtoll.report.figures.style import INK, MUTED, PAPER, PlatformStyle, Specification, Width, platform_styles
from virtoll.report.paper_figures import PanelData, PartData, axis_words, data_of, panels_of, said_mark, said_printed
from virtoll.report.reproduction_runs import Reproduction

_LEFT: Final = 52.0  # pixels left of a panel: the numbers of its axis, and the first one's title
_HEIGHT: Final = 150.0
_LEAST_BAR: Final = 10.0  # pixels: the name of a paper's platform stands in a bar upright
_MOST_BAR: Final = 26.0
_LETTER: Final = 5.4  # pixels of a title's letter, on average
_MOST_COLUMNS: Final = 3
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
    """What all panels of a part have in common; `styles`: each platform's look."""

    data: PartData
    styles: Mapping[str, PlatformStyle]
    scale: _Scale

    def by_platform(self, kind: Literal["paint", "dash", "shape"] = "paint") -> Specification:
        """A channel's definition; it has no legend of Vega-Lite's."""
        values: Mapping[str, list[Any]] = {
            "paint": [one.paint for one in self.styles.values()],
            "dash": [list(one.dash) for one in self.styles.values()],
            "shape": [markers.shape(one.marker) for one in self.styles.values()],
        }
        scale = {"domain": list(self.styles), "range": values[kind]}
        return {"field": "platform", "type": "nominal", "scale": scale, "legend": None}

    def upright(self) -> Specification:
        """The upright channel without its field."""
        return axis((0, self.scale.end), self.scale.title) | {"stack": None}

    def reference(self) -> list[Specification]:
        """The line at all of what a share is of."""
        return [rule_through("y", 100, _DASH)] if self.scale.share else []


def draw(parts: Sequence[PartData], platforms: Sequence[str], width: Width) -> Specification:
    """Parts of a figure that something was measured of, side by side where they are several.

    `platforms`: all of the runs', which colours go by.
    """
    styles, drawn, entries = platform_styles(platforms), [], dict[str, legends.Entry]()
    for data in parts:
        own = panels_of(data)
        lines = data.form == "lines" and all(isinstance(mark.x, int | float) for one in own for mark in one.marks)
        look = _Look(data, styles, _scale(data, own))
        if len(parts) > 1:
            drawn += _side_by_side(look, own, _room(width, _MOST_COLUMNS))
        else:
            drawn = [(_line_panels if lines else _bar_panels)(look, own, width)]
        entries |= {one.label: one for one in _entries(look, own, lines=lines) if one.label not in entries}
    whole = panels(drawn, _MOST_COLUMNS) if len(parts) > 1 else drawn[0]
    return figure([whole, *legends.legend(width, list(entries.values()), _LEFT)])


def _side_by_side(look: _Look, own: Sequence[PanelData], room: float) -> list[Specification]:
    """The panels of one part among others: what it shows is in each title."""
    name = f"({look.data.part.name}) " if look.data.part.name else ""
    titled = [replace(one, title=", ".join(filter(None, (f"{name}{look.data.part.shows}", one.title)))) for one in own]
    return _bars_in(look, titled, room)


def _scale(data: PartData, own: Sequence[PanelData]) -> _Scale:
    marks = [mark for one in own for mark in one.marks]
    largest = max(mark.value for mark in marks)
    values = [largest, *(one.question.then.high or 0.0 for panel in own for one in panel.printed)]
    values += [min(mark.high, _REACH * largest) for mark in marks if mark.high is not None]
    if data.part.share:
        return _Scale(100.0, "% of the reference", share=True, end=100.0 * max(*values, 1.0) * _HEADROOM)
    divisor, unit = (1.0, MBIT) if data.part.over is not None else units.axis_unit(largest, marks[0].unit)
    return _Scale(1 / divisor, unit, share=False, end=max(values) / divisor * _HEADROOM)


def _bar_panels(look: _Look, own: Sequence[PanelData], width: Width) -> Specification:
    """Panels in as many columns as leave each bar room for a name."""
    across = max(len(_groups(look, one)) * (len(bars) + _GAP) for one, bars in zip(own, _slots(look, own), strict=True))
    fitting = (count for count in (3, 2) if len(own) >= count and _room(width, count) >= across * _LEAST_BAR)
    columns = next(fitting, 1)
    return panels(_bars_in(look, own, _room(width, columns)), columns)


def _bars_in(look: _Look, own: Sequence[PanelData], room: float) -> list[Specification]:
    """Panels at most so wide; one with too many groups is several."""
    found = []
    for one, bars in zip(own, _slots(look, own), strict=True):
        places = _groups(look, one)
        most = max(1, int(room / _LEAST_BAR / (len(bars) + _GAP)))
        for start in range(0, len(places), most):
            title = ", ".join(filter(None, (one.title, "continued" if start else "")))
            placed = _Placed(title, one, tuple(places[start : start + most]), tuple(bars))
            found.append(_bar_panel(look, placed, room))
    return found


def _slots(look: _Look, own: Sequence[PanelData]) -> list[list[str]]:
    """The bars of a group by name, of each panel: the platforms measured in any of them, and then the paper's."""
    measured = list(dict.fromkeys(mark.platform for one in own for mark in one.marks))
    return [
        [*measured, *dict.fromkeys(_paper_key(then) for then in one.printed if _is_placed(look, then))] for one in own
    ]


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


def _paper_key(one: Printed) -> str:
    return f"then: {one.platform}"


def _is_placed(look: _Look, one: Printed) -> bool:
    return look.data.part.x is None or one.x is not None


def _groups(look: _Look, panel: PanelData) -> list[Scalar | None]:
    """What stands on the axis: the values of `x` in their order, or what was run."""
    if look.data.part.x is None:
        return list(dict.fromkeys(mark.task for mark in panel.marks))
    places = [*(mark.x for mark in panel.marks), *(one.x for one in panel.printed if one.x is not None)]
    found = list(dict.fromkeys(places))
    return sorted(
        found, key=lambda one: (isinstance(one, str), one if isinstance(one, int | float) else found.index(one))
    )


def _bar_panel(look: _Look, own: _Placed, room: float) -> Specification:
    whole = own.step * len(own.groups)
    bar = min(_MOST_BAR, room / whole)
    size = round(bar * 0.86, 1)
    centres = [place * own.step + (len(own.slots) - 1) / 2 for place in range(len(own.groups))]
    labels = [placed_text(one) if look.data.part.x else "" for one in own.groups]
    ends = (-(_GAP + 1) / 2, whole - (_GAP + 1) / 2)
    across = axis(ends, axis_words(look.data.part.x), ticks=centres, names=labels)
    across["axis"] |= {"grid": False, "ticks": False, "domain": False}
    data = list(_bar_data(look, own))
    return {
        "title": textwrap.wrap(own.title, max(int(room / _LETTER), 1)),
        "width": round(bar * whole, 1),
        "height": _HEIGHT,
        "data": {"values": data},
        "layer": [*look.reference(), *_shown(_bar_layers(look, across, size), data)],
    }


def _shown(layers: Iterable[tuple[str, Specification]], data: Sequence[Mapping[str, Any]]) -> list[Specification]:
    """The layers whose field any datum has."""
    fields = {field for datum in data for field in datum}
    return [one for field, one in layers if field in fields]


def _bar_layers(look: _Look, across: Specification, size: float) -> Iterator[tuple[str, Specification]]:
    """Each with the field without which it shows nothing."""
    upright, paint = look.upright(), look.by_platform()
    place: Specification = {"x": {"field": "slot", **across}}
    at = place | {"y": {"field": "value", **upright}}
    bar: Specification = {"type": "bar", "orient": "vertical", "size": size}
    hollow = {"fill": None, "stroke": INK, "strokeWidth": 1.1, "strokeDash": [2, 1.5], "size": size - 1}
    name: Specification = {"type": "text", "angle": 270, "align": "left", "baseline": "middle", "dx": 4}
    named = place | {"y": {"datum": 0, **upright}, "text": {"field": "name"}}
    then = place | {"y": {"field": "then", **upright}, "tooltip": SAID}
    yield "value", bars_from_zero(at, paint, size, upright=True)
    yield "then", layer(bar | hollow, then, "isValid(datum.then)")
    for one in on_paper(place | {"y": {"field": "from", **upright}, "y2": {"field": "to"}}, "isValid(datum.from)"):
        yield "from", one
    yield "name", layer(name | _HALO, named, "datum.name")
    yield "name", layer(name, named, "datum.name")


def _bar_data(look: _Look, own: _Placed) -> Iterator[Specification]:
    by_x = look.data.part.x is not None
    for mark in own.panel.marks:
        slot = own.place(mark.x if by_x else mark.task, mark.platform)
        if slot is not None:
            yield {"slot": slot, **_datum(look, mark)}
    for one in own.panel.printed:
        for group in [one.x] if by_x else own.groups:
            slot = own.place(group, _paper_key(one)) if _is_placed(look, one) else None
            if slot is not None:
                yield {"slot": slot, **_then(look, one)}


def _datum(look: _Look, mark: Mark) -> Specification:
    scale = look.scale
    made: Specification = {
        "platform": mark.platform,
        "workload": mark.workload,
        "said": said_mark(look.data.part, mark),
    }
    made["value"] = number(mark.value * scale.factor)
    made |= {"caveat": True} if mark.caveat else {}
    if mark.low is not None and mark.high is not None:
        low, high = mark.low * scale.factor, mark.high * scale.factor
        made |= {"low": number(low), "from": number(max(low, 0.0)), "to": number(min(high, scale.end))}
        made |= {"high": number(high)} if math.isfinite(high) else {}
    return made


def _then(look: _Look, one: Printed) -> Specification:
    then = one.question.then
    return {
        "then": number((then.high or 0.0) * look.scale.factor),
        "name": f"{_SIGNS[then.relation]}{one.platform}",
        "said": said_printed(look.data.part, one),
    }


def _line_panels(look: _Look, own: Sequence[PanelData], width: Width) -> Specification:
    columns = min(2, len(own))
    room = _room(width, columns)
    return panels([_line_panel(look, one, room) for one in own], columns)


def _line_panel(look: _Look, panel: PanelData, room: float) -> Specification:
    rates = look.data.part.over is not None
    if rates:  # each panel has its own reach
        look = replace(look, scale=_scale(look.data, [panel]))
    places = sorted({float(mark.x) for mark in panel.marks if isinstance(mark.x, int | float)})
    across = axis((0, places[-1] * _HEADROOM), axis_words("offered")) if rates else _places(look, places)
    diagonal = [_diagonal(look, across, min(places[-1], look.scale.end))] if rates else []
    data = list(_line_data(look, panel))
    return {
        "title": panel.title,
        "width": room,
        "height": _HEIGHT,
        "data": {"values": data},
        "layer": [*look.reference(), *diagonal, *_shown(_line_layers(look, across), data)],
    }


def _places(look: _Look, places: Sequence[float]) -> Specification:
    """The axis over a parameter's values, logarithmic where they go far."""
    names = [placed_text(one) for one in places]
    title = axis_words(look.data.part.x)
    if places[0] > 0 and places[-1] / places[0] >= _LOGARITHMIC:
        ends = (places[0] / 1.15, places[-1] * 1.15)
        return axis(ends, title, scale={"type": "log"}, ticks=places, names=names)
    margin = max((places[-1] - places[0]) * 0.06, 0.5)
    return axis((places[0] - margin, places[-1] + margin), title, ticks=places, names=names)


def _line_layers(look: _Look, across: Specification) -> Iterator[tuple[str, Specification]]:
    """Each with the field without which it shows nothing."""
    upright, paint = look.upright(), look.by_platform()
    at: Specification = {"x": {"field": "place", **across}, "y": {"field": "value", **upright}}
    whisker = at | {"y": {"field": "from", **upright}, "y2": {"field": "to"}, "stroke": paint}
    line = at | {"stroke": paint, "strokeDash": look.by_platform("dash")}
    point = at | {"fill": paint, "shape": look.by_platform("shape"), "tooltip": SAID}
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
    places = sorted({_across(mark) for mark in panel.marks}) if look.data.part.over is None else []
    for platform in dict.fromkeys(mark.platform for mark in panel.marks):
        own = {_across(mark): mark for mark in panel.marks if mark.platform == platform}
        for place in sorted({*own, *places}):
            mark = own.get(place)
            made = {"platform": platform, "value": None} if mark is None else _datum(look, mark)
            yield {"place": number(place), **made}
    printed = sorted((one for one in panel.printed if isinstance(one.x, int | float)), key=_across)
    last = {one.platform: one.x for one in printed}
    for one in printed:
        if isinstance(one.x, int | float):
            named = {"named": True} if one.x == last[one.platform] else {}
            yield {"place": number(one.x), **_then(look, one), **named}


def _across(one: Mark | Printed) -> float:
    return float(one.x) if isinstance(one.x, int | float) else 0.0


def _entries(look: _Look, own: Sequence[PanelData], *, lines: bool) -> list[legends.Entry]:
    """The measured platforms, what is the paper's, and what a dashed outline means."""
    marks = [mark for one in own for mark in one.marks]
    marked = {mark.platform: mark.caveat for mark in marks if mark.caveat}
    found = [
        legends.Entry(
            f"now: {one} {SIGN}" if one in marked else f"now: {one}",
            platform=one,
            line=look.styles[one].paint if lines else None,
            dash=look.styles[one].dash,
            shape=markers.shape(look.styles[one].marker) if lines else markers.BOX,
            fill=look.styles[one].paint,
            stroke=look.styles[one].paint,
            points=4.5 if lines else 8,
        )
        for one in dict.fromkeys(mark.platform for mark in marks)
    ]
    if any(one.printed for one in own):
        shape, points = ("circle", 6) if lines else (markers.BOX, 8)
        found.append(legends.Entry("then: the paper's, named", shape=shape, fill=PAPER, stroke=INK, points=points))
    return [
        *found,
        *(
            legends.Entry(f"{SIGN}  {caveat}", shape=markers.BOX, fill=PAPER, stroke=MUTED, points=8)
            for caveat in dict.fromkeys(marked.values())
        ),
    ]


def caption(parts: Sequence[PartData]) -> str:
    """What to see."""
    marks = [mark for data in parts for _, mark in data.marks]
    blocks = sorted({mark.blocks for mark in marks})
    number_of = f"n = {blocks[0]}" if len(blocks) == 1 else f"n = {blocks[0]} to {blocks[-1]}"
    told = [f"After {parts[0].figure.title_words} of the paper; {number_of} blocks."]
    if any(data.part.over is not None for data in parts):
        told.append("Means with 95 % t intervals; below the dotted diagonal frames are lost.")
        told.append("What was offered flat out beyond the list of rates is left out.")
    elif any(mark.low is not None for mark in marks):
        told.append("Whiskers are 95 % intervals, each of its comparison alone.")
    if any(data.part.share for data in parts):
        told.append("The dashed line is 100 % of what it is compared with.")
    if any(data.printed for data in parts):
        told.append(
            "Hollow: what the paper prints, in % of its host, with its platform's name; ≤, ≥, ≈: a bound, or about."
        )
    else:
        told.append("The paper prints no numbers of it, or only some in units of its own machine.")
    if len({run for data in parts for run, _ in data.marks}) > 1:
        told.append("Each run has panels of its own.")
    return " ".join(told)


def titles(parts: Sequence[PartData]) -> str:
    """What a drawing shows: 'Figure 5(a): Super Pi, a share of native; 5(b): MASR, a share of native'."""
    kind = f"{parts[0].figure.kind.capitalize()} "
    return "; ".join([parts[0].title, *(one.title.removeprefix(kind) for one in parts[1:])])


def labels(found: Reproduction) -> list[str]:
    """The platforms of all runs, which the page's colours go by."""
    return list(dict.fromkeys(one.label for run in found.runs for one in run.manifest.platforms))


def again_figures(found: Reproduction) -> dict[str, tuple[tuple[PartData, ...], Callable[[Width], Specification]]]:
    """By the name of its first part, each figure that is drawn again, with its parts and what draws it.

    Parts of the same figure in which platforms stand side by side are one drawing.
    """
    platforms = labels(found)
    made: dict[str, tuple[tuple[PartData, ...], Callable[[Width], Specification]]] = {}
    for parts in data_of(found):
        there = [(place, data) for place, data in enumerate(parts) if data.marks]
        for together, group in itertools.groupby(there, key=lambda one: _is_single(one[1])):
            own = list(group)
            for drawn in [own] if together else [[one] for one in own]:
                shown = tuple(data for _, data in drawn)
                made[f"{shown[0].figure.anchor}-{drawn[0][0]}"] = shown, partial(draw, shown, platforms)
    return made


def _is_single(data: PartData) -> bool:
    """Whether a part is bars of platforms side by side, and nothing else."""
    return data.part.x is None and data.form == "bars"
