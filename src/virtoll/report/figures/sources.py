"""Maximum forwarded by number of sources, in Mbit/s, as grouped bars (Schlosser et al. 2011, Figure 4)."""

from typing import TYPE_CHECKING

from virtoll.report.figures import caveat_signs
from virtoll.report.figures.base import FigureSpec, panel_grid, t_interval_text
from virtoll.report.figures.style import INK, PlatformStyle, platform_styles
from virtoll.runfolder.frame_shape import field_words
from virtoll.stats.analysis import Analysis
from virtoll.stats.listed_rates import Accumulated

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GROUP_WIDTH = 0.8  # of the distance between two platforms


def draw(analysis: Analysis) -> "Figure":
    """One panel a set of frames, one group of bars a platform, one bar a number of sources."""
    accumulated = analysis.listed_rates.accumulated
    groups = list(dict.fromkeys(one.group for one in accumulated))
    figure, panels, columns = panel_grid(len(groups), (0.4, 2.5))
    platforms = [one for one in analysis.platforms if any(bar.platform == one for bar in accumulated)]
    styles = platform_styles(analysis.platforms)
    for panel, group in zip(panels, groups, strict=True):
        own = [one for one in accumulated if one.group == group]
        shape = own[0].shape.model_copy(update={"sources": 1})
        egress = f", {field_words('egress', shape.egress)}" if shape.egress == "each" else ""
        panel.set_title(f"{shape.description} frames{egress}")
        panel.set_xticks(
            range(len(platforms)),
            [caveat_signs.name(analysis, one) for one in platforms],
            rotation=30 if len(platforms) > 3 else 0,
            ha="right" if len(platforms) > 3 else "center",
        )
        panel.grid(visible=False, axis="x")
        _bars(panel, analysis, own, platforms, styles)
    for panel in panels[::columns]:
        panel.set_ylabel("forwarded at most, Mbit/s")
    caveat_signs.legend(figure, analysis, platforms)
    return figure


def _bars(
    panel: "Axes",
    analysis: Analysis,
    own: list[Accumulated],
    platforms: list[str],
    styles: dict[str, PlatformStyle],
) -> None:
    numbers = sorted({one.shape.sources for one in own})
    width = _GROUP_WIDTH / len(numbers)
    for one in own:
        place = platforms.index(one.platform) + (numbers.index(one.shape.sources) - (len(numbers) - 1) / 2) * width
        panel.bar(
            place,
            one.rate.value,
            width=width * 0.92,
            color=styles[one.platform].colour,
            linewidth=0,
            hatch=caveat_signs.hatch(analysis, one.platform),
            edgecolor="white",
            zorder=2,
        )
        top = one.rate.value
        if one.rate.interval is not None:
            low, top = max(one.rate.interval.low, 0.0), one.rate.interval.high
            for colour, line in (("white", 2.6), (INK, 1.1)):
                panel.plot([place, place], [low, top], color=colour, linewidth=line, zorder=3)
        panel.annotate(
            str(one.shape.sources),
            (place, top),
            (0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=7,
            zorder=5,
        )
    tops = [one.rate.value if one.rate.interval is None else one.rate.interval.high for one in own]
    panel.set_ylim(0, max(tops) * 1.15)  # room for the numbers


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


SOURCES = FigureSpec("Maximum by number of sources", caption, draw, why_not, section="listed rates")
