"""Dots on a logarithmic axis of shares: what the figures of cost and of isolation have in common."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtoll.report import words
from virtoll.report.figures import caveats, legends, markers
from virtoll.report.figures.marks import (
    SAID,
    by_platform,
    crosses,
    labels_of,
    layer,
    number,
    panel_width,
    rule_through,
    text_width,
)
from virtoll.report.figures.style import BAND, GRID, MUTED, PAPER, SIZES, Specification, Width, nice_log_ticks, pixels
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import DIFFERENT, Comparison, Verdict
from virtoll.stats.values import Task

_LETTERS_IN_A_COLUMN = 22  # of a row's name, which takes what is left of the axis
_TICKS_IN_A_COLUMN = 5
ROOMY = 20  # rows
_SAMPLE_POINTS = 4.6
_DIFFERENT, _ALIKE, _OPEN = "different", "alike", "open"


@dataclass(frozen=True)
class SharePanel:
    """Rows from the top by name, each with its comparisons by platform; `reference`: what the shares are of.

    `limits`: of the axis, in percent. `line_points`: from one platform's line to the next. `edge`: platforms whose
    names stand at the right of each line. `notes`: a word above a marker, by what is compared.
    """

    rows: Mapping[str, Mapping[str, Comparison]]
    platforms: Sequence[str]
    reference: str
    limits: tuple[float, float]
    line_points: float
    title: str = ""
    axis: str = ""
    edge: frozenset[str] = frozenset()
    bound: frozenset[tuple[str, str]] = frozenset()


def rows_of(tasks: Sequence[Task], shown: Iterable[Comparison]) -> dict[Task, dict[str, Comparison]]:
    """The comparisons of each task, in the order of these, by platform."""
    by_task: dict[Task, dict[str, Comparison]] = {}
    for comparison in shown:
        by_task.setdefault(comparison.task, {})[comparison.platform] = comparison
    return {task: by_task[task] for task in tasks if task in by_task}


def line_points(rows: int) -> float:
    """From one line to the next: of more rows they move together, so that two of them can still be seen at once."""
    return 9.0 if rows <= ROOMY else 5.4


def share_limits(analysis: Analysis, shown: Sequence[Comparison]) -> tuple[float, float]:
    """In percent: all dots, intervals within a factor of three of their dot, and the margin's band."""
    values = [100.0, 100 / (1 + analysis.margin), 100 * (1 + analysis.margin)]
    for comparison in shown:
        share, interval = comparison.share, comparison.interval
        if share is not None:
            values.append(share * 100)
            if interval is not None:
                values += [max(interval.low, share / 3) * 100, min(interval.high, share * 3) * 100]
    low, high = min(values), max(values)
    margin = (high / low) ** 0.04
    return low / margin, high * margin


def left_of(rows: Iterable[str], width: Width) -> float:
    """How much room the rows' names take, in pixels."""
    lines = (line for row in rows for line in _lines(row, width))
    return max((text_width(line, SIZES[width].text) for line in lines), default=0.0) + 8


def share_panel(analysis: Analysis, panel: SharePanel, width: Width, left: float) -> Specification:
    """One panel with its data: a filled marker: slower or faster; half filled: alike; open: not known.

    An arrow at the panel's edge: an interval goes on.
    """
    names = (caveats.name(analysis, platform) for platform in panel.edge)
    right = max((text_width(name, SIZES[width].small) for name in names), default=0.0) + 8
    step = pixels(panel.line_points)
    values = list(_data(analysis, panel))
    return {
        "title": panel.title,
        "width": panel_width(width, 1, left, each=right),
        "height": round(len(panel.rows) * (len(panel.platforms) + 1.2) * step, 1),
        "data": {"values": values},
        "encoding": {
            "y": {
                "field": "row",
                "type": "ordinal",
                "scale": {"domain": list(range(len(panel.rows))), "paddingInner": 0, "paddingOuter": 0},
                "axis": {
                    "labelExpr": labels_of([_lines(row, width) for row in panel.rows]),
                    "title": None,
                    "domain": False,
                    "ticks": False,
                    "labelPadding": 6,
                },
            },
        },
        "layer": _layers(analysis, panel, width, values),
        "resolve": {"scale": {"shape": "independent"}},  # whole markers and halves
    }


def _layers(
    analysis: Analysis, panel: SharePanel, width: Width, values: Sequence[Mapping[str, Any]]
) -> list[Specification]:
    """What no datum needs is left out."""
    across = _across(panel, width)
    offset: Specification = {"domain": list(panel.platforms), "paddingInner": 1, "paddingOuter": 1.1}
    lines: Specification = {"yOffset": {"field": "platform", "type": "nominal", "scale": offset}}
    at = {"x": {"field": "value", **across}, **lines}
    margin = {"x": {"datum": 100 / (1 + analysis.margin), **across}, "x2": {"datum": 100 * (1 + analysis.margin)}}
    ends: Specification = {"x": {"field": "from", **across}, "x2": {"field": "to"}}
    ends |= lines | {"stroke": by_platform(analysis), "tooltip": SAID}
    layers = [layer({"type": "rect", "fill": BAND}, margin | {"y": None})]
    if len(panel.rows) > 1:
        layers.append(_between_rows())
    layers.append(rule_through("x", 100))
    layers.append(layer({"type": "rule", "strokeWidth": 1.6}, ends, "isValid(datum.low)"))
    layers += [*_arrows(analysis, panel, lines, values), *_markers(analysis, at, values)]
    if analysis.caveats.keys() & set(panel.platforms):
        layers.append(crosses(at))
    small: Specification = {"type": "text", "fill": MUTED, "fontSize": pixels(SIZES[width].small)}
    if panel.bound:
        above = small | {"dy": -7, "fontSize": pixels(6.1)}
        layers.append(layer(above, at | {"text": {"value": "generator-bound"}}, "datum.bound"))
    if panel.edge:
        edge = {"x": {"value": "width"}, "text": {"field": "edge"}, **lines}
        layers.append(layer(small | {"align": "left", "baseline": "middle", "dx": 4}, edge, "datum.edge"))
    return layers


def _across(panel: SharePanel, width: Width) -> Specification:
    scale: Specification = {"type": "log", "domain": list(map(number, panel.limits)), "nice": False}
    axis: Specification = {
        "values": _shown_ticks(panel.limits, width),
        "labelExpr": "datum.value + ' %'",
        "grid": True,
        "title": _lines(panel.axis, width, 2 * _LETTERS_IN_A_COLUMN) if panel.axis else None,
    }
    return {"type": "quantitative", "scale": scale, "axis": axis}


def _arrows(
    analysis: Analysis, panel: SharePanel, lines: Specification, values: Sequence[Mapping[str, Any]]
) -> Iterator[Specification]:
    """At the edges that an interval goes beyond."""
    low, high = (number(limit) for limit in panel.limits)
    fill = {"fill": by_platform(analysis), **lines}
    if any(datum.get("low", low) < low for datum in values):
        yield layer(_arrow(markers.TO_THE_LEFT), {"x": {"value": 0}} | fill, f"datum.low < {low}")
    if any(datum.get("high", 0) > high for datum in values):
        yield layer(_arrow(markers.TO_THE_RIGHT), {"x": {"value": "width"}} | fill, f"datum.high > {high}")


def _arrow(shape: str) -> Specification:
    return {"type": "point", "shape": shape, "size": markers.area(3.5), "strokeWidth": 0, "fillOpacity": 1}


def _markers(analysis: Analysis, at: Specification, values: Sequence[Mapping[str, Any]]) -> Iterator[Specification]:
    """Filled: slower or faster; half filled: alike; open: not known."""
    point: Specification = {"type": "point", "size": markers.area(_SAMPLE_POINTS), "strokeWidth": 1.4}
    paint = by_platform(analysis)
    face = {"condition": {"test": f"datum.look === '{_DIFFERENT}'", **paint}, "value": PAPER}
    outline = {"stroke": paint, "shape": by_platform(analysis, "shape")}
    yield layer(point, at | outline | {"fill": face, "tooltip": SAID})
    if any(datum["look"] == _ALIKE for datum in values):
        half = {"fill": paint, "shape": by_platform(analysis, "half"), "tooltip": SAID}
        yield layer(point | {"strokeWidth": 0}, at | half, f"datum.look === '{_ALIKE}'")


def _between_rows() -> Specification:
    """A thin line above each row but the first."""
    place = {"y": {"field": "row", "type": "ordinal", "bandPosition": 0}}
    return layer({"type": "rule", "stroke": GRID, "strokeWidth": 1}, place, "datum.row > 0")


def _data(analysis: Analysis, panel: SharePanel) -> Iterable[dict[str, Any]]:
    low_limit, high_limit = panel.limits
    for place, (name, row) in enumerate(panel.rows.items()):
        for platform in panel.platforms:
            comparison = row.get(platform)
            if comparison is None or comparison.share is None:
                continue
            made: dict[str, Any] = {
                "platform": platform,
                "workload": comparison.task.workload,
                "row": place,
                "value": number(100 * comparison.share),
                "look": _look(comparison),
                "said": f"{platform}, {name}: {_said(comparison, panel.reference)}",
            }
            if platform in panel.edge:
                made["edge"] = caveats.name(analysis, platform)
            if platform in analysis.caveats:
                made["caveat"] = True
            if (platform, name) in panel.bound:
                made["bound"] = True
            if comparison.interval is not None:
                low, high = 100 * comparison.interval.low, 100 * comparison.interval.high
                made |= {"low": number(low), "high": number(high)}
                made |= {"from": number(max(low, low_limit)), "to": number(min(high, high_limit))}
            yield made


def _look(comparison: Comparison) -> str:
    if comparison.verdict in DIFFERENT:
        return _DIFFERENT
    return _ALIKE if comparison.verdict is Verdict.ALIKE else _OPEN


def _said(comparison: Comparison, reference: str) -> str:
    text = f"{words.share(comparison.share or 0.0, comparison.interval)} of {reference}"
    if comparison.interval is not None:
        text += f", 95 % interval {words.between(comparison.interval.low, comparison.interval.high)}"
    if comparison.pairs:  # blocks of two runs are no pairs
        text += f", {words.counted(len(comparison.pairs), 'block')}"
    return f"{text}; {words.said(comparison).text}"


def _lines(text: str, width: Width, letters: int = _LETTERS_IN_A_COLUMN) -> list[str]:
    """In short lines in a column; a number keeps its unit beside it."""
    if width is Width.PAGE:
        return [text]
    return textwrap.wrap(re.sub(r"(?<=\d) (?=\S+$)", "\u00a0", text), letters)


def _shown_ticks(limits: tuple[float, float], width: Width) -> list[float]:
    ticks = _ticks(*limits)
    return ticks[:: -(-len(ticks) // _TICKS_IN_A_COLUMN)] if width is Width.COLUMN else ticks


def _ticks(low: float, high: float) -> list[float]:
    """1-2-5 ticks, or every 5 or 10 % where the axis is too short for them."""
    if high / low > 4:
        return nice_log_ticks(low, high)
    step = next(step for step in (1, 2, 5, 10, 20, 50) if (high - low) / step <= 9)
    return [float(tick) for tick in range(0, int(high) + 1, step) if low <= tick]


def share_legend(
    analysis: Analysis, platforms: Sequence[str], reference: str, *, width: Width, left: float
) -> list[Specification]:
    """Platforms, verdicts, and the margin around what the shares are of."""
    margin = words.amount(analysis.margin)
    entries = [
        *legends.platforms(analysis, platforms),
        *legends.verdicts(analysis),
        legends.box(f"within {margin} of {reference}", BAND),
        *legends.of_caveats(analysis, platforms),
    ]
    return legends.legend(width, entries, left)
