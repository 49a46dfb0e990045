"""Horizontal bars, a platform each: the bar, its whisker, what stands beside it, and a word where there is no value."""

from typing import TYPE_CHECKING

from virtoll.report.figures import caveat_signs
from virtoll.report.figures.style import INK, MUTED, platform_styles
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
    begin, reach = max(low, 0.0), min(high, limit)
    ends = [end for end in (low, high) if 0 <= end <= limit]
    for colour, width in (("white", 2.6), (INK, 1.1)):
        panel.plot([begin, reach], [place, place], color=colour, linewidth=width, zorder=3, solid_capstyle="butt")
        for end in ends:
            panel.plot([end, end], [place - 0.14, place + 0.14], color=colour, linewidth=width, zorder=3)
    if high > limit:
        panel.plot(limit, place, marker=">", color=INK, markersize=3, zorder=4)


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
