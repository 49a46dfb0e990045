"""What guests beside the measured one do to it: each condition against the same guest alone, round by round. Pure.

The comparisons are those of `compare`, with the guest alone in the baseline's place: it runs first, in the middle and
last in each round, and the conditions between. The matrix victim x aggressor x platform is one family for each of
primary and other metrics (Holm), as the platforms' own comparisons are. Its A/A control is the middle entry against the
other two. Main types: `Isolation`, `LoadUse` (what the guests beside did meanwhile).
"""

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from virtoll.runfolder.conditions import ALONE, Condition, NeighbourRecord, readings_through
from virtoll.runfolder.records import TrialRecord
from virtoll.stats.bounds import (
    MAY_FORWARD_MORE,
    against_lower_bounds,
    rate_widths,
    undecided,
    within_search_bounds,
    without_unpinned,
)
from virtoll.stats.compare import Comparison, Verdict, by_cell, compare, family_size
from virtoll.stats.conditional_throughput import throughput_rows
from virtoll.stats.hand_over import CpuDistance, with_distances
from virtoll.stats.states import TwoStates
from virtoll.stats.summaries import CellSummary, median_of_known, summarise
from virtoll.stats.sweeps import curves, point_values
from virtoll.stats.values import (
    Gap,
    Observation,
    Task,
    canonical,
    forwarded_rate,
    observations_of,
    offered_rate,
    why_missing,
)
from virtoll.stats.verdicts import Rules, decide_families

Groups = dict[tuple[str, Task, str], list[Observation]]
"""Values by platform, task and condition."""
_Sweep = tuple[str, str, str | None]  # platform, parameters, condition
ALONE_WORDS = "the guest alone"
SENDER_BOUND = "nothing was lost"
_SENDER_BOUND_REASON = (
    "under this condition nothing was lost at the largest rate: that is what the sender could, "
    "and the guest may be able to forward more"
)


@dataclass(frozen=True)
class LoadUse:
    """What guests beside did during the trials of a victim: medians over guests and trials; None: of another load.

    Rates in frames/s: `maximum` is what it forwards beside an idle guest, `asked` what was to be sent to it. Shares are
    of all frames of these trials: `lost_share` of those that it was given, with what its first interface refused where
    the host receives for it apart; `skipped_share` of those asked, which the generator was too late for. `cpus`: CPU
    time of its program by wall time, by that guest's clock.
    """

    platform: str
    task: Task
    condition: str
    neighbour: str
    trials: int
    maximum: float | None
    asked: float | None
    offered: float | None
    forwarded: float | None
    lost_share: float | None
    skipped_share: float | None
    cpus: float | None


@dataclass(frozen=True)
class Isolation:
    """The matrix: `conditions` as the experiment names them, `comparisons` of each platform and task under each.

    `control`: the guest alone against itself. `cells`: the values by (platform, task, condition's label), alone too.
    `observations`, `gaps`: of trials beside others.
    """

    conditions: tuple[Condition, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    control: tuple[Comparison, ...] = ()
    cells: Mapping[tuple[str, Task, str], CellSummary] = field(default_factory=dict)
    uses: tuple[LoadUse, ...] = ()
    observations: tuple[Observation, ...] = ()
    gaps: tuple[Gap, ...] = ()

    def comparison(self, platform: str, task: Task, condition: str) -> Comparison | None:
        """One cell of the matrix; `ALONE`: the control."""
        return self._comparisons.get((platform, task, condition))

    @cached_property
    def _comparisons(self) -> Mapping[tuple[str, Task, str | None], Comparison]:
        return by_cell((*self.comparisons, *self.control))

    @property
    def family(self) -> int:
        """How many comparisons of primary metrics were tested, and so corrected for."""
        return family_size(self.comparisons)


def isolation(
    with_neighbours: Sequence[TrialRecord],
    tasks: Sequence[Task],
    alone: Sequence[Observation],
    *,
    platforms: Sequence[str],
    labels: Sequence[str],
    caveats: Mapping[str, str],
    rules: Rules,
    states: Sequence[TwoStates] = (),
    distances: Sequence[CpuDistance] = (),
    apart: Collection[str] = (),
    elsewhere: Mapping[str, str] = MappingProxyType({}),
    bounds: Collection[tuple[str, Task]] = (),
    widths: Mapping[tuple[str, Task], float] = MappingProxyType({}),
) -> Isolation:
    """The matrix of a run; empty where nothing ran beside other guests. `alone`: the values without any.

    `states`: the tasks that the host ran in two; its guests are on the same host. `distances`: of its CPUs. `apart`: as
    in `sweeps.curves`.
    `elsewhere`, `bounds`: which rates, also of the guest alone, say less than they seem to (`bounds.py`).
    `widths`: of the searches and sweeps of guests alone (`bounds.rate_widths`).
    `labels`: the conditions' order. CPU time of a frame is not compared: it is told from idle time, which a load takes.
    """
    conditions = {trial.condition.label: trial.condition for trial in with_neighbours if trial.condition is not None}
    if not conditions:
        return Isolation()
    named = list(dict.fromkeys(label for label in (*labels, *conditions) if label in conditions))
    compared = [task for task in tasks if task.metric.source != "cpu_points"]
    values, gaps = observations_of(compared, with_neighbours)
    values = with_distances(values, with_neighbours, distances)
    groups = _groups([value for value in alone if value.task in compared], values, with_neighbours)
    missing = why_missing(with_neighbours, lambda trial: trial.condition and trial.condition.label)
    comparisons: list[Comparison] = []
    control: list[Comparison] = []
    for platform, task in itertools.product(platforms, compared):
        base = groups.get((platform, task, ALONE), [])
        control += _control(platform, task, base, caveats)
        for label in named:
            why = missing.get((platform, task.workload, task.parameters, label))
            entries = groups.get((platform, task, label), [])
            under = compare(task, platform, entries, base, why, caveats.get(platform))
            comparisons.append(replace(under, condition=label, against=ALONE_WORDS))
    comparisons = _without_sender_bound(comparisons, _bound_by_sender(with_neighbours, compared, named, apart))
    comparisons = without_unpinned(comparisons, elsewhere, None)
    control = without_unpinned(control, elsewhere, None)
    cells = {key: summarise(group) for key, group in groups.items()}
    bounded = _Bounded.of(with_neighbours, compared, widths, cells)
    comparisons, control = decide_families(comparisons, control, rules, states, bounded.width)
    comparisons = [bounded.within(comparison, rules.margin) for comparison in comparisons]
    comparisons = against_lower_bounds(comparisons, bounds)
    return Isolation(
        conditions=tuple(conditions[label] for label in named),
        comparisons=tuple(comparisons),
        control=tuple(control),
        cells=cells,
        uses=_uses(with_neighbours, compared, platforms, named, apart),
        observations=values,
        gaps=gaps,
    )


@dataclass(frozen=True)
class _Bounded:
    """What the bounds of searches and sweeps, alone and beside others, leave open (`bounds.py`).

    `alone`, `beside`: how far apart they are as logarithms, by platform, task and condition. `lower`: searches whose
    rate is a lower bound.
    """

    alone: Mapping[tuple[str, Task], float]
    beside: Mapping[tuple[str, Task, str | None], float]
    lower: Collection[tuple[str, Task, str | None]]

    @classmethod
    def of(
        cls,
        with_neighbours: Sequence[TrialRecord],
        tasks: Sequence[Task],
        alone: Mapping[tuple[str, Task], float],
        cells: Mapping[tuple[str, Task, str], CellSummary],
    ) -> "_Bounded":
        beside: dict[tuple[str, Task, str | None], float] = {}
        lower: set[tuple[str, Task, str | None]] = set()
        by_label: dict[str, list[TrialRecord]] = {}
        for trial in with_neighbours:
            if trial.condition is not None:
                by_label.setdefault(trial.condition.label, []).append(trial)
        for label, trials in by_label.items():
            searches = throughput_rows(tasks, trials)
            of_label: dict[tuple[str, Task], CellSummary] = {}
            for (platform, task, under), cell in cells.items():
                if under == label:
                    of_label[platform, task] = cell
            for (platform, task), width in rate_widths(of_label, point_values(trials), searches).items():
                beside[platform, task, label] = width
            for row in searches:
                if row.is_lower_bound:
                    lower.add((row.platform, row.task, label))
        return cls(alone, beside, lower)

    def width(self, comparison: Comparison) -> float:
        """How far apart the bounds are between which its share lies."""
        return self._below(comparison) + self._above(comparison)

    def within(self, comparison: Comparison, margin: float) -> Comparison:
        """The comparison with what they leave of it."""
        within = within_search_bounds(comparison, self._below(comparison), self._above(comparison), margin)
        is_lower = (within.platform, within.task, within.condition) in self.lower
        if is_lower and within.verdict in (Verdict.SLOWER, Verdict.ALIKE):
            return undecided(within, f"{within.platform} {MAY_FORWARD_MORE}", high=math.inf)
        return within

    def _below(self, comparison: Comparison) -> float:
        return self.alone.get((comparison.platform, comparison.task), 0.0)

    def _above(self, comparison: Comparison) -> float:
        if comparison.condition == ALONE:
            return self._below(comparison)
        return self.beside.get((comparison.platform, comparison.task, comparison.condition), 0.0)


def _groups(
    alone: Iterable[Observation], values: Iterable[Observation], with_neighbours: Sequence[TrialRecord]
) -> Groups:
    """The values beside others, and then those alone."""
    label_of = {trial.trial: trial.condition.label for trial in with_neighbours if trial.condition is not None}
    groups: Groups = {}
    for observation in values:
        key = observation.platform, observation.task, label_of[observation.trial]
        groups.setdefault(key, []).append(observation)
    for observation in alone:
        groups.setdefault((observation.platform, observation.task, ALONE), []).append(observation)
    return groups


def _bound_by_sender(
    with_neighbours: Sequence[TrialRecord], tasks: Sequence[Task], labels: Sequence[str], apart: Collection[str]
) -> set[_Sweep]:
    """Each sweep that lost nothing: its largest rate may be the sender's."""
    senders = {task.parameters for task in tasks if task.metric.source == "points" and not task.is_forwarding_rate}
    bound = set[_Sweep]()
    for label in labels:
        trials = [trial for trial in with_neighbours if trial.condition is not None and trial.condition.label == label]
        for curve in curves(point_values(trials), apart, senders):
            if curve.lossless:
                bound.add((curve.platform, curve.parameters, label))
    return bound


def _without_sender_bound(comparisons: Sequence[Comparison], bound: Collection[_Sweep]) -> list[Comparison]:
    """The same comparisons, those of such sweeps with that as their caveat: they are not tested."""
    marked = []
    for comparison in comparisons:
        sweep = comparison.platform, comparison.task.parameters, comparison.condition
        if comparison.verdict is Verdict.UNKNOWN and comparison.task.metric.source == "points" and sweep in bound:
            marked.append(replace(comparison, caveat=SENDER_BOUND, reason=_SENDER_BOUND_REASON))
        else:
            marked.append(comparison)
    return marked


def _control(
    platform: str, task: Task, alone: Sequence[Observation], caveats: Mapping[str, str]
) -> Iterator[Comparison]:
    """The guest alone against itself, if it ran alone three times a round."""
    middle, ends = _middle_and_ends(alone)
    if middle:
        alike = compare(task, platform, middle, ends, None, caveats.get(platform))
        yield replace(alike, condition=ALONE, against=ALONE_WORDS)


def _middle_and_ends(alone: Sequence[Observation]) -> tuple[list[Observation], list[Observation]]:
    """Of each round with three entries the middle one, and the other two, in the order measured."""
    rounds: dict[tuple[int, int], list[Observation]] = {}
    for observation in sorted(alone, key=lambda observation: observation.position):
        rounds.setdefault((observation.block, observation.round), []).append(observation)
    middle, ends = list[Observation](), list[Observation]()
    for entries in rounds.values():
        if len(entries) == 3:
            middle.append(entries[1])
            ends += entries[0], entries[2]
    return middle, ends


def _uses(
    with_neighbours: Sequence[TrialRecord],
    tasks: Sequence[Task],
    platforms: Sequence[str],
    labels: Sequence[str],
    apart: Collection[str],
) -> tuple[LoadUse, ...]:
    """One row for each victim, condition and kind of guest beside, of trials that are believed."""
    victims = {(task.workload, task.parameters): task for task in reversed(tasks)}
    groups: dict[tuple[str, Task, str, str], list[NeighbourRecord]] = {}
    trials: dict[tuple[str, Task, str, str], set[int]] = {}
    for trial in with_neighbours:
        task = victims.get((trial.workload, canonical(trial.parameters)))
        if trial.status != "ok" or trial.condition is None or task is None:
            continue
        for neighbour in trial.neighbours:
            key = trial.platform, task, trial.condition.label, neighbour.platform
            groups.setdefault(key, []).append(neighbour)
            trials.setdefault(key, set()).add(trial.trial)
    order = sorted(
        groups,
        key=lambda key: (platforms.index(key[0]), tasks.index(key[1]), labels.index(key[2]), platforms.index(key[3])),
    )
    return tuple(_use(key, groups[key], len(trials[key]), apart=key[3] in apart) for key in order)


def _use(key: tuple[str, Task, str, str], records: Sequence[NeighbourRecord], trials: int, *, apart: bool) -> LoadUse:
    points = [record.traffic for record in records if record.traffic is not None]
    lost = sum(counts.lost_frames for point in points for counts in point.sink.per_source)
    intended = offered = skipped = 0
    for point in points:
        for source in point.sources:
            intended += source.intended_frames
            offered += source.offered_frames
            skipped += source.skipped_frames or 0
            if apart and source.refused_frames is not None:
                offered += source.refused_frames
                lost += source.refused_frames
    lost_share = lost / offered if offered else None
    skipped_share = skipped / intended if intended else None
    return LoadUse(
        *key,
        trials=trials,
        maximum=median_of_known(record.maximum_frames_per_second for record in records),
        asked=median_of_known(point.intended_rate_frames_per_second for point in points),
        offered=median_of_known(map(offered_rate, points)),
        forwarded=median_of_known(map(forwarded_rate, points)),
        lost_share=lost_share,
        skipped_share=skipped_share,
        cpus=median_of_known(map(_cpus, records)),
    )


def _cpus(record: NeighbourRecord) -> float | None:
    """CPU time by wall time, from the last reading before the trial to the first after it."""
    readings = readings_through(record.progress, record.window)
    if not readings:
        return None
    passed_ns = readings[-1].monotonic_ns - readings[0].monotonic_ns
    return (readings[-1].cpu_ns - readings[0].cpu_ns) / passed_ns if passed_ns > 0 else None
