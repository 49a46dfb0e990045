"""Lines over a number, a platform each: markers at the values, their intervals, and a gap where a value is missing."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtoll.report.figures import caveats
from virtoll.report.figures.markers import area
from virtoll.report.figures.marks import SAID, by_platform, crosses, flags, layer, number, text_width
from virtoll.report.figures.style import SIZES, Specification, Width, literal, pixels
from virtoll.stats.analysis import Analysis

_AS_IT_IS: Specification = {"field": "width", "type": "quantitative", "scale": None, "legend": None}


@dataclass(frozen=True)
class LinePoint:
    """A value at a place of the axis, both in the axes' units; None: there is none. `tooltip`: all of it in words.

    `width`: in pixels, of the line that it is on, where a platform has several, by which they differ.
    """

    place: float
    value: float | None
    low: float | None = None
    high: float | None = None
    tooltip: str = ""
    width: float | None = None


@dataclass(frozen=True)
class LinePanel:
    """Points by platform, of one workload. `across` and `upright`: the axes (`axis`).

    `limits`: where an interval is cut. `size`: width and height in pixels.
    """

    title: str | Sequence[str]
    workload: str
    lines: Mapping[str, Sequence[LinePoint]]
    across: Specification
    upright: Specification
    limits: tuple[float, float]
    size: tuple[float, float]


def axis(
    limits: tuple[float, float],
    title: str | Sequence[str] | None,
    *,
    scale: Specification | None = None,
    ticks: Sequence[float] | None = None,
    names: Sequence[str | Sequence[str]] | None = None,
    labelled: bool = True,
    extent: float | None = None,
) -> Specification:
    """A channel without its field: a linear scale from end to end, or as `scale` has it.

    `names`: of the ticks, where numbers will not do, each a line or several. `extent`: from the line to the title, at
    least, in pixels.
    """
    drawn: Specification = {"title": title, "grid": True, "labels": labelled}
    if extent is not None:
        drawn["minExtent"] = round(extent, 1)
    if ticks is not None:
        drawn["values"] = list(map(number, ticks))
    if ticks is not None and names is not None:
        drawn["labelExpr"] = f"{literal(list(names))}[indexof({literal(drawn['values'])}, datum.value)]"
        drawn["labelOverlap"] = False
    ends: Specification = {"domain": list(map(number, limits)), "nice": False}
    return {"type": "quantitative", "scale": ends | ({"zero": False} if scale is None else scale), "axis": drawn}


def labels_room(width: Width) -> float:
    """How much room an upright axis' labels and ticks take, in pixels: its `minExtent` where panels stand in rows."""
    return text_width("0000 k", SIZES[width].text) + 4


def upright_room(width: Width, lines: int = 2) -> float:
    """How much room an upright axis takes in all, with a title in so many lines, in pixels."""
    return lines * pixels(SIZES[width].text) * 1.2 + labels_room(width) + 4


def where_room(names: Sequence[str], at: Sequence[float], length: float) -> list[str]:
    """The names of an axis' ticks; '' for one that would touch another. The first and the last are always there.

    `at`: where each is, in the units of a scale of which the first and the last are the ends; `length`: in pixels.
    """
    shown, last, free = list(names), len(names) - 1, -math.inf
    for place, x in enumerate((position - at[0]) / (at[-1] - at[0]) * length for position in at):
        room = text_width(names[place], SIZES[Width.PAGE].text) + 8
        if place != last and (x < free or x + room > length):
            shown[place] = ""
        else:
            free = x + room
    return shown


def side_by_side(title: str, panels: Sequence[Specification], width: Width) -> Specification:
    """Panels in a row, with one title above all of them, in as many lines as it takes."""
    letters = int(width.pixels / text_width("n", SIZES[width].title))
    return {"title": textwrap.wrap(title, letters), "hconcat": list(panels), "spacing": 14}


def line_panel(analysis: Analysis, panel: LinePanel) -> Specification:
    """A panel with its data."""
    x, y = {"field": "place", **panel.across}, {"field": "value", **panel.upright}
    stroke = by_platform(analysis)
    whisker = {"x": x, "y": {"field": "from", **panel.upright}, "y2": {"field": "to"}, "stroke": stroke}
    line = {"x": x, "y": y, "stroke": stroke, "strokeDash": by_platform(analysis, "dash")}
    if any(point.width is not None for points in panel.lines.values() for point in points):
        line |= {"strokeWidth": _AS_IT_IS, "detail": {"field": "width", "type": "nominal"}}
    marker = {"x": x, "y": y, "fill": by_platform(analysis), "shape": by_platform(analysis, "shape"), "tooltip": SAID}
    drawn = [
        layer({"type": "line", "strokeWidth": 1.5}, line),
        layer({"type": "rule", "strokeWidth": 1.2}, whisker, "isValid(datum.from)"),
        layer({"type": "point", "size": area(4), "strokeWidth": 0}, marker, "isValid(datum.value)"),
    ]
    if analysis.caveats.keys() & panel.lines.keys():
        drawn.append(crosses({"x": x, "y": y}))
    return {
        "title": panel.title,
        "width": panel.size[0],
        "height": panel.size[1],
        "data": {"values": list(_data(analysis, panel))},
        "layer": drawn,
    }


def _data(analysis: Analysis, panel: LinePanel) -> Iterable[dict[str, Any]]:
    low_limit, high_limit = panel.limits
    for platform, points in panel.lines.items():
        for point in points:
            made: dict[str, Any] = {"platform": platform, "workload": panel.workload, "place": number(point.place)}
            made |= {} if point.width is None else {"width": point.width}
            if point.value is None:
                yield made | {"value": None}
                continue
            made |= {"value": number(point.value), "said": f"{caveats.name(analysis, platform)}, {point.tooltip}"}
            made |= flags(caveat=platform in analysis.caveats)
            if point.low is not None and point.high is not None:
                made |= {"low": number(point.low), "high": number(point.high)}
                made |= {"from": number(max(point.low, low_limit)), "to": number(min(point.high, high_limit))}
            yield made
