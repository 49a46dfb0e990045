"""Two simulated runs compared: how often something false is said, and how often a true difference is found."""

import math
from dataclasses import dataclass

import numpy as np
from tests.support.trials import OF_BOOT, ROUNDS, WORLDS, simulate

from virtoll.stats.verdicts import Rules, judge_two

SIZE = (6, 5)  # tasks, platforms
CV = 0.05
SLOWER = 0  # the platform that becomes slower: one without more noise than others


@dataclass(frozen=True)
class Pairing:
    """Two runs with so many `blocks`, `runs` times. `of_the_run`: what a run has for itself, a platform and task each.

    That is in standard deviations of a block's log share, about `CV` times the root of its parts.
    """

    world: str
    blocks: tuple[int, int]
    runs: int
    of_the_run: float = 0.0


@dataclass(frozen=True)
class Tried:
    """Shares: of the pairs with a false verdict (`errors`), a false A/A alarm, and of the true differences found."""

    errors: float
    alarms: float
    found: float


def tried(pairing: Pairing, cost: float = 0.0) -> Tried:
    """Simulate and judge; `cost`: by how much one platform is slower in the second run, as a logarithm."""
    dice = np.random.default_rng([17, list(WORLDS).index(pairing.world), *pairing.blocks, round(1000 * cost)])
    block = CV * math.sqrt(OF_BOOT + (1 - OF_BOOT) * 1.5 / ROUNDS + OF_BOOT)  # platform and host
    wrong, alarms, found = [], [], []
    for _ in range(pairing.runs):
        two = [
            simulate(dice, WORLDS[pairing.world], SIZE, blocks=blocks, cv=CV, equal=True) for blocks in pairing.blocks
        ]
        logs = [
            own + dice.normal(0, pairing.of_the_run * block, (*own.shape[:2], 1))
            for own in (one.log_shares() for one in two)
        ]
        logs[1][:, SLOWER] -= cost
        control = np.arange(SIZE[1] + 1) == SIZE[1]
        judged = judge_two(logs[0], logs[1], Rules(), control, two[0].gaps() + two[1].gaps())
        told = judged.different.copy()
        if cost:
            found.append(float((told[:, SLOWER] & (judged.mean[:, SLOWER] < 0)).mean()))
            told[:, SLOWER] = False
        wrong.append(bool(told[:, :-1].any()))
        alarms.append(bool(told[:, -1].any()))
    return Tried(float(np.mean(wrong)), float(np.mean(alarms)), float(np.mean(found)) if found else math.nan)
