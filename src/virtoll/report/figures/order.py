"""Every value against its place in the run: drift, disturbed stretches and outliers show here."""

from typing import TYPE_CHECKING

from virtoll import units
from virtoll.report.figures.old import caveat_signs
from virtoll.report.figures.old.base import OldFigureSpec, legend_below, new_figure
from virtoll.report.figures.old.dots import Dot, draw_dots
from virtoll.report.figures.old.style import INK, MUTED
from virtoll.report.figures.style import PlatformStyle, platform_styles
from virtoll.stats.analysis import Analysis
from virtoll.stats.drift import DRIFT_FROM

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_REACH = (
    4.0  # the axis shows this multiple of the deviation that nine of ten values keep; the rest is drawn at its edge
)


def draw(analysis: Analysis) -> "Figure":
    """Performance relative to the cell's median, in the order measured; blocks are divided by lines."""
    figure = new_figure(3.1)
    panel = figure.subplots()
    styles = platform_styles(analysis.platforms)
    low, high = _limits(analysis)
    panel.axhline(100, color=INK, linewidth=0.8)
    dots: list[Dot] = []
    crosses: list[Dot] = []
    outliers: list[tuple[float, float]] = []
    for value in analysis.order:
        style, x, y = styles[value.observation.platform], value.observation.position, value.relative * 100
        if not low <= y <= high:
            panel.annotate(
                f"{y:.0f} %",
                (x, min(max(y, low), high)),
                (0, 6 if y < low else -11),
                ha="center",
                textcoords="offset points",
                fontsize=7,
                color=MUTED,
            )
        shown = x, min(max(y, low), high)
        dots.append(Dot(*shown, style.marker, style.colour, style.colour))
        if value.observation.platform in analysis.caveats:
            crosses.append(Dot(*shown, "x", INK, INK))
        if value.outlier:
            outliers.append(shown)
    draw_dots(panel, dots, size=3.8, edge_width=0, zorder=3, clip=False)
    draw_dots(panel, crosses, size=3.4, edge_width=0.7, zorder=6)
    if outliers:
        panel.plot(
            [x for x, _ in outliers],
            [y for _, y in outliers],
            marker="o",
            markersize=9,
            markerfacecolor="none",
            markeredgecolor=INK,
            markeredgewidth=0.9,
            linestyle="none",
            zorder=4,
        )
    _blocks(panel, analysis)
    panel.set_ylim(low, high)
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
    panel.set_xlabel("position in the run (trials in the order measured)")
    panel.set_ylabel("performance against the cell's median")
    _legend(figure, analysis, styles)
    return figure


def _limits(analysis: Analysis) -> tuple[float, float]:
    values = [value.relative * 100 for value in analysis.order]
    deviations = sorted(abs(value - 100) for value in values)
    usual = max(deviations[int(len(deviations) * 0.9) - 1], 0.5)
    low, high = max(min(values), 100 - _REACH * usual), min(max(values), 100 + _REACH * usual)
    margin = max((high - low) * 0.06, 0.5)  # all may be the same
    return low - margin, high + margin


def _blocks(panel: "Axes", analysis: Analysis) -> None:
    """A line and a number where each block begins, and a cross on the axis for trials that were measured in vain."""
    starts: dict[int, int] = {}
    for value in analysis.order:
        position, block = value.observation.position, value.observation.block
        starts[block] = min(position, starts.get(block, position))
    for block, start in sorted(starts.items(), key=lambda item: item[1]):
        panel.axvline(start - 0.5, color="#bdbdbd", linewidth=0.8, zorder=1)
        panel.annotate(
            f"block {block}",
            (start - 0.5, 1),
            (3, 2),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            fontsize=7,
            color=MUTED,
        )


def _legend(figure: "Figure", analysis: Analysis, styles: dict[str, PlatformStyle]) -> None:
    from matplotlib.lines import Line2D

    drawn = {value.observation.platform for value in analysis.order}
    handles = [
        Line2D(
            [],
            [],
            color=style.colour,
            marker=style.marker,
            linestyle="none",
            markersize=4.5,
            label=caveat_signs.name(analysis, platform),
        )
        for platform, style in styles.items()
        if platform in drawn
    ]
    if any(value.outlier for value in analysis.order):
        handles.append(
            Line2D(
                [],
                [],
                color=INK,
                marker="o",
                markerfacecolor="none",
                linestyle="none",
                markersize=8,
                label="flagged as an outlier",
            )
        )
    legend_below(figure, [*handles, *caveat_signs.handles(analysis, drawn)])


def caption(analysis: Analysis) -> str:
    """What to see."""
    trend = f" Below {DRIFT_FROM} blocks no test can find a trend."
    if analysis.drift is not None:
        found = "a trend" if analysis.drift.p_value < 0.05 else "no trend that stands out from the noise"
        trend = (
            f" Over the run performance changed by {units.percent(analysis.drift.over_run)} (Sen's slope over the "
            f"means of blocks; exact Mann-Kendall test of these p = {analysis.drift.p_value:.2g}: {found})."
        )
    return (
        "A slope would be drift, a dip a disturbed stretch. The order is randomised and ratios are taken within a "
        f"round, so what is slower than a round falls out of the comparisons.{trend} What lies far out is drawn at the "
        "edge with its value. Outliers (modified z-score above 3.5, from five values on) are flagged, never removed."
    )


def why_not(analysis: Analysis) -> str | None:
    """Two blocks are needed."""
    return None if analysis.order else "no cell has values in two blocks"


ORDER = OldFigureSpec("Order of the trials", caption, draw, why_not, section="order")
