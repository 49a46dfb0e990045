"""What each platform costs: its performance as a share of the baseline's, for every workload."""

from typing import TYPE_CHECKING

from virtoll.report import words
from virtoll.report.figures import caveat_signs
from virtoll.report.figures.base import FigureSpec, new_figure
from virtoll.report.figures.style import BAND, INK, MUTED, PlatformStyle, nice_log_ticks, platform_styles
from virtoll.report.figures.verdict_markers import plot_verdict, verdict_handles
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import Comparison
from virtoll.stats.values import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# With more platforms colours come again, and each line gets its platform's name at the right edge.
_DISTINGUISHABLE = 8
# With more workloads than this the lines move together, so that two of them can still be seen at once.
_ROOMY = 20


def _shown(analysis: Analysis) -> list[Comparison]:
    return [one for one in (*analysis.control, *analysis.comparisons) if one.share is not None]


def draw(analysis: Analysis) -> "Figure":
    """Dots on a logarithmic axis, one row a workload and within it one line a platform."""
    shown = _shown(analysis)
    tasks = [task for task in analysis.tasks if any(one.task == task for one in shown)]
    platforms = [label for label in analysis.platforms if any(one.platform == label for one in shown)]
    step = 1.0 / (len(platforms) + 1.2)
    line = 0.125 if len(tasks) <= _ROOMY else 0.075
    figure = new_figure(1.1 + len(tasks) * (0.12 + line * len(platforms)))
    panel = figure.subplots()
    limits = _limits(analysis, shown)
    styles = platform_styles(analysis.platforms)
    panel.axvspan(100 / (1 + analysis.margin), 100 * (1 + analysis.margin), color=BAND, linewidth=0, zorder=0.5)
    for row, task in enumerate(tasks):
        if row:
            panel.axhline(row - 0.5, color="#d4d4d4", linewidth=0.6)
        for place, platform in enumerate(platforms):
            comparison = analysis.comparison(platform, task)
            if comparison is not None and comparison.share is not None:
                height = row + (place - (len(platforms) - 1) / 2) * step
                _dot(panel, comparison, height, styles[platform], limits)
                caveat_signs.cross(panel, analysis, platform, comparison.share * 100, height)
                if len(platforms) > _DISTINGUISHABLE or platform in analysis.caveats:
                    panel.annotate(
                        caveat_signs.name(analysis, platform),
                        (1.0, height),
                        (3, 0),
                        va="center",
                        xycoords=("axes fraction", "data"),
                        textcoords="offset points",
                        fontsize=5.5,
                        color=MUTED,
                    )
                if any(analysis.generator_bound(one, task) for one in (platform, analysis.baseline or "")):
                    panel.annotate(
                        "generator-bound",
                        (comparison.share * 100, height),
                        (0, 3.5),
                        ha="center",
                        textcoords="offset points",
                        fontsize=5.5,
                        color=MUTED,
                    )
    panel.axvline(100, color=INK, linewidth=0.8)
    _axes(panel, analysis, tasks, limits)
    _legend(figure, analysis, platforms, styles)
    return figure


def _limits(analysis: Analysis, shown: list[Comparison]) -> tuple[float, float]:
    """In percent: all dots, intervals within a factor of three of their dot, and the margin's band."""
    values = [100.0, 100 / (1 + analysis.margin), 100 * (1 + analysis.margin)]
    for one in shown:
        if one.share is not None:
            values.append(one.share * 100)
            if one.interval is not None:
                values += [max(one.interval.low, one.share / 3) * 100, min(one.interval.high, one.share * 3) * 100]
    low, high = min(values), max(values)
    margin = (high / low) ** 0.04
    return low / margin, high * margin


def _dot(
    panel: "Axes", comparison: Comparison, height: float, style: PlatformStyle, limits: tuple[float, float]
) -> None:
    """A filled marker: slower or faster; a half one: alike; an open one: not known. An arrow: its interval goes on."""
    share = (comparison.share or 0.0) * 100
    if comparison.interval is not None:
        low, high = comparison.interval.low * 100, comparison.interval.high * 100
        panel.plot(
            [max(low, limits[0]), min(high, limits[1])], [height, height], color=style.colour, linewidth=1.2, zorder=2
        )
        for beyond, place, arrow in ((low < limits[0], limits[0], "<"), (high > limits[1], limits[1], ">")):
            if beyond:
                panel.plot(place, height, marker=arrow, color=style.colour, markersize=3.5, clip_on=False)
    plot_verdict(panel, share, height, style, comparison.verdict)


def _axes(panel: "Axes", analysis: Analysis, tasks: list[Task], limits: tuple[float, float]) -> None:
    from matplotlib.ticker import NullLocator

    panel.set_xscale("log")
    panel.set_xlim(*limits)
    ticks = _ticks(*limits)
    panel.set_xticks(ticks, [f"{tick:g} %" for tick in ticks])
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_ylim(len(tasks) - 0.5, -0.5)
    panel.set_yticks(range(len(tasks)), [task.label for task in tasks])
    panel.tick_params(axis="y", length=0)
    panel.grid(visible=False, axis="y")
    panel.set_xlabel(f"performance as a share of {analysis.baseline} (logarithmic); left of 100 % is slower")


def _ticks(low: float, high: float) -> list[float]:
    """1-2-5 ticks, or every 5 or 10 % where the axis is too short for them."""
    if high / low > 4:
        return nice_log_ticks(low, high)
    step = next(step for step in (1, 2, 5, 10, 20, 50) if (high - low) / step <= 9)
    return [float(tick) for tick in range(0, int(high) + 1, step) if low <= tick]


def _legend(figure: "Figure", analysis: Analysis, platforms: list[str], styles: dict[str, PlatformStyle]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Line2D | Patch] = [
        Line2D(
            [],
            [],
            color=styles[one].colour,
            marker=styles[one].marker,
            linestyle="-",
            markersize=4.5,
            label=caveat_signs.name(analysis, one),
        )
        for one in platforms
    ]
    margin = words.amount(analysis.margin)
    handles += verdict_handles(analysis)
    handles.append(Patch(facecolor=BAND, label=f"within {margin} of {analysis.baseline}"))
    handles += caveat_signs.handles(analysis, platforms)
    figure.legend(handles=handles, loc="outside lower center", ncols=4)


def caption(analysis: Analysis) -> str:
    """What to see."""
    if not any(one.interval for one in _shown(analysis)):
        return (
            f"Each dot is the ratio to {analysis.baseline} in the one block that was measured: there are no "
            "intervals, so there is no verdict."
        )
    margin = words.amount(analysis.margin)
    others = f" and, as a second family, {analysis.second_family} others" if analysis.second_family else ""
    return (
        f"Each marker is a platform's share of {analysis.baseline}, over {words.blocks_words(analysis)}; its line is "
        "the 95 % interval, by itself. Filled: slower or faster, after Holm's correction over "
        f"{analysis.family} comparisons of primary metrics{others}. "
        f"Half filled: alike, no difference above {margin} or a smaller margin is left. Open: not known, or no verdict "
        f"because it is no result; anything on its line is possible. Grey: within {margin} of {analysis.baseline}."
    )


def why_not(analysis: Analysis) -> str | None:
    """A ratio is needed."""
    if analysis.baseline is None:
        return "there is no baseline in this run, so there are no shares"
    return None if _shown(analysis) else "no platform has a value in the same block as the baseline"


COST = FigureSpec("What it costs", caption, draw, why_not, section="cost")
