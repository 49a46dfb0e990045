"""What the studies' own ways to sum up make of a run's values: beside the project's statistics, never in their place.

A paper's summary takes all values of a cell as they come. It says nothing of what varies from boot to boot, nor of how
many comparisons are looked at. So it is in a table of its own, and no verdict rests on it. Pure.

Main types: `PaperSummary` (one cell), `PaperRow` (it and its ratio to the baseline's), `PaperTable` (all of a run's).
"""

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.intervals import ends, student
from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Task, canonical, printed_tasks

PaperCell = tuple[str, Task, ScalePoint | None]
"""A platform and a task, and how many guests do it at once; None: one alone."""


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

    `drawn`: what the paper's bars show, values or shares of the baseline. `summarise` takes the values in the order
    measured, and gives None where there are too few.
    """

    name: str
    title: str
    spread: str
    used_by: str
    drawn: Literal["values", "shares"]
    summarise: Callable[[Sequence[float]], PaperSummary | None]


@dataclass(frozen=True)
class PaperRow:
    """One cell in a paper's words; `share`: its performance as a share of the baseline's, centre by centre.

    `share_low` and `share_high`: its own spread as shares of the baseline's centre, which is taken as exact. `point`:
    of several guests at once their number and size, and the value is one guest's; None: the guest is alone.
    """

    platform: str
    task: Task
    summary: PaperSummary
    share: float | None
    share_low: float | None = None
    share_high: float | None = None
    point: ScalePoint | None = None


@dataclass(frozen=True)
class PaperTable:
    """Every cell of a run in a paper's words; `missing`: of each cell without, in a word why ('skipped').

    `drawn`: the tasks that a paper would show, those of which any platform has a value, with the numbers of guests.
    """

    rows: tuple[PaperRow, ...] = ()
    missing: Mapping[PaperCell, str] = field(default_factory=dict)
    drawn: tuple[tuple[Task, ScalePoint | None], ...] = ()


def mean_with_t_interval(values: Sequence[float]) -> PaperSummary | None:
    """Mean with its 95 % Student interval: mean +- t(0.975, n - 1) s / sqrt(n)."""
    if not values:
        return None
    estimate = student(values)
    low, high = ends(estimate.interval)
    return PaperSummary(estimate.value, low, high, len(values))


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
        "values",
        mean_with_t_interval,
    ),
    PaperMethod(
        "mean-sd",
        "mean and standard deviation",
        "mean ± SD",
        "Suresh and Kannan 2014 (twenty repetitions)",
        "values",
        mean_and_deviation,
    ),
    PaperMethod(
        "median-drop-first",
        "median, the first repetition dropped",
        "range of what was kept",
        "Camargos et al. 2008 (four repetitions, so of three)",
        "shares",
        median_without_first,
    ),
)
PAPER_METHODS: Mapping[str, PaperMethod] = {method.name: method for method in _METHODS}


def with_points(
    alone: Mapping[tuple[str, Task], CellSummary], at_once: Mapping[tuple[str, Task, ScalePoint], CellSummary]
) -> dict[PaperCell, CellSummary]:
    """The cells of one guest alone, and of several at once."""
    places: list[tuple[PaperCell, CellSummary]] = list(at_once.items())
    for (platform, task), cell in alone.items():
        places.append(((platform, task, None), cell))
    return dict(places)


def paper_table(
    method: PaperMethod | None,
    cells: Mapping[PaperCell, CellSummary],
    trials: Sequence[TrialRecord],
    *,
    platforms: Sequence[str],
    tasks: Sequence[Task],
    points: Sequence[ScalePoint | None] = (None,),
    baseline: str | None,
    unavailable: Collection[str],
) -> PaperTable:
    """Every cell summed up in a paper's way, and why the others are not; empty without a method.

    The share is baseline / own where lower is better and own / baseline where higher is, so that 1 is as fast as it;
    of several guests at once, as the baseline's at the same of `points`.
    """
    if method is None:
        return PaperTable()
    summaries: dict[PaperCell, PaperSummary] = {}
    for place, cell in cells.items():
        ordered = sorted(cell.observations, key=lambda observation: observation.position)
        made = method.summarise([observation.value for observation in ordered])
        if made is not None:
            summaries[place] = made
    rows = []
    for place, summary in summaries.items():
        base = summaries.get((baseline or "", place[1], place[2]))
        rows.append(_row(place, summary, base))
    statuses: dict[tuple[str, str, str, ScalePoint | None], Counter[str]] = {}
    for trial in trials:
        where = trial.platform, trial.workload, canonical(trial.parameters), trial.scale
        statuses.setdefault(where, Counter())[trial.status] += 1
    missing = {}
    for place in itertools.product(platforms, tasks, points):
        platform, task, point = place
        if place in summaries:
            continue
        if place in cells:
            missing[place] = "too few values"
        elif platform in unavailable:
            missing[place] = "not available"
        else:
            missing[place] = _why(statuses.get((platform, task.workload, task.parameters, point), Counter()))
    having = {(task, point) for _, task, point in summaries}
    drawn = tuple(pair for pair in itertools.product(printed_tasks(tasks), points) if pair in having)
    return PaperTable(tuple(rows), missing, drawn)


def _row(place: PaperCell, summary: PaperSummary, base: PaperSummary | None) -> PaperRow:
    platform, task, point = place
    if base is None:
        return PaperRow(platform, task, summary, None, point=point)

    def share(value: float) -> float | None:
        """None where a spread reaches down to zero, and performance so to no bound."""
        if task.metric.better == "higher":
            return value / base.centre
        return base.centre / value if value > 0 else None

    low = None if summary.low is None else share(summary.low)
    high = None if summary.high is None else share(summary.high)
    if task.metric.better == "lower":
        low, high = high, low
    return PaperRow(platform, task, summary, share(summary.centre), low, high, point=point)


def _why(statuses: Counter[str]) -> str:
    """Of a cell without a value, by its trials: what most of those came to that are not `ok`."""
    troubles = {status: number for status, number in statuses.items() if status != "ok"}
    if troubles:
        return max(troubles, key=troubles.__getitem__)
    return "not measured" if statuses else "not run"
