"""The legend of figures that draw forwarded against offered rates: platforms, the point flat out, the diagonal."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from virtoll.report.figures.old import caveat_signs
from virtoll.report.figures.old.base import legend_below
from virtoll.report.figures.old.style import MUTED
from virtoll.report.figures.style import PlatformStyle
from virtoll.stats.analysis import Analysis

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def legend(figure: "Figure", analysis: Analysis, styles: Mapping[str, PlatformStyle], drawn: Collection[str]) -> None:
    """Below the panels, for the platforms that are drawn."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=style.colour,
            marker=style.marker,
            linestyle=style.line,
            markersize=4.5,
            label=caveat_signs.name(analysis, platform),
        )
        for platform, style in styles.items()
        if platform in drawn
    ]
    handles.append(
        Line2D(
            [],
            [],
            color=MUTED,
            marker="o",
            markerfacecolor="white",
            linestyle="none",
            markersize=6.5,
            label="flat out (FRMOL)",
        )
    )
    handles.append(Line2D([], [], color=MUTED, linestyle=(0, (1, 2)), label="all forwarded"))
    legend_below(figure, [*handles, *caveat_signs.handles(analysis, drawn)])
