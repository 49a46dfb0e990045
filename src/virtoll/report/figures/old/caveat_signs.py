"""How a figure shows that a platform's numbers are no results: a sign at its name, hatched bars, crossed markers.

The legend says what the sign means. Which platforms these are: `Analysis.caveats`.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from virtoll.report.figures.old.base import legend_below
from virtoll.report.figures.old.style import INK
from virtoll.stats.analysis import Analysis

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

SIGN = "†"
HATCH = "/////"


def name(analysis: Analysis, platform: str) -> str:
    """A platform's name in a figure, with the sign where it is marked with a caveat."""
    return f"{platform} {SIGN}" if platform in analysis.caveats else platform


def hatch(analysis: Analysis, platform: str) -> str | None:
    """The hatching of a platform's bars; None: plain."""
    return HATCH if platform in analysis.caveats else None


def cross(panel: "Axes", analysis: Analysis, platform: str, x: float, y: float, size: float = 4.0) -> None:
    """A cross over the marker of a platform with a caveat, in data coordinates; `size` is the marker's in points."""
    if platform not in analysis.caveats:
        return
    panel.plot(x, y, marker="x", markersize=size, color=INK, markeredgewidth=0.7, linestyle="none", zorder=6)


def handles(analysis: Analysis, shown: Iterable[str]) -> "list[Patch]":
    """A legend's entry for each caveat among the platforms that a figure shows; none where there is none."""
    from matplotlib.patches import Patch

    caveats = dict.fromkeys(analysis.caveats[one] for one in shown if one in analysis.caveats)
    return [
        Patch(facecolor="white", edgecolor=INK, hatch=HATCH, linewidth=0.6, label=f"{SIGN} ×  {caveat}")
        for caveat in caveats
    ]


def legend_of_panels(figure: "Figure", analysis: Analysis, panels: "Iterable[Axes]", shown: Iterable[str]) -> None:
    """Each label of these panels once, and the caveats among the platforms that are shown."""
    found: dict[str, Artist] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    legend_below(figure, [*found.values(), *handles(analysis, shown)])


def legend(figure: "Figure", analysis: Analysis, shown: Iterable[str]) -> None:
    """A legend of the caveats alone, for a figure that has no other."""
    found = handles(analysis, shown)
    if found:
        legend_below(figure, found, most=2)
