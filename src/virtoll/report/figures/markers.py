"""The shapes of markers: each platform's outline, whole and its left half, and the few that mean something.

A shape is a path of SVG in which -1 and 1 are the marker's edges, as Vega-Lite wants it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from virtoll.report.figures.style import pixels

Outline: TypeAlias = Sequence[tuple[float, float]]


def _around(corners: int, radius: float = 1.0, inner: float | None = None) -> Outline:
    """A regular polygon with a corner on top, or a star whose inner corners are at `inner`."""
    radii = [radius] if inner is None else [radius, inner]
    count = corners * len(radii)
    return [
        (
            radii[place % len(radii)] * math.sin(2 * math.pi * place / count),
            -radii[place % len(radii)] * math.cos(2 * math.pi * place / count),
        )
        for place in range(count)
    ]


_ARM = 0.36
_PLUS: Outline = (
    *((-_ARM, -1.0), (_ARM, -1.0), (_ARM, -_ARM), (1.0, -_ARM), (1.0, _ARM), (_ARM, _ARM)),
    *((_ARM, 1.0), (-_ARM, 1.0), (-_ARM, _ARM), (-1.0, _ARM), (-1.0, -_ARM), (-_ARM, -_ARM)),
)


def _turned(outline: Outline, degrees: float) -> Outline:
    sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    return [(x * cosine - y * sine, x * sine + y * cosine) for x, y in outline]


OUTLINES: Mapping[str, Outline] = {
    "o": _around(24),
    "s": [(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)],
    "D": _around(4, 1.15),
    "P": [(1.05 * x, 1.05 * y) for x, y in _PLUS],
    "^": [(0.0, -1.0), (1.0, 0.9), (-1.0, 0.9)],
    "v": [(0.0, 1.0), (1.0, -0.9), (-1.0, -0.9)],
    "X": _turned(_PLUS, 45),
    "h": _around(6),
    "p": _around(5, 1.05),
    "*": _around(5, 1.25, 0.5),
}
"""By the sign that a platform's style has."""

CROSS: Final = "M-1,-1L1,1M1,-1L-1,1"
BOX: Final = "M-1,-0.55L1,-0.55L1,0.55L-1,0.55Z"
TO_THE_LEFT: Final = "M-1,0L0.6,-0.9L0.6,0.9Z"
TO_THE_RIGHT: Final = "M1,0L-0.6,-0.9L-0.6,0.9Z"


def area(points: float) -> float:
    """The `size` of a marker that is so many points wide."""
    return round(pixels(points) ** 2, 1)


def shape(marker: str) -> str:
    """The whole of it."""
    return "circle" if marker == "o" else outline(marker)


def outline(marker: str) -> str:
    """The whole of it as a path, also where Vega has a word for it."""
    return _path(OUTLINES[marker])


def left_half(marker: str) -> str:
    """What of it is left of its middle."""
    return _path(_cut(OUTLINES[marker]))


def _path(outline: Outline) -> str:
    return "M" + "L".join(f"{round(x, 2):g},{round(y, 2):g}" for x, y in outline) + "Z"


def _cut(outline: Outline) -> Outline:
    """The part of a polygon with x <= 0: Sutherland and Hodgman's algorithm with one edge (1974)."""
    kept: list[tuple[float, float]] = []
    for place, (x, y) in enumerate(outline):
        x0, y0 = outline[place - 1]
        if (x <= 0) != (x0 <= 0):
            kept.append((0.0, y0 + (y - y0) * x0 / (x0 - x)))
        if x <= 0:
            kept.append((x, y))
    return kept
