"""Offered against forwarded rate, one panel a frame size (Schlosser et al. 2011, Figure 3)."""

import math
from typing import TYPE_CHECKING

from virtoll import units
from virtoll.report.figures import caveat_signs
from virtoll.report.figures.base import FigureSpec, blocks_text, frames_title, panel_grid
from virtoll.report.figures.curve_legend import legend
from virtoll.report.figures.style import MUTED, PlatformStyle, nice_log_ticks, platform_styles, whole
from virtoll.runfolder.frame_shape import WIRE_OVERHEAD_BYTES
from virtoll.stats.analysis import Analysis
from virtoll.stats.sweeps import Curve, CurvePoint
from virtoll.stats.values import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def _tasks(analysis: Analysis) -> list[Task]:
    swept = {curve.parameters for curve in analysis.curves}
    return [task for task in analysis.tasks if task.metric.source == "points" and task.parameters in swept]


def draw(analysis: Analysis) -> "Figure":
    """Log-log, in frames/s on both axes; each panel's title says what 100 kframes/s are on the wire."""
    tasks = _tasks(analysis)
    figure, panels, columns = panel_grid(len(tasks), (0.75, 2.75), shared=True)
    styles = platform_styles(analysis.platforms)
    low, high = _limits(analysis)
    for panel, task in zip(panels, tasks, strict=True):
        own = [curve for curve in analysis.curves if curve.parameters == task.parameters]
        _panel(panel, task, own, styles, (low, high))
        _crosses(panel, analysis, own)
    for panel in panels[-columns:]:
        panel.set_xlabel("offered, frames/s")
        panel.tick_params(axis="x", labelbottom=True)
    for panel in panels[::columns]:
        panel.set_ylabel("forwarded, frames/s")
    legend(figure, analysis, styles, {curve.platform for curve in analysis.curves})
    return figure


def _limits(analysis: Analysis) -> tuple[float, float]:
    rates = [
        rate
        for curve in analysis.curves
        for point in curve.points
        for rate in (point.offered.low, point.offered.high, point.forwarded.low, point.forwarded.high)
        if rate > 0
    ]
    return min(rates) / 1.3, max(rates) * 1.3


def _panel(
    panel: "Axes", task: Task, curves: list[Curve], styles: dict[str, PlatformStyle], limits: tuple[float, float]
) -> None:
    from matplotlib.ticker import NullLocator

    panel.set_title(frames_title(task))
    shape = task.shape
    if shape is not None:
        reported = f"100 k = {units.significant(shape.mbit_per_second(1e5))} Mbit/s on the wire"
        panel.set_title(reported, loc="right", fontsize=7, color=MUTED, fontweight="normal")
    panel.set(xscale="log", yscale="log", xlim=limits, ylim=limits)
    ticks = nice_log_ticks(*limits)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_ticks(ticks, [whole(tick) for tick in ticks])
        axis.set_minor_locator(NullLocator())
    panel.plot(limits, limits, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
    order = list(styles)
    for curve in sorted(curves, key=lambda curve: order.index(curve.platform)):
        _curve(panel, curve, styles[curve.platform], 2.0 if curve.platform == order[0] else 1.1)


def _crosses(panel: "Axes", analysis: Analysis, curves: list[Curve]) -> None:
    for curve in curves:
        for point in curve.points:
            if point.forwarded.median > 0:
                caveat_signs.cross(panel, analysis, curve.platform, point.offered.median, point.forwarded.median)


def _curve(panel: "Axes", curve: Curve, style: PlatformStyle, width: float) -> None:
    paced = [point for point in curve.points if point.intended_rate is not None and point.forwarded.median > 0]
    paced.sort(key=lambda point: point.offered.median)
    flat_out = [point for point in curve.points if point.intended_rate is None and point.forwarded.median > 0]
    if paced:
        panel.plot(
            [point.offered.median for point in paced],
            [point.forwarded.median for point in paced],
            color=style.colour,
            linestyle=style.line,
            linewidth=width,
            marker=style.marker,
            markersize=3.6,
            markeredgewidth=0,
            zorder=3,
        )
    for point in flat_out:
        if paced:
            last = paced[-1]
            panel.plot(
                [last.offered.median, point.offered.median],
                [last.forwarded.median, point.forwarded.median],
                color=style.colour,
                linewidth=0.7,
                linestyle=(0, (1, 1.5)),
                zorder=2,
            )
        panel.plot(
            point.offered.median,
            point.forwarded.median,
            linestyle="none",
            marker=style.marker,
            markersize=6,
            markerfacecolor="white",
            markeredgecolor=style.colour,
            markeredgewidth=1.4,
            zorder=4,
        )
    _ranges(panel, [*paced, *flat_out], style)


def _ranges(panel: "Axes", points: list[CurvePoint], style: PlatformStyle) -> None:
    """Bars from the smallest to the largest of the blocks, in both directions."""
    x: list[float] = []
    y: list[float] = []
    for point in points:
        offered, forwarded = point.offered, point.forwarded
        x += [offered.median, offered.median, math.nan, offered.low, offered.high, math.nan]
        y += [max(forwarded.low, 1e-9), forwarded.high, math.nan, forwarded.median, forwarded.median, math.nan]
    if x:
        panel.plot(x[:-1], y[:-1], color=style.colour, linewidth=0.8, zorder=2)


def caption(analysis: Analysis) -> str:
    """What to see."""
    lengths = sorted({point.duration_ns for point in analysis.points})
    length = " and ".join(units.nanoseconds(value) for value in lengths)
    return (
        "Where a curve leaves the dotted diagonal, frames are lost; where it turns down, overload makes it worse. "
        f"Points are medians over {blocks_text(analysis)}, bars the range from the smallest to the largest block; "
        f"large open markers are the point sent flat out (RFC 2285: FRMOL). A point lasts "
        f"{length}. Frame size with FCS; on the wire a frame "
        f"takes {WIRE_OVERHEAD_BYTES} bytes more. After Schlosser et al. 2011, Figure 3."
    )


def why_not(analysis: Analysis) -> str | None:
    """A sweep with a rate is needed."""
    return None if _tasks(analysis) else "no sweep has a point with a rate"


FORWARDING = FigureSpec("Offered against forwarded", caption, draw, why_not, section="forwarding")
