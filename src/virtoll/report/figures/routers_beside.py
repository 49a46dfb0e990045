"""Maximum beside a guest that forwards, relative to alone, as grouped bars (Schlosser et al. 2011, Figure 5)."""

from dataclasses import replace
from typing import TYPE_CHECKING

from virtoll.report.figures.base import t_interval_text
from virtoll.report.figures.old import caveat_signs
from virtoll.report.figures.old.base import OldFigureSpec, panel_grid
from virtoll.report.figures.old.grouped_bars import Bar, grouped_bars
from virtoll.report.figures.old.style import MUTED
from virtoll.report.figures.style import platform_styles
from virtoll.stats.analysis import Analysis
from virtoll.stats.intervals import Estimate
from virtoll.stats.routers_beside import RouterBeside

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _shown(analysis: Analysis) -> list[RouterBeside]:
    return [one for one in analysis.routers_beside if one.condition.load == "forward"]


def draw(analysis: Analysis) -> "Figure":
    """One panel a condition, one group of bars a platform, one bar a size of frames."""
    shown = _shown(analysis)
    conditions = list(dict.fromkeys(one.condition.label for one in shown))
    platforms = [label for label in analysis.platforms if any(one.platform == label for one in shown)]
    styles = platform_styles(analysis.platforms)
    figure, panels, columns = panel_grid(len(conditions), (0.4, 2.5))
    for panel, condition in zip(panels, conditions, strict=True):
        own = [one for one in shown if one.condition.label == condition]
        bars = [Bar(one.platform, one.task.size.removesuffix(" B"), _of_alone(one.change)) for one in own]
        grouped_bars(panel, analysis, bars, platforms, styles)
        panel.axhline(100, color=MUTED, linewidth=0.8, zorder=1)
        panel.set_title(f"beside {condition}")
    for panel in panels[::columns]:
        panel.set_ylabel("maximum, % of alone")
    caveat_signs.legend(figure, analysis, platforms)
    return figure


def _of_alone(change: Estimate) -> Estimate:
    """In percent of alone."""
    interval = change.interval
    if interval is not None:
        interval = replace(interval, low=(1 + interval.low) * 100, high=(1 + interval.high) * 100)
    return replace(change, value=(1 + change.value) * 100, interval=interval)


def caption(analysis: Analysis) -> str:
    """What to see."""
    return (
        "The most that a router forwards beside a guest that forwards small frames, by what it forwards alone. The "
        "number above a bar is the size of the router's own frames in bytes; below 100 % the other takes from it. "
        f"Bars are {t_interval_text(analysis)}. After Schlosser et al. 2011, Figure 5."
    )


def why_not(analysis: Analysis) -> str | None:
    """A router beside a guest that forwards is needed."""
    return None if _shown(analysis) else "no router was measured beside a guest that forwards"


ROUTERS_BESIDE = OldFigureSpec("Maximum beside a guest that forwards", caption, draw, why_not, section="isolation")
