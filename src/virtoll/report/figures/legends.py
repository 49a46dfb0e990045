"""The legend below a figure's panels: a part of its own, whose marks have the `platform` that they name."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from virtoll.report import words
from virtoll.report.figures import caveats, markers
from virtoll.report.figures.marks import layer, text_width, with_data
from virtoll.report.figures.style import (
    INK,
    MUTED,
    PAPER,
    SIZES,
    PlatformStyle,
    Specification,
    Width,
    pixels,
    platform_styles,
)
from virtoll.stats.analysis import Analysis

_DOTTED = (1, 2)
_HANDLE, _GAP = 20.0, 16.0  # pixels: of a sample's line, and between two columns


@dataclass(frozen=True)
class Entry:
    """A sample and its label. `line`: the colour of a line through it, `dash` its dashes; `shape`: a marker on it.

    `half`: the shape of what of the marker is filled; `fill` and `stroke`: the marker's colours. `width`: the line's.
    """

    label: str
    platform: str | None = None
    line: str | None = None
    dash: Sequence[float] = (1, 0)
    shape: str | None = None
    half: str | None = None
    fill: str | None = None
    stroke: str | None = None
    points: float = 4.5
    width: float = 1.5


def platforms(analysis: Analysis, shown: Sequence[str]) -> list[Entry]:
    """Each platform's line and marker."""
    styles = platform_styles(analysis.platforms)
    return [of_style(caveats.name(analysis, platform), platform, styles[platform]) for platform in shown]


def of_style(label: str, platform: str, style: PlatformStyle) -> Entry:
    """A platform's line and marker."""
    paint, shape = style.paint, markers.shape(style.marker)
    return Entry(label, platform, line=paint, dash=style.dash, shape=shape, fill=paint, stroke=paint)


def verdicts(analysis: Analysis) -> list[Entry]:
    """What a marker's filling means."""
    circle, half = markers.shape("o"), markers.left_half("o")
    return [
        Entry("slower or faster", shape=circle, fill=INK, stroke=INK),
        Entry(f"alike within {words.amount(analysis.margin)}", shape=circle, half=half, fill=PAPER, stroke=INK),
        Entry("not known", shape=circle, fill=PAPER, stroke=INK),
    ]


def box(label: str, paint: str) -> Entry:
    """An area's colour."""
    return Entry(label, shape=markers.BOX, fill=paint, stroke=paint, points=8)


def line(label: str, dash: Sequence[float], paint: str = MUTED) -> Entry:
    """A line of reference."""
    return Entry(label, line=paint, dash=dash)


def of_sweeps(analysis: Analysis, shown: Sequence[str]) -> list[Entry]:
    """Of forwarded against offered rates: platforms, the point flat out, and the diagonal."""
    return [
        *platforms(analysis, shown),
        Entry("flat out (FRMOL)", shape=markers.shape("o"), fill=PAPER, stroke=MUTED, points=6),
        line("all forwarded", _DOTTED),
        *of_caveats(analysis, shown),
    ]


def diagonal(encoding: Specification) -> Specification:
    """The line at which all that is offered is forwarded."""
    mark = {"type": "line", "stroke": MUTED, "strokeWidth": 1.1, "strokeDash": list(_DOTTED)}
    return layer(mark, encoding, "isValid(datum.diagonal)")


def of_caveats(analysis: Analysis, shown: Iterable[str]) -> list[Entry]:
    """What the sign at a platform's name, a cross and an open bar mean; none where no platform has a caveat."""
    return [
        Entry(f"{caveats.SIGN} ×  {caveat}", shape=markers.BOX, fill=PAPER, stroke=INK, points=8)
        for caveat in caveats.found(analysis, shown)
    ]


def legend(width: Width, entries: Sequence[Entry], left: float, most: int = 4) -> list[Specification]:
    """The part of a figure, in as many columns as its longest label has room for, at most so many; [] without any.

    `left`: what stands left of the first panel's own area, in pixels; the legend is in the middle of the whole.
    """
    if not entries:
        return []
    points = SIZES[width].text
    column = _HANDLE + 5 + _GAP + max(text_width(entry.label, points) for entry in entries)
    count = max(1, min(most, len(entries), int((width.pixels + _GAP) / column)))
    rows = -(-len(entries) // count)
    step = pixels(points) * 1.45
    count = -(-len(entries) // rows)
    start = max(0.0, (width.pixels - column * count + _GAP) / 2) - left
    values = [
        _datum(entry, start + column * (place // rows), step * (place % rows + 0.5))
        for place, entry in enumerate(entries)
    ]
    return [
        {
            "data": {"values": values},
            "width": 1,
            "height": round(step * rows, 1),
            "layer": _layers(values, pixels(points)),
        }
    ]


def _datum(entry: Entry, x: float, y: float) -> dict[str, Any]:
    made: Specification = {"platform": entry.platform, "label": entry.label}
    if entry.line:
        made |= {"line": entry.line, "dash": list(entry.dash), "width": entry.width}
    made |= {"shape": entry.shape, "half": entry.half, "fill": entry.fill, "stroke": entry.stroke}
    if entry.shape:
        made["size"] = markers.area(entry.points)
    made |= {"x": round(x, 1), "y": round(y, 1)}
    return {key: value for key, value in made.items() if value is not None}


def _layers(values: Sequence[dict[str, Any]], size: float) -> list[Specification]:
    def as_is(field: str, kind: str = "nominal") -> Specification:
        return {"field": field, "type": kind, "scale": None, "legend": None}

    def at(offset: float) -> Specification:
        return {"x": {"field": f"x{offset:g}", **across}, "y": {"field": "y", **across}}

    across: Specification = {"type": "quantitative", "scale": None, "axis": None}
    for datum in values:
        datum |= {f"x{offset:g}": datum["x"] + offset for offset in (_HANDLE / 2, _HANDLE, _HANDLE + 5)}
    middle = at(_HANDLE / 2)
    marker = {"shape": as_is("shape"), "size": as_is("size", "quantitative"), "stroke": as_is("stroke")}
    drawn = [
        layer(
            {"type": "rule"},
            {
                "x": {"field": "x", **across},
                "x2": {"field": f"x{_HANDLE:g}"},
                "y": {"field": "y", **across},
                "stroke": as_is("line"),
                "strokeDash": as_is("dash"),
                "strokeWidth": as_is("width", "quantitative"),
            },
            "datum.line",
        ),
        layer({"type": "point", "strokeWidth": 1.3}, middle | marker | {"fill": as_is("fill")}, "datum.shape"),
        layer(
            {"type": "point", "strokeWidth": 0},
            middle | {"shape": as_is("half"), "size": as_is("size", "quantitative"), "fill": as_is("stroke")},
            "datum.half",
        ),
        layer(
            {"type": "text", "align": "left", "baseline": "middle", "fontSize": size},
            at(_HANDLE + 5) | {"text": {"field": "label"}},
        ),
    ]
    return list(with_data(zip(("line", "shape", "half", "label"), drawn, strict=True), values))
