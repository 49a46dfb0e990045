"""Many runs of one host in their order: series of each platform and task, where they change, and what changed then.

A series is of one of two kinds, which are told apart. A platform's *share of the baseline* comes from ratios inside the
blocks of a run, so that no drift of the host is in it. Its *own value*, of the baseline as well, is the median over
blocks in the metric's unit: where it changes and the share does not, the host did. All is taken on logarithms. Series
of a kind are searched as one family, primary metrics and others apart, as verdicts are. Main types: `RunOfHistory`,
`Series`, `History`; main functions: `run_of_history`, `history_of`. Pure.
"""

import itertools
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from virtoll.runfolder.records import Manifest
from virtoll.stats.analysis import Analysis
from virtoll.stats.change_points import LEVEL, ChangePoint, Searched, change_points, fewest
from virtoll.stats.changes import Change, what_changed
from virtoll.stats.fitness import FitnessLevel
from virtoll.stats.values import Task


class Kind(StrEnum):
    """What of a platform a series is of."""

    SHARE = "share of the baseline"
    OWN = "own value"


@dataclass(frozen=True)
class SeriesOf:
    """What tells series apart, by words of the records: a task of two runs is one where these are equal."""

    kind: Kind
    platform: str
    workload: str
    metric: str
    unit: str
    parameters: str

    @classmethod
    def named(cls, kind: Kind, platform: str, task: Task) -> "SeriesOf":
        """That of a platform and task."""
        return cls(kind, platform, task.workload, task.metric.name, task.metric.unit, task.parameters)


@dataclass(frozen=True)
class RunOfHistory:
    """One run. `values`: by series a share (1: as the baseline) or a median in the metric's unit, all above zero.

    `tasks`: of each series the task as this run names it. `fitness`: how far its host can be believed.
    """

    manifest: Manifest
    values: Mapping[SeriesOf, float]
    tasks: Mapping[SeriesOf, Task]
    fitness: FitnessLevel

    @property
    def unfit(self) -> bool:
        """Whether its host's load or pressure may be in all its values."""
        return self.fitness is FitnessLevel.UNFIT

    @property
    def name(self) -> str:
        """Its run id."""
        return self.manifest.run

    def of_these(self, platforms: Collection[str], workloads: Collection[str]) -> "RunOfHistory":
        """The same with the series of these alone; of each, none means all."""
        kept = {
            of: value
            for of, value in self.values.items()
            if (not platforms or of.platform in platforms) and (not workloads or of.workload in workloads)
        }
        return replace(self, values=kept, tasks={of: self.tasks[of] for of in kept})


def run_of_history(analysis: Analysis) -> RunOfHistory:
    """What a history takes of a run: shares and medians of guests alone, without what has a caveat.

    Neither guests beside others nor several at once are in it.
    """
    values: dict[SeriesOf, float] = {}
    tasks: dict[SeriesOf, Task] = {}
    control = analysis.data.manifest.control
    for comparison in analysis.comparisons:
        if comparison.share is not None and comparison.share > 0 and comparison.caveat is None:
            series = SeriesOf.named(Kind.SHARE, comparison.platform, comparison.task)
            values[series], tasks[series] = comparison.share, comparison.task
    for (platform, task), cell in analysis.cells.items():
        if platform != control and platform not in analysis.caveats and cell.median > 0:
            series = SeriesOf.named(Kind.OWN, platform, task)
            values[series], tasks[series] = cell.median, task
    return RunOfHistory(analysis.data.manifest, values, tasks, analysis.fitness.level)


@dataclass(frozen=True)
class Stretch:
    """Runs between two changes, by their places in the history; `level`: the median of its values."""

    first: int
    last: int
    level: float


@dataclass(frozen=True)
class SeriesChange:
    """A change of one series. `before`, `after`: the places in the history of the last run before and the first after.

    `earliest` and `latest`: the same at the ends of what is possible, at 95 %: the change is after the run `earliest`
    and not after `latest`. `factor`: performance after by performance before, below 1: slower; `low` and `high`: its
    95 % interval, of this change alone. `p_adjusted`: for all series of its kind together.
    """

    before: int
    after: int
    earliest: int
    latest: int
    factor: float
    low: float
    high: float
    p_adjusted: float


@dataclass(frozen=True)
class Series:
    """One series: `runs` are the places in the history that have a value, `values` those, in the same order.

    `changes`: None where it has fewer values than the `needed` to tell any. `correlation`: of neighbouring runs about
    their level; None as well. `alike`: it is no accident, and false changes are more frequent than the level.
    `stretches`: what the changes leave, one at least.
    """

    of: SeriesOf
    task: Task
    runs: tuple[int, ...]
    values: tuple[float, ...]
    changes: tuple[SeriesChange, ...] | None
    correlation: float | None
    alike: bool
    stretches: tuple[Stretch, ...]
    needed: int

    def within(self, stretch: Stretch) -> tuple[int, ...]:
        """Which of its runs are in a stretch, by their places in the history."""
        return tuple(place for place in self.runs if stretch.first <= place <= stretch.last)


@dataclass(frozen=True)
class Step:
    """What changed between two runs that follow each other; `after`: the place in the history of the later one."""

    after: int
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class History:
    """Runs of one host and experiment, oldest first, and their series.

    `level`: the chance that any change is told in a family of series in which nothing changed.
    """

    runs: tuple[RunOfHistory, ...]
    series: tuple[Series, ...]
    level: float

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """What the runs say has changed, from each to the next; runs without a change are left out."""
        steps = []
        for place, (before, after) in enumerate(itertools.pairwise(self.runs), 1):
            changes = what_changed(before.manifest, after.manifest)
            if before.unfit is not after.unfit:
                changes += (Change("fitness of the host", str(before.fitness), str(after.fitness)),)
            if changes:
                steps.append(Step(place, changes))
        return tuple(steps)

    def steps_of(self, change: SeriesChange) -> tuple[Step, ...]:
        """What changed where this change may be."""
        return tuple(step for step in self.steps if change.earliest < step.after <= change.latest)

    @property
    def slower_since(self) -> tuple[Series, ...]:
        """The shares whose last stretch is slower than the one before; own values are no part of it."""
        return tuple(series for series in self.shares if series.changes and series.changes[-1].factor < 1)

    def is_by_unfit_runs(self, series: Series) -> bool:
        """Whether the host was unfit in most runs on one side of the last change, so that it may be the cause."""
        for stretch in series.stretches[-2:]:
            places = series.within(stretch)
            if 2 * sum(self.runs[place].unfit for place in places) > len(places):
                return True
        return False

    @property
    def shares(self) -> tuple[Series, ...]:
        """The series of shares."""
        return tuple(series for series in self.series if series.of.kind is Kind.SHARE)


def history_of(runs: Sequence[RunOfHistory], level: float = LEVEL) -> History:
    """The history of these runs, oldest first: all of one host and experiment, which the caller has seen to."""
    tasks: dict[SeriesOf, Task] = {}
    for run in reversed(runs):  # series in the order of the newest run, and as it names them
        for of, task in run.tasks.items():
            tasks.setdefault(of, task)
    families: dict[tuple[Kind, bool], list[SeriesOf]] = {}
    for of, task in tasks.items():
        families.setdefault((of.kind, task.metric.primary), []).append(of)
    series: dict[SeriesOf, Series] = {}
    for family in families.values():
        places, values, logs = {}, {}, []
        for of in family:
            places[of] = [place for place, run in enumerate(runs) if of in run.values]
            values[of] = [runs[place].values[of] for place in places[of]]
            logs.append([math.log(value) for value in values[of]])
        searched = change_points(logs, level)
        least = fewest(len(family), level)
        for of, search in zip(family, searched, strict=True):
            series[of] = _series(of, tasks[of], places[of], values[of], search, needed=least)
    return History(tuple(runs), tuple(series[of] for of in tasks), level)


def _series(
    of: SeriesOf, task: Task, places: Sequence[int], values: Sequence[float], search: Searched, *, needed: int
) -> Series:
    points = search.changes or ()
    ends = [0, *(point.place for point in points), len(values)]
    stretches = [
        Stretch(places[low], places[high - 1], statistics.median(values[low:high]))
        for low, high in itertools.pairwise(ends)
    ]
    sign = 1 if of.kind is Kind.SHARE or task.metric.better == "higher" else -1
    changes = tuple(_told(point, places, sign) for point in points)
    return Series(
        of=of,
        task=task,
        runs=tuple(places),
        values=tuple(values),
        changes=changes if search.changes is not None else None,
        correlation=search.correlation,
        alike=search.alike,
        stretches=tuple(stretches),
        needed=needed,
    )


def _told(point: ChangePoint, places: Sequence[int], sign: int) -> SeriesChange:
    ends = sorted((math.exp(sign * point.interval.low), math.exp(sign * point.interval.high)))
    return SeriesChange(
        before=places[point.place - 1],
        after=places[point.place],
        earliest=places[point.between[0] - 1],
        latest=places[point.between[1]],
        factor=math.exp(sign * point.shift),
        low=ends[0],
        high=ends[1],
        p_adjusted=point.p_adjusted,
    )
