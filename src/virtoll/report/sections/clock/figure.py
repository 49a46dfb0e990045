"""The platforms' clock error: how far the guest's own durations are from the outside clock's."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.figures import caveats, legends, markers
from virtoll.report.figures.bars import names_width
from virtoll.report.figures.base import FigureSpec, drawn_in_a_column
from virtoll.report.figures.lines import axis
from virtoll.report.figures.marks import (
    ONCE,
    SAID,
    by_platform,
    crosses,
    figure,
    flags,
    labels_of,
    layer,
    number,
    panel_width,
    rule_through,
)
from virtoll.report.figures.style import BAND, MUTED, PAPER, SIZES, Specification, Width, pixels
from virtoll.stats.analysis import Analysis
from virtoll.stats.clocks import ClockError, ClockReading

MOST_MARKERS = 1000
"""So many trials have a marker each; of more, those at one place share one."""
_PLACE = 3.0  # pixels of the axis, of which a marker has 4.5: trials so near are at one place
_POINTS = 3.4  # the size of a trial's marker
_LINEAR_PPM = 10.0
_ROW_POINTS = 21.0
_HALF = 0.36  # of the distance between two rows: of a band, and of a median's line
_JITTER = 0.5  # of the same: of all markers of a row
_TICKS_ON_A_PAGE = 4


def draw(analysis: Analysis, width: Width) -> Specification:
    """One row a platform, one dot a trial, in ppm on an axis that is linear near zero and logarithmic further out."""
    shown = [clock.platform for clock in analysis.clocks]
    names = [caveats.name(analysis, platform) for platform in shown]
    left = names_width({name: [name] for name in names}, SIZES[width].text)
    wide = panel_width(width, 1, left, each=12)
    extremes = [abs(reading.error) for clock in analysis.clocks for reading in clock.readings]
    reach = max([*extremes, *(clock.estimate for clock in analysis.clocks)]) * 1e6 * 1.5
    upright = axis((len(shown) - 0.4, -0.6), None, ticks=range(len(shown)))
    rows = {"labelExpr": labels_of(names), "grid": False, "domain": True, "ticks": False, "labelPadding": 6}
    upright["axis"] |= rows
    panel: Specification = {
        "width": wide,
        "height": round(pixels(_ROW_POINTS) * len(shown), 1),
        "data": {"values": [*_data(analysis, reach, wide)]},
        "layer": _layers(analysis, _across(reach, width), upright, width),
    }
    return figure([panel, *legends.legend(width, legends.of_caveats(analysis, shown), left, most=2)])


def _merged(analysis: Analysis) -> bool:
    return sum(len(clock.readings) for clock in analysis.clocks) > MOST_MARKERS


def _data(analysis: Analysis, reach: float, width: float) -> Iterator[dict[str, Any]]:
    """A datum a platform, and one a trial or a place of several, in ppm."""
    for row, clock in enumerate(analysis.clocks):
        name = caveats.name(analysis, clock.platform)
        common: dict[str, Any] = {"platform": clock.platform}
        yield common | _summary(clock, row, name)
        common |= flags(caveat=clock.platform in analysis.caveats)
        heights = _heights(row, clock.readings)
        if not _merged(analysis):
            for reading in clock.readings:
                error = units.parts_per_million(reading.error)
                error = f"{error}, {_against(reading)} of {_size(reading.estimate)}"
                sentence = f"{name}, {reading.workload}, trial {reading.trial}: {error}"
                made = common | {"workload": reading.workload, **_shown(reading), "y": heights[reading]}
                yield made | {"said": sentence}
            continue
        for place in _places(clock.readings, reach, width):
            errors = sorted(reading.error for reading in place)
            between = " to ".join(dict.fromkeys(map(units.parts_per_million, (errors[0], errors[-1]))))
            trials = f"trial {place[0].trial}" if len(place) == 1 else f"{len(place)} trials"
            workloads = ", ".join(dict.fromkeys(reading.workload for reading in place))
            made = common | {"workload": workloads, **_shown(place[0])}
            made["y"] = round(statistics.fmean(heights[reading] for reading in place), 3)
            made["size"] = round(markers.area(_POINTS) * (1 + math.log2(len(place)) / 2), 1)  # more with each doubling
            yield made | {"said": f"{name}, {trials}: {between}, {_against(place[0])}"}


def _summary(clock: ClockError, row: int, name: str) -> dict[str, Any]:
    ends = {"from": number(-clock.estimate * 1e6), "to": number(clock.estimate * 1e6)}
    upright = {"top": row - _HALF, "bottom": row + _HALF}
    median, trials = units.parts_per_million(clock.median), words.counted(len(clock.readings), "trial")
    sentence = f"{name}: median {median} over {trials}, median estimate ±{_size(clock.estimate)}; {clock.words}"
    return {"median": number(clock.median * 1e6), **ends, **upright, "said": sentence}


def _shown(reading: ClockReading) -> dict[str, Any]:
    return {"value": float(f"{reading.error * 1e6:.4g}")} | flags(within=reading.within)


def _size(relative: float) -> str:
    return units.parts_per_million(relative).lstrip("+")


def _against(reading: ClockReading) -> str:
    return f"{'within' if reading.within else 'beyond'} the error estimate"


def _heights(row: int, readings: Sequence[ClockReading]) -> Mapping[ClockReading, float]:
    """In the order of the trials from above, so that they stand side by side."""
    count = len(readings)
    step = _JITTER / max(count, 2)
    return {reading: round(row + (place - (count - 1) / 2) * step, 3) for place, reading in enumerate(readings)}


def _places(readings: Iterable[ClockReading], reach: float, width: float) -> list[list[ClockReading]]:
    """Those that cannot be told apart in the drawing, in order."""
    by_place: dict[tuple[int, bool], list[ClockReading]] = {}
    scale = width / 2 / math.log1p(reach / _LINEAR_PPM)
    for reading in readings:
        error = reading.error * 1e6
        place = math.copysign(math.log1p(abs(error) / _LINEAR_PPM), error) * scale
        by_place.setdefault((round(place / _PLACE), reading.within), []).append(reading)
    return list(by_place.values())


def _layers(analysis: Analysis, across: Specification, upright: Specification, width: Width) -> list[Specification]:
    rows: Specification = {"y": {"field": "top", **upright}, "y2": {"field": "bottom"}}
    band = {"x": {"field": "from", **across}, "x2": {"field": "to"}} | rows
    median = {"x": {"field": "median", **across}, "stroke": by_platform(analysis), "tooltip": SAID} | rows
    at: Specification = {"x": {"field": "value", **across}, "y": {"field": "y", **upright}}
    colour: Specification = {"stroke": by_platform(analysis), "shape": by_platform(analysis, "shape")}
    face = by_platform(analysis) | {"condition": {"test": "datum.within", "value": PAPER}}
    dot: Specification = {"type": "point", "size": markers.area(_POINTS), "strokeWidth": 1.1}
    size: Specification = {"field": "size", "type": "quantitative", "scale": None, "legend": None}
    colour |= {"size": size} if _merged(analysis) else {}
    layers = [
        layer({"type": "rect", "fill": BAND}, band | {"tooltip": SAID}, "isValid(datum.median)"),
        rule_through("x", 0),
        layer(dot, at | colour | {"fill": face, "tooltip": SAID}, "isValid(datum.value)"),
        layer({"type": "rule", "strokeWidth": 2.1}, median, "isValid(datum.median)"),
    ]
    if any(clock.platform in analysis.caveats for clock in analysis.clocks):
        layers.append(crosses(at))
    text: Specification = {"type": "text", "fill": MUTED, "baseline": "bottom", "dy": -3}
    text |= {"fontSize": pixels(SIZES[width].small)}
    for label, place, side in (("guest's clock slow", 0, "left"), ("guest's clock fast", "width", "right")):
        where = {"x": {"value": place}, "y": {"value": 0}, "text": {"value": label}}
        layers.append(ONCE | layer(text | {"align": side}, where))
    return layers


def _across(reach: float, width: Width) -> Specification:
    decades = [10.0**power for power in range(1, 13) if 10.0**power <= reach]
    if len(decades) > (1 if width is Width.COLUMN else _TICKS_ON_A_PAGE):
        decades = decades[:: 2 if len(decades) < 8 else 3]
    if width is Width.COLUMN:
        decades = decades[-1:]
    ticks = [-decade for decade in reversed(decades)] + [0.0, *decades]
    lines = ["clock error, (guest − outside) / outside;", "linear near 0, logarithmic far beyond ±10 ppm"]
    return axis(
        (-reach, reach),
        lines if width is Width.COLUMN else " ".join(lines),
        scale={"type": "symlog", "constant": _LINEAR_PPM},
        ticks=ticks,
        names=list(map(_tick, ticks)),
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
    shared = "Trials at one place share a marker, the larger the more they are. " if _merged(analysis) else ""
    return (
        f"Each marker is one timed trial ({count} in all), the upright line the platform's median. {shared}Grey is "
        "the median of the trials' error estimates, in % of the duration: the largest round trip of a "
        "timestamp, or how far both kinds of timestamps differ. An open marker lies within its own trial's estimate, "
        "so it says nothing against the guest's clock; a filled one lies beyond. A platform's clock error is the slope "
        "over the durations, in the table. Durations in this report are the outside clock's; the guest's own are a "
        "result, not a correction."
    )


def why_not(analysis: Analysis) -> str | None:
    """A reading is needed."""
    return None if analysis.clocks else "no trial has both the outside clock's timestamps and the guest's own reading"


ERRORS = FigureSpec("Clock error", caption, draw, why_not, in_a_column=drawn_in_a_column)
