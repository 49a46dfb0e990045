"""Horizontal bars from zero, a platform each: bar, interval, what stands beside it; a word where there is no value."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtoll.report.figures import caveats, markers
from virtoll.report.figures.marks import (
    bars_from_zero,
    by_platform,
    flags,
    labels_of,
    layer,
    number,
    on_paper,
    rule_through,
    text_width,
)
from virtoll.report.figures.style import INK, MUTED, PAPER, Specification, pixels
from virtoll.stats.analysis import Analysis

_THICKNESS = 0.62  # of the distance between two bars
_DASH = (4, 3)
_BESIDE = 5  # pixels between a bar and what stands beside it


@dataclass(frozen=True)
class Bar:
    """One bar in the axis' unit, from zero to `value`; `low` and `high` are its interval's ends, where it has one.

    `beside`: what is printed right of it. `tooltip`: all of it in words. `workload`: what was measured.
    """

    value: float
    low: float | None
    high: float | None
    beside: str
    tooltip: str
    workload: str


@dataclass(frozen=True)
class BarPanel:
    """Bars by platform, and for a platform without one the reason in a word or two. `names`: of all, in lines.

    `reach`: the axis' end. `limit`: where an interval is cut and an arrow drawn. `reference`: a line through all.
    `size`: width and distance between two bars, in pixels. `text`: of what is printed, in points. `labelled`: whether
    the platforms are named at the left.
    """

    title: str | Sequence[str]
    axis: str | None
    bars: Mapping[str, Bar]
    missing: Mapping[str, str]
    names: Mapping[str, Sequence[str]]
    reach: float
    size: tuple[float, float]
    limit: float = float("inf")
    reference: float | None = None
    text: float = 6.5
    labelled: bool = True
    axis_extra: Specification | None = None
    subtitle: str | None = None


def names_width(names: Mapping[str, Sequence[str]], points: float) -> float:
    """How much room platforms' names take left of a panel, in pixels."""
    return max(text_width(line, points) for lines in names.values() for line in lines) + 8


def bar_panel(analysis: Analysis, panel: BarPanel) -> Specification:
    """A panel with its data."""
    title: Specification = {"text": panel.title} | ({} if panel.subtitle is None else {"subtitle": panel.subtitle})
    return {
        "title": title,
        "width": panel.size[0],
        "height": round(panel.size[1] * len(panel.names), 1),
        "data": {"values": list(_data(analysis, panel))},
        "encoding": {
            "y": {
                "field": "row",
                "type": "ordinal",
                "scale": {"domain": list(range(len(panel.names))), "padding": 0},
                "axis": {
                    "labelExpr": labels_of(list(panel.names.values())),
                    "labels": panel.labelled,
                    "title": None,
                    "domain": False,
                    "ticks": False,
                    "labelPadding": 6,
                },
            }
        },
        "layer": _layers(analysis, panel),
    }


def _layers(analysis: Analysis, panel: BarPanel) -> list[Specification]:
    scale: Specification = {"domain": [0, number(panel.reach)], "nice": False}
    axis: Specification = {"title": panel.axis, "tickCount": 4, "grid": True} | (panel.axis_extra or {})
    across: Specification = {"type": "quantitative", "scale": scale, "axis": axis}
    value: Specification = {"x": {"field": "value", **across}}
    layers = [
        *([] if panel.reference is None else [rule_through("x", panel.reference, _DASH)]),
        bars_from_zero(value, by_platform(analysis), panel.size[1] * _THICKNESS, upright=False),
    ]
    if any(bar.low is not None for bar in panel.bars.values()):
        layers += on_paper({"x": {"field": "from", **across}, "x2": {"field": "to"}}, "isValid(datum.from)")
    if any(_goes_on(bar, panel.limit) for bar in panel.bars.values()):
        arrow: Specification = {"type": "point", "shape": markers.TO_THE_RIGHT, "size": markers.area(4)}
        position = {"x": {"field": "to", **across}}
        layers.append(layer(arrow | {"fill": INK, "strokeWidth": 0}, position, "datum.beyond"))
    text: Specification = {
        "type": "text",
        "align": "left",
        "baseline": "middle",
        "fontSize": pixels(panel.text),
        "dx": _BESIDE,
    }
    at: Specification = {"x": {"field": "reach", **across}, "text": {"field": "beside"}}
    if any(_is_crossed(panel, bar) for bar in panel.bars.values()):
        halo: Specification = {"stroke": PAPER, "strokeWidth": 3, "strokeJoin": "round"}
        layers.append(layer(text | halo, at, "datum.crossed"))
    layers.append(layer(text, at, "datum.beside"))
    if panel.missing:
        word = text | {"fill": MUTED, "dx": 3}
        layers.append(layer(word, {"x": {"datum": 0, **across}, "text": {"field": "missing"}}, "datum.missing"))
    return layers


def _end(bar: Bar) -> float:
    """Where its interval ends: a time that may be zero has no largest share."""
    return float("inf") if bar.high is None else bar.high


def _goes_on(bar: Bar, limit: float) -> bool:
    return bar.low is not None and _end(bar) > limit


def _reach(panel: BarPanel, bar: Bar) -> float:
    """Where it ends, or its interval where that goes further."""
    return bar.value if bar.low is None else max(bar.value, min(_end(bar), panel.limit))


def _is_crossed(panel: BarPanel, bar: Bar) -> bool:
    """Whether the line of reference goes through what stands beside it, or just past."""
    if panel.reference is None:
        return False
    across = (text_width(f"{bar.beside} {caveats.SIGN}", panel.text) + 2 * _BESIDE) / panel.size[0] * panel.reach
    return _reach(panel, bar) <= panel.reference <= _reach(panel, bar) + across


def _data(analysis: Analysis, panel: BarPanel) -> Iterable[dict[str, Any]]:
    for row, platform in enumerate(panel.names):
        bar = panel.bars.get(platform)
        made: dict[str, Any] = {"platform": platform, "row": row}
        if bar is None:
            why = panel.missing.get(platform)
            if why is not None:
                yield made | {"missing": why, "said": f"{platform}: {why}"}
            continue
        sign = f" {caveats.SIGN}" if platform in analysis.caveats else ""
        made |= {"workload": bar.workload, "value": number(bar.value), "said": bar.tooltip}
        made |= flags(caveat=sign)
        made |= flags(crossed=_is_crossed(panel, bar))
        if bar.low is not None:
            end = min(_end(bar), panel.limit)
            made |= {"low": number(bar.low), "from": number(max(bar.low, 0.0)), "to": number(end)}
            made |= {} if bar.high is None else {"high": number(bar.high)}
            made |= flags(beyond=_goes_on(bar, panel.limit))
        yield made | {"reach": number(_reach(panel, bar)), "beside": f"{bar.beside}{sign}"}
