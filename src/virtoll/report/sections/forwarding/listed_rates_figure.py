"""Offered against forwarded in Mbit/s on linear axes, one panel a set of frames (Schlosser et al. 2011, Figure 3)."""

from collections.abc import Iterator
from typing import Any

from virtoll.report import words
from virtoll.report.figures import caveats, legends, markers
from virtoll.report.figures.base import FigureSpec, frames_title, said_mean, t_interval_text
from virtoll.report.figures.lines import axis
from virtoll.report.figures.marks import (
    SAID,
    by_platform,
    crosses,
    figure,
    flags,
    layer,
    number,
    panel_width,
    panels,
    text_width,
)
from virtoll.report.figures.style import PAPER, SIZES, Specification, Width, literal, pixels
from virtoll.report.rows import platforms_of
from virtoll.stats.analysis import Analysis
from virtoll.stats.intervals import Estimate
from virtoll.stats.listed_rates import ListedCurve, ListedPoint
from virtoll.stats.values import Task

_PANEL_POINTS = 150.0  # high
_MARGIN = 1.04
_NUMBER: Specification = {"type": "quantitative"}


def draw(analysis: Analysis, width: Width) -> Specification:
    """Mbit/s on the wire on both axes, from zero; each panel has its own reach."""
    curves = analysis.listed_rates.curves
    tasks = list(dict.fromkeys(curve.task for curve in curves))
    columns = 1 if len(tasks) == 1 else 2
    points = SIZES[width].text
    labels, title = text_width("00000", points) + 8, 1.5 * pixels(points)
    size = (panel_width(width, columns, title, each=labels), round(pixels(_PANEL_POINTS), 1))
    drawn = []
    for place, task in enumerate(tasks):
        task_curves = sorted(
            (curve for curve in curves if curve.task == task),
            key=lambda curve: analysis.platforms.index(curve.platform),
        )
        panel = _panel(analysis, task, task_curves, size)
        panel["encoding"]["x"]["axis"]["title"] = "offered, Mbit/s" if place >= len(tasks) - columns else None
        panel["encoding"]["y"]["axis"]["title"] = "forwarded, Mbit/s" if place % columns == 0 else None
        drawn.append(panel)
    entries = legends.of_sweeps(analysis, platforms_of(analysis, curves))
    return figure([panels(drawn, columns), *legends.legend(width, entries, title + labels)])


def _panel(analysis: Analysis, task: Task, curves: list[ListedCurve], size: tuple[float, float]) -> Specification:
    reach = max(map(_reach, curves))
    values = [datum for curve in curves for datum in _points(analysis, task, curve, reach)]
    end = _MARGIN * max(reach, *(end for datum in values for end in (datum["offered_to"], datum["forwarded_to"])))
    ends = axis((0, end), None)
    ends["axis"] |= {"tickCount": 6, "labelExpr": "'' + datum.value"}
    diagonal = [{"offered": place, "diagonal": place} for place in (0, number(reach))]
    return {
        "title": frames_title(task),
        "width": size[0],
        "height": size[1],
        "data": {"values": [*diagonal, *values]},
        "encoding": {"x": {"field": "offered", **ends}, "y": {"field": "value", **ends, "axis": dict(ends["axis"])}},
        "layer": _layers(analysis, values),
    }


def _layers(analysis: Analysis, values: list[dict[str, Any]]) -> list[Specification]:
    """Paced points are small and filled, with a line through them; the point flat out is large and open."""
    flat, stroke = {"test": "datum.flat"}, {"stroke": by_platform(analysis)}
    first = {"test": f"datum.platform === {literal(analysis.platforms[0])}", "value": 2.6}
    point: Specification = {
        "shape": by_platform(analysis, "shape"),
        "fill": {"condition": flat | {"value": PAPER}, **by_platform(analysis)},
        "size": {"condition": flat | {"value": markers.area(6)}, "value": markers.area(3.6)},
        "strokeWidth": {"condition": flat | {"value": 1.8}, "value": 0},
        "tooltip": SAID,
    }
    layers = [
        legends.diagonal({"y": {"field": "diagonal", **_NUMBER}}),
        layer(
            {"type": "line"},
            stroke | {"strokeDash": by_platform(analysis, "dash"), "strokeWidth": {"condition": first, "value": 1.5}},
            "datum.platform && !datum.flat",
        ),
        layer({"type": "point"}, stroke | point, "datum.platform"),
    ]
    if any("low" in datum for datum in values):
        layers.insert(1, _intervals(stroke))
    if any("caveat" in datum for datum in values):
        layers.append(crosses({}))
    return layers


def _intervals(stroke: Specification) -> Specification:
    """Both of each point in one layer: a row each, upright and along."""
    ends: Specification = {"x": {"field": "x", **_NUMBER}, "x2": {"field": "x2"}}
    ends |= {"y": {"field": "y", **_NUMBER}, "y2": {"field": "y2"}}
    rules = layer({"type": "rule", "strokeWidth": 1.1}, ends | stroke)
    along = "[datum.offered_from, datum.offered_to, datum.value, datum.value]"
    upright = "[datum.offered, datum.offered, datum.forwarded_from, datum.forwarded_to]"
    names = ("x", "x2", "y", "y2")
    rules["transform"] = [
        {"filter": "isValid(datum.low)"},
        {"calculate": f"[{along}, {upright}]", "as": "ends"},
        {"flatten": ["ends"]},
        *({"calculate": f"datum.ends[{place}]", "as": name} for place, name in enumerate(names)),
    ]
    return rules


def _points(analysis: Analysis, task: Task, curve: ListedCurve, reach: float) -> Iterator[dict[str, Any]]:
    """A datum for each rate of the list, and flat out where that offered no more than the list does.

    `offered_from` to `forwarded_to` are what is drawn of the intervals.
    """
    for point in curve.points:
        if point.target_mbit_per_second is None and point.offered.value > reach:
            continue
        offered, forwarded = _bounds(point.offered), _bounds(point.forwarded)
        made: dict[str, Any] = {
            "platform": curve.platform,
            "workload": task.workload,
            "offered": number(point.offered.value),
            "value": number(point.forwarded.value),
            "offered_from": number(offered[0]),
            "offered_to": number(offered[1]),
            "forwarded_from": number(forwarded[0]),
            "forwarded_to": number(forwarded[1]),
            "said": f"{caveats.name(analysis, curve.platform)}, {frames_title(task)}: {_said(point)}",
        }
        made |= flags(flat=point.target_mbit_per_second is None)
        made |= flags(caveat=curve.platform in analysis.caveats)
        if point.forwarded.interval is not None:
            made |= {"low": number(point.forwarded.interval.low), "high": number(point.forwarded.interval.high)}
        yield made


def _said(point: ListedPoint) -> str:
    target = "flat out" if point.target_mbit_per_second is None else f"{point.target_mbit_per_second:g} Mbit/s a source"
    means = [
        f"{word} {said_mean(mean, 'Mbit/s')}"
        for word, mean in (("offered", point.offered), ("forwarded", point.forwarded))
    ]
    return f"{target}, {', '.join(means)}, {words.counted(point.blocks, 'block')}"


def _reach(curve: ListedCurve) -> float:
    """The largest rate of the list, all sources together, or what was offered at most where that is less."""
    listed = [point.target_mbit_per_second for point in curve.points if point.target_mbit_per_second is not None]
    offered = max(point.offered.value for point in curve.points)
    return min(max(listed, default=offered) * curve.shape.streams, offered)


def _bounds(estimate: Estimate) -> tuple[float, float]:
    interval = estimate.interval
    return (estimate.value, estimate.value) if interval is None else (max(interval.low, 0.0), interval.high)


def caption(analysis: Analysis) -> str:
    """What to see."""
    return (
        "The same sweeps as the papers drew them: rates on the wire, of all sources together, on linear axes. "
        "Where a curve leaves the dotted diagonal, frames are lost; every rate of the list was offered all the same. "
        "Where a curve ends before the list does, the generator could not offer more. "
        f"Points are {t_interval_text(analysis)}. "
        "An axis ends at the largest rate of the list; what was offered beyond it flat out is in the figure above and "
        "in tables/listed_rates.csv. After Schlosser et al. 2011, Figure 3."
    )


def why_not(analysis: Analysis) -> str | None:
    """A sweep over a list is needed."""
    return None if analysis.listed_rates.curves else "no sweep is over a list of rates"


LISTED = FigureSpec("Offered against forwarded, in Mbit/s", caption, draw, why_not)
