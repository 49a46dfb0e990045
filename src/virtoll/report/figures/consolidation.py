"""Consolidation: the host's memory that idle guests have taken, guest by guest."""

from typing import TYPE_CHECKING

from virtoll.report.figures.base import drawn_in_a_column
from virtoll.report.figures.old import caveat_signs
from virtoll.report.figures.old.base import OldFigureSpec, legend_below, new_figure
from virtoll.report.figures.old.style import MUTED
from virtoll.report.figures.style import platform_styles
from virtoll.stats.analysis import Analysis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MIB = 2**20
_FAR_APART = 20


def draw(analysis: Analysis) -> "Figure":
    """One marker a guest: what has gone of the available memory; a thin line: what the guests' processes hold."""
    figure = new_figure(3.0)
    panel = figure.subplots()
    styles = platform_styles([one.platform for one in analysis.consolidations])
    ends: list[float] = []
    for one in analysis.consolidations:
        style, steps = styles[one.platform], one.steps
        if not steps:
            continue
        first = steps[0].available_before_bytes
        gone = [
            (step.guests, (first - step.available_bytes) / _MIB)
            for step in steps
            if first is not None and step.available_bytes is not None
        ]
        held = [(step.guests, step.processes_bytes / _MIB) for step in steps if step.processes_bytes is not None]
        ends += [points[-1][1] for points in (gone, held) if points]
        for points, look in ((gone, style.marker), (held, "")):
            if points:
                panel.plot(
                    *zip(*points, strict=True),
                    marker=look or None,
                    markersize=3,
                    color=style.colour,
                    linestyle="none" if look else "-",
                    linewidth=0.9,
                    label=caveat_signs.name(analysis, one.platform) if look else None,
                )
    panel.set_xlim(left=0)
    if min(ends, default=0) > 0 and max(ends) > _FAR_APART * min(ends):
        panel.set_yscale("log", nonpositive="mask")
        panel.yaxis.set_major_formatter("{x:g}")
    else:
        panel.set_ylim(bottom=0)
    panel.set_xlabel("idle guests")
    panel.set_ylabel("host memory taken, MiB")
    panel.annotate(
        "markers: by available memory; lines: by processes",
        (0, 1),
        (0, 4),
        xycoords="axes fraction",
        textcoords="offset points",
        color=MUTED,
        fontsize=7,
    )
    shown = panel.get_legend_handles_labels()[0]
    if shown:
        caveats = caveat_signs.handles(analysis, [one.platform for one in analysis.consolidations])
        legend_below(figure, [*shown, *caveats])
    return figure


def caption(analysis: Analysis) -> str:
    """What to see."""
    counts = ", ".join(f"{one.platform}: {one.guests}" for one in analysis.consolidations)
    return (
        "Guests started one after the other and left idle. Each marker is how much less memory the host has "
        "available than before the first guest, after that many; the line is PSS and page tables of all guests' "
        "processes. Markers above the line: the host kernel's own share, and others' doings; below: pages that the "
        f"host had cached before. Guests at the end: {counts}."
    )


def why_not(analysis: Analysis) -> str | None:
    """A started guest of a consolidation series is needed."""
    if any(one.steps for one in analysis.consolidations):
        return None
    return "no consolidation series was measured in this run"


CONSOLIDATION = OldFigureSpec(
    "Consolidation", caption, draw, why_not, section="consolidation", in_a_column=drawn_in_a_column
)
