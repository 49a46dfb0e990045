"""A task over many runs: a panel for each platform, with its share of the baseline, its own value, and the changes.

Both are performance by their own median over all runs, so that a change of a few percent is seen beside a platform at a
tenth of the host. Main function: `draw`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from virtoll import units
from virtoll.report import words
from virtoll.report.figures import legends, markers
from virtoll.report.figures.lines import axis, labels_room, where_room
from virtoll.report.figures.marks import SAID, figure, layer, number, panel_width, rule_through
from virtoll.report.figures.style import INK, MUTED, Specification, Width, platform_styles
from virtoll.report.history import moment
from virtoll.report.rows import grouped
from virtoll.stats.history import History, Kind, Series

_HEIGHT: Final = 74.0  # of a panel, in pixels
_LEAST: Final = 3.0  # percent above and below 100 that a panel shows at least
_BEYOND: Final = 1.08
_DASH: Final = (2, 2)
_TICKS: Final = 6


def draw(history: History, shown: Sequence[Series], width: Width) -> Specification:
    """The panels of the series of one task, a platform each, below one another; the last has the runs' dates."""
    there = {series.of.platform for series in shown}
    listed = [entry.label for entry in history.runs[-1].manifest.platforms if entry.label in there]
    platforms = [*listed, *sorted(there - set(listed))]
    left = labels_room(width) + 22
    across = panel_width(width, 1, left)
    by_platform = grouped(shown, lambda series: series.of.platform)
    *above, last = platforms
    parts = [_panel(history, by_platform[platform], across, last=False) for platform in above]
    parts.append(_panel(history, by_platform[last], across, last=True))
    entries = [
        legends.Entry("share of the baseline", shape=markers.shape("o"), fill=INK, stroke=INK, points=3.5),
        legends.Entry("own value", shape=markers.shape("o"), fill=MUTED, stroke=MUTED, points=2.5),
        legends.Entry("level between changes", line=INK, width=2.0),
        legends.line("change of the share", (1, 0)),
        legends.line("change of the own value", _DASH),
    ]
    return figure([*parts, *legends.legend(width, entries, left, 3)])


def _panel(history: History, shown: Sequence[Series], across: float, *, last: bool) -> Specification:
    """One platform's; values that are the share's are in its colour."""
    styles = platform_styles([series.of.platform for series in history.series])
    paint = styles[shown[0].of.platform].paint
    points = grouped((point for series in shown for point in _points(history, series)), itemgetter("kind"))
    levels = grouped((level for series in shown for level in _levels(series)), itemgetter("kind"))
    limits = _limits([point["value"] for of_kind in points.values() for point in of_kind])
    x = {"field": "run", **_runs_axis(history, across, named=last)}
    y = {"field": "value", **axis(limits, "%")}
    level = {"x": x, "x2": {"field": "until"}, "y": {"field": "level", **axis(limits, "%")}}
    drawn = [rule_through("y", 100, (1, 3), MUTED)]
    for series in shown:
        dash = (1, 0) if series.of.kind is Kind.SHARE else _DASH
        drawn += [rule_through("x", change.after + 0.5, dash, MUTED) for change in series.changes or ()]
    for kind, colour, size, thick in ((Kind.OWN, MUTED, 2.5, 1.0), (Kind.SHARE, paint, 3.5, 2.0)):
        line = {"type": "rule", "strokeWidth": thick, "stroke": colour}
        mark = {"type": "point", "shape": "circle", "size": markers.area(size), "strokeWidth": 0, "fill": colour}
        drawn.append({"data": {"values": levels.get(kind, [])}} | layer(line, level))
        drawn.append({"data": {"values": points.get(kind, [])}} | layer(mark, {"x": x, "y": y, "tooltip": SAID}))
    return {"title": shown[0].of.platform, "width": across, "height": _HEIGHT, "layer": drawn}


def _performance(series: Series, value: float) -> float:
    """By the median over all runs, in percent; more is better."""
    middle = statistics.median(series.values)
    better = series.of.kind is Kind.SHARE or series.task.metric.better == "higher"
    return 100 * (value / middle if better else middle / value)


def _points(history: History, series: Series) -> Iterable[dict[str, Any]]:
    for place, value in zip(series.runs, series.values, strict=True):
        run = history.runs[place]
        text = words.share(value) if series.of.kind is Kind.SHARE else units.value(value, series.of.unit)
        yield {
            "platform": series.of.platform,
            "workload": series.of.workload,
            "kind": str(series.of.kind),
            "run": place + 1,
            "value": number(_performance(series, value)),
            "said": f"{series.of.platform}, {series.of.kind}: {text}, {run.name} ({moment(run)})",
        }


def _levels(series: Series) -> Iterable[dict[str, Any]]:
    for each in series.stretches:
        ends = {"run": each.first + 0.6, "until": each.last + 1.4}
        yield {"kind": str(series.of.kind), **ends, "level": number(_performance(series, each.level))}


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """From somewhat below the least to somewhat above the largest, and some percent at least."""
    return (
        min(100 - _LEAST, 100 - (100 - min(values)) * _BEYOND),
        max(100 + _LEAST, 100 + (max(values) - 100) * _BEYOND),
    )


def _runs_axis(history: History, across: float, *, named: bool) -> Mapping[str, Any]:
    """Runs by their number, with the dates of some below the last panel."""
    count = len(history.runs)
    step = max(1, -(-count // _TICKS))
    places = [*range(1, count + 1, step)]
    dates = [moment(history.runs[place - 1])[:10] for place in places]
    room = where_room(dates, places, across) if len(places) > 1 else dates
    title = "runs, oldest first" if named else None
    return axis((0.4, count + 0.6), title, ticks=places, names=room, labelled=named)
