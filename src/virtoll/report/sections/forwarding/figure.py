"""Offered against forwarded rate, one panel a frame size (Schlosser et al. 2011, Figure 3)."""

from collections.abc import Iterator
from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.figures import legends, markers
from virtoll.report.figures.base import FigureSpec, blocks_text, frames_title
from virtoll.report.figures.choice import chosen_panels, panels_left_out
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
from virtoll.report.figures.style import (
    COUNTS,
    PAPER,
    SIZES,
    Specification,
    Width,
    literal,
    nice_log_ticks,
    pixels,
    whole,
)
from virtoll.report.rows import platforms_of
from virtoll.runfolder.frame_shape import WIRE_OVERHEAD_BYTES
from virtoll.stats.analysis import Analysis
from virtoll.stats.sweeps import Curve, CurvePoint
from virtoll.stats.values import Task

_PANEL_POINTS = 150.0  # high


def _tasks(analysis: Analysis) -> list[Task]:
    swept = {curve.parameters for curve in analysis.curves}
    return [task for task in analysis.tasks if task.metric.source == "points" and task.parameters in swept]


def draw(analysis: Analysis, width: Width) -> Specification:
    """Log-log, in frames/s on both axes; each panel's title says what 100 kframes/s are on the wire."""
    tasks = chosen_panels(_tasks(analysis))
    columns = min(len(tasks), 1 if width is Width.COLUMN else 2)
    limits = _limits(analysis)
    ticks = nice_log_ticks(*limits)
    left = max(text_width(whole(tick), SIZES[width].text) for tick in ticks) + 2 * pixels(SIZES[width].text) + 8
    wide = panel_width(width, columns, left, each=8)
    drawn = []
    for place, task in enumerate(tasks):
        curves = [curve for curve in analysis.curves if curve.parameters == task.parameters]
        panel = _panel(analysis, task, curves, limits)
        across = _axis(limits, ticks, "offered, frames/s" if place >= len(tasks) - columns else None)
        upright = _axis(limits, ticks, None, labels=False)
        if place % columns == 0:
            upright = _axis(limits, ticks, "forwarded, frames/s")
        shape = {"width": wide, "height": round(pixels(_PANEL_POINTS), 1)}
        drawn.append(panel | shape | {"layer": _layers(analysis, limits, across, upright)})
    entries = legends.of_sweeps(analysis, platforms_of(analysis, analysis.curves))
    return figure([panels(drawn, columns), *legends.legend(width, entries, left)])


def _axis(limits: tuple[float, float], ticks: list[float], title: str | None, *, labels: bool = True) -> Specification:
    low, high = limits
    return {
        "type": "quantitative",
        "scale": {"type": "log", "domain": [number(low), number(high)], "nice": False},
        "axis": {"values": ticks, "title": title, "grid": True, "labels": labels, **COUNTS},
    }


def _limits(analysis: Analysis) -> tuple[float, float]:
    rates = [
        rate
        for curve in analysis.curves
        for point in curve.points
        for rate in (point.offered.low, point.offered.high, point.forwarded.low, point.forwarded.high)
        if rate > 0
    ]
    return min(rates) / 1.3, max(rates) * 1.3


def _panel(analysis: Analysis, task: Task, curves: list[Curve], limits: tuple[float, float]) -> Specification:
    title: Specification = {"text": frames_title(task)}
    if task.shape is not None:
        title["subtitle"] = f"100 k = {units.significant(task.shape.mbit_per_second(1e5))} Mbit/s on the wire"
    in_order = sorted(curves, key=lambda curve: analysis.platforms.index(curve.platform))
    values = [datum for curve in in_order for datum in _points(analysis, task, curve)]
    ends = [{"diagonal": number(limit)} for limit in limits]
    return {"title": title, "data": {"values": [*values, *ends]}}


def _points(analysis: Analysis, task: Task, curve: Curve) -> Iterator[dict[str, Any]]:
    """A datum a point; the last of those with a rate has `next`, where the point flat out is."""
    seen = [point for point in curve.points if point.forwarded.median > 0]
    paced = sorted((point for point in seen if point.intended_rate is not None), key=lambda point: point.offered.median)
    flat_out = [point for point in seen if point.intended_rate is None]
    for point in (*paced, *flat_out):
        offered, forwarded = point.offered, point.forwarded
        made: dict[str, Any] = {
            "platform": curve.platform,
            "workload": task.workload,
            "offered": number(offered.median),
            "value": number(forwarded.median),
            "low": number(forwarded.low),
            "high": number(forwarded.high),
            "from": number(offered.low),
            "to": number(offered.high),
            "said": f"{curve.platform}, {frames_title(task)}: {_said(point)}",
        }
        made |= flags(flat=point.intended_rate is None)
        made |= flags(caveat=curve.platform in analysis.caveats)
        if flat_out and paced and point is paced[-1]:
            made |= {"next": number(flat_out[0].offered.median), "next_value": number(flat_out[0].forwarded.median)}
        yield made


def _said(point: CurvePoint) -> str:
    flat = "flat out, " if point.intended_rate is None else ""
    forwarded = units.between(point.forwarded.low, point.forwarded.high, "frames/s")
    return (
        f"{flat}offered {units.frame_rate(point.offered.median)}, forwarded median "
        f"{units.frame_rate(point.forwarded.median)}, blocks {forwarded}, {units.percent(point.loss.median)} lost, "
        f"{words.counted(point.blocks, 'block')}"
    )


def _layers(
    analysis: Analysis, limits: tuple[float, float], across: Specification, upright: Specification
) -> list[Specification]:
    x, y = {"field": "offered", **across}, {"field": "value", **upright}
    stroke, fill, shape = by_platform(analysis), by_platform(analysis), by_platform(analysis, "shape")
    floor = f"{number(limits[0])}"
    wide: Specification = {
        "condition": {"test": f"datum.platform === {literal(analysis.platforms[0])}", "value": 2.6},
        "value": 1.5,
    }
    diagonal = {"x": {"field": "diagonal", **across}, "y": {"field": "diagonal", **upright}}
    thin: Specification = {"type": "rule", "strokeWidth": 1.1}
    up = layer(thin, {"x": x, "y": {"field": "floor", **upright}, "y2": {"field": "high"}, "stroke": stroke})
    up["transform"] = [
        {"filter": "isValid(datum.platform)"},
        {"calculate": f"max(datum.low, {floor})", "as": "floor"},
        {"filter": "datum.floor < datum.high"},
    ]
    along = {"x": {"field": "from", **across}, "x2": {"field": "to"}, "y": y, "stroke": stroke}
    onward = {"x": x, "x2": {"field": "next"}, "y": y, "y2": {"field": "next_value"}, "stroke": stroke}
    line = {"x": x, "y": y, "stroke": stroke, "strokeDash": by_platform(analysis, "dash"), "strokeWidth": wide}
    point: Specification = {"x": x, "y": y, "shape": shape, "tooltip": SAID}
    small: Specification = {"type": "point", "size": markers.area(3.6), "strokeWidth": 0}
    large: Specification = {"type": "point", "size": markers.area(6), "strokeWidth": 1.8, "fill": PAPER}
    layers = [
        legends.diagonal(diagonal),
        up,
        layer(thin, along, "isValid(datum.platform) && datum.from < datum.to"),
        layer({"type": "rule", "strokeWidth": 1, "strokeDash": [1, 2]}, onward, "isValid(datum.next)"),
        layer({"type": "line"}, line, "isValid(datum.platform) && !datum.flat"),
        layer(small, point | {"fill": fill}, "isValid(datum.platform) && !datum.flat"),
        layer(large, point | {"stroke": stroke}, "datum.flat"),
    ]
    return [*layers, crosses({"x": x, "y": y})] if analysis.caveats else layers


def caption(analysis: Analysis) -> str:
    """What to see."""
    lengths = sorted({point.duration_ns for point in analysis.points})
    length = " and ".join(map(units.nanoseconds, lengths))
    tasks = _tasks(analysis)
    left_out = panels_left_out(len(chosen_panels(tasks)), len(tasks), "tables/points.csv")
    return (
        "Where a curve leaves the dotted diagonal, frames are lost; where it turns down, overload makes it worse. "
        f"Points are medians over {blocks_text(analysis)}, bars the range from the smallest to the largest block; "
        f"large open markers are the point sent flat out (RFC 2285: FRMOL). A point lasts "
        f"{length}. Frame size with FCS; on the wire a frame "
        f"takes {WIRE_OVERHEAD_BYTES} bytes more.{left_out} After Schlosser et al. 2011, Figure 3."
    )


def why_not(analysis: Analysis) -> str | None:
    """A sweep with a rate is needed."""
    return None if _tasks(analysis) else "no sweep has a point with a rate"


OFFERED = FigureSpec("Offered against forwarded", caption, draw, why_not, stacks=True)
