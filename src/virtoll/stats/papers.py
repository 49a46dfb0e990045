"""What the studies' own ways to sum up make of a run's values: beside the project's statistics, never in their place.

A paper's summary takes all values of a cell as they come. It says nothing of what varies from boot to boot, nor of how
many comparisons are looked at. So it is in a table of its own, and no verdict rests on it. Pure.

Main types: `PaperSummary` (one cell), `PaperRow` (it and its ratio to the baseline's).
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from virtoll.stats.intervals import student
from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Task


@dataclass(frozen=True)
class PaperSummary:
    """`centre` and its spread (`low`, `high`; None where there are too few values) in the unit of the values.

    `count`: how many values it rests on; `dropped` were left out before.
    """

    centre: float
    low: float | None
    high: float | None
    count: int
    dropped: int = 0


@dataclass(frozen=True)
class PaperMethod:
    """A way to sum up: its name in an experiment, what it gives in words, what its spread is, and who used it.

    `summarise` takes the values in the order measured, and gives None where there are too few.
    """

    name: str
    title: str
    spread: str
    used_by: str
    summarise: Callable[[Sequence[float]], PaperSummary | None]


@dataclass(frozen=True)
class PaperRow:
    """One cell in a paper's words; `share`: its performance as a share of the baseline's, centre by centre."""

    platform: str
    task: Task
    summary: PaperSummary
    share: float | None


def mean_with_t_interval(values: Sequence[float]) -> PaperSummary | None:
    """Mean with its 95 % Student interval: mean +- t(0.975, n - 1) s / sqrt(n)."""
    if not values:
        return None
    found = student(values)
    low, high = (found.interval.low, found.interval.high) if found.interval else (None, None)
    return PaperSummary(found.value, low, high, len(values))


def mean_and_deviation(values: Sequence[float]) -> PaperSummary | None:
    """Mean, and mean -+ the sample standard deviation (n - 1 below)."""
    if not values:
        return None
    mean = statistics.fmean(values)
    deviation = statistics.stdev(values) if len(values) > 1 else None
    low, high = (None, None) if deviation is None else (mean - deviation, mean + deviation)
    return PaperSummary(mean, low, high, len(values))


def median_without_first(values: Sequence[float]) -> PaperSummary | None:
    """The median of all but the first measured, which was a warm-up; the spread is their range. Needs two values."""
    kept = values[1:]
    if not kept:
        return None
    return PaperSummary(statistics.median(kept), min(kept), max(kept), len(kept), 1)


_METHODS = (
    PaperMethod(
        "mean-t95",
        "mean with 95 % t interval",
        "95 % t interval",
        "Schlosser et al. 2011 (nine repetitions); Mattos et al. 2012 (95 % intervals, repetitions not said)",
        mean_with_t_interval,
    ),
    PaperMethod(
        "mean-sd",
        "mean and standard deviation",
        "mean ± SD",
        "Suresh and Kannan 2014 (twenty repetitions)",
        mean_and_deviation,
    ),
    PaperMethod(
        "median-drop-first",
        "median, the first repetition dropped",
        "range of what was kept",
        "Camargos et al. 2008 (four repetitions, so of three)",
        median_without_first,
    ),
)
PAPER_METHODS: Mapping[str, PaperMethod] = {method.name: method for method in _METHODS}


def paper_rows(
    method: PaperMethod | None, cells: Mapping[tuple[str, Task], CellSummary], baseline: str | None
) -> tuple[PaperRow, ...]:
    """Every cell summed up in a paper's way, as `cells` has them; none without a method.

    The share is baseline / own where lower is better and own / baseline where higher is, so that 1 is as fast as it.
    """
    if method is None:
        return ()
    found: dict[tuple[str, Task], PaperSummary] = {}
    for key, cell in cells.items():
        ordered = sorted(cell.observations, key=lambda one: one.position)
        summary = method.summarise([one.value for one in ordered])
        if summary is not None:
            found[key] = summary
    rows = []
    for (platform, task), own in found.items():
        base = found.get((baseline or "", task))
        share = None
        if base is not None:
            share = base.centre / own.centre if task.metric.better == "lower" else own.centre / base.centre
        rows.append(PaperRow(platform, task, own, share))
    return tuple(rows)
