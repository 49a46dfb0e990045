"""Two states of the host are recognised where there are two, and not in noise, disturbed trials or a slow control."""

import math
import random

import pytest
from tests.support.by_hand import task

from virtoll.stats.states import TwoStates, apart, split, two_states
from virtoll.stats.values import Observation

TASK = task("w", "marks")


def host(
    seed: int, *, cv: float = 0.05, slow: float = 0.0, outliers: float = 0.0, control: float = 1.0, blocks: int = 3
) -> list[Observation]:
    """Three entries in each of five rounds a block, around 100; blocks and rounds have a scatter of their own."""
    dice, found = random.Random(seed), []
    for block in range(blocks):
        of_block = dice.gauss(0, 0.1)
        for turn in range(5):
            of_round = dice.gauss(0, 0.1)
            for label in ("native", "native-again", "native"):
                value = 100 * math.exp(of_block + of_round + dice.gauss(0, cv))
                value *= 1.45 if dice.random() < slow else 1.0
                value *= dice.uniform(1.5, 3.0) if dice.random() < outliers else 1.0
                value *= control if label == "native-again" else 1.0
                found.append(Observation(TASK, label, 0, block, 0, value, round=turn))
    return found


def recognised(seeds: int, **given: float) -> list[TwoStates]:
    found = [two_states(TASK, host(seed, **given)) for seed in range(seeds)]  # type: ignore[arg-type]
    return [one for one in found if one is not None]


@pytest.mark.parametrize(("slow", "least"), [(0.3, 95), (0.5, 90)])
def test_two_states_are_recognised_and_told(slow: float, least: int) -> None:
    found = recognised(100, slow=slow)
    assert len(found) >= least
    shares = sorted(one.share_slow for one in found)
    assert shares[50] == pytest.approx(slow - slow**3, abs=0.06)  # less the rounds of which all is slow
    factors = sorted(one.factor for one in found)
    assert factors[50] == pytest.approx(1.45, rel=0.1)


@pytest.mark.parametrize(("cv", "outliers"), [(0.02, 0.0), (0.05, 0.0), (0.05, 0.05), (0.15, 0.0)])
def test_noise_and_disturbed_trials_are_no_second_state(cv: float, outliers: float) -> None:
    assert len(recognised(200, cv=cv, outliers=outliers)) <= 12


def test_a_control_that_is_always_slower_is_no_second_state() -> None:
    assert recognised(20, control=1.3) == []


def test_of_a_rate_the_lower_state_is_the_slower_one() -> None:
    rate = task("w", "points")
    rates = [one._replace(task=rate, value=1e4 / one.value) for one in host(1, slow=0.3)]
    found, same = two_states(rate, rates), two_states(TASK, host(1, slow=0.3))
    assert found is not None
    assert same is not None
    assert found.share_slow == same.share_slow < 0.5
    assert found.factor == pytest.approx(same.factor, rel=0.01)


def test_too_few_entries_say_nothing() -> None:
    assert two_states(TASK, [one for one in host(1, slow=0.5, blocks=9) if one.round == 0][::3]) is None
    assert two_states(TASK, host(1, slow=0.5)[:6]) is None
    assert two_states(TASK, []) is None


ZEROS = [0.0] * 5


def test_where_two_states_part_by_hand() -> None:
    """Groups of 0.1 0.3 and of 0.8 1.0: squares within 0.04, so a deviation of 0.141 and means 0.7 = 4.9 of it apart.

    At 0.6 and 0.8 it is 3.5 of it.
    """
    assert split([*ZEROS, 0.1, 0.3, 0.8, 1.0]) == 0.8
    assert split([1.0, *ZEROS, 0.3, 0.8, 0.1]) == 0.8, "in any order"
    assert split([*ZEROS, 0.1, 0.3, 0.6, 0.8]) is None
    assert split([*ZEROS[1:], 0.1, 0.3, 0.8, 1.0]) is None, "eight entries"
    assert split([*ZEROS, 0.0, 0.1, 1.0, 1.0]) == 1.0, "three that are slower than the fastest of their rounds"
    assert split([*ZEROS, 0.0, 0.0, 0.1, 1.0]) is None


def test_three_of_twenty_are_a_state_and_two_are_not() -> None:
    assert split([*([0.01] * 17), 1.0, 1.0, 1.0]) == 1.0
    assert split([*([0.01] * 18), 1.0, 1.0]) is None


def test_how_far_states_are_apart_and_how_often_the_slower_is() -> None:
    """Medians 0.41 and 0.005; of baseline and control, a control that is slower by half of all at most is no alarm."""
    slowness = [0.0, 0.0, 0.0, 0.01, 0.01, 0.01, 0.41, 0.41, 0.41]
    assert apart(slowness, list("abaabaaba")) == pytest.approx((0.405, 3 / 9))
    assert apart(slowness, list("aaaaaaaaa")) == pytest.approx((0.405, 3 / 9)), "without a control"
    assert apart(slowness, list("aaaaaabbb")) is None
    half = [*([0.01] * 7), *([0.41] * 5)]
    assert apart(half, list("abbbbbbaaabb")) == pytest.approx((0.40, 5 / 12)), "3 of 4, and 2 of 8"


def test_the_factor_is_that_of_the_task() -> None:
    """In each of three rounds one of three entries takes half as long again."""
    values = [
        (round_, label, 10.0 + step / 100 + (5 if slow else 0))
        for round_ in range(3)
        for step, (label, slow) in enumerate((("native", False), ("native-again", False), ("native", True)))
    ]
    observed = [Observation(TASK, label, 0, 0, 0, value, round=round_) for round_, label, value in values]
    found = two_states(TASK, observed)
    assert found is not None
    assert found.task == TASK
    assert found.factor == pytest.approx(15.02 / 10.005, rel=1e-3)
    assert found.share_slow == pytest.approx(1 / 3)
