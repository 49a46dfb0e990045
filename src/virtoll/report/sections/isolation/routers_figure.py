"""Maximum beside a guest that forwards, relative to alone, as grouped bars (Schlosser et al. 2011, Figure 5)."""

from dataclasses import replace

from virtoll.report.figures.base import FigureSpec, blocks_count, frames_title, said_mean, t_interval_text
from virtoll.report.figures.grouped_bars import GroupedBar, grouped_bars
from virtoll.report.figures.style import Specification, Width
from virtoll.stats.analysis import Analysis
from virtoll.stats.intervals import Estimate
from virtoll.stats.routers_beside import RouterBeside


def _shown(analysis: Analysis) -> list[RouterBeside]:
    return [one for one in analysis.routers_beside if one.condition.load == "forward"]


def draw(analysis: Analysis, width: Width) -> Specification:
    """One panel a condition, one group of bars a platform, one bar a size of frames."""
    found: dict[str, list[GroupedBar]] = {}
    for one in _shown(analysis):
        found.setdefault(f"beside {one.condition.label}", []).append(_bar(one))
    return grouped_bars(analysis, found, width, upright="maximum, % of alone", reference=100)


def _bar(one: RouterBeside) -> GroupedBar:
    mean = _of_alone(one.change)
    said = f"{frames_title(one.task)}, beside {one.condition.label}: {said_mean(mean, '% of alone')}"
    said += f", {blocks_count(one.blocks)}" + ("" if one.caveat is None else f"; {one.caveat}")
    return GroupedBar(one.platform, one.task.workload, one.task.size.removesuffix(" B"), mean, said)


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


ROUTERS = FigureSpec("Maximum beside a guest that forwards", caption, draw, why_not)
