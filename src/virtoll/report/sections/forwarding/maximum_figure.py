"""Maximum forwarding rate (RFC 2285, 3.6.3) by platform and frame size (Schlosser et al. 2011, Figure 4)."""

from collections.abc import Sequence

from virtoll import units
from virtoll.report import words
from virtoll.report.figures import caveats, legends
from virtoll.report.figures.bars import Bar, BarPanel, bar_panel, names_width
from virtoll.report.figures.base import FigureSpec, blocks_text, interval_text, said_estimate
from virtoll.report.figures.choice import chosen_panels, panels_left_out
from virtoll.report.figures.marks import figure, panel_width, panels, text_width
from virtoll.report.figures.style import COUNTS, SIZES, Specification, Width, pixels
from virtoll.stats.analysis import Analysis
from virtoll.stats.intervals import ends
from virtoll.stats.values import Task

_BAR_POINTS = 19.0
_ROOM, _ROOM_AT_MOST = 1.42, 3.0  # for a value beside the longest bar, of whose length this is a multiple
_APART = 12.0
_BEYOND = 1.5  # times the longest bar: an interval that goes further is cut there
_AXIS = "maximum forwarding rate (RFC 2285), frames/s"


def _tasks(analysis: Analysis) -> list[Task]:
    measured = {task for _, task in analysis.cells}
    return [task for task in analysis.tasks if task.metric.source == "points" and task in measured]


def draw(analysis: Analysis, width: Width) -> Specification:
    """Horizontal bars from zero, one panel a frame size; the baseline's median runs through as a line."""
    tasks = chosen_panels(_tasks(analysis))
    bars = {task: _bars(analysis, task) for task in tasks}
    every = [bar for of_task in bars.values() for bar in of_task.values()]
    platforms = [platform for platform in analysis.platforms if any(platform in bars[task] for task in tasks)]
    names = {platform: [caveats.name(analysis, platform)] for platform in platforms}
    columns = min(len(tasks), 1 if width is Width.COLUMN else 2)
    left = names_width(names, SIZES[width].text)
    size = (panel_width(width, columns, left, each=6), pixels(_BAR_POINTS))
    limit = _BEYOND * max(bar.value for bar in every)
    reach = _reach(every, limit, size[0], width)
    drawn = []
    for place, task in enumerate(tasks):
        base = bars[task].get(analysis.baseline or "")
        panel = BarPanel(
            title=task.label,
            axis=_AXIS if place >= len(tasks) - columns else None,
            bars=bars[task],
            missing={platform: "not measured" for platform in platforms if platform not in bars[task]},
            names=names,
            reach=reach,
            limit=limit,
            size=size,
            reference=base.value if base else None,
            labelled=place % columns == 0,
            axis_extra=COUNTS,
        )
        drawn.append(bar_panel(analysis, panel))
    return figure(
        [panels(drawn, columns), *legends.legend(width, legends.of_caveats(analysis, platforms), left, most=2)]
    )


def _reach(bars: Sequence[Bar], limit: float, across: float, width: Width) -> float:
    """Where the axis ends, so that there is room for the values beside the bars and their intervals.

    `limit`: where these are cut. `across`: pixels of a panel.
    """
    beside = max(text_width(bar.beside, SIZES[width].small) for bar in bars)
    room = max(_ROOM, across / max(across - beside - pixels(_APART), across / _ROOM_AT_MOST))
    return room * max(bar.value if bar.high is None else min(bar.high, limit) for bar in bars)


def _bars(analysis: Analysis, task: Task) -> dict[str, Bar]:
    there = (platform for platform in analysis.platforms if (platform, task) in analysis.cells)
    return {platform: _bar(analysis, platform, task) for platform in there}


def _bar(analysis: Analysis, platform: str, task: Task) -> Bar:
    estimate = analysis.estimates[platform, task]
    low, high = ends(estimate.interval)
    sentence = f"{platform}, {task.label}: {said_estimate(estimate, estimate.blocks, task.metric.unit)}"
    if _at_least(analysis, platform, task):
        sentence += "; at least: the platform's own maximum may be higher"
    return Bar(estimate.value, low, high, _text(analysis, platform, task), sentence, task.workload)


def _text(analysis: Analysis, platform: str, task: Task) -> str:
    """'412 k (86 %)'; '≥' in front where the generator, not the platform, set the limit."""
    estimate = analysis.estimates[platform, task]
    bound = "≥ " if _at_least(analysis, platform, task) else ""
    comparison = analysis.comparison(platform, task)
    share = ""
    if comparison and comparison.share is not None:
        share = f" ({words.share(comparison.share, comparison.interval)})"
    digits = 3
    if estimate.interval is not None and platform != analysis.baseline:
        digits = units.digits_within(estimate.value, estimate.interval.low, estimate.interval.high)
    marked = ", generator-bound" if analysis.generator_bound(platform, task) else ""
    return f"{bound}{units.count(estimate.value, digits)}{share}{marked}"


def _at_least(analysis: Analysis, platform: str, task: Task) -> bool:
    """Whether the platform's own maximum may be higher than the rate that was seen."""
    curve = analysis.curve(platform, task)
    return analysis.generator_bound(platform, task) or (curve is not None and curve.lossless)


def caption(analysis: Analysis) -> str:
    """What to see."""
    share = line = bound = ""
    bars = f"Bars are medians over {blocks_text(analysis)} with {interval_text(analysis)}."
    if analysis.baseline:
        bars = (
            f"The bar of {analysis.baseline} is its median over {blocks_text(analysis)} with its order-statistic "
            "interval. The others are that times their ratio, with the ratio's 95 % interval; without one that counts, "
            "their own medians."
        )
        share = f", in brackets in % of {analysis.baseline} (pairs of the same round)"
        line = f" The dashed line is {analysis.baseline}."
    if any(curve.lossless for curve in analysis.curves):
        bound = (
            " ≥: almost no frames were lost at full load, so generator and path together set the limit; the "
            "platform's own may be higher."
        )
    if any(headroom.generator_bound for headroom in analysis.headrooms.values()):
        bound += " Generator-bound: within 10 % of what generator and sink reach with nothing between."
    tasks = _tasks(analysis)
    left_out = panels_left_out(len(chosen_panels(tasks)), len(tasks), "tables/cells.csv")
    return (
        f"{bars} Next to each bar is its value{share}.{line}{bound} The maximum need not be at the largest offered "
        "rate (there it is FRMOL, the rate flat out), and frames may be lost at it: it is not a no-drop rate."
        f"{left_out} After Schlosser et al. 2011, Figure 4."
    )


def why_not(analysis: Analysis) -> str | None:
    """A cell with a maximum is needed."""
    return None if _tasks(analysis) else "no forwarding trial has a value"


MAXIMUM = FigureSpec("Maximum forwarding rate", caption, draw, why_not, stacks=True)
