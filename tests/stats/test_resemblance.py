"""Blocks that resemble their neighbours are found, and independent ones are not."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from tests.support.by_hand import task

from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.resemblance import Resemblance, resemblance

TASKS = [task(f"w{number}", "marks") for number in range(6)]


def of_logs(logs: Iterable[float], number: int = 0, platform: str = "p") -> Comparison:
    pairs = tuple((block, math.exp(value)) for block, value in enumerate(logs))
    return Comparison(platform, TASKS[number], Verdict.UNKNOWN, pairs)


def run(seed: int, *, of_neighbours: float, blocks: int = 12) -> list[Comparison]:
    """Six tasks on five platforms; of each boot's noise, so much is of the boot before. The host is in all."""
    dice = np.random.default_rng(seed)
    boots = dice.normal(0, 0.05, (6, 6, blocks))
    for block in range(1, blocks):
        fresh = math.sqrt(1 - of_neighbours**2) * boots[..., block]
        boots[..., block] = of_neighbours * boots[..., block - 1] + fresh
    shares = boots[:, :-1] - boots[:, -1:]
    return [of_logs(shares[t, p], t, f"p{p}") for t in range(6) for p in range(5)]


def found(runs: int, *, of_neighbours: float, blocks: int) -> int:
    every = [resemblance(run(seed, of_neighbours=of_neighbours, blocks=blocks)) for seed in range(runs)]
    return sum(one is not None and one.is_found for one in every)


@pytest.mark.parametrize("blocks", [9, 12])
def test_boots_that_resemble_their_neighbours_are_found(blocks: int) -> None:
    """A correlation of 0.6 makes 84 to 93 % of families wrong."""
    assert found(20, of_neighbours=0.6, blocks=blocks) >= 18
    assert found(40, of_neighbours=0.0, blocks=blocks) <= 3  # of 1 %, one seed in a thousand has more


def test_the_correlation_by_hand() -> None:
    """Of -1 0 1 0 -1 0 1 0 0 the products of neighbours are all 0; of 1 1 1 1 0 -1 -1 -1 -1 they are 6/8."""
    none = resemblance([of_logs([-1, 0, 1, 0, -1, 0, 1, 0, 0])])
    assert none is not None
    assert none.correlation == pytest.approx(0)
    assert not none.is_found
    steps = resemblance([of_logs([1, 1, 1, 1, 0, -1, -1, -1, -1]), of_logs([0.0] * 9, 1)])
    assert steps is not None
    assert steps.correlation == pytest.approx(6 / 8)
    assert steps.blocks == 9
    assert steps.is_found


def test_too_little_says_nothing() -> None:
    assert resemblance([]) is None
    assert resemblance([of_logs([0.1 * block for block in range(8)])]) is None
    assert resemblance([of_logs([0.0] * 9)]) is None, "nothing varies"
    rising = of_logs([0.1 * block for block in range(9)])
    assert resemblance([replace(rising, caveat="nested")]) is None
    assert resemblance([replace(rising, pairs=rising.pairs[:8]), of_logs([0.0] * 9, 1)]) is None, "a block without"


def test_one_in_a_hundred_is_the_limit() -> None:
    assert Resemblance(0.5, 0.0099, 9).is_found
    assert not Resemblance(0.5, 0.01, 9).is_found
