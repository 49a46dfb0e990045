"""Maximum forwarded by number of sources, in Mbit/s, as grouped bars (Schlosser et al. 2011, Figure 4)."""

from typing import TYPE_CHECKING

from virtoll.report.figures.base import t_interval_text
from virtoll.report.figures.old import caveat_signs
from virtoll.report.figures.old.base import OldFigureSpec, panel_grid
from virtoll.report.figures.old.grouped_bars import Bar, grouped_bars
from virtoll.report.figures.style import platform_styles
from virtoll.runfolder.frame_shape import field_words
from virtoll.stats.analysis import Analysis

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(analysis: Analysis) -> "Figure":
    """One panel a set of frames, one group of bars a platform, one bar a number of sources."""
    accumulated = analysis.listed_rates.accumulated
    groups = list(dict.fromkeys(one.group for one in accumulated))
    figure, panels, columns = panel_grid(len(groups), (0.4, 2.5))
    platforms = [one for one in analysis.platforms if any(bar.platform == one for bar in accumulated)]
    styles = platform_styles(analysis.platforms)
    for panel, group in zip(panels, groups, strict=True):
        own = sorted((one for one in accumulated if one.group == group), key=lambda one: one.shape.sources)
        shape = own[0].shape.model_copy(update={"sources": 1})
        egress = f", {field_words('egress', shape.egress)}" if shape.egress == "each" else ""
        panel.set_title(f"{shape.description} frames{egress}")
        bars = [Bar(one.platform, str(one.shape.sources), one.rate) for one in own]
        grouped_bars(panel, analysis, bars, platforms, styles)
    for panel in panels[::columns]:
        panel.set_ylabel("forwarded at most, Mbit/s")
    caveat_signs.legend(figure, analysis, platforms)
    return figure


def caption(analysis: Analysis) -> str:
    """What to see."""
    return (
        "The largest rate of each sweep, summed over its sources, in Mbit/s on the wire. The number above a bar is how "
        "many sources sent at once; bars that grow with it: one source was not enough to fill the platform. "
        "Sources that each have an egress link of their own are in another panel than those that share one. "
        f"Bars are {t_interval_text(analysis)}. "
        "Flat out counts too, so that a bar may be above the largest rate of the list. After Schlosser et al. 2011, "
        "Figure 4."
    )


def why_not(analysis: Analysis) -> str | None:
    """Sweeps over a list, from at least two numbers of sources, are needed."""
    if analysis.listed_rates.accumulated:
        return None
    return "no sweep over a list of rates was measured from two numbers of sources"


SOURCES = OldFigureSpec("Maximum by number of sources", caption, draw, why_not, section="listed rates")
