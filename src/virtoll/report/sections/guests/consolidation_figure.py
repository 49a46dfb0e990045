"""Consolidation: the host's memory that idle guests have taken, guest by guest."""

from collections.abc import Iterator, Sequence
from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.figures import caveats, legends
from virtoll.report.figures.base import FigureSpec, drawn_in_a_column
from virtoll.report.figures.lines import axis, upright_room
from virtoll.report.figures.markers import area
from virtoll.report.figures.marks import SAID, by_platform, crosses, figure, flags, layer, note, number, panel_width
from virtoll.report.figures.style import Specification, Width, nice_log_ticks, pixels
from virtoll.stats.analysis import Analysis
from virtoll.stats.consolidation import Consolidation

_MIB = 2**20
_FAR_APART = 20
_PANEL_POINTS = 155.0  # high


def draw(analysis: Analysis, width: Width) -> Specification:
    """One marker a guest: what has gone of the available memory; a thin line: what the guests' processes hold."""
    series = [consolidation for consolidation in analysis.consolidations if consolidation.steps]
    values = [datum for consolidation in series for datum in _data(analysis, consolidation)]
    left = upright_room(width, lines=1)
    across = axis((0, 1.02 * max(consolidation.guests for consolidation in series)), "idle guests")
    across["axis"] |= {"tickCount": 8, "tickMinStep": 1}
    upright, logarithmic = _upright(values)
    panel: Specification = {
        "title": note("markers: by available memory; lines: by processes", width),
        "width": panel_width(width, 1, left, each=8),
        "height": pixels(_PANEL_POINTS),
        "data": {"values": values},
        "layer": _layers(analysis, across, upright, logarithmic=logarithmic),
    }
    shown = [consolidation.platform for consolidation in series]
    entries = [*legends.platforms(analysis, shown), *legends.of_caveats(analysis, shown)]
    return figure([panel, *legends.legend(width, entries, left)])


def _data(analysis: Analysis, consolidation: Consolidation) -> Iterator[dict[str, Any]]:
    """A datum a guest, in MiB: `value`: by how much less is available, `held`: what all processes have."""
    first = consolidation.steps[0].available_before_bytes
    for step in consolidation.steps:
        made: dict[str, Any] = {"platform": consolidation.platform, "guests": step.guests}
        parts = []
        if first is not None and step.available_bytes is not None:
            gone = first - step.available_bytes
            made["value"] = number(gone / _MIB)
            less = f"{units.size(abs(gone))} {'less' if gone >= 0 else 'more'}"
            parts.append(f"{less} available than before the first")
        if step.processes_bytes is not None:
            made["held"] = number(step.processes_bytes / _MIB)
            parts.append(f"the guests' processes hold {units.size(step.processes_bytes)}")
        guests = words.counted(step.guests, "idle guest")
        made["said"] = (
            f"{caveats.name(analysis, consolidation.platform)}, {guests}: {', '.join(parts) or 'nothing was read'}"
        )
        yield made | flags(caveat=consolidation.platform in analysis.caveats)


def _upright(values: Sequence[dict[str, Any]]) -> tuple[Specification, bool]:
    """The axis, and whether it is logarithmic: where one platform's guests take many times what another's do."""
    readings = [
        (datum["platform"], field, datum[field]) for datum in values for field in ("value", "held") if field in datum
    ]
    ends = list({(platform, field): taken for platform, field, taken in readings}.values())  # the last of each
    title, taken = "host memory taken, MiB", [value for _, _, value in readings] or [1.0]
    if min(ends, default=0) > 0 and max(ends) > _FAR_APART * min(ends):
        limits = min(value for value in taken if value > 0) / 1.2, max(taken) * 1.2
        ticks = nice_log_ticks(*limits)
        scale: Specification = {"type": "log"}
        return axis(limits, title, scale=scale, ticks=ticks, names=[f"{tick:g}" for tick in ticks]), True
    return axis((1.05 * min(0.0, *taken), 1.05 * max(taken)), title), False


def _layers(
    analysis: Analysis, across: Specification, upright: Specification, *, logarithmic: bool
) -> list[Specification]:
    x: Specification = {"field": "guests", **across}
    y: Specification = {"field": "value", **upright}
    stroke, dash = by_platform(analysis), by_platform(analysis, "dash")
    line = {"x": x, "y": {"field": "held", **upright}, "stroke": stroke, "strokeDash": dash}
    marker = {"x": x, "y": y, "fill": by_platform(analysis), "shape": by_platform(analysis, "shape"), "tooltip": SAID}
    there = "datum.{} > 0" if logarithmic else "isValid(datum.{})"
    layers = [
        layer({"type": "line", "strokeWidth": 1.2}, line, there.format("held")),
        layer({"type": "point", "size": area(3.4), "strokeWidth": 0}, marker, there.format("value")),
    ]
    if any(consolidation.platform in analysis.caveats for consolidation in analysis.consolidations):
        layers.append(
            crosses({"x": x, "y": y}) | {"transform": [{"filter": f"datum.caveat && {there.format('value')}"}]}
        )
    return layers


def caption(analysis: Analysis) -> str:
    """What to see."""
    counts = ", ".join(f"{consolidation.platform}: {consolidation.guests}" for consolidation in analysis.consolidations)
    return (
        "Guests started one after the other and left idle. Each marker is how much less memory the host has "
        "available than before the first guest, after that many; the line is PSS and page tables of all guests' "
        "processes. Markers above the line: the host kernel's own share, and others' doings; below: pages that the "
        f"host had cached before. Guests at the end: {counts}."
    )


def why_not(analysis: Analysis) -> str | None:
    """A started guest of a consolidation series is needed."""
    if any(consolidation.steps for consolidation in analysis.consolidations):
        return None
    return "no consolidation series was measured in this run"


CONSOLIDATION = FigureSpec("Consolidation", caption, draw, why_not, in_a_column=drawn_in_a_column)
