"""Maximum beside a guest that forwards, relative to alone, as grouped bars (Schlosser et al. 2011, Figure 5)."""

from dataclasses import replace

from virtoll.report import words
from virtoll.report.figures.base import FigureSpec, frames_title, said_mean, t_interval_text
from virtoll.report.figures.grouped_bars import GroupedBar, grouped_bars
from virtoll.report.figures.style import Specification, Width
from virtoll.report.rows import grouped
from virtoll.stats.analysis import Analysis
from virtoll.stats.intervals import Estimate
from virtoll.stats.neighbour_routers import NeighbourRouter


def _shown(analysis: Analysis) -> list[NeighbourRouter]:
    return [router for router in analysis.neighbour_routers if router.condition.load == "forward"]


def draw(analysis: Analysis, width: Width) -> Specification:
    """One panel a condition, one group of bars a platform, one bar a size of frames."""
    by_condition = grouped(_shown(analysis), lambda router: f"beside {router.condition.label}")
    bars = {title: list(map(_bar, routers)) for title, routers in by_condition.items()}
    return grouped_bars(analysis, bars, width, upright="maximum, % of alone", reference=100)


def _bar(router: NeighbourRouter) -> GroupedBar:
    mean = _of_alone(router.change)
    sentence = f"{frames_title(router.task)}, beside {router.condition.label}: {said_mean(mean, '% of alone')}"
    sentence += f", {words.counted(router.blocks, 'block')}" + ("" if router.caveat is None else f"; {router.caveat}")
    return GroupedBar(router.platform, router.task.workload, router.task.size.removesuffix(" B"), mean, sentence)


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
