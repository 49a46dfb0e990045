"""Bars as the papers draw them: a group a platform, a bar a kind, its mean's interval and its kind's name on top."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtoll.report.figures import caveats, legends
from virtoll.report.figures.lines import axis
from virtoll.report.figures.marks import (
    bars_from_zero,
    by_platform,
    figure,
    flags,
    layer,
    number,
    on_paper,
    panel_width,
    panels,
    rule_through,
    text_width,
)
from virtoll.report.figures.style import MUTED, SIZES, Specification, Width, pixels
from virtoll.report.rows import platforms_of
from virtoll.stats.analysis import Analysis
from virtoll.stats.intervals import Estimate

_PANEL_POINTS = 130.0  # high
_GAP, _GAP_SHARE = 1.0, 0.25  # between two groups: bars, and what share of a group's at least
_FILLED, _MOST_BAR = 0.92, 40.0  # of the distance between two bars, and pixels
_TURNED, _COSINE = 30, 0.87  # degrees of a platform's name that is wider than its group
_ABOVE = 3.0  # pixels between a bar and its kind's name


@dataclass(frozen=True)
class GroupedBar:
    """A platform's mean in the axis' unit, and what was measured. `kind` is printed above the bar.

    `tooltip`: all of it in words but the platform's name.
    """

    platform: str
    workload: str
    kind: str
    mean: Estimate
    tooltip: str

    @property
    def top(self) -> float:
        """The end of its interval, or its own where one block has none."""
        return self.mean.value if self.mean.interval is None else self.mean.interval.high


@dataclass(frozen=True)
class _Places:
    """Where bars stand, in bars: those of a kind have the same place in each group, the first group's middle is 0."""

    platforms: Sequence[str]
    kinds: Sequence[str]

    @property
    def step(self) -> float:
        """From one group to the next."""
        return len(self.kinds) + max(_GAP, _GAP_SHARE * len(self.kinds))

    @property
    def ends(self) -> tuple[float, float]:
        """The axis'."""
        return -self.step / 2, self.step * (len(self.platforms) - 0.5)

    def of(self, bar: GroupedBar) -> float:
        """A bar's middle."""
        group = self.platforms.index(bar.platform) * self.step
        return group + self.kinds.index(bar.kind) - (len(self.kinds) - 1) / 2


def grouped_bars(
    analysis: Analysis,
    by_title: Mapping[str, Sequence[GroupedBar]],
    width: Width,
    *,
    upright: str,
    reference: float | None = None,
) -> Specification:
    """The whole figure: a panel for each title. `upright`: its axis' title; `reference`: a line through all."""
    columns = min(len(by_title), 2)
    platforms = platforms_of(analysis, (bar for bars in by_title.values() for bar in bars))
    labels, title = text_width("00000", SIZES[width].text) + 8, 1.5 * pixels(SIZES[width].text)
    each = _left(analysis, platforms, panel_width(width, columns, title, each=labels), width, least=labels)
    size = (panel_width(width, columns, title, each=each), round(pixels(_PANEL_POINTS), 1))
    drawn = []
    for place, (panel_title, bars) in enumerate(by_title.items()):
        places = _Places(platforms, list(dict.fromkeys(bar.kind for bar in bars)))
        panel = _panel(analysis, bars, places, width, size) | {"title": panel_title}
        if reference is not None:
            panel["layer"].insert(0, rule_through("y", reference, paint=MUTED))
        if place % columns == 0:
            panel["encoding"]["y"]["axis"]["title"] = upright
        drawn.append(panel)
    below = legends.legend(width, legends.of_caveats(analysis, platforms), title + each, most=2)
    return figure([panels(drawn, columns), *below])


def _left(analysis: Analysis, platforms: Sequence[str], across: float, width: Width, *, least: float) -> float:
    """How much room stands left of a panel that is `across` wide, in pixels: the axis, or a turned name."""
    name = text_width(caveats.name(analysis, platforms[0]), SIZES[width].text)
    return max(least, name * _COSINE - across / len(platforms) / 2 + 8)


def _panel(
    analysis: Analysis, bars: Sequence[GroupedBar], places: _Places, width: Width, size: tuple[float, float]
) -> Specification:
    first, last = places.ends
    bar, points = size[0] / (last - first), SIZES[width].small
    longest = max(text_width(kind, points) for kind in places.kinds)
    turned = longest > bar
    room = _ABOVE + (longest if turned else pixels(points))
    high = max(grouped.top for grouped in bars) * size[1] / (size[1] - room)
    upright = axis((0, high), None)
    upright["axis"] |= {"tickCount": 5, "labelExpr": "'' + datum.value"}
    name: Specification = {"align": "center", "baseline": "bottom", "dy": -_ABOVE}
    if turned:
        name = {"align": "left", "baseline": "middle", "angle": 270, "dx": _ABOVE}
    return {
        "width": size[0],
        "height": size[1],
        "data": {"values": list(_data(analysis, bars, places))},
        "encoding": {
            "x": {"field": "place", **_across(analysis, places, width, bar)},
            "y": {"field": "value", **upright},
        },
        "layer": [
            bars_from_zero({}, by_platform(analysis), min(bar * _FILLED, _MOST_BAR), upright=True),
            *on_paper({"y": {"field": "from", "type": "quantitative"}, "y2": {"field": "to"}}),
            layer(
                {"type": "text", "fontSize": pixels(points)} | name,
                {"y": {"field": "to", "type": "quantitative"}, "text": {"field": "kind"}},
            ),
        ],
    }


def _across(analysis: Analysis, places: _Places, width: Width, bar: float) -> Specification:
    """Platforms' names under their groups, turned where one is wider than a group."""
    names = [caveats.name(analysis, platform) for platform in places.platforms]
    channel = axis(places.ends, None, ticks=[place * places.step for place in range(len(names))], names=names)
    channel["axis"] |= {"grid": False, "ticks": False}
    if max(text_width(name, SIZES[width].text) for name in names) + 6 > bar * places.step:
        channel["axis"] |= {"labelAngle": -_TURNED, "labelAlign": "right", "labelBaseline": "top"}
    return channel


def _data(analysis: Analysis, bars: Sequence[GroupedBar], places: _Places) -> Iterable[dict[str, Any]]:
    for bar in bars:
        made: dict[str, Any] = {
            "platform": bar.platform,
            "workload": bar.workload,
            "kind": bar.kind,
            "place": number(places.of(bar)),
            "value": number(bar.mean.value),
            "to": number(bar.top),
            "said": f"{caveats.name(analysis, bar.platform)}, {bar.tooltip}",
        }
        made |= flags(caveat=bar.platform in analysis.caveats)
        if bar.mean.interval is not None:
            low, high = bar.mean.interval.low, bar.mean.interval.high
            made |= {"low": number(low), "high": number(high), "from": number(max(low, 0.0))}
        yield made
