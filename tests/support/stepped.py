"""Simulated runs of platforms that are as fast as their host, which changes its speed at one place of each block.

The order of the trials is a plan's, and the verdicts are Virtoll's own. What is asked is how often they find a
difference that is none.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
from tests.support import experiments

from virtoll.experiment.model import Experiment
from virtoll.experiment.plan import Plan, TrialSeconds, make_plan
from virtoll.runfolder.records import MetricRecord
from virtoll.stats.compare import DIFFERENT, compare
from virtoll.stats.values import Observation, Task
from virtoll.stats.verdicts import Rules, decide

STEP = math.log(1.3)
LABELS = ("netns", "runc", "lxc", "nspawn", "uml", "runsc", "qemu-tcg")
LONG, SHORT = TrialSeconds(20.0), TrialSeconds(0.2)
_DURATION = MetricRecord("job", "duration", "ns", "lower", "marks", title="a job", resource="cpu")
_TASK = Task("job", _DURATION, "{}", "")


def experiment_of(platforms: int, *, rounds: int, blocks: int) -> Experiment:
    """The host, its control, and so many others."""
    labels = ["native", "native-again", *LABELS[:platforms]]
    return experiments.parsed(platforms=labels, workloads=["superpi"], rounds=rounds, blocks=blocks)


def false_differences(experiment: Experiment, seconds: TrialSeconds, place: int | None, cv: float, runs: int) -> float:
    """The share of runs that find any platform slower or faster.

    `place`: how many trials of each block come before the step, and are slower by it; None: another one in each block.
    """
    dice = np.random.default_rng([2026, runs, place or 0])
    wrong = 0
    for seed in range(runs):
        plan = make_plan(dataclasses.replace(experiment, seed=seed), lambda *_: seconds)
        wrong += _finds_a_difference(_measured(plan, dice, place, cv))
    return wrong / runs


def places(experiment: Experiment, seconds: TrialSeconds) -> int:
    """How many counted trials a block has: a step may come before each but the first."""
    block = make_plan(experiment, lambda *_: seconds).blocks()[0]
    return sum(not trial.warm_up for trial in block)


def _measured(
    plan: Plan, dice: np.random.Generator, place: int | None, cv: float
) -> Mapping[str, Sequence[Observation]]:
    """By label, the durations of a plan's trials."""
    by_label: dict[str, list[Observation]] = {}
    for block in plan.blocks():
        counted = [trial for trial in block if not trial.warm_up]
        step_at = int(dice.integers(1, len(counted))) if place is None else place
        for number, trial in enumerate(counted):
            slower = STEP if number < step_at else 0.0
            value = 1e9 * math.exp(slower + dice.normal(0, cv))
            label = trial.platform.label
            by_label.setdefault(label, []).append(
                Observation(_TASK, label, trial.number, trial.block, trial.number, value, round=trial.round)
            )
    return by_label


def _finds_a_difference(by_label: Mapping[str, Sequence[Observation]]) -> bool:
    host = {label: by_label[label] for label in ("native", "native-again")}
    every = [*host["native"], *host["native-again"]]
    compared = [compare(_TASK, label, own, every, None) for label, own in by_label.items() if label not in host]
    control = [compare(_TASK, "native-again", host["native-again"], host["native"], None)]
    decided, _ = decide(compared, control, Rules())
    return any(comparison.verdict in DIFFERENT for comparison in decided)
