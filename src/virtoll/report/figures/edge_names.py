"""Names at the right edge of a panel, each at many heights: one text each, and its outlines everywhere else.

A text is laid out letter by letter each time, which of a thousand took longer than the rest of a figure.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from virtoll.report.figures.style import MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE, _APART = 6.0, 3.0  # points: of the letters, and from the edge


def edge_name(panel: "Axes", name: str, heights: Sequence[float]) -> None:
    """The name right of the panel, at each of these heights (at least one) in data coordinates."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath, text_to_path
    from matplotlib.transforms import ScaledTranslation

    panel.annotate(
        name,
        (1.0, heights[0]),
        (_APART, 0),
        va="center",
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        fontsize=_SIZE,
        color=MUTED,
    )
    if len(heights) == 1:
        return
    # Where a text's baseline is whose middle is at its height: as `Text` has it, of a line that holds 'l' and 'p'.
    font = FontProperties(size=_SIZE)
    sizes = [text_to_path.get_text_width_height_descent(text, font, ismath=False) for text in ("lp", name)]
    below = max(height for _, height, _ in sizes) / 2 - max(descent for _, _, descent in sizes)
    outline = TextPath((0, -below), name, prop=font)
    figure = panel.figure
    (drawn,) = panel.plot(
        [1.0] * (len(heights) - 1),
        heights[1:],
        transform=panel.get_yaxis_transform() + ScaledTranslation(_APART / 72, 0, figure.dpi_scale_trans),
        marker=outline,
        markersize=2 * abs(outline.vertices).max(),  # Matplotlib makes its largest coordinate half of this
        markeredgewidth=0,
        color=MUTED,
        linestyle="none",
        clip_on=False,
        zorder=3,
    )
    drawn.set_in_layout(False)  # each takes as much room at the edge as the text
