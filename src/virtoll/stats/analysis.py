"""The whole analysis of one run: `RunData` in, `Analysis` out; pure, so it gives the same on any machine.

The steps, in order: values from trials, cells, states of the host, comparisons and A/A control, their verdicts by
family, clock errors, drift, fitness of the host, equivalence of the guests.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from virtoll.runfolder.campaign_records import host_of_block
from virtoll.runfolder.conditions import ALONE
from virtoll.runfolder.explain_records import ObservedTrial
from virtoll.runfolder.guest_records import ConsolidationRecord, FootprintRecord
from virtoll.runfolder.looks import Looks, extended_level
from virtoll.runfolder.records import (
    BootRecord,
    CommandRecord,
    FitnessRecord,
    LookRecord,
    Manifest,
    State,
    TrialRecord,
)
from virtoll.runfolder.scale import GroupRecord
from virtoll.runfolder.traffic_records import CalibrationRecord
from virtoll.stats.across_hosts import AcrossHosts, HostBlocks, across_hosts
from virtoll.stats.bounds import (
    against_lower_bounds,
    forwarded_elsewhere,
    lower_bounds,
    receiving_apart,
    without_two_bounds,
    without_unpinned,
)
from virtoll.stats.cautions import Warned, cautions
from virtoll.stats.caveats import caveats_of, hosts_of, why_other_host
from virtoll.stats.ceilings import Ceiling, Headroom, ceilings, headrooms
from virtoll.stats.clocks import ClockError, clock_errors, clock_readings
from virtoll.stats.comparability import agents_by_platform, unlike_facts, why_platform_incomparable
from virtoll.stats.compare import DIFFERENT, LEVEL, Comparison, compare
from virtoll.stats.conditional_throughput import ThroughputRow, throughput_rows
from virtoll.stats.consolidation import Consolidation, consolidations
from virtoll.stats.cpu_over_parameters import cpu_cells
from virtoll.stats.detectable import Detectable, detectable
from virtoll.stats.drift import Drift, OrderedValue, drift, ordered_values
from virtoll.stats.equivalence import Equivalence, equivalence
from virtoll.stats.fitness import HostFitness, host_fitness
from virtoll.stats.frame_cost import frame_costs
from virtoll.stats.guests import CpuUse, GuestCost, cpu_uses, guest_costs
from virtoll.stats.guests_at_once import AtOnce, each_guest, guests_at_once
from virtoll.stats.isolation import Isolation, isolation
from virtoll.stats.listed_rates import ListedRates, listed_rates
from virtoll.stats.observer import ObserverEffect, ObserverUse, observer_effects, observer_uses
from virtoll.stats.over_parameters import OverParameter, over_parameters
from virtoll.stats.papers import PAPER_METHODS, PaperMethod, PaperTable, paper_table
from virtoll.stats.routers_beside import RouterBeside, routers_beside
from virtoll.stats.scaling import Scaling, scalings
from virtoll.stats.states import TwoStates, two_states
from virtoll.stats.summaries import CellSummary, summarise
from virtoll.stats.sweeps import Curve, PointValue, curves, point_values
from virtoll.stats.values import Gap, Observation, Task, canonical, observations_of, printed_tasks, tasks_of
from virtoll.stats.verdicts import MARGIN, Rules, decide_families
from virtoll.stats.wire import BackendUse, LossRow, PaceRow, backend_uses, loss_rows, pace_rows


@dataclass(frozen=True)
class RunData:
    """One run folder's records, as read; `trials` holds the latest record of each trial but the `warm_ups`, those
    measured `beside` other guests, and those of several guests `at_once`. `observed`: trials with observers on, which
    are no results and in no statistics but those of `stats/explanation.py`.
    """

    manifest: Manifest
    state: State
    trials: tuple[TrialRecord, ...]
    boots: tuple[BootRecord, ...]
    commands: tuple[CommandRecord, ...]
    fitness: tuple[FitnessRecord, ...]
    calibrations: tuple[CalibrationRecord, ...] = ()
    footprints: tuple[FootprintRecord, ...] = ()
    consolidation: tuple[ConsolidationRecord, ...] = ()
    warm_ups: tuple[TrialRecord, ...] = ()
    looks: tuple[LookRecord, ...] = ()
    beside: tuple[TrialRecord, ...] = ()
    at_once: tuple[TrialRecord, ...] = ()
    groups: tuple[GroupRecord, ...] = ()
    observed: tuple[ObservedTrial, ...] = ()

    @property
    def every_trial(self) -> tuple[TrialRecord, ...]:
        """The trials alone, then those beside other guests and those of several at once."""
        return (*self.trials, *self.beside, *self.at_once)


@dataclass(frozen=True)
class Analysis:
    """Everything that tables, figures and the page are made of.

    `cells` is by (platform, task) and holds only cells with values; `comparisons` has one entry for each platform other
    than baseline and control and each task; `control` one for each task (A/A), none where there is no control: it is
    shown, and vetoes nothing. `detectable`: the smallest detectable differences (`stats/detectable.py`).
    `two_states`: the tasks that the host ran in two states. `level`: the
    chance of any false difference in a family: 5 %, or what the last look at the run spends, or what an extended run
    does (`runfolder/looks.py`).
    `observer`: what the instrument used, with counters and without (None: not read); `observer_effects`: what counters
    change. `unlike`: by platform, the facts that should be as the baseline's and are not.
    `across_hosts`: of a merged run, its hosts and how they differ.
    `caveats`: the platforms whose numbers are no results, with the reason (`stats/caveats.py`). `lower_bounds`: the
    cells whose platform may be able to do more than was seen (`stats/bounds.py`).
    """

    data: RunData
    platforms: tuple[str, ...]
    tasks: tuple[Task, ...]
    observations: tuple[Observation, ...]
    gaps: tuple[Gap, ...]
    cells: Mapping[tuple[str, Task], CellSummary]
    comparisons: tuple[Comparison, ...]
    control: tuple[Comparison, ...]
    detectable: tuple[Detectable, ...]
    two_states: tuple[TwoStates, ...]
    level: float
    points: tuple[PointValue, ...]
    curves: tuple[Curve, ...]
    listed_rates: ListedRates
    searches: tuple[ThroughputRow, ...]
    clocks: tuple[ClockError, ...]
    order: tuple[OrderedValue, ...]
    drift: Drift | None
    fitness: HostFitness
    equivalence: Equivalence
    statuses: Mapping[str, Mapping[str, int]]
    ceilings: tuple[Ceiling, ...]
    headrooms: Mapping[tuple[str, Task], Headroom]
    lower_bounds: frozenset[tuple[str, Task]]
    losses: tuple[LossRow, ...]
    paces: tuple[PaceRow, ...]
    backends: tuple[BackendUse, ...]
    cautions: tuple[Warned, ...]
    guests: tuple[GuestCost, ...]
    host_cpu: tuple[CpuUse, ...]
    consolidations: tuple[Consolidation, ...]
    scalings: tuple[Scaling, ...]
    isolation: Isolation
    routers_beside: tuple[RouterBeside, ...]
    at_once: AtOnce
    caveats: Mapping[str, str]
    unlike: Mapping[str, tuple[str, ...]]
    observer: ObserverUse | None
    observer_uncounted: ObserverUse | None
    observer_effects: tuple[ObserverEffect, ...]
    paper: PaperTable
    over_parameters: tuple[OverParameter, ...]
    across_hosts: AcrossHosts

    @property
    def paper_method(self) -> PaperMethod | None:
        """The paper's way to sum up that the experiment names; None where it names none, or one of a later Virtoll."""
        return _paper_method(self.data)

    @property
    def in_paper_order(self) -> bool:
        """Whether trials ran platform after platform: what changed on the host meanwhile is then in the ratios."""
        return self.data.manifest.experiment.get("order") == "paper"

    @cached_property
    def host_of(self) -> Mapping[int, str]:
        """Which host measured each block, in a run that was merged of several; empty in any other."""
        return _host_of(self.data)

    @cached_property
    def baseline(self) -> str | None:
        """The baseline's label, or None where the run has none or nothing of it could be measured."""
        label = self.data.manifest.baseline
        measured = {platform for platform, *_ in (*self.cells, *self.at_once.cells)}
        return label if label in measured else None

    @property
    def margin(self) -> float:
        """Within how much platforms are alike, by the experiment (0.1 = 10 %)."""
        return _margin(self.data)

    @property
    def alarms(self) -> tuple[Comparison, ...]:
        """A/A comparisons that find a difference, with one chance in a hundred that any does by accident."""
        return tuple(one for one in self.control if one.verdict in DIFFERENT)

    @property
    def family(self) -> int:
        """How many comparisons of primary metrics were tested, and so corrected for."""
        return sum(one.p_value is not None for one in self.comparisons if one.task.metric.primary)

    @property
    def second_family(self) -> int:
        """How many comparisons of other metrics were tested, in a family of their own."""
        return sum(one.p_value is not None for one in self.comparisons if not one.task.metric.primary)

    def level_after(self, more: int) -> float:
        """The chance of any false difference in a family, were so many blocks added to those that there are."""
        if Looks.of(self.data.manifest.experiment):
            return self.level
        return extended_level(LEVEL, _first_blocks(self.data), _last_block(self.data) + more)

    @property
    def extendable(self) -> bool:
        """Whether blocks may be added to the run: it ended, and its number of blocks was fixed."""
        manifest = self.data.manifest
        fixed = Looks.of(manifest.experiment) is None and not self.in_paper_order
        fixed = fixed and manifest.part is None and manifest.merged is None
        return self.data.state.state == "complete" and fixed and bool(manifest.plan.trials)

    @property
    def extended_from(self) -> int | None:
        """After how many blocks the run was first told; None where no block was added since."""
        return self.data.manifest.extensions[0].blocks if self.data.manifest.extensions else None

    @cached_property
    def blocks(self) -> int:
        """The number of blocks in which anything was measured."""
        values = (*self.observations, *self.at_once.observations)
        return len({observation.block for observation in values})

    @cached_property
    def rounds(self) -> frozenset[int]:
        """In how many rounds of a block a cell was measured, each number that there is once."""
        found: dict[tuple[str, Task, int], set[int]] = {}
        for one in self.observations:
            found.setdefault((one.platform, one.task, one.block), set()).add(one.round)
        return frozenset(map(len, found.values()))

    def comparison(self, platform: str, task: Task) -> Comparison | None:
        """The comparison of a platform (or of the control) on a task."""
        return self._comparisons.get((platform, task))

    @cached_property
    def _comparisons(self) -> Mapping[tuple[str, Task], Comparison]:
        """The first of each platform and task."""
        return {(one.platform, one.task): one for one in reversed((*self.comparisons, *self.control))}

    def curve(self, platform: str, task: Task) -> Curve | None:
        """The sweep of a platform for a task."""
        return self._curves.get((platform, task.parameters))

    @cached_property
    def _curves(self) -> Mapping[tuple[str, str], Curve]:
        """The first of each platform and set of parameters."""
        return {(one.platform, one.parameters): one for one in reversed(self.curves)}

    def own_task(self, task: Task) -> Task | None:
        """The task as this run has it, of one of another run; None where it has none."""
        return self._tasks_by_key.get(task.key)

    @cached_property
    def _tasks_by_key(self) -> Mapping[tuple[str, str, str], Task]:
        return {one.key: one for one in self.tasks}

    @cached_property
    def forwarded_elsewhere(self) -> Mapping[str, str]:
        """Platforms of which the host's kernel does not forward on the guest's CPUs (`bounds.forwarded_elsewhere`)."""
        return forwarded_elsewhere(self.data.boots)

    def generator_bound(self, platform: str, task: Task) -> bool:
        """Whether a cell is within 10 % of what generator and sink reach with nothing between."""
        headroom = self.headrooms.get((platform, task))
        return headroom is not None and headroom.generator_bound


def analyse(data: RunData) -> Analysis:
    """The pipeline of the module's docstring."""
    platforms = _platforms(data)
    tasks = tasks_of(data.manifest, data.trials)
    costs = frame_costs(data.trials, data.boots, data.calibrations)
    observations, gaps = observations_of(
        tasks,
        data.trials,
        {trial: (one.value, one.none_because) for trial, one in costs.items()},
        by_clock=data.manifest.merged is not None,
    )
    cells = _cells(observations, platforms, tasks)
    caveats = caveats_of(data.manifest, data.boots, [*data.trials, *data.at_once])
    single = [boot for boot in data.boots if boot.scale is None]
    bare = _host_labels(data, caveats)
    host = _host_values(data.manifest.baseline, observations, bare)
    states = tuple(found for task in tasks if (found := two_states(task, host.get(task, ()))) is not None)
    alone = () if data.manifest.experiment.get("scenario") == "scale" else tasks
    comparisons, control = _compare_all(data, platforms, alone, cells, caveats, host)
    limits, points = ceilings(data.calibrations), point_values(data.trials)
    swept = {task.parameters: task for task in tasks if task.metric.source == "points"}
    senders = {parameters for parameters, task in swept.items() if not task.is_forwarding_rate}
    sweeps = curves([one for one in points if one.parameters in swept], receiving_apart(data.boots), senders)
    headroom = headrooms(limits, cells, data.trials)
    searches = throughput_rows(tasks, data.trials)
    bounds = lower_bounds(tasks, sweeps, headroom, searches)
    elsewhere = forwarded_elsewhere(data.boots)
    comparisons = without_unpinned(comparisons, elsewhere, data.manifest.baseline)
    comparisons = without_two_bounds(comparisons, bounds, data.manifest.baseline)
    control = without_unpinned(control, elsewhere, data.manifest.baseline)
    level = _level(data, observations)
    rules = Rules(_margin(data), level, level, host_of=_host_of(data))
    comparisons, control = decide_families(comparisons, control, rules, states)
    comparisons = against_lower_bounds(comparisons, bounds, data.manifest.baseline)
    order = ordered_values(cells.values())
    losses, paces = loss_rows(tasks, data.trials), pace_rows(tasks, data.trials)
    backends = backend_uses(tasks, data.trials)
    isolated = isolation(
        data.beside,
        tasks,
        observations,
        platforms=platforms,
        labels=data.manifest.experiment.get("conditions") or (),
        caveats=caveats,
        rules=rules,
        states=states,
        apart=receiving_apart(data.boots),
        elsewhere=elsewhere,
        bounds=bounds,
    )
    used_cpus = cpu_cells(tasks, [*data.trials, *data.beside])
    return Analysis(
        data=data,
        platforms=platforms,
        tasks=tasks,
        observations=observations,
        gaps=gaps,
        cells=cells,
        comparisons=tuple(comparisons),
        control=tuple(control),
        detectable=detectable(comparisons, {one.label: one.family for one in data.manifest.platforms}),
        two_states=states,
        level=level,
        points=points,
        curves=sweeps,
        listed_rates=listed_rates(tasks, points, cells, platforms),
        searches=searches,
        clocks=clock_errors(clock_readings([*data.trials, *each_guest(data.at_once)]), platforms),
        order=order,
        drift=None if rules.host_of else drift([one for one in order if one.observation.platform not in caveats]),
        fitness=host_fitness(data.fitness, data.manifest.host, merged=data.manifest.merged is not None),
        equivalence=equivalence(data.boots, platforms),
        statuses=_statuses(data, platforms),
        ceilings=limits,
        headrooms=headroom,
        lower_bounds=frozenset(bounds),
        losses=losses,
        paces=paces,
        backends=backends,
        cautions=_cautions(
            data,
            tasks,
            caveats,
            headroom=headroom,
            sweeps=sweeps,
            points=points,
            losses=losses,
            paces=paces,
            backends=backends,
        ),
        guests=guest_costs(single, _footprints_of(data.footprints, single), platforms),
        host_cpu=cpu_uses(tasks, data.trials, platforms, data.manifest.baseline, caveats),
        consolidations=consolidations(data.consolidation),
        isolation=isolated,
        routers_beside=routers_beside(isolated, data.beside, platforms),
        at_once=guests_at_once(
            data.at_once,
            tasks,
            data.groups,
            data.boots,
            data.footprints,
            platforms=platforms,
            baseline=data.manifest.baseline,
            control=data.manifest.control,
            control_counts=data.manifest.control in bare,
            caveats=caveats,
            rules=rules,
            states=states,
        ),
        scalings=scalings(tasks, observations, data.trials, platforms),
        caveats=caveats,
        unlike=_unlike(data, platforms),
        observer=observer_uses([*data.trials, *data.at_once]),
        observer_uncounted=observer_uses([*data.trials, *data.at_once], counters=False),
        observer_effects=observer_effects(data.manifest, tasks, observations, host, rules),
        paper=paper_table(
            _paper_method(data),
            cells,
            data.trials,
            platforms=platforms,
            tasks=tasks,
            baseline=data.manifest.baseline,
            unavailable={one.label for one in data.manifest.platforms if not one.available},
        ),
        over_parameters=over_parameters(
            [*printed_tasks(tasks), *used_cpus.tasks],
            {
                **(isolated.cells or {(platform, task, ALONE): cell for (platform, task), cell in cells.items()}),
                **used_cpus.cells,
            },
            platforms,
            [ALONE, *(one.label for one in isolated.conditions)],
        ),
        across_hosts=across_hosts(_hosts(data), comparisons, cells, data.manifest.baseline),
    )


def _hosts(data: RunData) -> tuple[HostBlocks, ...]:
    """The hosts that measured blocks of a merged run; none in any other."""
    return tuple(HostBlocks(one.name, str(one.host["fingerprint"]), one.blocks) for one in data.manifest.hosts)


def _host_of(data: RunData) -> dict[int, str]:
    """Which host measured each block, where there are several."""
    return host_of_block(data.manifest.hosts) if len(data.manifest.hosts) > 1 else {}


def _footprints_of(footprints: Sequence[FootprintRecord], boots: Sequence[BootRecord]) -> list[FootprintRecord]:
    started = {boot.boot for boot in boots}
    return [one for one in footprints if one.boot in started]


def _unlike(data: RunData, platforms: Sequence[str]) -> dict[str, tuple[str, ...]]:
    baseline = data.manifest.baseline
    if baseline is None:
        return {}
    found = {one: unlike_facts(data.boots, one, baseline) for one in platforms if one != baseline}
    return {one: names for one, names in found.items() if names}


def _paper_method(data: RunData) -> PaperMethod | None:
    return PAPER_METHODS.get(str(data.manifest.experiment.get("summary")))


def _cautions(
    data: RunData,
    tasks: Sequence[Task],
    caveats: Mapping[str, str],
    *,
    headroom: Mapping[tuple[str, Task], Headroom],
    sweeps: Sequence[Curve],
    points: Sequence[PointValue],
    losses: Sequence[LossRow],
    paces: Sequence[PaceRow],
    backends: Sequence[BackendUse],
) -> tuple[Warned, ...]:
    """What a reader of results must be warned of.

    A platform with a caveat has no results, and its caveat is its warning.
    """
    sizes = {task.parameters: task.size for task in tasks}
    forged = dict.fromkeys(
        (one.platform, sizes.get(one.parameters, f"{one.frame_size_bytes} B")) for one in points if one.forged_frames
    )
    return cautions(
        {cell: one for cell, one in headroom.items() if cell[0] not in caveats},
        [one for one in sweeps if one.platform not in caveats],
        [one for one in losses if one.platform not in caveats],
        forged=list(forged),
        paces=paces,
        uses=backends,
        tasks=tasks,
        pinning=data.manifest.pinning,
        calibrated=bool(data.calibrations),
    )


def _platforms(data: RunData) -> tuple[str, ...]:
    """Labels in the experiment's order, the baseline and its control first."""
    listed = [entry.label for entry in data.manifest.platforms]
    first = [label for label in listed if label == data.manifest.baseline]
    first += [label for label in listed if label == data.manifest.control]
    return tuple(dict.fromkeys(first + listed))


def _cells(
    observations: Sequence[Observation], platforms: Sequence[str], tasks: Sequence[Task]
) -> dict[tuple[str, Task], CellSummary]:
    groups: dict[tuple[str, Task], list[Observation]] = {}
    for observation in observations:
        groups.setdefault((observation.platform, observation.task), []).append(observation)
    return {
        (platform, task): summarise(groups[platform, task])
        for platform in platforms
        for task in tasks
        if (platform, task) in groups
    }


def _compare_all(
    data: RunData,
    platforms: Sequence[str],
    tasks: Sequence[Task],
    cells: Mapping[tuple[str, Task], CellSummary],
    caveats: Mapping[str, str],
    host: Mapping[Task, Sequence[Observation]],
) -> tuple[list[Comparison], list[Comparison]]:
    """Every platform against the host, and the control against the baseline's own entries; both untested.

    Empty without a baseline.
    """
    baseline, control = data.manifest.baseline, data.manifest.control
    if baseline is None:
        return [], []
    agents, hosts = agents_by_platform(data.boots), hosts_of(data.manifest)
    troubles = _Troubles(data)
    compared: list[Comparison] = []
    for platform in platforms:
        if platform == baseline:
            continue
        caveat = caveats.get(platform) or caveats.get(baseline)
        elsewhere = None if caveat else why_other_host(hosts, platform, baseline)
        refused = why_platform_incomparable(agents, platform, baseline) or elsewhere
        for task in tasks:
            cell, base = cells.get((platform, task)), cells.get((baseline, task))
            own = cell.observations if cell is not None and not refused else ()
            entries = (base.observations if base else ()) if platform == control else host.get(task, ())
            why = refused or troubles.of(platform, task) or troubles.of(baseline, task)
            compared.append(compare(task, platform, own, entries, why, caveat))
    return [one for one in compared if one.platform != control], [one for one in compared if one.platform == control]


def _host_labels(data: RunData, caveats: Mapping[str, str]) -> frozenset[str]:
    """The baseline, and its control where that ran on the same host without a caveat; none without a baseline."""
    baseline, control = data.manifest.baseline, data.manifest.control
    if baseline is None:
        return frozenset()
    if control is None or control in caveats or why_other_host(hosts_of(data.manifest), control, baseline) is not None:
        return frozenset((baseline,))
    refused = why_platform_incomparable(agents_by_platform(data.boots), control, baseline)
    return frozenset((baseline, control) if refused is None else (baseline,))


def _host_values(
    baseline: str | None, observations: Sequence[Observation], labels: Collection[str]
) -> dict[Task, list[Observation]]:
    """The values of the host, which is measured as `labels`, by task.

    Empty where nothing of the baseline itself was measured: the control alone is no baseline.
    """
    found: dict[Task, list[Observation]] = {}
    for one in observations:
        if one.platform in labels:
            found.setdefault(one.task, []).append(one)
    return {task: own for task, own in found.items() if any(one.platform == baseline for one in own)}


def _margin(data: RunData) -> float:
    """Within how much platforms are alike, by the experiment; older runs did not ask."""
    margin = data.manifest.experiment.get("margin")
    return float(margin) if isinstance(margin, int | float) and 0 < margin < 1 else MARGIN


def _level(data: RunData, observations: Sequence[Observation]) -> float:
    """The chance of a false difference in a family: 5 %, or what a run with several looks spends at this one."""
    looks = Looks.of(data.manifest.experiment)
    if looks is None:
        return extended_level(LEVEL, _first_blocks(data), _last_block(data))
    at_once = {one.block for one in data.at_once if one.status == "ok"}
    return looks.level_at(len(at_once.union(one.block for one in observations)))


def _first_blocks(data: RunData) -> int:
    """After how many blocks a run was to end before any were added."""
    extensions = data.manifest.extensions
    planned = (one.block + 1 for one in data.manifest.plan.trials)
    return extensions[0].blocks if extensions else max(planned, default=0)


def _last_block(data: RunData) -> int:
    """The number of the last block, from 1, of which a trial gave something; 0 without any.

    One that gave nothing counts where a later one did: it is not looked at twice at one level.
    """
    return max((one.block + 1 for one in data.every_trial if one.status == "ok"), default=0)


class _Troubles:
    """Why cells have no value."""

    def __init__(self, data: RunData) -> None:
        self._unavailable = {one.label: one.reason for one in reversed(data.manifest.platforms) if not one.available}
        self._reasons: dict[tuple[str, str, str], Counter[str]] = {}
        for trial in data.trials:
            if trial.status != "ok":
                where = trial.platform, trial.workload, canonical(trial.parameters)
                self._reasons.setdefault(where, Counter())[f"{trial.status}: {trial.reason}"] += 1

    def of(self, platform: str, task: Task) -> str:
        """The most frequent reason; empty where none is known."""
        if platform in self._unavailable:
            return f"{platform} is not available: {self._unavailable[platform]}"
        reasons = self._reasons.get((platform, task.workload, task.parameters))
        return f"{platform} {reasons.most_common(1)[0][0]}" if reasons else ""


def _statuses(data: RunData, platforms: Sequence[str]) -> dict[str, dict[str, int]]:
    """Trials by platform and status; `not run` are those without any record, up to the run's end."""
    table = {platform: dict.fromkeys(("ok", "invalid", "failed", "skipped", "not run"), 0) for platform in platforms}
    done = {trial.trial for trial in data.every_trial}
    blocks = min((look.blocks for look in data.looks if look.ended), default=math.inf)
    for trial in data.every_trial:
        table[trial.platform][trial.status] += 1
    for planned in data.manifest.plan.trials:
        if planned.trial not in done and not planned.warm_up and planned.block < blocks:
            table[planned.platform]["not run"] += 1
    return table
