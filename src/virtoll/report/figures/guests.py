"""What the guests themselves cost: the way to readiness, memory idle and after work, host CPU per job."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from virtoll.report.figures.base import blocks_text
from virtoll.report.figures.old import caveat_signs
from virtoll.report.figures.old.base import OldFigureSpec, new_figure
from virtoll.report.figures.old.style import INK, MUTED
from virtoll.report.figures.style import PlatformStyle, nice_log_ticks, platform_styles
from virtoll.stats.analysis import Analysis
from virtoll.stats.guests import Quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PARTS = (("spawn", "#4d4d4d"), ("kernel", "#9a9a9a"), ("init", "#d9d9d9"))
_MIB = 2**20


def draw(analysis: Analysis) -> "Figure":
    """Three panels with one row a platform: milliseconds, MiB, and CPU time as a multiple of the baseline's."""
    rows = analysis.guests
    styles = platform_styles(analysis.platforms)
    figure = new_figure(1.35 + 0.27 * len(rows))
    ready, memory, processor = figure.subplots(1, 3, sharey=True)
    ready.set_yticks(range(len(rows)), [caveat_signs.name(analysis, row.platform) for row in rows])
    ready.set_ylim(len(rows) - 0.4, -0.6)
    for panel in (ready, memory, processor):
        panel.tick_params(axis="y", length=0)
        panel.grid(visible=False, axis="y")
    _ready(ready, analysis)
    _memory(memory, analysis, styles)
    _processor(processor, analysis, styles)
    caveat_signs.legend(figure, analysis, [row.platform for row in rows])
    return figure


def _ready(panel: "Axes", analysis: Analysis) -> None:
    """A way through time to each guest's answer, in its parts; one of which nothing more is known is hollow."""
    from matplotlib.patches import Patch

    rows = analysis.guests
    totals = [row.ready.median / 1e6 for row in rows if row.ready is not None]
    if totals:
        _logarithmic(panel, min(totals) / 2, max(totals))
    for height, row in enumerate(rows):
        if row.ready is None:
            continue
        moment, begin = 0.0, panel.get_xlim()[0]
        for (_, colour), part in zip(_PARTS, (row.spawn, row.kernel, row.init), strict=True):
            if part is not None:
                end = moment + part.median / 1e6
                left = max(moment, begin)
                panel.barh(
                    height,
                    max(end - left, 0.0),
                    0.62,
                    left=left,
                    color=colour,
                    linewidth=0,
                    hatch=caveat_signs.hatch(analysis, row.platform),
                    edgecolor="white",
                )
                moment = end
        if moment == 0:
            panel.barh(
                height,
                row.ready.median / 1e6 - begin,
                0.62,
                left=begin,
                color="white",
                edgecolor=MUTED,
                linewidth=0.8,
                hatch=caveat_signs.hatch(analysis, row.platform),
            )
        interval = row.ready.interval
        if interval is not None:
            panel.plot([interval.low / 1e6, interval.high / 1e6], [height] * 2, color=INK, linewidth=0.9, zorder=3)
    panel.set_xlabel("ready, ms (log)")
    if any(row.spawn is not None for row in rows):
        panel.legend(
            handles=[Patch(facecolor=colour, label=name) for name, colour in _PARTS],
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=3,
            handlelength=1,
            columnspacing=0.8,
            borderpad=0,
        )


def _memory(panel: "Axes", analysis: Analysis, styles: dict[str, PlatformStyle]) -> None:
    rows = analysis.guests
    values = [part.median / _MIB for row in rows for part in (row.idle, row.worked) if part is not None and part.median]
    for height, row in enumerate(rows):
        style = styles[row.platform]
        for part, shift, face in ((row.idle, -0.14, "white"), (row.worked, 0.14, style.colour)):
            if part is not None and part.median > 0:
                _dot(panel, part, height + shift, style, face, lambda value: value / _MIB)
                caveat_signs.cross(panel, analysis, row.platform, part.median / _MIB, height + shift)
    if values:
        _logarithmic(panel, min(values), max(values))
    panel.set_xlabel("host memory, MiB (log)")
    panel.annotate(
        "open: idle; filled: after work",
        (0, 1),
        (0, 4),
        xycoords="axes fraction",
        textcoords="offset points",
        color=MUTED,
        fontsize=7,
    )


def _dot(
    panel: "Axes",
    part: Quantity,
    height: float,
    style: PlatformStyle,
    face: str,
    scale: Callable[[float], float],
) -> None:
    if part.interval is not None and part.interval.low > 0:
        panel.plot([scale(part.interval.low), scale(part.interval.high)], [height] * 2, color=style.colour, linewidth=1)
    panel.plot(
        scale(part.median),
        height,
        marker=style.marker,
        markersize=4.4,
        markeredgecolor=style.colour,
        markerfacecolor=face,
        markeredgewidth=1,
        linestyle="none",
        zorder=3,
    )


def _processor(panel: "Axes", analysis: Analysis, styles: dict[str, PlatformStyle]) -> None:
    heights = {row.platform: height for height, row in enumerate(analysis.guests)}
    shown = [use for use in analysis.host_cpu if use.ratio is not None and use.platform in heights]
    tasks, ends = list(dict.fromkeys(use.task for use in shown)), [1.0]
    for platform in dict.fromkeys(use.platform for use in shown):
        style, ratios, levels = styles[platform], list[float](), list[float]()
        x, y = list[float](), list[float]()
        for use in (one for one in shown if one.platform == platform):
            height = heights[platform] + (tasks.index(use.task) - (len(tasks) - 1) / 2) * (0.5 / max(len(tasks), 2))
            ratio = use.ratio or 1.0
            if use.interval is not None:
                low, high = max(use.interval.low, ratio / 3), min(use.interval.high, ratio * 3)
                x += [low, high, math.nan]
                y += [height, height, math.nan]
                ends += [low, high]
            ratios.append(ratio)
            levels.append(height)
        if x:
            panel.plot(x[:-1], y[:-1], color=style.colour, linewidth=1)
        panel.plot(ratios, levels, marker=style.marker, markersize=3.6, color=style.colour, linestyle="none", zorder=3)
        ends += ratios
    panel.axvline(1, color=INK, linewidth=0.8)
    _logarithmic(panel, min(ends), max(ends))
    panel.set_xlabel(f"host CPU per job, × {analysis.baseline or 'baseline'} (log)")


def _logarithmic(panel: "Axes", low: float, high: float) -> None:
    from matplotlib.ticker import NullLocator

    panel.set_xscale("log")
    low, high = low / 1.35, high * 1.35
    panel.set_xlim(low, high)
    ticks = nice_log_ticks(low, high)
    if len(ticks) > 5:
        ticks = ticks[:: (len(ticks) + 4) // 5]
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.xaxis.set_minor_locator(NullLocator())


def caption(analysis: Analysis) -> str:
    """What to see."""
    tasks = list(dict.fromkeys(use.task.short for use in analysis.host_cpu if use.ratio is not None))
    jobs = f" Within a row the jobs are, from above: {', '.join(tasks)}." if tasks else ""
    return (
        "Left: the way from the first process to the guest's answer, by the outside clock, medians; a hollow bar: its "
        "parts cannot be seen. Middle: PSS and page tables of the guest's processes on the host. Right: CPU time of "
        "those processes over a job, as a multiple of the baseline's in the same block. Intervals are of 95 %, cut at "
        f"a factor of three.{jobs} "
        f"{blocks_text(analysis)}."
    )


def why_not(analysis: Analysis) -> str | None:
    """A start or a reading of memory is needed."""
    return None if analysis.guests else "nothing of the guests themselves was read in this run"


GUESTS = OldFigureSpec("The guests themselves", caption, draw, why_not, section="guests")
