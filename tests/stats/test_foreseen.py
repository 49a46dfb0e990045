"""The difference that a plan would detect, from an earlier run."""

import math

import numpy as np
import pytest
from tests.support.facts import refused
from tests.support.synthetic_run import REALISTIC, Truth, run_data
from tests.support.trials import WORLDS, simulate

from virtoll.stats.analysis import analyse
from virtoll.stats.foreseen import foreseen
from virtoll.stats.verdicts import Rules, judge


def test_at_the_same_blocks_it_is_what_the_run_itself_could_detect() -> None:
    analysis = analyse(run_data(Truth(REALISTIC, rounds=3)))
    ahead = foreseen(analysis.comparisons, analysis.control, analysis.blocks)
    assert set(ahead) == set(analysis.tasks)
    for task, factor in ahead.items():
        own = sorted(one.smallest or math.nan for one in analysis.comparisons if one.task == task)
        assert own[0] <= factor <= own[-1]
        assert factor == pytest.approx(math.exp(np.median(np.log(own))))


def test_more_blocks_and_smaller_families_detect_less() -> None:
    analysis = analyse(run_data(Truth(REALISTIC, rounds=3)))

    def median(blocks: int, **given: float) -> float:
        return float(np.median(list(foreseen(analysis.comparisons, analysis.control, blocks, **given).values())))  # type: ignore[arg-type]

    assert median(2) > median(3) > median(5) > median(9) > median(20) > 1
    assert median(5, family=10) < median(5, family=1000)
    assert median(5, level=0.05) < median(5, level=0.005)


def test_it_holds_for_the_later_run() -> None:
    """From runs of 3 blocks: a difference of this size is found in about 80 % of runs of 5 blocks."""
    dice = np.random.default_rng(4)
    factors, found = [], []
    for _ in range(60):
        comparisons, control, _ = simulate(dice, WORLDS["even"], (5, 4), blocks=3, cv=0.05, equal=True).comparisons(
            Rules()
        )
        factors.append(np.median(list(foreseen(comparisons, control, 5).values())))
    step = math.log(np.median(factors))
    for _ in range(200):
        logs = simulate(dice, WORLDS["even"], (5, 4), blocks=5, cv=0.05, equal=True).log_shares()[:, :-1]
        logs[:, 0] -= step
        found.append(judge(logs, Rules()).different[:, 0].mean())
    assert 0.65 < np.mean(found) < 0.95


def test_without_two_blocks_nothing_is_foreseen() -> None:
    single = analyse(run_data(Truth(REALISTIC, blocks=1)))
    assert foreseen(single.comparisons, single.control, 5) == {}
    with refused(1, 2, error=ValueError):
        foreseen(single.comparisons, single.control, 1)
