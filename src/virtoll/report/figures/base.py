"""What a figure is: a title, a caption that says what to see, and a function from the analysis to a specification.

A specification is Vega-Lite's, with its data in it. The page's SVG, the files and what a browser draws are all made
from it. It has no `config` (`style.config` is every figure's) and no parameters of selection (the browser adds them).

Each datum that belongs to a platform has `platform`, the label as the run has it. One that shows a value has `value`;
`low` and `high` where there is an interval; `workload` where there is one; and `said`: all of it in plain words with
units, which is what a pointer shows (`marks.SAID`). Numbers are in the axis' unit.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from virtoll import units
from virtoll.report import words
from virtoll.report.figures.style import Specification, Width
from virtoll.report.report_input import ReportInput
from virtoll.stats.analysis import Analysis
from virtoll.stats.guests import Quantity
from virtoll.stats.intervals import Estimate
from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Task


@dataclass(frozen=True)
class FigureSpec:
    """One entry of FIGURES. `why_not` gives the reason why there is nothing to draw, or None.

    `draw`: as wide as asked for. `in_a_column`: whether it can be read at the width of one column of a paper; else it
    takes both. `stacks`: its panels then stand one below the other on a narrow screen, as wide as a column.
    """

    title: str
    caption: Callable[[Analysis], str]
    draw: Callable[[Analysis, Width], Specification]
    why_not: Callable[[Analysis], str | None] = lambda _: None
    in_a_column: Callable[[Analysis], bool] = lambda _: False
    stacks: bool = False


@dataclass(frozen=True)
class FigureSeries:
    """As many figures as a run needs, none if it has nothing of the kind.

    `parts`: each figure by what follows the series' name in its own. A part has something to draw.
    """

    title: str
    parts: Callable[[ReportInput], Mapping[str, FigureSpec]]


def drawn_in_a_column(_: Analysis) -> bool:
    """The `in_a_column` of a figure that always can."""
    return True


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


def said_cell(cell: CellSummary, unit: str) -> str:
    """A cell's value in words: 'median 812 kframes/s, 95 % interval 790 to 830 kframes/s, 5 blocks'."""
    return f"median {said_quantity(cell, unit)}"


def said_quantity(quantity: CellSummary | Quantity, unit: str) -> str:
    """The same without what it is."""
    return said_estimate(Estimate(quantity.median, quantity.interval), quantity.blocks, unit)


def said_estimate(estimate: Estimate, blocks: int, unit: str) -> str:
    """A value with its interval, and over how many blocks."""
    text = words.estimate(estimate.value, estimate.interval, unit)
    if estimate.interval is not None:
        text += f", {units.percent(estimate.interval.coverage)} interval {words.spread(estimate, unit)}"
    return f"{text}, {words.counted(blocks, 'block')}"


def said_mean(mean: Estimate, unit: str) -> str:
    """An estimate in words: 'mean 812 Mbit/s, 95 % t interval 790 to 830 Mbit/s'."""
    if mean.interval is None:
        return f"mean {units.value(mean.value, unit)}"
    between = units.between(mean.interval.low, mean.interval.high, unit)
    value = words.estimate(mean.value, mean.interval, unit)
    return f"mean {value}, {100 * mean.interval.coverage:g} % t interval {between}"


def coverage_text(cells: Iterable[CellSummary | Quantity]) -> str:
    """What the bars around a median cover, for captions: the coverage reached, not the one wished for."""
    coverages = sorted({(cell.blocks, cell.interval.coverage) for cell in cells if cell.interval})
    if not coverages:
        return "one block only: no intervals"
    reported = "; ".join(
        f"{coverage:.1%} at n = {blocks}".replace(".0%", "%").replace("%", " %") for blocks, coverage in coverages
    )
    return f"order-statistic intervals of the median, covering {reported}"
