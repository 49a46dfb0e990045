"""A small figure that nobody sees: what draws gets ready on it, with all that figures are made of.

Much of the converter is read and compiled when it is first used: a specification's layers, filters and scales, its
texts and their fonts. `drawing.Drawer` draws this one while the run is still being read.
"""

from typing import Any

from virtoll.report.figures.marks import figure, layer, panels
from virtoll.report.figures.style import BAND, MUTED, PAPER, Specification, Width, pixels

_LOG: Specification = {"type": "quantitative", "scale": {"type": "log", "domain": [1, 100], "nice": False}}
_LINEAR: Specification = {"type": "quantitative", "scale": {"domain": [0, 10], "nice": False}}
_TEXT = "0123456789 abcdefghijklmnopqrstuvwxyz, ABCDEFGHIJKLMNOPQRSTUVWXYZ % ≥ × † – ( )"


def practice(width: Width) -> Specification:
    """Panels of markers, lines, bars and texts over logarithmic, linear and ordinal axes, and a legend's row."""
    wide = round(width.pixels / 4, 1)
    data: list[dict[str, Any]] = [
        {"platform": platform, "row": row, "value": 2.0 + row, "low": 1.5, "high": 9.0, "said": _TEXT}
        for row in range(4)
        for platform in ("one", "two", "three")
    ]
    paint: Specification = {
        "field": "platform",
        "type": "nominal",
        "scale": {"domain": ["one", "two", "three"], "range": ["currentColor", PAPER, MUTED]},
        "legend": None,
    }
    rows: Specification = {
        "field": "row",
        "type": "ordinal",
        "scale": {"domain": list(range(4)), "padding": 0},
        "axis": {"labelExpr": "['a', ['b', 'c'], 'd', 'e'][datum.value]", "title": None, "ticks": False},
    }
    offset: Specification = {"field": "platform", "type": "nominal", "scale": {"paddingInner": 1, "paddingOuter": 1.1}}
    axis: Specification = {"values": [1, 10], "title": "share", "grid": True, "labelExpr": "datum.value + ' %'"}
    across: Specification = {"field": "value", **_LOG, "axis": axis}
    text: Specification = {"type": "text", "align": "left", "baseline": "middle", "fontSize": pixels(6.5), "dx": 3}
    shares: Specification = {
        "title": {"text": _TEXT, "subtitle": _TEXT},
        "width": wide,
        "height": 80,
        "data": {"values": data},
        "encoding": {"y": rows},
        "layer": [
            layer({"type": "rect", "fill": BAND}, {"x": {"datum": 1.5, **_LOG}, "x2": {"datum": 5}, "y": None}),
            layer(
                {"type": "rule"},
                {"x": {"field": "low", **_LOG}, "x2": {"field": "high"}, "yOffset": offset, "stroke": paint},
                "isValid(datum.low)",
            ),
            layer(
                {"type": "point", "size": 20},
                {"x": across, "yOffset": offset, "stroke": paint, "tooltip": {"field": "said", "type": "nominal"}},
            ),
            layer(text, {"x": across, "text": {"field": "platform"}, "yOffset": offset}, "datum.row > 1"),
        ],
        "resolve": {"scale": {"shape": "independent"}},
    }
    upright: Specification = {"field": "value", **_LINEAR}
    lines: Specification = {
        "width": wide,
        "height": 80,
        "data": {"values": data},
        "layer": [
            layer({"type": "line"}, {"x": {"field": "row", **_LINEAR}, "y": upright, "stroke": paint}),
            layer(
                {"type": "bar", "size": 4},
                {"x": {"field": "row", **_LINEAR}, "y": {"field": "low", **_LINEAR}, "y2": {"field": "high"}},
            ),
        ],
    }
    lines["layer"][1]["transform"] = [{"calculate": "max(datum.low, 1)", "as": "low"}, {"filter": "datum.low > 0"}]
    return figure([panels([shares, lines], 2)])
