"""How all figures look: one colour and one marker for each platform, the same in every figure and every report.

Colours are Okabe and Ito's (safe for colour-blind readers, 2008), ordered so that neighbours differ in lightness too;
markers and line styles tell platforms apart in grey. Figures are made without pyplot: no global state.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#1a1a1a"
MUTED = "#6b6b6b"
BAND = "#e3e3e3"
COLUMN_INCHES: Final = 3.5  # of a paper with two columns, as IEEE has it; a figure over both is as wide as a page
PAGE_INCHES: Final = 7.16
SMALLEST_POINTS: Final = 6.0  # of text, at the width that a figure is printed at


@dataclass(frozen=True)
class PlatformStyle:
    """One platform's look in every figure."""

    colour: str
    marker: str
    line: Literal["-", "--", ":", "-."]

    def plot(self, panel: "Axes", x: Sequence[float], y: Sequence[float], label: str, width: float) -> None:
        """A line through the platform's markers; `width` in points."""
        panel.plot(
            x,
            y,
            color=self.colour,
            marker=self.marker,
            markersize=4,
            linestyle=self.line,
            linewidth=width,
            label=label,
        )


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
_SPARE_LOOKS: Sequence[tuple[str, Literal["-", "--", ":", "-."]]] = (("h", "-."), ("p", ":"), ("*", "-"))
SPARE: Sequence[PlatformStyle] = tuple(
    PlatformStyle(colour, marker, line)
    for marker, line in _SPARE_LOOKS
    for colour in ("#CC79A7", "#009E73", "#0072B2", "#D55E00", "#56B4E9", "#E69F00", "#332288")
)

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


def platform_styles(platforms: Sequence[str]) -> dict[str, PlatformStyle]:
    """The look of each platform: the known table's, and for others the next spare one, in order."""
    spare = iter(SPARE)
    last = SPARE[-1]
    return {platform: KNOWN[platform] if platform in KNOWN else next(spare, last) for platform in platforms}


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
