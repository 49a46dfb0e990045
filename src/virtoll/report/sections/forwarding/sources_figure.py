"""Maximum forwarded by number of sources, in Mbit/s, as grouped bars (Schlosser et al. 2011, Figure 4)."""

from virtoll.report.figures.base import FigureSpec, blocks_count, said_mean, t_interval_text
from virtoll.report.figures.grouped_bars import GroupedBar, grouped_bars
from virtoll.report.figures.style import Specification, Width
from virtoll.runfolder.frame_shape import field_words
from virtoll.stats.analysis import Analysis
from virtoll.stats.listed_rates import Accumulated


def draw(analysis: Analysis, width: Width) -> Specification:
    """One panel a set of frames, one group of bars a platform, one bar a number of sources."""
    found: dict[str, list[GroupedBar]] = {}
    for group in dict.fromkeys(one.group for one in analysis.listed_rates.accumulated):
        own = [one for one in analysis.listed_rates.accumulated if one.group == group]
        frames = _frames(own[0])
        found[frames] = [_bar(one, frames) for one in sorted(own, key=lambda one: one.shape.sources)]
    return grouped_bars(analysis, found, width, upright="forwarded at most, Mbit/s")


def _frames(one: Accumulated) -> str:
    """What the bars of a panel have in common."""
    shape = one.shape.model_copy(update={"sources": 1})
    egress = f", {field_words('egress', shape.egress)}" if shape.egress == "each" else ""
    return f"{shape.description} frames{egress}"


def _bar(one: Accumulated, frames: str) -> GroupedBar:
    sources = one.shape.sources
    many = "1 source" if sources == 1 else f"{sources} sources at once"
    said = f"{frames}, {many}: {said_mean(one.rate, 'Mbit/s')}, {blocks_count(one.blocks)}"
    return GroupedBar(one.platform, one.task.workload, str(sources), one.rate, said)


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


BY_SOURCES = FigureSpec("Maximum by number of sources", caption, draw, why_not)
