"""Very many markers in a figure: one picture of dots in a vector graphic, where each by itself would be megabytes.

Few markers stay what they are in every other figure: shapes of their own, sharp at any size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SHAPES = 2000
"""So many markers of a figure are shapes; of more a picture is made, which is sharp in print."""
_DOTS_PER_INCH = 200


@dataclass(frozen=True)
class Dot:
    """A marker in data coordinates: its shape, and the colours of its face and edge (`none`: open)."""

    x: float
    y: float
    marker: str
    face: str
    edge: str


def draw_dots(
    panel: "Axes", dots: Sequence[Dot], *, size: float, edge_width: float, zorder: float, clip: bool = True
) -> None:
    """All of them in order, later ones over earlier ones; `size` and `edge_width` in points."""
    if len(dots) > MOST_SHAPES:
        _as_a_picture(panel, dots, size=size, edge_width=edge_width, zorder=zorder, clip=clip)
        return
    for dot in dots:
        panel.plot(
            dot.x,
            dot.y,
            marker=dot.marker,
            markersize=size,
            markeredgecolor=dot.edge,
            markeredgewidth=edge_width,
            markerfacecolor=dot.face,
            linestyle="none",
            clip_on=clip,
            zorder=zorder,
        )


def _as_a_picture(
    panel: "Axes", dots: Sequence[Dot], *, size: float, edge_width: float, zorder: float, clip: bool
) -> None:
    from matplotlib.figure import Figure
    from matplotlib.markers import MarkerStyle

    shapes = {}
    for marker in {dot.marker for dot in dots}:
        style = MarkerStyle(marker)
        shapes[marker] = style.get_path().transformed(style.get_transform())
    drawn = panel.scatter(
        [dot.x for dot in dots],
        [dot.y for dot in dots],
        s=size**2,
        c=[dot.face for dot in dots],
        edgecolors=[dot.edge for dot in dots],
        linewidths=edge_width,
        zorder=zorder,
        clip_on=clip,
        rasterized=True,
    )
    drawn.set_paths([shapes[dot.marker] for dot in dots])
    drawn.set_joinstyle("miter")
    if isinstance(panel.figure, Figure):
        panel.figure.set_dpi(_DOTS_PER_INCH)
