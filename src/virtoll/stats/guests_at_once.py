"""The same work in n guests at once: what all of them do together, how even it is, and against the host at the same n.

A trial's value is the mean over its guests (of durations the harmonic mean), so that n times it, or n by it, is what
all do together (Camargos et al. 2008, Figure 10). Each platform is compared with the baseline at the same number of
guests, round by round, by the tests of `verdicts`; with itself at one guest by the ratio of what all do together, block
by block. Main types: `AtOnce`, `ScaleRow` (one platform, task and number of guests), `GroupRow` (its start, memory and
CPU time). Pure.
"""

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from virtoll.runfolder.guest_records import FootprintRecord
from virtoll.runfolder.records import BootRecord, Clock, GuestRun, TrialRecord, begin_ns, duration_ns, start_skew_ns
from virtoll.runfolder.scale import GroupRecord, ScalePoint
from virtoll.stats.compare import Comparison, by_cell, compare, family_size
from virtoll.stats.estimates import beside, has_result
from virtoll.stats.guests import held_bytes, used_ns
from virtoll.stats.hand_over import CpuDistance, with_distances
from virtoll.stats.states import TwoStates
from virtoll.stats.summaries import CellSummary, block_values, median_of_known, summarise
from virtoll.stats.values import Gap, Observation, Task, observations_of, why_missing
from virtoll.stats.verdicts import Rules, decide_families
from virtoll.stats.wire import jain

_Observed = dict[tuple[str, Task, ScalePoint], list[Observation]]


@dataclass(frozen=True)
class ScaleRow:
    """One platform and task at one number of guests; medians over trials, but `speedup`, which is one over blocks.

    `each`: the value of one guest, in the metric's unit; where it is compared with the baseline's, that one's times the
    ratio of both (`estimates`). `together`: what all do, jobs/s for a duration and the
    metric's unit for a rate; None for a metric of which there is no sum, such as a latency. `speedup`: that against one
    guest of the same size in the same block, None without one. `jain`: the fairness of the guests' rates (1: all
    alike), `slowest`: how many times slower the slowest is than the fastest; None where no trial has the durations of
    all. `skew`: from the first job's begin to the last one's, as a share of the shortest job. `finished_ns`: from the
    first begin to the last end. `cpu_ns`: CPU time of a guest's processes on the host for its part of the trial, with
    what it made ready; None where not read.
    """

    platform: str
    task: Task
    point: ScalePoint
    trials: int
    each: float
    together: float | None
    speedup: float | None
    jain: float | None
    slowest: float | None
    skew: float | None
    finished_ns: float | None
    cpu_ns: float | None

    @property
    def together_unit(self) -> str:
        """What `together` is in."""
        return "jobs/s" if self.task.metric.source == "marks" else self.task.metric.unit


@dataclass(frozen=True)
class GroupRow:
    """How guests of one platform came up together, and what they take of the host's memory; medians over starts.

    `first_ns` and `last_ns`: from a guest's own start until it could be used, the fastest and the slowest of them;
    `up_ns`: from the first start asked for until all could be used. `taken_bytes`: by how much less memory the host has
    available, for each guest; `held_bytes`: PSS and page tables of a guest's processes, idle. None: not known.
    """

    platform: str
    point: ScalePoint
    starts: int
    failed: int
    first_ns: float | None
    last_ns: float | None
    up_ns: float | None
    taken_bytes: float | None
    held_bytes: float | None


@dataclass(frozen=True)
class AtOnce:
    """`points`: as the experiment names them. `comparisons`: of each platform with the baseline at the same point.

    `control`: of the A/A control. `cells`: the values by (platform, task, point). `observations`, `gaps`: of trials of
    several guests at once.
    """

    points: tuple[ScalePoint, ...] = ()
    rows: tuple[ScaleRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    control: tuple[Comparison, ...] = ()
    cells: Mapping[tuple[str, Task, ScalePoint], CellSummary] = field(default_factory=dict)
    observations: tuple[Observation, ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def family(self) -> int:
        """How many comparisons of primary metrics were tested, and so corrected for."""
        return family_size(self.comparisons)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Those that have a value at some point, in the analysis' order."""
        return tuple(dict.fromkeys(row.task for row in self.rows))

    def words(self, point: ScalePoint) -> str:
        """A point in words: its number of guests, and its size where another point has the same number."""
        same = [other for other in self.points if other.guests == point.guests]
        if len(same) == 1:
            return point.label
        return f"{point.label}, {point.vcpus} vCPU" + ("s" if point.vcpus > 1 else "")

    def row(self, platform: str, task: Task, point: ScalePoint) -> ScaleRow | None:
        """One of the rows."""
        return self._rows.get((platform, task, point))

    @cached_property
    def _rows(self) -> Mapping[tuple[str, Task, ScalePoint], ScaleRow]:
        """The first of each platform, task and point."""
        return {(row.platform, row.task, row.point): row for row in reversed(self.rows)}

    def comparison(self, platform: str, task: Task, point: ScalePoint) -> Comparison | None:
        """A platform, or the control, against the baseline at a point."""
        return self._comparisons.get((platform, task, self.words(point)))

    @cached_property
    def _comparisons(self) -> Mapping[tuple[str, Task, str | None], Comparison]:
        return by_cell((*self.comparisons, *self.control))


def guests_at_once(
    trials: Sequence[TrialRecord],
    tasks: Sequence[Task],
    groups: Sequence[GroupRecord],
    boots: Sequence[BootRecord],
    footprints: Sequence[FootprintRecord],
    *,
    platforms: Sequence[str],
    baseline: str | None,
    control: str | None,
    control_counts: bool = True,
    caveats: Mapping[str, str],
    rules: Rules,
    states: Sequence[TwoStates] = (),
    distances: Sequence[CpuDistance] = (),
) -> AtOnce:
    """Everything of a run of the scenario `scale`; empty for any other. `rules`, `states`, `distances`: as in
    `isolation`.

    `control_counts`: the control ran as the baseline did, so that its values are the host's too.
    """
    point_of = {trial.trial: trial.scale for trial in trials if trial.scale is not None}
    points = sorted({*point_of.values(), *(group.scale for group in groups)}, key=_size)
    if not points:
        return AtOnce()
    values, gaps = _values(trials, tasks)
    values = with_distances(values, each_guest(trials), distances)
    observed: _Observed = {}
    for observation in values:
        key = observation.platform, observation.task, point_of[observation.trial]
        observed.setdefault(key, []).append(observation)
    cells = {key: summarise(entries) for key, entries in observed.items()}
    named = AtOnce(points=tuple(points))
    compared: list[Comparison] = []
    alike: list[Comparison] = []
    missing = why_missing(trials, lambda trial: trial.scale)
    for platform in platforms:
        if baseline is None or platform == baseline:
            continue
        second = control if control_counts and platform != control else None
        caveat = caveats.get(platform) or caveats.get(baseline)
        family = alike if platform == control else compared
        for task, point in itertools.product(tasks, points):
            base = _host_values(observed, task, point, baseline, second)
            entries = observed.get((platform, task, point), [])
            why = missing.get((platform, task.workload, task.parameters, point))
            words, untested = named.words(point), compare(task, platform, entries, base, why, caveat)
            family.append(replace(untested, condition=words, against=f"the baseline with {words}"))
    compared, alike = decide_families(compared, alike, rules, states)
    return replace(
        named,
        rows=_fitting(_rows(trials, platforms, tasks, points, observed), (*compared, *alike), named, baseline),
        groups=_group_rows(groups, boots, footprints, platforms),
        comparisons=tuple(compared),
        control=tuple(alike),
        cells=cells,
        observations=values,
        gaps=gaps,
    )


def _host_values(
    observed: _Observed, task: Task, point: ScalePoint, baseline: str, control: str | None
) -> list[Observation]:
    """The baseline's values and then the control's; empty where nothing of the baseline itself was measured."""
    values = observed.get((baseline, task, point), [])
    if not values or control is None:
        return values
    return [*values, *observed.get((control, task, point), [])]


def _size(point: ScalePoint) -> tuple[int, int, int]:
    return point.guests, point.vcpus, point.memory_bytes


def _values(trials: Sequence[TrialRecord], tasks: Sequence[Task]) -> tuple[tuple[Observation, ...], tuple[Gap, ...]]:
    """One value a task and trial: the mean over its guests; none of a task of which one of them has no value."""
    each: dict[tuple[int, Task], list[Observation]] = {}
    gaps: list[Gap] = []
    guests = {trial.trial: len(trial.members) for trial in trials}
    for place in range(max(guests.values())) if guests else ():
        runs = [_as_trial(trial, trial.members[place]) for trial in trials if place < len(trial.members)]
        observed, lacking = observations_of(tasks, runs)
        for observation in observed:
            each.setdefault((observation.trial, observation.task), []).append(observation)
        gaps += lacking
    means = []
    for (number, task), entries in each.items():
        if len(entries) == guests[number]:
            mean = _mean(task, [entry.value for entry in entries])
            means.append(entries[0]._replace(value=mean))
    return tuple(sorted(means, key=lambda mean: mean.position)), tuple(dict.fromkeys(gaps))


def each_guest(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Each guest of each trial, as a trial of one guest has it."""
    return [_as_trial(trial, member) for trial in trials for member in trial.members]


def guests_of(trial: TrialRecord) -> list[tuple[int | None, str | None, str | None, TrialRecord]]:
    """What each guest of a trial did: its number from 1, its boot, what was wrong with it, and that as a trial of one.

    A trial of one guest, or one that never came to have guests, has one entry without a number.
    """
    if not trial.members:
        return [(None, trial.boot, None, trial)]
    return [
        (number, member.boot, member.problem, _as_trial(trial, member))
        for number, member in enumerate(trial.members, 1)
    ]


def _as_trial(trial: TrialRecord, member: GuestRun) -> TrialRecord:
    """What one guest did, as a trial of one guest has it."""
    return trial.replace(clock=member.clock, result=member.result, check=member.check)


def _mean(task: Task, values: Sequence[float]) -> float:
    return statistics.harmonic_mean(values) if task.metric.source == "marks" else statistics.fmean(values)


def _together(task: Task, guests: int, mean: float) -> float | None:
    """What all guests do: jobs/s of a duration in ns, the sum of rates; None of what has no sum."""
    if task.metric.source == "marks":
        return guests * 1e9 / mean
    return guests * mean if task.metric.better == "higher" else None


def _rows(
    trials: Sequence[TrialRecord],
    platforms: Sequence[str],
    tasks: Sequence[Task],
    points: Sequence[ScalePoint],
    observed: _Observed,
) -> tuple[ScaleRow, ...]:
    by_number = {trial.trial: trial for trial in trials}
    rows = []
    for platform, task, point in itertools.product(platforms, tasks, points):
        entries = observed.get((platform, task, point))
        if entries:
            single = next((other for other in points if _is_alone(other, point)), None)
            alone = observed.get((platform, task, single), []) if single is not None else []
            members = [by_number[entry.trial].members for entry in entries]
            rows.append(_row(platform, task, point, entries, members, alone))
    return tuple(rows)


def _fitting(
    rows: Sequence[ScaleRow], comparisons: Iterable[Comparison], named: AtOnce, baseline: str | None
) -> tuple[ScaleRow, ...]:
    """The rows with values that fit their shares of the baseline's at the same point."""
    base = {(row.task, named.words(row.point)): row.each for row in rows if row.platform == baseline}
    each = {}
    for comparison in comparisons:
        measure = base.get((comparison.task, comparison.condition or ""))
        if measure is not None and has_result(comparison):
            each[comparison.platform, comparison.task, comparison.condition] = beside(measure, comparison).value
    fitting = []
    for row in rows:
        value = each.get((row.platform, row.task, named.words(row.point)), row.each)
        together = None if row.together is None else _together(row.task, row.point.guests, value)
        fitting.append(replace(row, each=value, together=together))
    return tuple(fitting)


def _is_alone(other: ScalePoint, point: ScalePoint) -> bool:
    """Whether a point is one guest with as many vCPUs: its memory may be another, as in Camargos' Table 4."""
    return other.guests == 1 and other.vcpus == point.vcpus


def _row(
    platform: str,
    task: Task,
    point: ScalePoint,
    entries: Sequence[Observation],
    members: Sequence[Sequence[GuestRun]],
    alone: Sequence[Observation],
) -> ScaleRow:
    evenness: list[float] = []
    slowest: list[float] = []
    skews: list[float] = []
    for guests in members:
        clocks = [member.clock for member in guests]
        durations = _durations_ns(clocks)
        if not durations:
            continue
        evenness.append(jain([1 / duration for duration in durations]))
        slowest.append(max(durations) / min(durations))
        skew_ns = start_skew_ns(clocks)
        if skew_ns is not None:
            skews.append(skew_ns / min(durations))
    each_ns = statistics.median(entry.value for entry in entries)
    first, base = block_values(entries), block_values(alone)
    speedups = [point.guests * (value / base[block]) ** task.sign for block, value in first.items() if base.get(block)]
    summed = _together(task, point.guests, each_ns)
    return ScaleRow(
        platform=platform,
        task=task,
        point=point,
        trials=len(entries),
        each=each_ns,
        together=summed,
        speedup=median_of_known(speedups) if summed is not None else None,
        jain=median_of_known(evenness),
        slowest=median_of_known(slowest),
        skew=median_of_known(skews),
        finished_ns=median_of_known(map(_finished_ns, members)),
        cpu_ns=median_of_known(used_ns(member.host_cpu) for guests in members for member in guests),
    )


def _durations_ns(clocks: Sequence[Clock | None]) -> list[int]:
    """Of each guest of a trial; none where that of one of them is not known."""
    durations = []
    for clock in clocks:
        duration = duration_ns(clock) if clock is not None else None
        if duration is None or duration <= 0:
            return []
        durations.append(duration)
    return durations


def _finished_ns(members: Sequence[GuestRun]) -> float | None:
    """From the first job's begin to the last one's end, by the outside clock."""
    clocks = [member.clock for member in members if member.clock is not None]
    known = [begin for clock in clocks if (begin := begin_ns(clock)) is not None]
    ended = [clock.marks.end_ns for clock in clocks if clock.marks is not None]
    return max(ended) - min(known) if len(known) == len(ended) == len(members) else None


def _group_rows(
    groups: Sequence[GroupRecord],
    boots: Sequence[BootRecord],
    footprints: Sequence[FootprintRecord],
    platforms: Sequence[str],
) -> tuple[GroupRow, ...]:
    took_ns = {}
    for boot in boots:
        if boot.ready_monotonic_ns is not None and boot.spawn_monotonic_ns is not None:
            took_ns[boot.boot] = boot.ready_monotonic_ns - boot.spawn_monotonic_ns
    held = {footprint.boot: held_bytes(footprint.processes) for footprint in footprints if footprint.when == "idle"}
    by_point: dict[tuple[str, ScalePoint], list[GroupRecord]] = {}
    for group in groups:
        by_point.setdefault((group.platform, group.scale), []).append(group)
    keys = sorted(by_point, key=lambda key: (platforms.index(key[0]), _size(key[1])))
    return tuple(_group_row(*key, by_point[key], took_ns, held) for key in keys)


def _group_row(
    platform: str,
    point: ScalePoint,
    groups: Sequence[GroupRecord],
    took_ns: Mapping[str, int],
    held: Mapping[str, int | None],
) -> GroupRow:
    """`took_ns`, `held`: how long each boot took to be ready, and its guest's memory, by the boot's name."""
    first: list[int] = []
    last: list[int] = []
    up: list[int] = []
    taken: list[float] = []
    succeeded = [group for group in groups if group.status == "ok"]
    for group in succeeded:
        starts = [took_ns[boot] for boot in group.boots if boot in took_ns]
        if starts:
            first.append(min(starts))
            last.append(max(starts))
        if group.up_monotonic_ns is not None:
            up.append(group.up_monotonic_ns - group.began_monotonic_ns)
        if group.available_before_bytes is not None and group.available_idle_bytes is not None:
            taken.append((group.available_before_bytes - group.available_idle_bytes) / point.guests)
    return GroupRow(
        platform=platform,
        point=point,
        starts=len(succeeded),
        failed=len(groups) - len(succeeded),
        first_ns=median_of_known(first),
        last_ns=median_of_known(last),
        up_ns=median_of_known(up),
        taken_bytes=median_of_known(taken),
        held_bytes=median_of_known(held.get(boot) for group in succeeded for boot in group.boots),
    )
