"""How the figures look that matplotlib draws: its settings for a page and for a column."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from virtoll.report.figures.style import COLUMN_INCHES, PAGE_INCHES, PlatformStyle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#1a1a1a"
MUTED = "#6b6b6b"
BAND = "#e3e3e3"

SETTINGS: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8.0,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.7,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#ececec",
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "text.color": INK,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "virtoll",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "figure.figsize": (PAGE_INCHES, 3.0),
}
IN_A_COLUMN: dict[str, Any] = SETTINGS | {
    "font.size": 7.0,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.0,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "figure.figsize": (COLUMN_INCHES, 3.0),
}


def plot(
    panel: "Axes", style: PlatformStyle, x: Sequence[float], y: Sequence[float], *, label: str, width: float
) -> None:
    """A line through the platform's markers; `width` in points."""
    panel.plot(
        x,
        y,
        color=style.colour,
        marker=style.marker,
        markersize=4,
        linestyle=style.line,
        linewidth=width,
        label=label,
    )
