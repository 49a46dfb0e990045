"""How a marker shows a verdict: filled, it is a difference; half filled, alike; open, not known."""

from typing import TYPE_CHECKING, Any

from virtoll.report import words
from virtoll.report.figures.style import INK, PlatformStyle
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import DIFFERENT, Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from numpy.typing import ArrayLike


def verdict_filling(verdict: Verdict, colour: str) -> dict[str, Any]:
    """The keywords of a plot's marker."""
    if verdict is Verdict.ALIKE:
        return {"fillstyle": "left", "markerfacecolor": colour, "markerfacecoloralt": "white"}
    return {"markerfacecolor": colour if verdict in DIFFERENT else "white"}


def plot_verdict(
    panel: "Axes", share: "ArrayLike", height: "ArrayLike", style: PlatformStyle, verdict: Verdict
) -> None:
    """A platform's marker at its share of the baseline, or as many at theirs, filled as the verdict on it says."""
    panel.plot(
        share,
        height,
        marker=style.marker,
        markersize=4.6,
        markeredgecolor=style.colour,
        markeredgewidth=1.1,
        **verdict_filling(verdict, style.colour),
        linestyle="none",
        zorder=3,
    )


def verdict_handles(analysis: Analysis) -> "list[Line2D]":
    """The three for a legend."""
    from matplotlib.lines import Line2D

    meanings = {
        Verdict.SLOWER: "slower or faster",
        Verdict.ALIKE: f"alike within {words.amount(analysis.margin)}",
        Verdict.UNKNOWN: "not known",
    }
    return [
        Line2D(
            [],
            [],
            color=INK,
            marker="o",
            linestyle="none",
            markersize=5,
            markeredgewidth=1.1,
            **verdict_filling(verdict, INK),
            label=meaning,
        )
        for verdict, meaning in meanings.items()
    ]
