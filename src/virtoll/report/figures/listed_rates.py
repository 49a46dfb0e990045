"""Offered against forwarded in Mbit/s on linear axes, one panel a set of frames (Schlosser et al. 2011, Figure 3)."""

from typing import TYPE_CHECKING

from virtoll.report.figures.base import frames_title, t_interval_text
from virtoll.report.figures.old import caveat_signs
from virtoll.report.figures.old.base import OldFigureSpec, panel_grid
from virtoll.report.figures.old.curve_legend import legend
from virtoll.report.figures.old.style import MUTED
from virtoll.report.figures.style import PlatformStyle, platform_styles
from virtoll.stats.analysis import Analysis
from virtoll.stats.intervals import Estimate
from virtoll.stats.listed_rates import ListedCurve, ListedPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(analysis: Analysis) -> "Figure":
    """Mbit/s on the wire on both axes, from zero; each panel has its own reach."""
    curves = analysis.listed_rates.curves
    tasks = list(dict.fromkeys(curve.task for curve in curves))
    figure, panels, columns = panel_grid(len(tasks), (0.75, 2.75))
    styles = platform_styles(analysis.platforms)
    for panel, task in zip(panels, tasks, strict=True):
        panel.set_title(frames_title(task))
        _panel(panel, analysis, [curve for curve in curves if curve.task == task], styles)
    for panel in panels[-columns:]:
        panel.set_xlabel("offered, Mbit/s")
    for panel in panels[::columns]:
        panel.set_ylabel("forwarded, Mbit/s")
    legend(figure, analysis, styles, {curve.platform for curve in curves})
    return figure


def _panel(panel: "Axes", analysis: Analysis, curves: list[ListedCurve], styles: dict[str, PlatformStyle]) -> None:
    reach = max(_reach(curve) for curve in curves)
    shown = {curve.platform: [one for one in curve.points if _is_within(one, reach)] for curve in curves}
    rates = [rate for points in shown.values() for one in points for rate in (one.offered, one.forwarded)]
    end = max(reach, *(_bounds(rate)[1] for rate in rates)) * 1.04
    panel.set(xlim=(0, end), ylim=(0, end))
    panel.plot([0, reach], [0, reach], color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
    order = list(styles)
    for curve in sorted(curves, key=lambda curve: order.index(curve.platform)):
        style = styles[curve.platform]
        paced = [point for point in curve.points if point.target_mbit_per_second is not None]
        panel.plot(
            [point.offered.value for point in paced],
            [point.forwarded.value for point in paced],
            color=style.colour,
            linestyle=style.line,
            linewidth=2.0 if curve.platform == order[0] else 1.1,
            marker=style.marker,
            markersize=3.6,
            markeredgewidth=0,
            zorder=3,
        )
        for point in shown[curve.platform]:
            _point(panel, point, style)
            caveat_signs.cross(panel, analysis, curve.platform, point.offered.value, point.forwarded.value)


def _reach(curve: ListedCurve) -> float:
    """The largest rate of the list, all sources together, or what was offered at most where that is less."""
    listed = [one.target_mbit_per_second for one in curve.points if one.target_mbit_per_second is not None]
    offered = max(point.offered.value for point in curve.points)
    return min(max(listed, default=offered) * curve.shape.streams, offered)


def _is_within(point: ListedPoint, reach: float) -> bool:
    """Whether a point is drawn: every rate of the list, and flat out where that offered no more than the list does."""
    return point.target_mbit_per_second is not None or point.offered.value <= reach


def _point(panel: "Axes", point: ListedPoint, style: PlatformStyle) -> None:
    """A point's intervals; flat out, its marker too."""
    x, y = point.offered, point.forwarded
    for estimate, place, upright in ((y, x.value, True), (x, y.value, False)):
        low, high = _bounds(estimate)
        ends = ([place, place], [low, high]) if upright else ([low, high], [place, place])
        panel.plot(*ends, color=style.colour, linewidth=0.8, zorder=2)
    if point.target_mbit_per_second is None:
        panel.plot(
            x.value,
            y.value,
            linestyle="none",
            marker=style.marker,
            markersize=6,
            markerfacecolor="white",
            markeredgecolor=style.colour,
            markeredgewidth=1.4,
            zorder=4,
        )


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


LISTED_RATES = OldFigureSpec("Offered against forwarded, in Mbit/s", caption, draw, why_not, section="listed rates")
