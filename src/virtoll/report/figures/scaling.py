"""Rates over the size of what is asked: routes in the table, routers or transmitting guests (Mattos et al. 2012, V)."""

import statistics
from typing import TYPE_CHECKING

from virtoll.report.figures.base import blocks_text
from virtoll.report.figures.old import caveat_signs
from virtoll.report.figures.old.base import OldFigureSpec, new_figure
from virtoll.report.figures.old.style import plot
from virtoll.report.figures.style import nice_log_ticks, platform_styles, whole
from virtoll.stats.analysis import Analysis
from virtoll.stats.scaling import FACTORS, Scaling

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_WIDE = 5.0
"""From this largest rate by the smallest on an axis is logarithmic; a narrower one has no marks on it."""


def draw(analysis: Analysis) -> "Figure":
    """A row for each factor, and what else was asked: frames/s of all guests together, and by the smallest size."""
    asked = dict.fromkeys((one.factor, one.others) for one in analysis.scalings)
    drawn = [(factor, others) for name in FACTORS for factor, others in asked if factor == name]
    figure = new_figure(0.7 + 2.4 * len(drawn))
    panels = figure.subplots(len(drawn), 2, squeeze=False)
    for (rates, shares), (factor, others) in zip(panels, drawn, strict=True):
        own = [one for one in analysis.scalings if (one.factor, one.others) == (factor, others)]
        rates.set_title(own[0].words, loc="left")
        _panel(rates, analysis, own, share=False)
        _panel(shares, analysis, own, share=True)
        rates.set_ylabel("frames/s, all together")
        shares.set_ylabel("of the smallest size")
        for panel in (rates, shares):
            panel.set_xlabel(FACTORS[factor])
    shown = [one.platform for one in analysis.scalings]
    caveat_signs.legend_of_panels(figure, analysis, panels[:, 0], shown)
    return figure


def _panel(panel: "Axes", analysis: Analysis, rows: list[Scaling], *, share: bool) -> None:
    """Medians as markers, the range over blocks as a bar."""
    styles = platform_styles(analysis.platforms)
    sizes = sorted({step.size for row in rows for step in row.steps})
    routes = rows[0].factor == "routes"
    if routes:
        panel.set_xscale("symlog", linthresh=1)
        panel.xaxis.set_major_formatter(lambda value, _: whole(value))
    panel.set_xticks(sizes)
    panel.minorticks_off()
    for row in rows:
        style = styles[row.platform]
        known = [(step.size, sorted(step.ratios if share else step.rates)) for step in row.steps]
        values = [(size, own) for size, own in known if own]
        if not values:
            continue
        places = [size for size, _ in values]
        middles = [statistics.median(own) for _, own in values]
        label = caveat_signs.name(analysis, row.platform)
        plot(panel, style, places, middles, label=label, width=1.1)
        panel.vlines(
            places, [own[0] for _, own in values], [own[-1] for _, own in values], color=style.colour, linewidth=0.9
        )
    shown = [rate for row in rows for step in row.steps for rate in step.rates]
    if share:
        largest = max((ratio for row in rows for step in row.steps for ratio in step.ratios), default=1.0)
        panel.set_ylim(0, 1.1 * largest)
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    elif max(shown) < _WIDE * min(shown):
        panel.set_ylim(0, 1.1 * max(shown))
        panel.yaxis.set_major_formatter(lambda value, _: whole(value))
    else:
        panel.set_yscale("log")
        panel.set_ylim(min(shown) / 1.2, max(shown) * 1.2)
        panel.set_yticks(nice_log_ticks(min(shown) / 1.2, max(shown) * 1.2))
        panel.yaxis.set_major_formatter(lambda value, _: whole(value))
        panel.yaxis.set_minor_formatter("")


def caption(analysis: Analysis) -> str:
    """What to see."""
    return (
        "Left: the largest rate of each trial, summed over all guests that work side by side (logarithmic where they "
        "are far apart). Right: the same as a share of the smallest size in the same block. A level line on the right: "
        "the size costs nothing. "
        f"Markers are medians over {blocks_text(analysis)}, bars reach from the smallest to the largest."
    )


def why_not(analysis: Analysis) -> str | None:
    """A factor with at least two sizes is needed."""
    if analysis.scalings:
        return None
    return "no routing table, virtual routers or transmitters were measured at two sizes in this run"


SCALING = OldFigureSpec("Routing tables, and guests side by side", caption, draw, why_not, section="scaling")
