"""NDR and PDR with both bounds, from the trials of `throughput`, and the delay below them. Pure.

Main types: `GoalFound` (one goal of one trial) and `ThroughputRow` (one platform's goal over the blocks). A bound that
the generator set is none of the platform's: it is None, and two such values make no ratio (`bounds.py`).
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import Distribution
from virtoll.stats.summaries import median_of_known
from virtoll.stats.values import Task

PERCENTILES = (0.5, 0.9, 0.99, 0.999)
_WORKLOAD = "throughput"


@dataclass(frozen=True)
class BoundFound:
    """A rate in frames/s, the length of each of its trials, and their places among the trial's points."""

    rate_frames_per_second: float
    trial_ns: int
    points: tuple[int, ...]


@dataclass(frozen=True)
class GoalFound:
    """One goal of one trial, as `result.goals` has it (docs/run-folder.md)."""

    name: str
    loss_ratio: float
    exceed_ratio: float
    relative_width: float
    sum_seconds: float
    ended: str
    lower: BoundFound | None
    upper: BoundFound | None
    conditional_throughput_frames_per_second: float | None


@dataclass(frozen=True)
class ThroughputRow:
    """One platform's goal: one `GoalFound` a block; rates in frames/s."""

    platform: str
    task: Task
    found: tuple[GoalFound, ...]

    @property
    def conditional_throughput(self) -> float | None:
        """The median over the blocks that have a lower bound; None where no block has one."""
        return median_of_known(goal.conditional_throughput_frames_per_second for goal in self.found)

    @property
    def lower(self) -> float | None:
        """The median lower bound; None where no block has one."""
        return median_of_known(goal.lower.rate_frames_per_second for goal in self.found if goal.lower)

    @property
    def upper(self) -> float | None:
        """The median upper bound; None where a block has none, since the middle one is then not known."""
        known = [goal.upper.rate_frames_per_second for goal in self.found if goal.upper]
        return median_of_known(known) if len(known) == len(self.found) else None

    @property
    def is_lower_bound(self) -> bool:
        """Whether it may forward more: a search has no upper bound, or ran out of time before both were near."""
        return self.upper is None or "time-limit" in self.ended

    @property
    def log_width(self) -> float:
        """How far above the conditional throughput the upper bound is, as a logarithm: the mean of the blocks.

        The highest rate that keeps to the goal is anywhere between them. Blocks without one of both do not count.
        """
        widths = [0.0]
        for goal in self.found:
            if goal.upper is not None and goal.conditional_throughput_frames_per_second:
                ratio = goal.upper.rate_frames_per_second / goal.conditional_throughput_frames_per_second
                widths.append(math.log(ratio))
        return max(statistics.fmean(widths[1:] or widths), 0.0)

    @property
    def ended(self) -> tuple[str, ...]:
        """How the searches ended, each way once."""
        return tuple(dict.fromkeys(goal.ended for goal in self.found))

    @property
    def trial_ns(self) -> tuple[int, ...]:
        """The lengths of the trials at the bounds, in ascending order."""
        bounds = [bound for goal in self.found for bound in (goal.lower, goal.upper) if bound]
        return tuple(sorted({bound.trial_ns for bound in bounds}))


@dataclass(frozen=True)
class DelayBelow:
    """The delay at a share of the PDR, ns: percentiles (`PERCENTILES`) of the frames of all blocks together.

    `rate` is of all streams, frames/s.
    """

    platform: str
    task: Task
    share_of_pdr: float
    rate: float
    percentiles_ns: tuple[int, ...]
    samples: int
    lost_frames: int


def goals_of(trial: TrialRecord) -> tuple[GoalFound, ...]:
    """The goals of a trial of `throughput`; nothing for every other trial."""
    if trial.workload != _WORKLOAD or trial.status != "ok":
        return ()
    return msgspec.convert((trial.result or {}).get("goals", ()), tuple[GoalFound, ...])


def throughput_rows(tasks: Sequence[Task], trials: Sequence[TrialRecord]) -> tuple[ThroughputRow, ...]:
    """One row for each platform, set of parameters and goal."""
    groups: dict[tuple[str, Task], list[GoalFound]] = {}
    searches = [trial for trial in trials if trial.workload == _WORKLOAD]
    for task in tasks:
        for trial in searches:
            if task.is_of(trial):
                goals = [goal for goal in goals_of(trial) if goal.name == task.metric.name]
                groups.setdefault((trial.platform, task), []).extend(goals)
    return tuple(ThroughputRow(platform, task, tuple(goals)) for (platform, task), goals in groups.items() if goals)


def delays_below(tasks: Sequence[Task], trials: Sequence[TrialRecord]) -> tuple[DelayBelow, ...]:
    """One row for each platform, set of parameters and share of the PDR of which delays were measured."""
    groups: dict[tuple[str, Task, float], list[tuple[float, Distribution, int]]] = {}
    searches = [trial for trial in trials if goals_of(trial)]
    for task in tasks:
        for trial in searches:
            if task.metric.name != "pdr" or not task.is_of(trial):
                continue
            for share, rate, delay, lost_frames in _delays_of(trial):
                groups.setdefault((trial.platform, task, share), []).append((rate, delay, lost_frames))
    rows = []
    for key, entries in groups.items():
        rates, delays, lost = zip(*entries, strict=True)
        percentiles = pooled_percentiles(delays, PERCENTILES)
        samples = sum(delay.count for delay in delays)
        rows.append(DelayBelow(*key, statistics.median(rates), percentiles, samples, sum(lost)))
    return tuple(rows)


def _delays_of(trial: TrialRecord) -> Iterator[tuple[float, float, Distribution, int]]:
    """Share of the PDR, rate, delays and lost frames of each source whose delays a trial measured."""
    for entry in (trial.result or {}).get("delays", ()):
        point = (trial.points or ())[entry["point"]]
        rate = (point.intended_rate_frames_per_second or 0.0) * len(point.sources)
        for sink in point.sink.per_source:
            if sink.delay_ns is not None and sink.delay_ns.histogram:
                yield entry["share_of_pdr"], rate, sink.delay_ns, sink.lost_frames


def pooled_percentiles(distributions: Sequence[Distribution], shares: Sequence[float]) -> tuple[int, ...]:
    """Percentiles of several histograms together, ns: the largest value of the bucket that holds each."""
    counts: dict[int, int] = {}
    for distribution in distributions:
        for value, count in distribution.histogram or ():
            counts[value] = counts.get(value, 0) + count
    total, passed, ascending = sum(counts.values()), 0, sorted(shares)
    percentiles: list[int] = []
    for value in sorted(counts):
        passed += counts[value]
        while len(percentiles) < len(ascending) and passed >= ascending[len(percentiles)] * total:
            percentiles.append(value)
    return tuple(percentiles)
