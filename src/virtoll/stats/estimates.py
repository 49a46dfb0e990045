"""The values that stand beside shares: a value, its share and their intervals are one estimate. Pure.

A share is made round by round, so that the quotient of two medians is another estimate: it may lie outside of the
share's interval, or on the other side of 1. So a platform's value is that of what it is compared with, times the ratio
of their comparison. What others are shares of has its median over blocks, and so has what has no share, or a share that
is no result. Main type: `CellEstimate`; main functions: `estimates`, `beside`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.intervals import Estimate
from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Task

_NOTHING_KNOWN = 1000.0  # times, both ways: an interval that reaches further says nothing of a value


@dataclass(frozen=True)
class CellEstimate(Estimate):
    """What is told of a cell, over so many `blocks`; `of_share`: it is made of its share, and not the median."""

    blocks: int
    of_share: bool


def estimates(
    cells: Mapping[tuple[str, Task], CellSummary], comparisons: Iterable[Comparison], baseline: str | None
) -> dict[tuple[str, Task], CellEstimate]:
    """Of each cell, by platform and task; `comparisons`: with the baseline, the control's among them."""
    compared = {(comparison.platform, comparison.task): comparison for comparison in comparisons}
    return {
        (platform, task): of_cell(cell, cells.get((baseline or "", task)), compared.get((platform, task)))
        for (platform, task), cell in cells.items()
    }


def of_cell(cell: CellSummary, base: CellSummary | None, comparison: Comparison | None) -> CellEstimate:
    """A cell's value; `base`: what its `comparison` is with, None: it has none."""
    if base is not None and comparison is not None and has_result(comparison):
        estimate = beside(base.median, comparison)
        return CellEstimate(estimate.value, estimate.interval, len(comparison.pairs), of_share=True)
    return CellEstimate(cell.median, cell.interval, cell.blocks, of_share=False)


def has_result(comparison: Comparison) -> bool:
    """Whether it has a share that counts: not of what only shows that it works."""
    return comparison.share is not None and comparison.verdict is not Verdict.FUNCTIONAL


def beside(base: float, comparison: Comparison) -> Estimate:
    """What a comparison's share makes of the value that it is a share of; its interval takes that value as exact."""
    rising = comparison.task.metric.better == "higher"
    assert comparison.share is not None

    def value(share: float) -> float:
        return base * share if rising else base / share

    middle, interval = value(comparison.share), comparison.interval
    if interval is None or interval.low * _NOTHING_KNOWN < comparison.share < interval.high / _NOTHING_KNOWN:
        return Estimate(middle, None)
    low, high = sorted(map(value, (interval.low, interval.high)))
    return Estimate(middle, replace(interval, low=low, high=high))
