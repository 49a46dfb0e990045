"""The platforms' clock error: how far the guest's own durations are from the outside clock's."""

from dataclasses import replace
from typing import TYPE_CHECKING

from virtoll.report.figures.base import drawn_in_a_column
from virtoll.report.figures.old import caveat_signs
from virtoll.report.figures.old.base import OldFigureSpec, narrow, new_figure
from virtoll.report.figures.old.dots import Dot, draw_dots
from virtoll.report.figures.old.style import BAND, INK, MUTED
from virtoll.report.figures.style import platform_styles
from virtoll.stats.analysis import Analysis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(analysis: Analysis) -> "Figure":
    """One row a platform, one dot a trial, in ppm on an axis that is linear near zero and logarithmic further out."""
    figure = new_figure(1.15 + 0.3 * len(analysis.clocks))
    panel = figure.subplots()
    styles = platform_styles(analysis.platforms)
    dots: list[Dot] = []
    crosses: list[Dot] = []
    for row, clock in enumerate(analysis.clocks):
        panel.fill_betweenx(
            [row - 0.36, row + 0.36], -clock.estimate * 1e6, clock.estimate * 1e6, color=BAND, linewidth=0, zorder=0.5
        )
        style, count = styles[clock.platform], len(clock.readings)
        for index, reading in enumerate(clock.readings):
            height = row + (index - (count - 1) / 2) * (0.5 / max(count, 2))
            face = "white" if reading.within else style.colour
            dot = Dot(reading.error * 1e6, height, style.marker, face, style.colour)
            dots.append(dot)
            if clock.platform in analysis.caveats:
                crosses.append(replace(dot, marker="x", face=INK, edge=INK))
        panel.plot([clock.median * 1e6] * 2, [row - 0.36, row + 0.36], color=style.colour, linewidth=1.6, zorder=3)
    draw_dots(panel, dots, size=3.6, edge_width=0.9, zorder=2)
    draw_dots(panel, crosses, size=4.0, edge_width=0.7, zorder=6)
    panel.axvline(0, color=INK, linewidth=0.8)
    _axes(panel, analysis)
    caveat_signs.legend(figure, analysis, [clock.platform for clock in analysis.clocks])
    return figure


def _axes(panel: "Axes", analysis: Analysis) -> None:
    from matplotlib.ticker import NullLocator

    panel.set_yticks(
        range(len(analysis.clocks)), [caveat_signs.name(analysis, one.platform) for one in analysis.clocks]
    )
    panel.set_ylim(len(analysis.clocks) - 0.4, -0.6)
    panel.tick_params(axis="y", length=0)
    panel.grid(visible=False, axis="y")
    extremes = [abs(reading.error) for clock in analysis.clocks for reading in clock.readings]
    reach = max([*extremes, *(clock.estimate for clock in analysis.clocks)]) * 1e6 * 1.5
    panel.set_xscale("symlog", linthresh=10.0, linscale=0.6)
    panel.set_xlim(-reach, reach)
    decades = [10.0**power for power in range(1, 13) if 10.0**power <= reach]
    in_a_column = narrow(panel.figure.figure)
    if len(decades) > (1 if in_a_column else 4):
        decades = decades[:: 2 if len(decades) < 8 else 3]
    if in_a_column:
        decades = decades[-1:]
    ticks = [-decade for decade in reversed(decades)] + [0.0, *decades]
    panel.set_xticks(ticks, [_tick(tick) for tick in ticks])
    panel.xaxis.set_minor_locator(NullLocator())
    lines = ("clock error, (guest − outside) / outside;", "linear within ±10 ppm, logarithmic beyond")
    panel.set_xlabel(("\n" if in_a_column else " ").join(lines), color=INK)
    for text, place, side in (("guest's clock slow", 0, "left"), ("guest's clock fast", 1, "right")):
        panel.annotate(
            text,
            (place, 1),
            (0, 3),
            xycoords="axes fraction",
            textcoords="offset points",
            ha=side,
            color=MUTED,
            fontsize=7,
        )


def _tick(ppm: float) -> str:
    if ppm == 0:
        return "0"
    sign = "−" if ppm < 0 else "+"
    size = abs(ppm)
    return f"{sign}{size / 1e4:g} %" if size >= 1e4 else f"{sign}{size:g} ppm"


def caption(analysis: Analysis) -> str:
    """What to see."""
    count = sum(len(clock.readings) for clock in analysis.clocks)
    return (
        f"Each marker is one timed trial ({count} in all), the upright line the platform's median. Grey is the median "
        "of the trials' error estimates, as a share of the duration: the largest round trip seen on the marks' path, "
        "or how far both kinds of marks differ. An open marker lies within its own trial's estimate, so it says "
        "nothing against the guest's clock; a filled one lies beyond. A platform's clock error is the slope over the "
        "durations, in the table. Durations in this report are the outside clock's; the guest's own are a result, not "
        "a correction."
    )


def why_not(analysis: Analysis) -> str | None:
    """A reading is needed."""
    return None if analysis.clocks else "no trial has both the outside clock's marks and the guest's own reading"


CLOCK = OldFigureSpec("Clock error", caption, draw, why_not, section="clock", in_a_column=drawn_in_a_column)
