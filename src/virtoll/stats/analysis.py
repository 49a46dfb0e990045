"""The whole analysis of one run: `RunData` in, `Analysis` out; pure, so it gives the same on any machine.

`analyse` does what everything rests on: values from trials, cells, states of the host, comparisons and A/A control with
their verdicts by family. All else of an `Analysis` is computed when it is first asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from virtoll.runfolder.conditions import ALONE
from virtoll.runfolder.looks import Looks, extended_level
from virtoll.stats.across_hosts import AcrossHosts, HostBlocks, across_hosts
from virtoll.stats.against_baseline import compare_all, host_labels, host_states, host_values
from virtoll.stats.bounds import forwarded_elsewhere, lower_bounds, rate_widths, receiving_apart
from virtoll.stats.cautions import Warned, cautions
from virtoll.stats.caveats import caveats_of
from virtoll.stats.ceilings import Ceiling, Headroom, ceilings, headrooms
from virtoll.stats.clocks import ClockError, clock_errors, clock_readings
from virtoll.stats.comparability import unlike_facts
from virtoll.stats.compare import DIFFERENT, LEVEL, Comparison, by_cell, family_size
from virtoll.stats.conditional_throughput import ThroughputRow, throughput_rows
from virtoll.stats.consolidation import Consolidation, consolidations
from virtoll.stats.cpu_over_parameters import cpu_cells
from virtoll.stats.decisions import decided
from virtoll.stats.detectable import Detectable, detectable
from virtoll.stats.drift import Drift, OrderedValue, drift, ordered_values
from virtoll.stats.ends import left_open
from virtoll.stats.equivalence import Equivalence, equivalence
from virtoll.stats.estimates import CellEstimate, estimates
from virtoll.stats.fitness import HostFitness, host_fitness
from virtoll.stats.frame_cost import frame_costs
from virtoll.stats.guests import CpuUse, GuestCost, cpu_uses, guest_costs
from virtoll.stats.guests_at_once import AtOnce, each_guest, guests_at_once
from virtoll.stats.hand_over import CpuDistance, cpu_distances, hand_overs_of, with_distances
from virtoll.stats.isolation import Isolation, isolation
from virtoll.stats.listed_rates import ListedRates, listed_rates
from virtoll.stats.neighbour_routers import NeighbourRouter, neighbour_routers
from virtoll.stats.over_parameters import OverParameter, over_parameters
from virtoll.stats.overhead import OverheadEffect, OverheadUse, overhead_effects, overhead_uses
from virtoll.stats.papers import PAPER_METHODS, PaperMethod, PaperTable, paper_table, with_points
from virtoll.stats.resemblance import Resemblance, resemblance
from virtoll.stats.run_data import (
    RunData,
    first_blocks,
    hosts_of_blocks,
    last_block,
    level_of,
    margin_of,
    platforms_of,
    statuses_of,
)
from virtoll.stats.scaling import Scaling, scalings
from virtoll.stats.states import TwoStates
from virtoll.stats.summaries import CellSummary, cells_of
from virtoll.stats.sweeps import Curve, PointValue, curves, point_values
from virtoll.stats.values import Gap, Observation, Task, observations_of, printed_tasks, tasks_of
from virtoll.stats.verdicts import Rules
from virtoll.stats.wire import BackendUse, LossRow, PaceRow, backend_uses, loss_rows, pace_rows

__all__ = ["Analysis", "RunData", "analyse"]


@dataclass(frozen=True)
class Analysis:
    """Everything that tables, figures and the page are made of."""

    data: RunData
    platforms: tuple[str, ...]
    tasks: tuple[Task, ...]
    observations: tuple[Observation, ...]
    gaps: tuple[Gap, ...]
    cells: Mapping[tuple[str, Task], CellSummary]
    """By platform and task; only those with values, and of CPUs near each other (`summaries.summarise`)."""
    comparisons: tuple[Comparison, ...]
    """One for each platform other than baseline and control, and each task."""
    control: tuple[Comparison, ...]
    """One for each task (A/A), none without a control: it is shown, and vetoes nothing."""
    two_states: tuple[TwoStates, ...]
    """The tasks that the host ran at two speeds."""
    rules: Rules
    points: tuple[PointValue, ...]
    curves: tuple[Curve, ...]
    searches: tuple[ThroughputRow, ...]
    headrooms: Mapping[tuple[str, Task], Headroom]
    lower_bounds: frozenset[tuple[str, Task]]
    """The cells whose platform may be able to do more than was seen (`stats/bounds.py`)."""
    caveats: Mapping[str, str]
    """The platforms whose numbers are no results, with the reason (`stats/caveats.py`)."""
    cpu_distances: tuple[CpuDistance, ...]
    """How far the CPUs of its trials were from each other."""
    rate_widths: Mapping[tuple[str, Task], float]
    """How far above a cell's rate the upper bound of its search or sweep is, as a logarithm."""

    @property
    def level(self) -> float:
        """The chance of any false difference in a family: 5 %, or what a look or an extension spends."""
        return self.rules.level

    @cached_property
    def estimates(self) -> Mapping[tuple[str, Task], CellEstimate]:
        """What is told of each cell, so that it fits its share (`stats/estimates.py`)."""
        return estimates(self.cells, (*self.comparisons, *self.control), self.data.manifest.baseline)

    @cached_property
    def detectable(self) -> tuple[Detectable, ...]:
        """The smallest detectable differences (`stats/detectable.py`)."""
        return detectable(self.comparisons, {entry.label: entry.family for entry in self.data.manifest.platforms})

    @cached_property
    def listed_rates(self) -> ListedRates:
        """What was forwarded at each rate of a list."""
        return listed_rates(self.tasks, self.points, self.cells, self.platforms)

    @cached_property
    def clocks(self) -> tuple[ClockError, ...]:
        """Each platform's clock against the outside one."""
        readings = clock_readings([*self.data.trials, *each_guest(self.data.at_once)])
        return clock_errors(readings, self.platforms)

    @cached_property
    def order(self) -> tuple[OrderedValue, ...]:
        """Every value in the order measured, relative to its cell's median."""
        return ordered_values(self.cells.values())

    @cached_property
    def drift(self) -> Drift | None:
        """How values change over the run; None of several hosts, or without enough values."""
        if self.rules.host_of:
            return None
        return drift([value for value in self.order if value.observation.platform not in self.caveats])

    @cached_property
    def resemblance(self) -> Resemblance | None:
        """Whether blocks resemble their neighbours; None of several hosts, or of too few blocks."""
        if self.rules.host_of:
            return None
        return resemblance((*self.comparisons, *self.control))

    @cached_property
    def fitness(self) -> HostFitness:
        """Whether the host was fit to be measured on."""
        manifest = self.data.manifest
        return host_fitness(self.data.fitness, manifest.host, merged=manifest.merged is not None)

    @cached_property
    def equivalence(self) -> Equivalence:
        """What is equal between the guests, as measured inside them."""
        return equivalence(self.data.boots, self.platforms)

    @cached_property
    def statuses(self) -> Mapping[str, Mapping[str, int]]:
        """Trials by platform and status."""
        return statuses_of(self.data, self.platforms)

    @cached_property
    def ceilings(self) -> tuple[Ceiling, ...]:
        """What generator and sink reach with nothing between."""
        return ceilings(self.data.calibrations)

    @cached_property
    def losses(self) -> tuple[LossRow, ...]:
        """Where frames were lost, by platform and task."""
        return loss_rows(self.tasks, self.data.trials)

    @cached_property
    def paces(self) -> tuple[PaceRow, ...]:
        """How well the generator kept its rates."""
        return pace_rows(self.tasks, self.data.trials)

    @cached_property
    def backends(self) -> tuple[BackendUse, ...]:
        """By which means frames were sent and received."""
        return backend_uses(self.tasks, self.data.trials)

    @cached_property
    def cautions(self) -> tuple[Warned, ...]:
        """What a reader of results must be warned of.

        A platform with a caveat has no results, and its caveat is its warning.
        """
        sizes = {task.parameters: task.size for task in self.tasks}
        forged = dict.fromkeys(
            (point.platform, sizes.get(point.parameters, f"{point.frame_size_bytes} B"))
            for point in self.points
            if point.forged_frames
        )
        headrooms = {cell: headroom for cell, headroom in self.headrooms.items() if cell[0] not in self.caveats}
        curves = [curve for curve in self.curves if curve.platform not in self.caveats]
        losses = [row for row in self.losses if row.platform not in self.caveats]
        return cautions(
            headrooms,
            curves,
            losses,
            forged=list(forged),
            paces=self.paces,
            uses=self.backends,
            tasks=self.tasks,
            pinning=self.data.manifest.pinning,
            calibrated=bool(self.data.calibrations),
        )

    @cached_property
    def guests(self) -> tuple[GuestCost, ...]:
        """What a guest costs: its start and its memory."""
        single = [boot for boot in self.data.boots if boot.scale is None]
        started = {boot.boot for boot in single}
        footprints = [footprint for footprint in self.data.footprints if footprint.boot in started]
        return guest_costs(single, footprints, self.platforms)

    @cached_property
    def host_cpu(self) -> tuple[CpuUse, ...]:
        """CPU time of each guest's processes on the host."""
        return cpu_uses(self.tasks, self.data.trials, self.platforms, self.data.manifest.baseline, self.caveats)

    @cached_property
    def consolidations(self) -> tuple[Consolidation, ...]:
        """How many idle guests a budget holds."""
        return consolidations(self.data.consolidation)

    @cached_property
    def scalings(self) -> tuple[Scaling, ...]:
        """Jobs over the number of their threads."""
        return scalings(self.tasks, self.observations, self.data.trials, self.platforms)

    @cached_property
    def isolation(self) -> Isolation:
        """What guests beside the measured one do to it."""
        return isolation(
            self.data.with_neighbours,
            self.tasks,
            self.observations,
            platforms=self.platforms,
            labels=self.data.manifest.experiment.get("conditions") or (),
            caveats=self.caveats,
            rules=self.rules,
            states=self.two_states,
            distances=self.cpu_distances,
            apart=receiving_apart(self.data.boots),
            elsewhere=self.forwarded_elsewhere,
            bounds=self.lower_bounds,
            widths=self.rate_widths,
        )

    @cached_property
    def neighbour_routers(self) -> tuple[NeighbourRouter, ...]:
        """Routers beside other guests, as Schlosser et al. 2011 print them."""
        return neighbour_routers(self.isolation, self.data.with_neighbours, self.platforms)

    @cached_property
    def at_once(self) -> AtOnce:
        """Several guests that did the same at once."""
        manifest = self.data.manifest
        return guests_at_once(
            self.data.at_once,
            self.tasks,
            self.data.groups,
            self.data.boots,
            self.data.footprints,
            platforms=self.platforms,
            baseline=manifest.baseline,
            control=manifest.control,
            control_counts=manifest.control in host_labels(self.data, self.caveats),
            caveats=self.caveats,
            rules=self.rules,
            states=self.two_states,
            distances=self.cpu_distances,
        )

    @cached_property
    def unlike(self) -> Mapping[str, tuple[str, ...]]:
        """By platform, the facts that should be as the baseline's and are not."""
        baseline = self.data.manifest.baseline
        if baseline is None:
            return {}
        facts = {label: unlike_facts(self.data.boots, label, baseline) for label in self.platforms if label != baseline}
        return {label: names for label, names in facts.items() if names}

    @cached_property
    def overhead(self) -> OverheadUse | None:
        """What the instrument used, with counters; None: not read."""
        return overhead_uses([*self.data.trials, *self.data.at_once])

    @cached_property
    def overhead_uncounted(self) -> OverheadUse | None:
        """What the instrument used, without counters; None: not read."""
        return overhead_uses([*self.data.trials, *self.data.at_once], counters=False)

    @cached_property
    def overhead_effects(self) -> tuple[OverheadEffect, ...]:
        """What counters change."""
        host = host_values(self.data.manifest.baseline, self.observations, host_labels(self.data, self.caveats))
        return overhead_effects(self.data.manifest, self.tasks, self.observations, host, self.rules)

    @cached_property
    def paper(self) -> PaperTable:
        """The values summed up as the study does that the experiment names."""
        manifest = self.data.manifest
        return paper_table(
            self.paper_method,
            with_points(self.cells, self.at_once.cells),
            [*self.data.trials, *self.data.at_once],
            platforms=self.platforms,
            tasks=self.tasks,
            points=self.at_once.points or (None,),
            baseline=manifest.baseline,
            unavailable={entry.label for entry in manifest.platforms if not entry.available},
        )

    @cached_property
    def over_parameters(self) -> tuple[OverParameter, ...]:
        """Values over a parameter of their workload."""
        cpus = cpu_cells(self.tasks, [*self.data.trials, *self.data.with_neighbours])
        alone = {(platform, task, ALONE): cell for (platform, task), cell in self.cells.items()}
        return over_parameters(
            [*printed_tasks(self.tasks), *cpus.tasks],
            {**(self.isolation.cells or alone), **cpus.cells},
            self.platforms,
            [ALONE, *(condition.label for condition in self.isolation.conditions)],
        )

    @cached_property
    def across_hosts(self) -> AcrossHosts:
        """Of a merged run, its hosts and how they differ."""
        manifest = self.data.manifest
        hosts = tuple(HostBlocks(host.name, str(host.host["fingerprint"]), host.blocks) for host in manifest.hosts)
        return across_hosts(hosts, self.comparisons, self.cells, manifest.baseline)

    @property
    def paper_method(self) -> PaperMethod | None:
        """The paper's way to sum up that the experiment names; None if it names none."""
        return PAPER_METHODS.get(str(self.data.manifest.experiment.get("summary")))

    @property
    def in_paper_order(self) -> bool:
        """Whether trials ran platform after platform: what changed on the host meanwhile is then in the ratios."""
        return self.data.manifest.experiment.get("order") == "paper"

    @property
    def host_of(self) -> Mapping[int, str]:
        """Which host measured each block, in a run that was merged of several; empty in any other."""
        return self.rules.host_of

    @cached_property
    def baseline(self) -> str | None:
        """The baseline's label, or None where the run has none or nothing of it could be measured."""
        label = self.data.manifest.baseline
        measured = {platform for platform, *_ in (*self.cells, *self.at_once.cells)}
        return label if label in measured else None

    @property
    def margin(self) -> float:
        """Within how much platforms are alike, by the experiment (0.1 = 10 %)."""
        return self.rules.margin

    @property
    def alarms(self) -> tuple[Comparison, ...]:
        """A/A comparisons that find a difference, with one chance in a hundred that any does by accident."""
        return tuple(comparison for comparison in self.control if comparison.verdict in DIFFERENT)

    @property
    def family(self) -> int:
        """How many comparisons of primary metrics were tested, and so corrected for."""
        return family_size(self.comparisons)

    @property
    def second_family(self) -> int:
        """How many comparisons of other metrics were tested, in a family of their own."""
        return family_size(self.comparisons, primary=False)

    def level_after(self, more: int) -> float:
        """The chance of any false difference in a family, were so many blocks added to those that there are."""
        if Looks.of(self.data.manifest.experiment):
            return self.level
        return extended_level(LEVEL, first_blocks(self.data), last_block(self.data) + more)

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
        rounds: dict[tuple[str, Task, int], set[int]] = {}
        for observation in self.observations:
            rounds.setdefault((observation.platform, observation.task, observation.block), set()).add(observation.round)
        return frozenset(map(len, rounds.values()))

    def comparison(self, platform: str, task: Task) -> Comparison | None:
        """The comparison of a platform (or of the control) on a task."""
        return self._comparisons.get((platform, task, None))

    @cached_property
    def _comparisons(self) -> Mapping[tuple[str, Task, str | None], Comparison]:
        return by_cell((*self.comparisons, *self.control))

    def gap(self, platform: str, task: Task) -> float:
        """By how much two speeds of the host or a step of it widen the intervals of a platform, as a logarithm."""
        compared = self.comparison(platform, task)
        step = left_open(compared.step) if compared is not None else 0.0
        return max([step, *(state.gap(platform) for state in self.two_states if state.task == task)])

    def curve(self, platform: str, task: Task) -> Curve | None:
        """The sweep of a platform for a task."""
        return self._curves.get((platform, task.parameters))

    @cached_property
    def _curves(self) -> Mapping[tuple[str, str], Curve]:
        """The first of each platform and set of parameters."""
        return {(curve.platform, curve.parameters): curve for curve in reversed(self.curves)}

    def own_task(self, task: Task) -> Task | None:
        """The task as this run has it, of one of another run; None where it has none."""
        return self._tasks_by_key.get(task.key)

    @cached_property
    def _tasks_by_key(self) -> Mapping[tuple[str, str, str], Task]:
        return {task.key: task for task in self.tasks}

    @cached_property
    def forwarded_elsewhere(self) -> Mapping[str, str]:
        """Platforms of which the host's kernel does not forward on the guest's CPUs (`bounds.forwarded_elsewhere`)."""
        return forwarded_elsewhere(self.data.boots)

    def generator_bound(self, platform: str, task: Task) -> bool:
        """Whether a cell is within 10 % of what generator and sink reach with nothing between."""
        headroom = self.headrooms.get((platform, task))
        return headroom is not None and headroom.generator_bound


def analyse(data: RunData) -> Analysis:
    """What the analysis of a run rests on; the rest is computed when it is asked for."""
    platforms, tasks = platforms_of(data), tasks_of(data.manifest, data.trials)
    costs = frame_costs(data.trials, data.boots, data.calibrations)
    observations, gaps = observations_of(
        tasks,
        data.trials,
        {trial: (cost.value, cost.none_because) for trial, cost in costs.items()},
        by_clock=data.manifest.merged is not None,
    )
    distances = cpu_distances(hand_overs_of(data.every_trial, data.calibrations))
    observations = with_distances(observations, data.trials, distances)
    cells = cells_of(observations, platforms, tasks)
    caveats = caveats_of(data.manifest, data.boots, [*data.trials, *data.at_once])
    host = host_values(data.manifest.baseline, observations, host_labels(data, caveats))
    states = host_states(data, platforms, tasks, cells, host)
    level = level_of(data, observations)
    rules = Rules(margin_of(data), level, level, host_of=hosts_of_blocks(data))
    points = point_values(data.trials)
    sweeps = _sweeps(data, tasks, points)
    headroom = headrooms(ceilings(data.calibrations), cells, data.trials)
    searches = throughput_rows(tasks, data.trials)
    bounds = frozenset(lower_bounds(tasks, sweeps, headroom, searches))
    alone = () if data.manifest.experiment.get("scenario") == "scale" else tasks
    untested = compare_all(data, platforms, alone, observations, caveats, host)
    widths = rate_widths(cells, points, searches)
    comparisons, control = decided(data, untested, bounds, widths, rules, states)
    return Analysis(
        data=data,
        platforms=platforms,
        tasks=tasks,
        observations=observations,
        gaps=gaps,
        cells=cells,
        comparisons=comparisons,
        control=control,
        two_states=states,
        rules=rules,
        points=points,
        curves=sweeps,
        searches=searches,
        headrooms=headroom,
        lower_bounds=bounds,
        caveats=caveats,
        cpu_distances=distances,
        rate_widths=widths,
    )


def _sweeps(data: RunData, tasks: Sequence[Task], points: Sequence[PointValue]) -> tuple[Curve, ...]:
    """The curves of all tasks that were swept."""
    swept = {task.parameters: task for task in tasks if task.metric.source == "points"}
    senders = {parameters for parameters, task in swept.items() if not task.is_forwarding_rate}
    return curves([point for point in points if point.parameters in swept], receiving_apart(data.boots), senders)
