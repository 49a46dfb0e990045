"""Bars as the papers draw them: a group a platform, a bar a kind, its mean's interval and its kind's name on top."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from virtoll.report.figures.old import caveat_signs
from virtoll.report.figures.old.style import INK
from virtoll.report.figures.style import PlatformStyle
from virtoll.stats.analysis import Analysis
from virtoll.stats.intervals import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GROUP_WIDTH = 0.8  # of the distance between two platforms
_ROOM_FOR_NAMES, _ROOM_FOR_TURNED_NAMES = 1.15, 1.25
_MANY = 16  # bars in a panel, above which names of more than two letters would touch


@dataclass(frozen=True)
class Bar:
    """One bar; `kind` is printed above it, and bars of a kind have the same place in each group."""

    platform: str
    kind: str
    mean: Estimate

    @property
    def top(self) -> float:
        """The end of its interval, or its own where one block has none."""
        return self.mean.value if self.mean.interval is None else self.mean.interval.high


def grouped_bars(
    panel: "Axes",
    analysis: Analysis,
    bars: Sequence[Bar],
    platforms: Sequence[str],
    styles: Mapping[str, PlatformStyle],
) -> None:
    """Draw them from 0 up, kinds in the order in which they come first; platforms are named below."""
    panel.set_xticks(
        range(len(platforms)),
        [caveat_signs.name(analysis, one) for one in platforms],
        rotation=30 if len(platforms) > 3 else 0,
        ha="right" if len(platforms) > 3 else "center",
    )
    panel.grid(visible=False, axis="x")
    kinds = list(dict.fromkeys(one.kind for one in bars))
    width = _GROUP_WIDTH / len(kinds)
    rotation = 90 if len(bars) > _MANY and max(map(len, kinds)) > 2 else 0
    for one in bars:
        place = platforms.index(one.platform) + (kinds.index(one.kind) - (len(kinds) - 1) / 2) * width
        panel.bar(
            place,
            one.mean.value,
            width=width * 0.92,
            color=styles[one.platform].colour,
            linewidth=0,
            hatch=caveat_signs.hatch(analysis, one.platform),
            edgecolor="white",
            zorder=2,
        )
        if one.mean.interval is not None:
            low = max(one.mean.interval.low, 0.0)
            for colour, line in (("white", 2.6), (INK, 1.1)):
                panel.plot([place, place], [low, one.top], color=colour, linewidth=line, zorder=3)
        panel.annotate(
            one.kind,
            (place, one.top),
            (0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=7,
            rotation=rotation,
            zorder=5,
        )
    panel.set_ylim(0, max(one.top for one in bars) * (_ROOM_FOR_TURNED_NAMES if rotation else _ROOM_FOR_NAMES))
