"""From an experiment and its seed to the trials, in the order in which they will run: pure, no I/O.

Main types: ``Trial`` (one measurement to be taken) and ``Plan`` (the ordered tuple of them, fixed before the first
guest starts).

A block is one boot of each platform. Inside it stand the workloads in random order, and inside each workload short
rounds. In a round every platform runs once, in random order, and the host three times: first, in the middle and last.
Of a job that is too long for a second round the host runs before and after each platform, the A/A control being one of
these: if the host changes its speed, it does so in one platform's turn, and not for all that stand on one side.
What a host does changes within seconds, so a platform is compared with the host entries of its own round. The same job
of a bare host scattered by 18 % between runs 5 to 54 s apart, and by 4 to 6 % between adjacent ones. Before the rounds
each platform runs once without being counted (a warm-up: memory that is touched first, code that is translated first).
A workload whose later rounds are shorter than its first has more of them in the same time.
Two builds or settings (``against``): a platform as it is and the same with them stand side by side in each round, and
change places from round to round, so that they are compared inside a round as well (Firecracker's A/B tests do so).
Scenario ``neighbours``: in a round each platform in turn runs alone first, in the middle and last, and under each
condition once between them, in random order. So a condition is compared with the same guest alone, seconds apart. The
A/A control runs alone, once a round.
Scenario ``scale``: in a block each number of guests stands in random order, and inside it each platform. There its
guests are started, run each workload at once as often as there are rounds, and end.
All of A before all of B finds 15 to 81 % false differences at a nominal 5 % (simulated, as the host drifts; see Abedi
and Brecht, ICPE 2017). ``order: paper`` runs them so all the same, to repeat what a paper did.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from operator import attrgetter
from typing import TypeVar

from virtoll.experiment.model import BootedFor, Experiment, Order, PlatformChoice, Scale, WorkloadChoice
from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.scale import ScalePoint

# Seconds that the rounds of one platform and workload take in a block, if there are more than one.
ROUNDS_SECONDS = 3.5
MOST_TRIALS = 1_000_000
"""Of one experiment: its plan is held whole, in some 400 bytes a trial."""

Item = TypeVar("Item")
Host = TypeVar("Host")


@dataclass(frozen=True)
class TrialSeconds:
    """How long a trial takes in a platform's first round of a block, in seconds, and in each later one.

    None: as long as in the first. ``in_turn``: all platforms' guests may be measured at once in later rounds.
    """

    first: float
    later: float | None = None
    in_turn: bool = False


SecondsOf = Callable[[PlatformChoice, WorkloadChoice], TrialSeconds]


@dataclass(frozen=True)
class Trial:
    """One measurement to be taken: ``number`` is its place in the plan, from 0.

    ``round``: of its block and workload, from 0. ``warm_up``: it comes before the rounds, and is in no summary.
    ``later``: its platform took part in an earlier round of the block, and it may measure less than that one did.
    ``condition``: what guests beside its own do; None: it is alone. ``scale``: how many guests do it at once.
    """

    number: int
    block: int
    platform: PlatformChoice
    workload: WorkloadChoice
    round: int = 0
    warm_up: bool = False
    later: bool = False
    condition: Condition | None = None
    scale: ScalePoint | None = None

    @property
    def cell(self) -> tuple[int, int, Condition | None, ScalePoint | None]:
        """What the trials of a plan share that differ in their place alone: number, block, round, warm-up and later."""
        return id(self.platform), id(self.workload), self.condition, self.scale  # the plan holds one of each


def cells_of(trials: Iterable[Trial]) -> dict[object, Trial]:
    """The first trial of each cell, in order."""
    cells: dict[object, Trial] = {}
    for trial in trials:
        cells.setdefault(trial.cell, trial)
    return cells


@dataclass(frozen=True)
class Plan:
    """The trials in order, and the seed that made it; ``order`` and ``boot`` as in the experiment."""

    seed: int
    trials: tuple[Trial, ...]
    order: Order = "randomised"
    boot: BootedFor = "block"

    def batches(self) -> list[tuple[Trial, ...]]:
        """Trials in order, grouped as they share guests.

        A block's, or in the paper's order a platform's; where several guests do the same at once, theirs. Of these each
        workload's, where guests are booted anew for it.
        """
        shared = ["platform" if self.order == "paper" else "block"]
        if any(trial.scale is not None for trial in self.trials):
            shared = list(dict.fromkeys([*shared, "platform", "scale"]))
        if self.boot == "each-workload":
            shared.append("workload")
        return [tuple(group) for _, group in groupby(self.trials, attrgetter(*shared))]

    def blocks(self) -> list[tuple[Trial, ...]]:
        """The trials of each block, in order."""
        blocks: dict[int, list[Trial]] = {}
        for trial in self.trials:
            blocks.setdefault(trial.block, []).append(trial)
        return [tuple(blocks[number]) for number in sorted(blocks)]


def make_plan(experiment: Experiment, seconds: SecondsOf) -> Plan:
    """The same experiment, seed and ``seconds`` give the same plan, on any machine and Python version.

    ``seconds``: how long the trials of a cell may take. Of what takes long there are fewer rounds, as many as fit in
    ``ROUNDS_SECONDS`` and at least one. Where later rounds are shorter, as many follow as fit in the time of whole
    ones. A trial that is longer than ``ROUNDS_SECONDS`` is its own warm-up. With ``rounds: 1`` each cell runs once a
    block, the host too, and nothing warms up.
    In the paper's order: each platform in turn, of several guests at once each number of them in turn, each workload in
    turn, all its repetitions in a row.
    """
    trials = (replace(trial, number=number) for number, trial in enumerate(_trials(experiment, seconds)))
    return Plan(experiment.seed, tuple(trials), experiment.order, experiment.boot)


def count_trials(experiment: Experiment) -> int:
    """How many trials and warm-ups the plan has, by one block of it.

    Fewer if a trial takes long, more if later rounds are short.
    """
    instant = TrialSeconds(0.0)
    return experiment.blocks * sum(1 for _ in _trials(replace(experiment, blocks=1), lambda *_: instant))


def _trials(experiment: Experiment, seconds: SecondsOf) -> Iterator[Trial]:
    """One after the other; their numbers are yet to be given."""
    if experiment.order == "paper":
        yield from _as_papers_ran(experiment)
        return
    generator = random.Random(experiment.seed)
    for block in range(experiment.blocks):
        if experiment.scale is not None:
            yield from _at_once(experiment, experiment.scale, generator, block)
            continue
        for workload, platforms in _shuffled(generator, _cells(experiment)):
            if experiment.conditions:
                yield from _with_neighbours(experiment, generator, block, workload, platforms, seconds)
                continue
            units = _units(experiment, platforms, workload, block)
            yield from _rounds(experiment, generator, block, workload, units, seconds)


def _as_papers_ran(experiment: Experiment) -> Iterator[Trial]:
    """Platform after platform; their numbers are yet to be given."""
    cells = _cells(experiment)
    for platform in experiment.platforms:
        workloads = [workload for workload, on in cells if platform in on]
        points: tuple[ScalePoint | None, ...] = (None,)
        if experiment.scale is not None:
            points = experiment.scale.points_of(platform.label)
        for point, workload, condition in product(points, workloads, (None, *experiment.conditions)):
            for block in range(experiment.blocks):
                yield Trial(0, block, platform, workload, condition=condition, scale=point)


def _cells(experiment: Experiment) -> list[tuple[WorkloadChoice, list[PlatformChoice]]]:
    """Each workload with the platforms that it runs on, in the experiment's order."""
    cells = []
    for choice in experiment.workloads:
        platforms = [other for other in experiment.platforms if (other.label, choice.workload) in experiment.cells]
        cells.append((choice, platforms))
    return cells


@dataclass(frozen=True)
class _Unit:
    """What stands side by side in a round: one platform, or one as it is and the same with the settings.

    ``swapped``: whether the second comes first in the first round that they take part in.
    """

    platforms: tuple[PlatformChoice, ...]
    swapped: bool = False

    def turn(self, number: int) -> tuple[PlatformChoice, ...]:
        """In which order they run in their round of this number, from 0: the other one from round to round."""
        return self.platforms[::-1] if self.swapped != bool(number % 2) else self.platforms


def _units(
    experiment: Experiment, platforms: Sequence[PlatformChoice], workload: WorkloadChoice, block: int
) -> list[_Unit]:
    """The platforms of a workload, in their order, of each pair both together.

    Which of a pair is first is random in every second block, and in the block after that the other one: over an odd
    number of rounds, too, each is first as often.
    """
    by_label = {platform.label: platform for platform in platforms}
    twins = {first: second for first, second in experiment.pairs if first in by_label and second in by_label}
    units = []
    for platform in platforms:
        if platform.label in twins:
            drawn = f"{experiment.seed}/{platform.label}/{experiment.workloads.index(workload)}/{block // 2}"
            swapped = (random.Random(drawn).random() < 1 / 2) != bool(block % 2)
            units.append(_Unit((platform, by_label[twins[platform.label]]), swapped))
        elif platform.label not in twins.values():
            units.append(_Unit((platform,)))
    return units


def _rounds(
    experiment: Experiment,
    generator: random.Random,
    block: int,
    workload: WorkloadChoice,
    units: Sequence[_Unit],
    seconds: SecondsOf,
) -> Iterator[Trial]:
    """One workload's trials in one block; their numbers are yet to be given."""
    if experiment.rounds == 1:
        for unit in _shuffled(generator, units):
            yield from (Trial(0, block, platform, workload) for platform in unit.turn(0))
        return
    each = {platform: seconds(platform, workload) for unit in units for platform in unit.platforms}
    yield from (Trial(0, block, platform, workload, warm_up=True) for platform in _warmed_up(generator, each))
    host = [unit for unit in units if unit.platforms[0].label in (experiment.baseline, experiment.control)]
    count = {unit: min(_count(experiment.rounds, each[platform]) for platform in unit.platforms) for unit in units}
    in_turn = any(seconds.in_turn for seconds in each.values())
    for unit, number, earlier in _turns(generator, host, count, in_turn=in_turn):
        for platform in unit.turn(earlier):
            yield Trial(0, block, platform, workload, number, later=earlier > 0)


def _turns(
    generator: random.Random, host: Sequence[_Unit], count: Mapping[_Unit, int], *, in_turn: bool
) -> Iterator[tuple[_Unit, int, int]]:
    """Each unit in its rounds, as many as ``count`` says: the unit, the round, and in how many rounds it was before.

    ``in_turn``: in later rounds all are measured at once, so the host is there once, at any place.
    """
    others = [unit for unit in count if unit not in host]
    rounds = min(map(count.__getitem__, host)) if host else max(count.values(), default=0)
    taken = {unit: set(_shuffled(generator, range(rounds))[: count[unit]]) for unit in others}
    taken |= {unit: set(range(rounds)) for unit in host}
    for number in range(rounds):
        present = [unit for unit in _shuffled(generator, others) if number in taken[unit]]
        if in_turn and number > 0:
            ordered = _shuffled(generator, [*host, *present])
        elif rounds == 1:
            ordered = _between(generator, host, present)
        else:
            ordered = _around(host, present)
        for unit in ordered:
            yield unit, number, sum(1 for earlier in taken[unit] if earlier < number)


def _warmed_up(generator: random.Random, seconds: Mapping[PlatformChoice, TrialSeconds]) -> list[PlatformChoice]:
    """The platforms that run once before the rounds, in random order: a trial that takes longer is its own warm-up."""
    return [platform for platform in _shuffled(generator, list(seconds)) if seconds[platform].first <= ROUNDS_SECONDS]


def _with_neighbours(
    experiment: Experiment,
    generator: random.Random,
    block: int,
    workload: WorkloadChoice,
    platforms: Sequence[PlatformChoice],
    seconds: SecondsOf,
) -> Iterator[Trial]:
    """One workload's trials in one block of the scenario ``neighbours``; their numbers are yet to be given.

    Each is whole.
    """
    each = {platform: TrialSeconds(seconds(platform, workload).first) for platform in platforms}
    yield from (Trial(0, block, platform, workload, warm_up=True) for platform in _warmed_up(generator, each))
    count = {platform: _count(experiment.rounds, each[platform]) for platform in platforms}
    for number in range(max(count.values(), default=0)):
        for platform in _shuffled(generator, [platform for platform in platforms if number < count[platform]]):
            if platform.label == experiment.control:  # it is there for what is compared between platforms: alone
                yield Trial(0, block, platform, workload, number)
                continue
            for condition in _around((None,), _shuffled(generator, experiment.conditions)):
                yield Trial(0, block, platform, workload, number, condition=condition)


def _at_once(experiment: Experiment, scale: Scale, generator: random.Random, block: int) -> Iterator[Trial]:
    """The trials of one block of the scenario ``scale``; their numbers are yet to be given.

    With more than one round each workload warms up once in each group of guests.
    """
    cells = _cells(experiment)
    for point in _shuffled(generator, scale.points):
        present = [platform for platform in experiment.platforms if point in scale.points_of(platform.label)]
        for platform in _shuffled(generator, present):
            for workload in _shuffled(generator, [workload for workload, on in cells if platform in on]):
                if experiment.rounds > 1:
                    yield Trial(0, block, platform, workload, warm_up=True, scale=point)
                for number in range(experiment.rounds):
                    yield Trial(0, block, platform, workload, number, scale=point)


def _around(host: Sequence[Host], others: Sequence[Item]) -> list[Host | Item]:
    """The host first, in the middle and last, the A/A control in the middle; once each where nothing is beside it.

    Or, for its conditions, a guest alone in the host's place.
    """
    if not host or not others:
        return [*host, *others]
    half = (len(others) + 1) // 2
    return [host[0], *others[:half], host[-1], *others[half:], host[0]]


def _between(generator: random.Random, host: Sequence[Item], others: Sequence[Item]) -> list[Item]:
    """The baseline before and after each of the others, of which the A/A control is one, in random order."""
    if not host or not others:
        return [*host, *others]
    ordered = [host[0]]
    for turn in _shuffled(generator, [*host[1:], *others]):
        ordered += turn, host[0]
    return ordered


def _count(rounds: int, seconds: TrialSeconds) -> int:
    """How many rounds a platform takes part in."""
    whole = rounds if seconds.first * rounds <= ROUNDS_SECONDS else max(1, int(ROUNDS_SECONDS / seconds.first))
    if seconds.later is None or seconds.later >= seconds.first:
        return whole
    left = min(rounds * seconds.first, ROUNDS_SECONDS) - seconds.first
    return max(whole, 1 + int(left / seconds.later))


def _shuffled(generator: random.Random, items: Sequence[Item]) -> list[Item]:
    """In random order: sorted by ``random()`` keys, since the algorithm of ``shuffle`` is not promised to stay."""
    keyed = sorted((generator.random(), index) for index in range(len(items)))
    return [items[index] for _, index in keyed]


def estimate_seconds(
    plan: Plan, trial_seconds: Callable[[Trial], float], boot_seconds: Callable[[PlatformChoice], float]
) -> float:
    """How long the plan will take, in seconds: each trial, and one start of each platform a batch."""
    each: dict[object, float] = {}
    trials = 0.0
    for trial in plan.trials:
        kind = trial.cell, trial.warm_up, trial.later
        if kind not in each:
            each[kind] = trial_seconds(trial)
        trials += each[kind]
    boots: list[PlatformChoice] = []
    for batch in plan.batches():
        boots += {trial.platform.label: trial.platform for trial in batch}.values()
    return trials + sum(map(boot_seconds, boots))
