"""What a figure is: a title, a caption that says what to see, and a function from the analysis to a drawing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from virtoll.report import words
from virtoll.report.figures.style import PAGE_INCHES
from virtoll.stats.analysis import Analysis
from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Task

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


SECTIONS: Final = frozenset(
    {
        "cost",
        "forwarding",
        "listed rates",
        "scaling",
        "isolation",
        "paper",
        "parameters",
        "scale",
        "clock",
        "guests",
        "consolidation",
        "then and now",
        "order",
    }
)
"""Parts of the page whose figures stand among tables and prose of their own (`templates/`)."""


_LETTER_EMS, _HANDLE_EMS = 0.58, 4.6  # of a legend's label, and of its line with the gaps around both


@dataclass(frozen=True)
class FigureSpec:
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


@dataclass(frozen=True)
class FigureSeries:
    """One entry of SERIES: as many figures as a run needs, none where it has nothing of the kind.

    `parts`: each figure by what follows the series' name in its own. A part has something to draw.
    """

    title: str
    parts: Callable[[Analysis], Mapping[str, FigureSpec]]


def drawn_always(_: Analysis) -> None:
    """The `why_not` of a part of a series."""


def drawn_in_a_column(_: Analysis) -> bool:
    """The `in_a_column` of a figure that always can."""
    return True


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


def blocks_text(analysis: Analysis) -> str:
    """How often each cell was measured, for captions."""
    return f"{words.blocks_words(analysis)} (fresh guests in each block)"


def t_interval_text(analysis: Analysis) -> str:
    """What a mean with its bar is, in figures drawn as the papers drew them, for captions."""
    return f"means over {blocks_text(analysis)}, bars their 95 % t intervals (none of one block)"


def frames_title(task: Task) -> str:
    """A panel's title where panels differ in their frames: '64 B frames', 'IMIX'."""
    return f"{task.size} frames" if task.size.endswith(" B") else task.size


def interval_text(analysis: Analysis) -> str:
    """`coverage_text` of everything that the run measured alone."""
    return coverage_text(analysis.cells.values())


def coverage_text(cells: Iterable[CellSummary]) -> str:
    """What the bars around a median cover, for captions: the coverage reached, not the one wished for."""
    found = sorted({(cell.blocks, cell.interval.coverage) for cell in cells if cell.interval})
    if not found:
        return "one block only: no intervals"
    reported = "; ".join(
        f"{coverage:.1%} at n = {blocks}".replace(".0%", "%").replace("%", " %") for blocks, coverage in found
    )
    return f"order-statistic intervals of the median, covering {reported}"
