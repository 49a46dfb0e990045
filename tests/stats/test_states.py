"""Two states of the host are recognised where there are two, and not in noise, disturbed trials or a slow control."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.support.by_hand import task

from virtoll.stats.states import TwoStates, apart, split, two_states
from virtoll.stats.values import Observation

TASK = task("w", "marks")
HOST = ("native", "native-again", "native")


def host(
    seed: int,
    *,
    cv: float = 0.05,
    slow: float = 0.0,
    outliers: float = 0.0,
    control: float = 1.0,
    blocks: int = 3,
    labels: Sequence[str] = HOST,
) -> list[Observation]:
    """Three entries in each of five rounds a block, around 100; blocks and rounds have a scatter of their own."""
    dice, found = random.Random(seed), []
    for block in range(blocks):
        of_block = dice.gauss(0, 0.1)
        for turn in range(5):
            of_round = dice.gauss(0, 0.1)
            for label in labels:
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


@pytest.mark.parametrize(("cv", "outliers"), [(0.02, 0.0), (0.05, 0.0), (0.05, 0.05), (0.05, 0.1), (0.15, 0.0)])
def test_noise_and_disturbed_trials_are_no_second_state(cv: float, outliers: float) -> None:
    """At most 2 %, and of 200 what chance adds: with a tenth of the trials disturbed it was 14 %."""
    assert len(recognised(200, cv=cv, outliers=outliers)) <= 8


def test_bursts_in_one_block_are_no_second_state() -> None:
    """Two of three blocks know nothing of it; with the same in a second block it is."""
    slowed = [
        [one._replace(value=one.value * (1.6 if place % 3 and one.block in blocks else 1)) for place, one in values]
        for values in [list(enumerate(host(seed, cv=0.02))) for seed in range(20)]
        for blocks in ({0}, {0, 1})
    ]
    found = [two_states(TASK, values) is not None for values in slowed]
    assert not any(found[::2])
    assert sum(found[1::2]) >= 18


def test_platforms_with_the_same_two_speeds_are_named() -> None:
    """`p` is slowed like the machine, half as fast; `q` is not, and `r` by three times as much."""
    values = host(3, cv=0.02, slow=0.3, blocks=5, labels=(*HOST, "p", "q", "r"))
    steady = {(one.block, one.round): one.value for one in host(3, cv=0.02, blocks=5, labels=("q",))}
    native = [one for one in values if one.platform.startswith("native")]
    platforms = {label: [one for one in values if one.platform == label] for label in ("p", "q", "r")}
    platforms["p"] = [one._replace(value=2 * one.value) for one in platforms["p"]]
    fastest = {key: min(one.value for one in native if (one.block, one.round) == key) for key in steady}
    platforms["q"] = [one._replace(value=fastest[one.block, one.round]) for one in platforms["q"]]
    platforms["r"] = [one._replace(value=one.value**3) for one in platforms["r"]]
    found = two_states(TASK, native, platforms)
    assert found is not None
    assert found.same == {"p"}
    assert (found.gap("p"), found.gap("q")) == (0.0, math.log(found.factor))


def test_more_than_three_times_slower_is_disturbed_and_widens_nothing() -> None:
    speeds = TwoStates(TASK, 2.9, 0.3)
    assert not speeds.disturbed
    assert speeds.gap("p") == speeds.of_host == math.log(2.9)
    disturbed = replace(speeds, factor=3.1)
    assert disturbed.disturbed
    assert disturbed.gap("p") == disturbed.of_host == 0.0


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


FAST = [*([0.0] * 10), 0.12, 0.12]


def test_where_two_speeds_part_by_hand() -> None:
    """Fast ones have the mean 0.02 and squares of 0.024, slow ones squares of 0.005: a pooled deviation of 0.0472.

    0.26 to 0.36 are 6.14 of it from the fast ones, 0.25 to 0.35 are 5.93; of fifteen entries 6.08 are needed.
    """
    assert split([*FAST, 0.26, 0.31, 0.36]) == 0.26
    assert split([0.31, *FAST, 0.36, 0.26]) == 0.26, "in any order"
    assert split([*FAST, 0.25, 0.30, 0.35]) is None
    assert split([*FAST[1:], 0.26, 0.31, 0.36]) is None, "fourteen entries"
    assert split([*FAST, 1.3, 1.4, 1.5]) == 1.3, "0.1 of scatter next to 0.045"
    assert split([*FAST, 1.2, 1.4, 1.6]) is None, "0.2 of scatter is more than 2.85 times 0.045: disturbed trials"
    assert split([*FAST, 0.12, 0.9, 0.9]) is None, "two"


def test_three_of_twenty_are_a_state_and_two_are_not() -> None:
    assert split([*([0.01] * 17), 1.0, 1.0, 1.0]) == 1.0
    assert split([*([0.01] * 18), 1.0, 1.0]) is None


def test_how_far_states_are_apart_and_how_often_the_slower_is() -> None:
    """Medians 0.41 and 0.005; of baseline and control, a control that is slower by half of all at most is no alarm."""
    slowness = [*([0.0] * 5), *([0.01] * 5), *([0.41] * 5)]
    blocks = [0, 1, 2, 3, 4] * 3
    assert apart(slowness, list("abaab" * 3), blocks) == pytest.approx((0.405, 5 / 15))
    assert apart(slowness, ["a"] * 15, blocks) == pytest.approx((0.405, 5 / 15)), "without a control"
    assert apart(slowness, list("aaaaaaaaaabbbbb"), blocks) is None
    assert apart(slowness, list("abaab" * 3), [*range(10), *([7] * 5)]) is None, "all that are slow are of one block"
    half = [*([0.01] * 10), *([0.41] * 5)]
    assert apart(half, list("aaabbbbbbbaaabb"), blocks) == pytest.approx((0.40, 5 / 15)), "3 of 6, and 2 of 9"


def test_the_factor_is_that_of_the_task() -> None:
    """In each of three rounds of two blocks one of three entries takes half as long again."""
    values = [
        (round_, label, 10.0 + step / 100 + (5 if slow else 0))
        for round_ in range(3)
        for step, (label, slow) in enumerate((("native", False), ("native-again", False), ("native", True)))
    ]
    observed = [
        Observation(TASK, label, 0, block, 0, value, round=turn) for block in (0, 1) for turn, label, value in values
    ]
    found = two_states(TASK, observed)
    assert found is not None
    assert found.task == TASK
    assert found.factor == pytest.approx(15.02 / 10.005, rel=1e-3)
    assert found.share_slow == pytest.approx(1 / 3)
