"""A figure that matplotlib draws, and what such figures have in common."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from virtoll.report.figures.style import PAGE_INCHES
from virtoll.stats.analysis import Analysis

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_LETTER_EMS, _HANDLE_EMS = 0.58, 4.6  # of a legend's label, and of its line with the gaps around both


@dataclass(frozen=True)
class OldFigureSpec:
    """One entry of FIGURES. `why_not` gives the reason why there is nothing to draw, or None.

    `in_a_column`: whether it can be read at the width of one column of a paper (`new_figure`); else it takes both.

    `section`: where on the page: one of `SECTIONS`, or the heading of a section that the figures of that name have to
    themselves.
    """

    title: str
    caption: Callable[[Analysis], str]
    draw: "Callable[[Analysis], Figure]"
    why_not: Callable[[Analysis], str | None]
    section: str
    in_a_column: Callable[[Analysis], bool] = lambda _: False


def new_figure(height_inches: float) -> "Figure":
    """An empty figure as wide as the settings in force have it: a page, or a column (`style.SETTINGS`)."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    return Figure(figsize=(mpl.rcParams["figure.figsize"][0], height_inches), layout="constrained")


def narrow(figure: "Figure") -> bool:
    """Whether a figure is one column of a paper wide."""
    return float(figure.get_figwidth()) < PAGE_INCHES


def legend_below(figure: "Figure", handles: "Sequence[Artist]", most: int = 4) -> None:
    """A legend under all panels, in as many columns as its longest label has room for, at most so many."""
    import matplotlib as mpl
    from matplotlib.font_manager import FontProperties

    points = FontProperties(size=mpl.rcParams["legend.fontsize"]).get_size_in_points()
    longest = max((len(str(one.get_label())) for one in handles), default=0)
    column = (_LETTER_EMS * longest + _HANDLE_EMS) * points / 72
    columns = max(1, min(most, int(figure.get_figwidth() / column)))
    figure.legend(handles=list(handles), loc="outside lower center", ncols=columns)


def panel_grid(
    count: int, heights: tuple[float, float], *, shared: bool = False
) -> "tuple[Figure, Sequence[Axes], int]":
    """A figure with so many panels in one column or two, those that are too many hidden; the number of columns.

    `heights`: of what is not a panel, and of a row of panels, in inches. `shared`: all have the same axes.
    """
    columns = 1 if count == 1 else 2
    rows = (count + columns - 1) // columns
    figure = new_figure(heights[0] + heights[1] * rows)
    panels = list(figure.subplots(rows, columns, squeeze=False, sharex=shared, sharey=shared).flat)
    for panel in panels[count:]:
        panel.set_visible(False)
    return figure, panels[:count], columns
