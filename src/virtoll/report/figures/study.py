"""A study then and now: each platform's share of its own bare host, the paper's and this run's."""

from typing import TYPE_CHECKING

from virtoll import units
from virtoll.report.figures import caveat_signs
from virtoll.report.figures.base import FigureSpec, blocks_text, new_figure
from virtoll.report.figures.style import INK, MUTED, nice_log_ticks, platform_styles
from virtoll.report.figures.verdict_markers import plot_verdict, verdict_handles
from virtoll.stats.analysis import Analysis
from virtoll.stats.study import StudyCell, StudyComparison, StudyRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PAPER = "#9a9a9a"


def draw(analysis: Analysis) -> "Figure":
    """One panel a frame size, one row for each of the paper's platforms, shares on a logarithmic axis."""
    found = analysis.study
    assert found is not None, "why_not says so"
    columns = min(2, len(found.sizes))
    rows = (len(found.sizes) + columns - 1) // columns
    figure = new_figure(0.75 + rows * (0.6 + 0.29 * len(found.rows)))
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    limits = _limits(found)
    for index, (panel, size) in enumerate(zip(panels, found.sizes, strict=False)):
        panel.set_title(f"{size} B")
        _axes(panel, analysis, found, limits)
        for height, row in enumerate(found.rows):
            _row(panel, analysis, row, row.cells[index], height)
        if index >= len(found.sizes) - columns:
            panel.set_xlabel("share of the own bare host (logarithmic)")
            panel.tick_params(axis="x", labelbottom=True)
    for panel in panels[len(found.sizes) :]:
        panel.set_visible(False)
    _legend(figure, analysis, found)
    return figure


def _limits(found: StudyComparison) -> tuple[float, float]:
    values = [1.0]
    for row in found.rows:
        for cell in row.cells:
            if cell.published is not None and cell.published.low is not None:
                values.append(cell.published.low)
            if cell.ours is not None and cell.ours.share is not None:
                interval = cell.ours.interval
                values.append(cell.ours.share)
                values += [max(interval.low, cell.ours.share / 3), min(interval.high, 3.0)] if interval else []
    return min(values) / 1.6, max(values) * 1.6


def _axes(panel: "Axes", analysis: Analysis, found: StudyComparison, limits: tuple[float, float]) -> None:
    from matplotlib.ticker import NullLocator

    panel.set_xscale("log")
    panel.set_xlim(*limits)
    ticks = nice_log_ticks(limits[0] * 100, limits[1] * 100)
    if len(ticks) > 6:
        ticks = ticks[:: (len(ticks) + 5) // 6]
    panel.set_xticks([tick / 100 for tick in ticks], [f"{tick:g} %" for tick in ticks])
    panel.xaxis.set_minor_locator(NullLocator())
    names = [
        f"{row.platform.name} / {caveat_signs.name(analysis, row.label)}" if row.label else row.platform.name
        for row in found.rows
    ]
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.4, -0.6)
    panel.tick_params(axis="y", length=0)
    panel.grid(visible=False, axis="y")
    panel.axvline(1, color=INK, linewidth=0.8, zorder=1)


def _row(panel: "Axes", analysis: Analysis, row: StudyRow, cell: StudyCell, height: int) -> None:
    theirs, ours = cell.published, cell.ours
    if theirs is not None and theirs.low is not None and theirs.high is not None:
        panel.plot([theirs.low, theirs.high], [height - 0.16] * 2, color=_PAPER, linewidth=5, solid_capstyle="round")
    else:
        reported = f"paper: {theirs.words}" if theirs is not None else "paper: in a drawing alone"
        panel.annotate(
            reported, (0.01, height - 0.16), xycoords=("axes fraction", "data"), va="center", fontsize=6, color=MUTED
        )
    if row.label is None or ours is None or ours.share is None:
        reported = "not in this run" if row.label is None else "not measured"
        panel.annotate(
            f"here: {reported}",
            (0.01, height + 0.18),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=6,
            color=MUTED,
        )
        return
    style = platform_styles(analysis.platforms)[row.label]
    reach = ours.share
    if ours.interval is not None:
        low, high = panel.get_xlim()
        reach = min(ours.interval.high, high)
        panel.plot(
            [max(ours.interval.low, low), min(ours.interval.high, high)],
            [height + 0.18] * 2,
            color=style.colour,
            linewidth=1.2,
        )
    plot_verdict(panel, ours.share, height + 0.18, style, ours.verdict)
    caveat_signs.cross(panel, analysis, row.label, ours.share, height + 0.18)
    panel.annotate(
        units.percent(ours.share),
        (reach, height + 0.18),
        (6, 0),
        textcoords="offset points",
        va="center",
        fontsize=6,
        color=MUTED,
    )


def _legend(figure: "Figure", analysis: Analysis, found: StudyComparison) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=_PAPER, linewidth=5, solid_capstyle="round", label="the paper, on its host"),
        Line2D([], [], color=INK, marker="o", markersize=4.5, linewidth=1.2, label="here, with 95 % interval"),
    ]
    handles += verdict_handles(analysis)
    shown = [row.label for row in found.rows if row.label]
    figure.legend(handles=[*handles, *caveat_signs.handles(analysis, shown)], loc="outside lower center", ncols=3)


def caption(analysis: Analysis) -> str:
    """What to see."""
    found = analysis.study
    paper = found.study if found is not None else None
    return (
        "Grey: the paper's share of its own bare host, as a range over the tables that it follows from; below it this "
        f"run's share of {analysis.baseline}, paired by block, {blocks_text(analysis)}. Filled: slower or faster; half "
        "filled: alike; open: not known, or no verdict. Compare the order of the "
        f"platforms and the change with the frame size, not the distance between grey and coloured: the paper's host "
        f"was {paper.hardware if paper else ''}."
    )


def why_not(analysis: Analysis) -> str | None:
    """A study, and a frame size of ours to set beside it."""
    if analysis.study is None:
        return "the experiment names no study"
    return None if analysis.study.sizes else "nothing was forwarded from one source that could stand beside the study"


STUDY = FigureSpec("Then and now", caption, draw, why_not, section="study")
