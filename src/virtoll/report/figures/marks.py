"""The marks that figures share: encodings by platform, intervals, markers, panels side by side, and the whole figure.

A datum's fields are those of `base`. Positions are given by the caller: `x` and `y` are channels of Vega-Lite.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from virtoll.report.figures import markers
from virtoll.report.figures.style import (
    INK,
    MUTED,
    PAPER,
    SIZES,
    PlatformStyle,
    Specification,
    Width,
    literal,
    pixels,
    platform_styles,
)
from virtoll.stats.analysis import Analysis

SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"
SAID: Final[Specification] = {"field": "said", "type": "nominal"}
"""The tooltip of every mark that shows a value."""
ONCE: Final[Specification] = {"data": {"values": [{}]}}
"""A layer's own data where it shows none of the panel's: else it would be drawn once for each of them."""
_WIDE, _NARROW = "mwMWGOQCD@%&—", "ijltfrI1|.,:;'()[]/ -"


def text_width(text: str, points: float) -> float:
    """About how wide a line of text is, in pixels: Vega-Lite's layout measures, but panels are sized before it."""
    return pixels(sum(map(_ems, text)) * points)


def _ems(letter: str) -> float:
    if letter in _NARROW:
        return 0.33
    if letter in _WIDE:
        return 0.8
    return 0.65 if letter.isupper() else 0.556


def number(value: float) -> float:
    """A value for a drawing: six digits, which no eye tells from more."""
    return float(f"{value:.6g}")


def flags(**fields: object) -> dict[str, bool]:
    """Those of a datum's fields that are true: it lacks the others."""
    return {name: True for name, value in fields.items() if value}


def with_data(
    layers: Iterable[tuple[str, Specification]], data: Iterable[Mapping[str, Any]]
) -> Iterator[Specification]:
    """The layers whose field any datum has."""
    fields = set().union(*data)
    for field, drawn in layers:
        if field in fields:
            yield drawn


def layer(mark: Specification, encoding: Specification, where: str | None = None) -> Specification:
    """One layer; `where`: an expression of Vega over `datum`, without which all data are drawn."""
    made: Specification = {"mark": mark, "encoding": encoding}
    return made if where is None else made | {"transform": [{"filter": where}]}


_LOOKS: Final[Mapping[str, Callable[[PlatformStyle], Any]]] = {
    "paint": lambda style: style.paint,
    "shape": lambda style: markers.shape(style.marker),
    "half": lambda style: markers.left_half(style.marker),
    "dash": lambda style: list(style.dash),
}


def by_platform(analysis: Analysis, kind: str = "paint") -> Specification:
    """A channel's definition: each platform's `paint`, `shape`, `half` (of its shape), or `dash`. It has no legend."""
    return of_styles(platform_styles(analysis.platforms), kind)


def of_styles(styles: Mapping[str, PlatformStyle], kind: str = "paint") -> Specification:
    """The same of platforms by name."""
    scale = {"domain": list(styles), "range": list(map(_LOOKS[kind], styles.values()))}
    return {"field": "platform", "type": "nominal", "scale": scale, "legend": None}


def labels_of(labels: Sequence[str | Sequence[str]]) -> str:
    """The `labelExpr` of an axis over the numbers 0, 1, 2...: each number's label, a list of lines or one."""
    return f"{literal(list(labels))}[datum.value]"


def note(text: str, width: Width) -> Specification:
    """A panel's `title` that says in small letters how to read it."""
    return {"text": text, "color": MUTED, "fontSize": pixels(SIZES[width].small)}


def rule_through(channel: str, value: float, dash: Sequence[float] | None = None, paint: str = INK) -> Specification:
    """A line of reference right through a panel, at a value of `x` or `y`."""
    drawn: Specification = {"type": "rule", "stroke": paint, "strokeWidth": 1}
    other = "y" if channel == "x" else "x"
    place = {channel: {"datum": number(value), "type": "quantitative"}, other: None}
    return ONCE | layer(drawn | ({} if dash is None else {"strokeDash": list(dash)}), place)


def bars_from_zero(place: Specification, paint: Specification, size: float, *, upright: bool) -> Specification:
    """A bar for each datum that has a `value`, in its platform's paint; open and dashed where it has a `caveat`.

    `place`: where it stands and how far it goes, as encoded; `paint`: the colour's channel; `size`: in pixels.
    """
    caveat = {"test": "datum.caveat"}
    orient = {"orient": "vertical"} if upright else {}
    look: Specification = {
        "fill": {"condition": caveat | {"value": PAPER}, **paint},
        "stroke": paint,
        "strokeWidth": {"condition": caveat | {"value": 1.2}, "value": 0},
        "tooltip": SAID,
    }
    mark = {"type": "bar", "size": round(size, 2), "strokeDash": [3, 2]} | orient
    return layer(mark, place | look, "isValid(datum.value)")


def on_paper(channels: Specification, where: str = "isValid(datum.low)") -> list[Specification]:
    """An interval that can be seen on a bar of any colour: a dark line with light edges, in one layer.

    `channels`: the four ends (`x`, `x2`, `y` ...) as they are encoded.
    """
    light, dark = pixels(2.6), pixels(1.1)
    mark = {
        "type": "bar",
        "size": round((light + dark) / 2, 2),
        "fill": INK,
        "stroke": PAPER,
        "strokeWidth": round((light - dark) / 2, 2),
    }
    return [layer(mark, channels | {"tooltip": SAID}, where)]


def crosses(position: Specification, points: float = 4.0) -> Specification:
    """A cross over each marker whose datum has a `caveat`."""
    mark = {
        "type": "point",
        "shape": markers.CROSS,
        "size": markers.area(points),
        "stroke": INK,
        "strokeWidth": 1,
        "fill": None,
    }
    return layer(mark, position, "datum.caveat")


def panels(specifications: Sequence[Specification], columns: int, spacing: float = 14) -> Specification:
    """Panels side by side, in rows of so many."""
    return {"concat": list(specifications), "columns": columns, "spacing": spacing, "align": "each"}


def panel_width(width: Width, columns: int, left: float, *, each: float = 0.0, spacing: float = 14) -> float:
    """Of one of so many panels in a row, in pixels: `left` is what the first has beside it, and `each` every one."""
    return round((width.pixels - 4 - left - columns * each - (columns - 1) * spacing) / columns, 1)


def figure(parts: Iterable[Specification], data: Sequence[Mapping[str, Any]] | None = None) -> Specification:
    """The whole: parts below one another (a legend is the last), and the data of all that have none of their own."""
    made: Specification = {"$schema": SCHEMA, "spacing": 10, "vconcat": list(parts)}
    return made if data is None else made | {"data": {"values": list(data)}}
