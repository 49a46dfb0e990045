"""Maximum forwarded by number of sources, in Mbit/s, as grouped bars (Schlosser et al. 2011, Figure 4)."""

from virtoll.report import words
from virtoll.report.figures.base import FigureSpec, said_mean, t_interval_text
from virtoll.report.figures.grouped_bars import GroupedBar, grouped_bars
from virtoll.report.figures.style import Specification, Width
from virtoll.runfolder.frame_shape import field_words
from virtoll.stats.analysis import Analysis
from virtoll.stats.listed_rates import Accumulated


def draw(analysis: Analysis, width: Width) -> Specification:
    """One panel a set of frames, one group of bars a platform, one bar a number of sources."""
    bars: dict[str, list[GroupedBar]] = {}
    for group in dict.fromkeys(rate.group for rate in analysis.listed_rates.accumulated):
        rates = [rate for rate in analysis.listed_rates.accumulated if rate.group == group]
        frames = _frames(rates[0])
        bars[frames] = [_bar(rate, frames) for rate in sorted(rates, key=lambda rate: rate.shape.sources)]
    return grouped_bars(analysis, bars, width, upright="forwarded at most, Mbit/s")


def _frames(accumulated: Accumulated) -> str:
    """What the bars of a panel have in common."""
    shape = accumulated.shape.model_copy(update={"sources": 1})
    egress = f", {field_words('egress', shape.egress)}" if shape.egress == "each" else ""
    return f"{shape.description} frames{egress}"


def _bar(accumulated: Accumulated, frames: str) -> GroupedBar:
    sources = accumulated.shape.sources
    many = "1 source" if sources == 1 else f"{sources} sources at once"
    blocks = words.counted(accumulated.blocks, "block")
    sentence = f"{frames}, {many}: {said_mean(accumulated.rate, 'Mbit/s')}, {blocks}"
    return GroupedBar(accumulated.platform, accumulated.task.workload, str(sources), accumulated.rate, sentence)


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
