"""Horizontal bars, a platform each: the bar, its whisker, what stands beside it, and a word where there is no value."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from virtoll.report.figures.old import caveat_signs
from virtoll.report.figures.old.style import INK, MUTED
from virtoll.report.figures.style import platform_styles
from virtoll.stats.analysis import Analysis

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bar(panel: "Axes", analysis: Analysis, platform: str, value: float, place: int) -> None:
    """A platform's bar from zero."""
    panel.barh(
        place,
        value,
        height=0.62,
        color=platform_styles(analysis.platforms)[platform].colour,
        zorder=2,
        linewidth=0,
        hatch=caveat_signs.hatch(analysis, platform),
        edgecolor="white",
    )


def whisker(panel: "Axes", place: int, low: float, high: float, limit: float = float("inf")) -> None:
    """An interval that can be seen on a bar of any colour: a dark line on a white one.

    It has no end where it goes beyond the limit, which an arrow shows, or below zero.
    """
    whiskers(panel, [(place, low, high)], limit)


def whiskers(panel: "Axes", own: Sequence[tuple[int, float, float]], limit: float = float("inf")) -> None:
    """Those of bars at several places, each with its low and high end: what looks alike is drawn at once."""
    spans, levels = list[float](), list[float]()
    ends, marks = list[float](), list[float]()
    for place, low, high in own:
        spans += [max(low, 0.0), min(high, limit), math.nan]
        levels += [place, place, math.nan]
        for end in (one for one in (low, high) if 0 <= one <= limit):
            ends += [end, end, math.nan]
            marks += [place - 0.14, place + 0.14, math.nan]
    for colour, width in (("white", 2.6), (INK, 1.1)):
        panel.plot(spans[:-1], levels[:-1], color=colour, linewidth=width, zorder=3, solid_capstyle="butt")
        if ends:
            panel.plot(ends[:-1], marks[:-1], color=colour, linewidth=width, zorder=3)
    beyond = [place for place, _, high in own if high > limit]
    if beyond:
        panel.plot([limit] * len(beyond), beyond, marker=">", color=INK, markersize=3, linestyle="none", zorder=4)


def beside(panel: "Axes", text: str, reach: float, place: int, size: float = 7) -> None:
    """A bar's value in words, right of its end."""
    panel.annotate(
        text,
        (reach, place),
        (4, 0),
        textcoords="offset points",
        va="center",
        fontsize=size,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
        zorder=5,
    )


def in_place_of_a_bar(panel: "Axes", word: str, place: int, size: float = 7) -> None:
    """Why a platform has no bar: no value is not a value of zero."""
    panel.text(0, place, f" {word}", va="center", fontsize=size, color=MUTED, style="italic")
