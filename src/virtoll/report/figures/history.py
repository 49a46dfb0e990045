"""A task over many runs: a panel for each platform, with its share of the baseline, its own value, and the changes.

Both are performance by their own median over all runs, so that a change of a few percent is seen beside a platform at a
tenth of the host. Main function: `draw`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from virtoll import units
from virtoll.report import words
from virtoll.report.figures import legends, markers
from virtoll.report.figures.lines import axis, labels_room, where_room
from virtoll.report.figures.marks import SAID, figure, layer, number, panel_width, rule_through
from virtoll.report.figures.style import INK, MUTED, Specification, Width, platform_styles
from virtoll.report.history import moment
from virtoll.stats.history import History, Kind, Series

_HEIGHT: Final = 74.0  # of a panel, in pixels
_LEAST: Final = 3.0  # percent above and below 100 that a panel shows at least
_BEYOND: Final = 1.08
_DASH: Final = (2, 2)
_TICKS: Final = 6


def draw(found: History, shown: Sequence[Series], width: Width) -> Specification:
    """The panels of the series of one task, a platform each, below one another; the last has the runs' dates."""
    there = {one.of.platform for one in shown}
    listed = [one.label for one in found.runs[-1].manifest.platforms if one.label in there]
    platforms = [*listed, *sorted(there - set(listed))]
    left = labels_room(width) + 22
    across = panel_width(width, 1, left)
    parts = [
        _panel(found, [one for one in shown if one.of.platform == platform], across, last=platform == platforms[-1])
        for platform in platforms
    ]
    entries = [
        legends.Entry("share of the baseline", shape=markers.shape("o"), fill=INK, stroke=INK, points=3.5),
        legends.Entry("own value", shape=markers.shape("o"), fill=MUTED, stroke=MUTED, points=2.5),
        legends.Entry("level between changes", line=INK, width=2.0),
        legends.line("change of the share", (1, 0)),
        legends.line("change of the own value", _DASH),
    ]
    return figure([*parts, *legends.legend(width, entries, left, 3)])


def _panel(found: History, own: Sequence[Series], across: float, *, last: bool) -> Specification:
    """One platform's; values that are the share's are in its colour."""
    styles = platform_styles([one.of.platform for one in found.series])
    paint = styles[own[0].of.platform].paint
    data = [point for one in own for point in _points(found, one)]
    levels = [level for one in own for level in _levels(one)]
    low, high = _limits([one["value"] for one in data])
    x = {"field": "run", **_runs_axis(found, across, named=last)}
    y = {"field": "value", **axis((low, high), "%")}
    level = {"x": x, "x2": {"field": "until"}, "y": {"field": "level", **axis((low, high), "%")}}
    drawn = [rule_through("y", 100, (1, 3), MUTED)]
    drawn += [
        rule_through("x", told.after + 0.5, (1, 0) if one.of.kind is Kind.SHARE else _DASH, MUTED)
        for one in own
        for told in one.changes or ()
    ]
    for kind, colour, points in ((Kind.OWN, MUTED, 2.5), (Kind.SHARE, paint, 3.5)):
        values = {"data": {"values": [one for one in data if one["kind"] == kind]}}
        steps = {"data": {"values": [one for one in levels if one["kind"] == kind]}}
        mark = {"type": "point", "shape": "circle", "size": markers.area(points), "strokeWidth": 0, "fill": colour}
        thick = 2.0 if kind is Kind.SHARE else 1.0
        drawn.append(steps | layer({"type": "rule", "strokeWidth": thick, "stroke": colour}, level))
        drawn.append(values | layer(mark, {"x": x, "y": y, "tooltip": SAID}))
    return {"title": own[0].of.platform, "width": across, "height": _HEIGHT, "layer": drawn}


def _performance(one: Series, value: float) -> float:
    """By the median over all runs, in percent; more is better."""
    middle = statistics.median(one.values)
    better = one.of.kind is Kind.SHARE or one.task.metric.better == "higher"
    return 100 * (value / middle if better else middle / value)


def _points(found: History, one: Series) -> Iterable[dict[str, Any]]:
    for place, value in zip(one.runs, one.values, strict=True):
        run = found.runs[place]
        said = words.share(value) if one.of.kind is Kind.SHARE else units.value(value, one.of.unit)
        yield {
            "platform": one.of.platform,
            "workload": one.of.workload,
            "kind": str(one.of.kind),
            "run": place + 1,
            "value": number(_performance(one, value)),
            "said": f"{one.of.platform}, {one.of.kind}: {said}, {run.name} ({moment(run)})",
        }


def _levels(one: Series) -> Iterable[dict[str, Any]]:
    for each in one.stretches:
        ends = {"run": each.first + 0.6, "until": each.last + 1.4}
        yield {"kind": str(one.of.kind), **ends, "level": number(_performance(one, each.level))}


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """From somewhat below the least to somewhat above the largest, and some percent at least."""
    return (
        min(100 - _LEAST, 100 - (100 - min(values)) * _BEYOND),
        max(100 + _LEAST, 100 + (max(values) - 100) * _BEYOND),
    )


def _runs_axis(found: History, across: float, *, named: bool) -> Mapping[str, Any]:
    """Runs by their number, with the dates of some below the last panel."""
    count = len(found.runs)
    step = max(1, -(-count // _TICKS))
    places = [*range(1, count + 1, step)]
    dates = [moment(found.runs[place - 1])[:10] for place in places]
    room = where_room(dates, places, across) if len(places) > 1 else dates
    title = "runs, oldest first" if named else None
    return axis((0.4, count + 0.6), title, ticks=places, names=room, labelled=named)
