"""How all figures look: one colour and one marker for each platform, the same in every figure and every report.

Colours are Okabe and Ito's (safe for colour-blind readers, 2008), ordered so that neighbours differ in lightness too;
markers and line styles tell platforms apart in grey.

A page in dark colours draws the same figures. What is ink is `currentColor`. Every other colour is a property of CSS
with its value in light, such as `var(--figure-blue, #0072B2)`. A page sets `--figure-blue` of an element around the
drawing, and what it holds is in that colour: the SVG in the page, and what a browser draws (as SVG, not on a canvas).
`DARK` has the values of a dark page. A file has no page around it: its colours are those in light (`drawer.in_light`).

Lengths are pixels of CSS, 96 in an inch: `pixels` has them of a printer's points.
"""

import enum
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from virtoll.system.printable import printable

Specification: TypeAlias = dict[str, Any]
"""A specification of Vega-Lite or a part of one, as JSON has it."""

COLUMN_INCHES: Final = 3.5  # of a paper with two columns, as IEEE has it; a figure over both is as wide as a page
PAGE_INCHES: Final = 7.16
SMALLEST_POINTS: Final = 6.0  # of text, at the width that a figure is printed at
_PIXELS_PER_INCH, _POINTS_PER_INCH = 96, 72


def printable_texts(part: Any) -> Any:
    """A part of a specification with letters that steer a terminal written out ('\\x1b').

    XML has no such letters, and at one of them the converter takes the whole process along.
    """
    if isinstance(part, str):
        return part if part.isprintable() else printable(part)
    if isinstance(part, dict):
        return {key: printable_texts(value) for key, value in part.items()}
    return list(map(printable_texts, part)) if isinstance(part, list | tuple) else part


def literal(value: Any) -> str:
    """A value as an expression of Vega names it; its texts are those that the drawing shows."""
    return json.dumps(printable_texts(value))


def pixels(points: float) -> float:
    """A length in points as pixels of CSS."""
    return round(points * _PIXELS_PER_INCH / _POINTS_PER_INCH, 2)


class Width(enum.Enum):
    """How wide a figure is."""

    PAGE = PAGE_INCHES
    COLUMN = COLUMN_INCHES

    @property
    def points(self) -> float:
        """In points, of which an inch has 72."""
        return round(self.value * _POINTS_PER_INCH, 2)

    @property
    def pixels(self) -> float:
        """In pixels of CSS, of which an inch has 96."""
        return round(self.value * _PIXELS_PER_INCH, 2)


def _paint(name: str, light: str) -> str:
    return f"var(--figure-{name}, {light})"


INK: Final = "currentColor"
PAPER: Final = _paint("paper", "#ffffff")
MUTED: Final = _paint("muted", "#6b6b6b")
BAND: Final = _paint("band", "#e3e3e3")
GRID: Final = _paint("grid", "#ececec")
TONES: Final = (_paint("first", "#4d4d4d"), _paint("second", "#9a9a9a"), _paint("third", "#d9d9d9"))
"""Of the parts of a whole, the first the strongest."""
_NAMES: Mapping[str, str] = {
    "#8c8c8c": "grey",
    "#0072B2": "blue",
    "#56B4E9": "sky",
    "#009E73": "green",
    "#D55E00": "red",
    "#E69F00": "orange",
    "#CC79A7": "pink",
    "#332288": "indigo",
}
DARK: Mapping[str, str] = {
    "--figure-paper": "#16181d",
    "--figure-muted": "#a3a3a3",
    "--figure-band": "#34373d",
    "--figure-grid": "#2b2e34",
    "--figure-first": "#d4d4d4",
    "--figure-second": "#8f9299",
    "--figure-third": "#4a4e57",
    "--figure-grey": "#9a9a9a",
    "--figure-blue": "#3d9fdc",
    "--figure-sky": "#8fd0f7",
    "--figure-green": "#1fbf92",
    "--figure-red": "#f07a2b",
    "--figure-orange": "#f2b632",
    "--figure-pink": "#e09cc2",
    "--figure-indigo": "#9d8df1",
}
"""What a dark page sets these properties to; `--figure-paper` is to be what stands behind the drawing."""
LIGHT: Final[Mapping[str, str]] = {
    **dict(re.findall(r"var\((--figure-\w+), (#\w+)\)", "".join((PAPER, MUTED, BAND, GRID, *TONES)))),
    **{f"--figure-{name}": colour for colour, name in _NAMES.items()},
}
"""What they are on a light page, as every figure says of itself; the page's own SVGs leave that to the page."""
_TAG = re.compile(r"<[^>]*>")
_PROPERTY = re.compile(r"var\(--figure-\w+, (#\w+)\)")


def by_the_page(svg: str) -> str:
    """A drawing for a page that sets the properties itself, as `LIGHT` or `DARK`."""
    return _TAG.sub(lambda tag: _PROPERTY.sub(lambda match: f"{match[0].partition(',')[0]})", tag[0]), svg)


Line: TypeAlias = Literal["-", "--", ":", "-."]
_DASHES: Mapping[str, tuple[float, ...]] = {"-": (1, 0), "--": (5, 2.5), ":": (1.3, 2), "-.": (6, 2, 1.3, 2)}


@dataclass(frozen=True)
class PlatformStyle:
    """One platform's look in every figure; `marker` is a key of `markers.OUTLINES`."""

    colour: str
    marker: str
    line: Line

    @property
    def paint(self) -> str:
        """The colour as a figure names it."""
        return INK if self.colour == "#000000" else _paint(_NAMES[self.colour], self.colour)

    @property
    def dash(self) -> tuple[float, ...]:
        """The line's dashes and gaps in pixels."""
        return _DASHES[self.line]


KNOWN: Mapping[str, PlatformStyle] = {
    "native": PlatformStyle("#000000", "o", "-"),
    "native-again": PlatformStyle("#8c8c8c", "o", ":"),
    "netns": PlatformStyle("#0072B2", "s", "-"),
    "runc": PlatformStyle("#56B4E9", "D", "--"),
    "qemu-kvm": PlatformStyle("#009E73", "P", "-"),
    "qemu-kvm-virtio-net": PlatformStyle("#009E73", "P", "-"),
    "qemu-tcg": PlatformStyle("#D55E00", "^", "-"),
    "qemu-tcg-virtio-net": PlatformStyle("#D55E00", "^", "-"),
    "qemu-tcg-e1000": PlatformStyle("#E69F00", "v", "--"),
    "fake": PlatformStyle("#CC79A7", "X", "-"),
}
_SPARE_LOOKS: Sequence[tuple[str, Line]] = (("h", "-."), ("p", ":"), ("*", "-"))
_SPARE_COLOURS = ("#CC79A7", "#009E73", "#0072B2", "#D55E00", "#56B4E9", "#E69F00", "#332288")
SPARE: Sequence[PlatformStyle] = tuple(
    PlatformStyle(_SPARE_COLOURS[place % len(_SPARE_COLOURS)], *_SPARE_LOOKS[place % len(_SPARE_LOOKS)])
    for place in range(len(_SPARE_COLOURS) * len(_SPARE_LOOKS))
)
"""Each once: neighbours differ in colour and in shape, so that who takes two colours for one still tells them apart."""

FONT: Final = "Liberation Sans, Arimo, Arial, Helvetica, Nimbus Sans, sans-serif"
"""The first is in the converter itself and is what is measured; the others have letters as wide."""


@dataclass(frozen=True)
class Sizes:
    """Of text, in points: of what is on axes and in legends, of titles, and of what stands among marks."""

    text: float
    title: float
    small: float


SIZES: Mapping[Width, Sizes] = {Width.PAGE: Sizes(7.5, 8.5, 6.5), Width.COLUMN: Sizes(6.6, 7.5, 6.2)}


def config(width: Width) -> Specification:
    """The `config` of every figure's specification at a width; the specification itself has none."""
    text, title, small = (pixels(points) for points in (SIZES[width].text, SIZES[width].title, SIZES[width].small))
    return {
        "aria": False,
        "background": None,
        "font": FONT,
        "padding": 2,
        "view": {"stroke": None},
        "axis": {
            "domainColor": MUTED,
            "gridColor": GRID,
            "gridWidth": 0.8,
            "labelColor": INK,
            "labelFontSize": text,
            "labelFlush": False,
            "labelLimit": 0,
            "tickColor": MUTED,
            "tickSize": 4,
            "titleColor": INK,
            "titleFontSize": text,
            "titleFontWeight": "normal",
            "titleLimit": 0,
        },
        "title": {
            "anchor": "start",
            "color": INK,
            "fontSize": title,
            "fontWeight": "normal",
            "frame": "group",
            "limit": 0,
            "offset": 5,
            "subtitleColor": MUTED,
            "subtitleFontSize": small,
        },
        "text": {"color": INK, "fontSize": small},
        "rule": {"color": INK},
        "point": {"opacity": 1},
        "tick": {"opacity": 1},
        "line": {"strokeCap": "butt"},
    }


def platform_styles(platforms: Sequence[str]) -> dict[str, PlatformStyle]:
    """The look of each platform: the known table's, and for others the next spare one, in order."""
    spare = iter(SPARE)
    last = SPARE[-1]
    return {platform: KNOWN.get(platform) or next(spare, last) for platform in platforms}


_MILLIONS, _THOUSANDS = "(datum.value / 1e6) + ' M'", "(datum.value / 1e3) + ' k'"
COUNTS: Final[Specification] = {
    "labelExpr": f"datum.value >= 1e6 ? {_MILLIONS} : datum.value >= 1e3 ? {_THOUSANDS} : datum.value"
}
"""An axis of rates: '4 k', '250 k', '1 M'."""


def whole(value: float) -> str:
    """Tick text of a rate: '4 k', '250 k', '1 M'."""
    for scale, prefix in ((1e6, " M"), (1e3, " k")):
        if abs(value) >= scale:
            return f"{value / scale:g}{prefix}"
    return f"{value:g}"


def nice_log_ticks(low: float, high: float) -> list[float]:
    """Tick places 1, 2, 5 x 10^n within [low, high]; every decade's 1 alone where that would be too many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    places = [step * 10.0**power for power in range(first, last + 1) for step in (1, 2, 5)]
    inside = [place for place in places if low * 0.999 <= place <= high * 1.001]
    if len(inside) > 8:
        inside = [place for place in inside if math.isclose(math.log10(place) % 1, 0, abs_tol=1e-9)]
    return inside
