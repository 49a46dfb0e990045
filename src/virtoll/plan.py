"""From an experiment and its seed to the trials, in the order in which they will run: pure, no I/O.

Main types: ``Trial`` (one measurement to be taken) and ``Plan`` (the ordered tuple of them, fixed before the first
guest starts). The order is randomised in blocks: each block holds one trial of every cell (platform x workload x
parameters), shuffled with the stored seed, because running all of A and then all of B finds 15 to 81 % false
differences at a nominal 5 % (shared statistics notes; Abedi and Brecht, ICPE 2017).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from virtoll.experiment import Experiment, PlatformChoice, WorkloadChoice


@dataclass(frozen=True)
class Trial:
    """One measurement to be taken: ``number`` is its place in the plan, from 0."""

    number: int
    block: int
    platform: PlatformChoice
    workload: WorkloadChoice


@dataclass(frozen=True)
class Plan:
    """The trials in order, block after block, and the seed that made the order."""

    seed: int
    trials: tuple[Trial, ...]

    def blocks(self) -> list[tuple[Trial, ...]]:
        """The trials of each block, in order."""
        numbers = sorted({trial.block for trial in self.trials})
        return [tuple(trial for trial in self.trials if trial.block == number) for number in numbers]


def make_plan(experiment: Experiment) -> Plan:
    """Randomised blocks: the same experiment and seed give the same plan, on any machine and Python version.

    Sorting by ``random.random()`` keys is used instead of ``shuffle``, whose algorithm is not promised to stay.
    """
    generator = random.Random(experiment.seed)
    trials: list[Trial] = []
    for block in range(experiment.blocks):
        cells = [(platform, workload) for platform in experiment.platforms for workload in experiment.workloads]
        keyed = sorted((generator.random(), index) for index in range(len(cells)))
        for _, index in keyed:
            trials.append(Trial(len(trials), block, *cells[index]))
    return Plan(experiment.seed, tuple(trials))


def estimate_seconds(
    plan: Plan,
    trial_seconds: Callable[[Trial], float],
    boot_seconds: Callable[[PlatformChoice], float],
) -> float:
    """How long the plan will take, in seconds: each trial, and one start of each platform a block."""
    boots = {(trial.block, trial.platform.label): trial.platform for trial in plan.trials}
    return sum(map(trial_seconds, plan.trials)) + sum(map(boot_seconds, boots.values()))
