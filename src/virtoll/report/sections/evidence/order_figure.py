"""Every value against its place in the run: drift, disturbed stretches and outliers show here."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from virtoll import units
from virtoll.report import words
from virtoll.report.figures import caveats, legends, markers
from virtoll.report.figures.base import FigureSpec
from virtoll.report.figures.lines import axis
from virtoll.report.figures.marks import (
    SAID,
    by_platform,
    crosses,
    figure,
    flags,
    layer,
    number,
    panel_width,
    text_width,
)
from virtoll.report.figures.style import INK, MUTED, PAPER, SIZES, Specification, Width, pixels
from virtoll.report.rows import grouped, platforms_of
from virtoll.stats.analysis import Analysis
from virtoll.stats.drift import DRIFT_FROM, OrderedValue

MOST_MARKERS: Final = 1000
"""So many values have a marker each; more are dots, and those of a cell are drawn and pointed at together."""
_REACH = (
    4.0  # the axis shows this multiple of the deviation that nine of ten values keep; the rest is drawn at its edge
)
_PANEL_POINTS = 150.0  # high
_DOT, _CORE = 3.2, 1.4  # pixels: of many values, and of what is light in those of a platform with a caveat
_IN_PIXELS = 4  # the size of a marker whose outline is in pixels: half of its root is what Vega multiplies it by
_NUMBER: Specification = {"type": "quantitative"}


def draw(analysis: Analysis, width: Width) -> Specification:
    """Performance relative to the cell's median, in the order measured; blocks are divided by lines."""
    points = SIZES[width].text
    left = text_width("100 %", points) + 1.5 * pixels(points) + 8
    size = (panel_width(width, 1, left, each=8), round(pixels(_PANEL_POINTS), 1))
    low, high = _limits(analysis)
    positions = [value.observation.position for value in analysis.order]
    first, last = min(positions) - 0.5, max(positions) + 0.5
    across = axis((first, last), "position in the run (trials in the order measured)")
    across["axis"] |= {"labelExpr": "'' + datum.value"}
    upright = axis((low, high), "performance against the cell's median", scale={"zero": False, "clamp": True})
    upright["axis"] |= {"tickCount": 6, "labelExpr": "datum.value + ' %'"}
    starts = _starts(analysis)
    room = _Room(first, last, low, high, size, SIZES[width].small)
    panel = {
        "width": size[0],
        "height": size[1],
        "data": {"values": list(_data(analysis, room))},
        "encoding": {"x": {"field": "position", **across}, "y": {"field": "value", **upright}},
        "layer": [
            _rules(room, starts),
            *_values(analysis),
            _texts([*_block_names(room, starts), *_far_out(room, analysis)], SIZES[width].small),
        ],
    }
    return figure([panel, *legends.legend(width, _entries(analysis), left)])


def _limits(analysis: Analysis) -> tuple[float, float]:
    values = [value.relative * 100 for value in analysis.order]
    deviations = sorted(abs(value - 100) for value in values)
    usual = max(deviations[int(len(deviations) * 0.9) - 1], 0.5)
    low, high = max(min(values), 100 - _REACH * usual), min(max(values), 100 + _REACH * usual)
    margin = max((high - low) * 0.06, 0.5)  # all may be the same
    return low - margin, high + margin


@dataclass(frozen=True)
class _Room:
    """The panel: the ends of its axes, its size in pixels, and how large what is written in it is, in points."""

    first: float
    last: float
    low: float
    high: float
    size: tuple[float, float]
    points: float

    def x(self, position: float) -> float:
        """A place in the run in pixels from the left."""
        return (position - self.first) / (self.last - self.first) * self.size[0]

    def y(self, percent: float) -> float:
        """A value in pixels from the top; one that is beyond the panel is at its edge."""
        kept = min(max(percent, self.low), self.high)
        return (self.high - kept) / (self.high - self.low) * self.size[1]

    def wide(self, text: str) -> float:
        """A text's width with a gap, in pixels."""
        return text_width(text, self.points) + 5


def _starts(analysis: Analysis) -> list[tuple[int, float]]:
    """Each block, counted from 1, with where it begins, in this order."""
    starts: dict[int, int] = {}
    for value in analysis.order:
        position, block = value.observation.position, value.observation.block
        starts[block] = min(position, starts.get(block, position))
    return sorted(((block + 1, start - 0.5) for block, start in starts.items()), key=lambda item: item[1])


def _rules(room: _Room, starts: Sequence[tuple[int, float]]) -> Specification:
    """The median, and where each block begins."""
    through = {"x": room.first, "x2": room.last, "y": 100, "y2": 100, "paint": INK}
    upright = {"y": number(room.low), "y2": number(room.high), "paint": MUTED}
    values = [{"x": start, "x2": start, **upright} for _, start in starts]
    ends: Specification = {"x": {"field": "x", **_NUMBER}, "x2": {"field": "x2"}}
    ends |= {"y": {"field": "y", **_NUMBER}, "y2": {"field": "y2"}}
    paint = {"field": "paint", "type": "nominal", "scale": None, "legend": None}
    rules = layer({"type": "rule", "strokeWidth": 0.9}, ends | {"stroke": paint})
    return {"data": {"values": [*values, through]}} | rules


def _values(analysis: Analysis) -> list[Specification]:
    """Markers or dots, and a ring around each outlier."""
    paint = by_platform(analysis)
    marked = any(value.observation.platform in analysis.caveats for value in analysis.order)
    if len(analysis.order) > MOST_MARKERS:
        layers = [_dots({"stroke": paint, "tooltip": SAID}, _DOT, "datum.dots")]
        if marked:
            layers.append(_dots({"stroke": {"value": PAPER}}, _CORE, "datum.dots && datum.caveat"))
    else:
        shape = {"fill": paint, "shape": by_platform(analysis, "shape"), "tooltip": SAID}
        layers = [layer({"type": "point", "size": markers.area(3.8), "strokeWidth": 0}, shape)]
        if marked:
            layers.append(crosses({}, 3.4))
    if any(value.outlier for value in analysis.order):
        ring: Specification = {"type": "point", "shape": "circle", "size": markers.area(9), "fill": None}
        layers.append(layer(ring | {"stroke": INK, "strokeWidth": 1.2}, {"tooltip": SAID}, "datum.outlier"))
    return layers


def _dots(look: Specification, size: float, where: str) -> Specification:
    """A cell's values as one shape that stands in the panel's corner: lines without length, whose round ends are seen.

    As a line of Vega's each cell would be a group with a data flow of its own, which took nine tenths of the drawing.
    """
    mark = {"type": "point", "size": _IN_PIXELS, "fill": None, "strokeCap": "round", "strokeWidth": size}
    shape = {"field": "dots", "type": "nominal", "scale": None, "legend": None}
    return layer(mark, {"x": {"value": 0}, "y": {"value": 0}, "shape": shape} | look, where)


def _texts(values: Iterable[Specification], points: float) -> Specification:
    """What is written in the panel, each text with its middle in pixels."""
    at: Specification = {channel: {"field": channel, **_NUMBER, "scale": None, "axis": None} for channel in "xy"}
    mark = {"type": "text", "fill": MUTED, "fontSize": pixels(points), "baseline": "middle"}
    return {"data": {"values": list(values)}} | layer(mark, at | {"text": {"field": "text"}})


def _block_names(room: _Room, starts: Sequence[tuple[int, float]]) -> Iterable[Specification]:
    """Above the panel, right of where each block begins: numbers alone where words have no room."""
    ends = [*(start for _, start in starts[1:]), room.last]
    words = all(
        room.wide(f"block {block}") <= room.x(end) - room.x(start)
        for (block, start), end in zip(starts, ends, strict=True)
    )
    free = 0.0
    for block, start in starts:
        text, left = f"block {block}" if words or not free else str(block), room.x(start)
        if left >= free:
            free = left + room.wide(text)
            yield {"x": round((left + free) / 2, 1), "y": -6, "text": text}


def _far_out(room: _Room, analysis: Analysis) -> Iterable[Specification]:
    """The value of what is drawn at an edge; of several that stand closer than their texts are wide, the range."""
    for upwards, y in ((True, 11), (False, room.size[1] - 11)):
        groups: list[list[tuple[float, float]]] = []
        for value in analysis.order:
            percent = 100 * value.relative
            if not (percent > room.high if upwards else percent < room.low):
                continue
            groups.append([(room.x(value.observation.position), percent)])
            while len(groups) > 1 and _touch(room, groups[-2], groups[-1]):
                groups[-2:] = [[*groups[-2], *groups[-1]]]
        for group in groups:
            yield {"x": round(_middle(room, group), 1), "y": y, "text": _range(group)}


def _range(group: Sequence[tuple[float, float]]) -> str:
    values = sorted(value for _, value in group)
    return words.joined(f"{values[0]:.0f} %", f"{values[-1]:.0f} %")


def _middle(room: _Room, group: Sequence[tuple[float, float]]) -> float:
    """Of a group's text, which is whole in the panel."""
    half = room.wide(_range(group)) / 2
    return min(max((group[0][0] + group[-1][0]) / 2, half), room.size[0] - half)


def _touch(room: _Room, group: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> bool:
    return _middle(room, other) - _middle(room, group) < (room.wide(_range(group)) + room.wide(_range(other))) / 2


def _data(analysis: Analysis, room: _Room) -> Iterable[dict[str, Any]]:
    """A datum a value; where there are too many, one a cell with a dot for each of its values, and one an outlier.

    `dots`: a path of SVG, in tenths of pixels, from the panel's upper left corner.
    """
    if len(analysis.order) <= MOST_MARKERS:
        yield from (_datum(analysis, value) for value in analysis.order)
        return
    cells = grouped(analysis.order, lambda value: (value.observation.platform, value.observation.task))
    for (platform, task), values in cells.items():
        relative = sorted(value.relative for value in values)
        ends = f"{units.percent(relative[0])} to {units.percent(relative[-1])}"
        dots = (f"M{room.x(value.observation.position):.1f},{room.y(100 * value.relative):.1f}h0" for value in values)
        made: dict[str, Any] = {
            "platform": platform,
            "workload": task.workload,
            "dots": "".join(dots),
            "said": f"{caveats.name(analysis, platform)}, {task.label}: {len(values)} values, {ends} of the median",
        }
        yield made | flags(caveat=platform in analysis.caveats)
    yield from (_datum(analysis, value) for value in analysis.order if value.outlier)


def _datum(analysis: Analysis, value: OrderedValue) -> dict[str, Any]:
    observation = value.observation
    flagged = "; flagged as an outlier" if value.outlier else ""
    made: dict[str, Any] = {
        "platform": observation.platform,
        "workload": observation.task.workload,
        "position": observation.position,
        "value": round(100 * value.relative, 2),
        "said": f"{caveats.name(analysis, observation.platform)}, {observation.task.label}, "
        f"block {observation.block + 1}: {units.percent(value.relative)} of its median{flagged}",
    }
    made |= flags(caveat=observation.platform in analysis.caveats)
    return made | flags(outlier=value.outlier)


def _entries(analysis: Analysis) -> list[legends.Entry]:
    """Markers without a line, the ring, and what a cross means."""
    shown = platforms_of(analysis, (value.observation for value in analysis.order))
    entries = [replace(entry, line=None) for entry in legends.platforms(analysis, shown)]
    if len(analysis.order) > MOST_MARKERS:
        entries = [replace(entry, shape="circle") for entry in entries]
    if any(value.outlier for value in analysis.order):
        ring = legends.Entry("flagged as an outlier", shape="circle", fill=PAPER, stroke=INK, points=8)
        entries.append(ring)
    return [*entries, *legends.of_caveats(analysis, shown)]


def caption(analysis: Analysis) -> str:
    """What to see."""
    trend = f" Below {DRIFT_FROM} blocks no test can find a trend."
    if analysis.drift is not None:
        outcome = "a trend" if analysis.drift.p_value < 0.05 else "no trend that stands out from the noise"
        trend = (
            f" Over the run performance changed by {_change(analysis.drift.over_run)} (Sen's slope over the "
            f"means of blocks; exact Mann-Kendall test of these p = {analysis.drift.p_value:.2g}: {outcome})."
        )
    return (
        "A slope would be drift, a dip a disturbed stretch. The order is randomised and ratios are taken within a "
        f"round, so what is slower than a round falls out of the comparisons.{trend} Far outliers are drawn at the "
        "edge, with their value, or with the range of those side by side. Outliers (modified z-score above 3.5, from "
        "five values on) are flagged, never removed."
    )


def _change(part: float) -> str:
    return f"{units.significant(100 * part, 2)} %".replace("-", "−")


def why_not(analysis: Analysis) -> str | None:
    """Two blocks are needed."""
    return None if analysis.order else "no cell has values in two blocks"


ORDER = FigureSpec("Order of the trials", caption, draw, why_not)
