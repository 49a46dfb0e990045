"""Dots on a logarithmic axis of shares: what the figures of cost and of isolation have in common."""

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from virtoll.report import words
from virtoll.report.figures import caveat_signs
from virtoll.report.figures.base import legend_below, narrow
from virtoll.report.figures.style import BAND, INK, PlatformStyle, nice_log_ticks, platform_styles
from virtoll.report.figures.verdict_markers import plot_verdict, verdict_handles
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_LETTERS_IN_A_COLUMN = 22  # of a row's name, which takes what is left of the axis
_TICKS_IN_A_COLUMN = 5


def share_limits(analysis: Analysis, shown: Sequence[Comparison]) -> tuple[float, float]:
    """In percent: all dots, intervals within a factor of three of their dot, and the margin's band."""
    values = [100.0, 100 / (1 + analysis.margin), 100 * (1 + analysis.margin)]
    for one in shown:
        if one.share is not None:
            values.append(one.share * 100)
            if one.interval is not None:
                values += [max(one.interval.low, one.share / 3) * 100, min(one.interval.high, one.share * 3) * 100]
    low, high = min(values), max(values)
    margin = (high / low) ** 0.04
    return low / margin, high * margin


def _platform(
    panel: "Axes",
    own: Sequence[tuple[Comparison, float]],
    style: PlatformStyle,
    limits: tuple[float, float],
) -> None:
    """One platform's comparisons at their heights: what looks alike is drawn at once, as there may be a thousand.

    A filled marker: slower or faster; a half one: alike; an open one: not known. An arrow: its interval goes on.
    """
    places: list[float] = []
    levels: list[float] = []
    beyond: dict[str, list[float]] = {"<": [], ">": []}
    for one, height in own:
        if one.interval is not None:
            low, high = one.interval.low * 100, one.interval.high * 100
            places += [max(low, limits[0]), min(high, limits[1]), math.nan]
            levels += [height, height, math.nan]
            beyond["<"] += [height] if low < limits[0] else []
            beyond[">"] += [height] if high > limits[1] else []
    if places:
        panel.plot(places[:-1], levels[:-1], color=style.colour, linewidth=1.2, zorder=2)
    for limit, (arrow, heights) in zip(limits, beyond.items(), strict=True):
        if heights:
            edge = [limit] * len(heights)
            panel.plot(edge, heights, marker=arrow, color=style.colour, markersize=3.5, linestyle="none", clip_on=False)
    for verdict in dict.fromkeys(one.verdict for one, _ in own):
        told = [((one.share or 0.0) * 100, height) for one, height in own if one.verdict is verdict]
        plot_verdict(panel, [share for share, _ in told], [height for _, height in told], style, verdict)


def share_lines(
    panel: "Axes",
    analysis: Analysis,
    rows: Sequence[Mapping[str, Comparison]],
    platforms: Sequence[str],
    limits: tuple[float, float],
) -> list[tuple[Comparison, float]]:
    """A line for each row's platforms, one below the other, and the margin's band; each comparison and its height.

    `rows`: comparisons by platform, from the top.
    """
    step = 1.0 / (len(platforms) + 1.2)
    styles = platform_styles(analysis.platforms)
    panel.axvspan(100 / (1 + analysis.margin), 100 * (1 + analysis.margin), color=BAND, linewidth=0, zorder=0.5)
    drawn = []
    for number, row in enumerate(rows):
        if number:
            panel.axhline(number - 0.5, color="#d4d4d4", linewidth=0.6)
        for place, platform in enumerate(platforms):
            if platform in row:
                drawn.append((row[platform], number + (place - (len(platforms) - 1) / 2) * step))
    for platform in platforms:
        _platform(panel, [one for one in drawn if one[0].platform == platform], styles[platform], limits)
    panel.axvline(100, color=INK, linewidth=0.8)
    return drawn


def share_axes(panel: "Axes", rows: Sequence[str], limits: tuple[float, float], xlabel: str) -> None:
    """A logarithmic axis of shares in percent, and a line for each row, the first on top."""
    from matplotlib.ticker import NullLocator

    panel.set_xscale("log")
    panel.set_xlim(*limits)
    in_a_column = narrow(panel.figure.figure)
    ticks = _ticks(*limits)
    ticks = ticks[:: -(-len(ticks) // _TICKS_IN_A_COLUMN)] if in_a_column else ticks
    panel.set_xticks(ticks, [f"{tick:g} %" for tick in ticks])
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_ylim(len(rows) - 0.5, -0.5)
    names = [_in_lines(row) for row in rows] if in_a_column else list(rows)
    panel.set_yticks(range(len(rows)), names)
    panel.tick_params(axis="y", length=0)
    panel.grid(visible=False, axis="y")
    panel.set_xlabel(textwrap.fill(xlabel, 2 * _LETTERS_IN_A_COLUMN) if in_a_column else xlabel)


def _in_lines(name: str) -> str:
    """A row's name in short lines; a number keeps its unit beside it."""
    return textwrap.fill(re.sub(r"(?<=\d) (?=\S+$)", "\u00a0", name), _LETTERS_IN_A_COLUMN)


def _ticks(low: float, high: float) -> list[float]:
    """1-2-5 ticks, or every 5 or 10 % where the axis is too short for them."""
    if high / low > 4:
        return nice_log_ticks(low, high)
    step = next(step for step in (1, 2, 5, 10, 20, 50) if (high - low) / step <= 9)
    return [float(tick) for tick in range(0, int(high) + 1, step) if low <= tick]


def share_legend(
    figure: "Figure",
    analysis: Analysis,
    platforms: Sequence[str],
    reference: str,
) -> None:
    """Platforms, verdicts, and the margin around what the shares are of."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    styles = platform_styles(analysis.platforms)
    handles: list[Line2D | Patch] = [
        Line2D(
            [],
            [],
            color=styles[one].colour,
            marker=styles[one].marker,
            linestyle="-",
            markersize=4.5,
            label=caveat_signs.name(analysis, one),
        )
        for one in platforms
    ]
    margin = words.amount(analysis.margin)
    handles += verdict_handles(analysis)
    handles.append(Patch(facecolor=BAND, label=f"within {margin} of {reference}"))
    handles += caveat_signs.handles(analysis, platforms)
    legend_below(figure, handles)
