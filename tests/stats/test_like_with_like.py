"""Near is compared with near and far with far, and no block loses all that it has."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from tests.support.by_hand import task

from virtoll.runfolder.hand_over import Distance
from virtoll.stats.compare import paired_shares
from virtoll.stats.like_with_like import near_ones
from virtoll.stats.summaries import summarise
from virtoll.stats.values import Observation

RATE = task("forward", "points", {"size": 64}, name="maximum_forwarding_rate", better="higher")
NEAR, FAR, CHANGED = Distance.NEAR, Distance.FAR, Distance.CHANGED
Made = tuple[int, int, float, Distance | None]


def observed(*made: Made, platform: str = "p") -> list[Observation]:
    """Values by block and round."""
    return [
        Observation(RATE, platform, place, block, place, value, round=turn, distance=distance)
        for place, (block, turn, value, distance) in enumerate(made)
    ]


@pytest.mark.parametrize("away", [FAR, CHANGED])
def test_what_was_not_near_leaves_a_block_that_has_others(away: Distance) -> None:
    values = observed((0, 0, 100, NEAR), (0, 1, 66, away), (0, 2, 101, None), (1, 0, 67, away), (1, 1, 68, FAR))
    assert [value.value for value in near_ones(values)] == [100, 101, 67, 68]
    assert summarise(values).median == pytest.approx((math.sqrt(100 * 101) + math.sqrt(67 * 68)) / 2, rel=1e-3)


def shares(platform: Sequence[Made], host: Sequence[Made]) -> dict[int, float]:
    return dict(paired_shares(RATE, observed(*platform), observed(*host, platform="native")))


def test_a_round_compares_near_with_near() -> None:
    """The host's far entry is no part of the round's median, and a round in which the platform was far no part of the
    block's.
    """
    host = [(0, 0, 100, NEAR), (0, 0, 66, FAR), (0, 1, 100, NEAR), (0, 2, 100, NEAR)]
    found = shares([(0, 0, 50, NEAR), (0, 1, 33, FAR), (0, 2, 50, NEAR)], host)
    assert found == pytest.approx({0: 0.5})


def test_a_block_without_near_rounds_compares_far_with_far() -> None:
    host = [(0, 0, 100, NEAR), (0, 0, 66, FAR), (0, 1, 100, NEAR)]
    assert shares([(0, 0, 33, FAR), (0, 1, 30, FAR)], host) == pytest.approx({0: 0.5})


def test_a_far_block_is_shifted_by_what_far_rounds_differ_in_other_blocks() -> None:
    """Far the platform loses less than the host: 0.4 of it near and 0.48 far, in the block that has both."""
    host = [(0, 0, 100, NEAR), (0, 1, 66, FAR), (1, 0, 60, FAR), (2, 0, 100, NEAR)]
    platform = [(0, 0, 40, NEAR), (0, 1, 0.48 * 66, FAR), (1, 0, 0.6 * 60, FAR), (2, 0, 45, NEAR)]
    assert shares(platform, host) == pytest.approx({0: 0.4, 1: 0.6 * 0.4 / 0.48, 2: 0.45})


@pytest.mark.parametrize("away", [FAR, CHANGED])
def test_a_block_without_either_compares_what_it_has(away: Distance) -> None:
    """Better an unlike pair, told as left in, than a platform without a block."""
    found = shares([(0, 0, 33, away), (1, 0, 50, NEAR)], [(0, 0, 100, NEAR), (1, 0, 100, NEAR)])
    assert found == pytest.approx({0: 0.33, 1: 0.5})


def test_without_readings_all_is_compared_with_all() -> None:
    host = [(0, 0, 90, None), (0, 0, 110, None), (0, 1, 100, None)]
    found = shares([(0, 0, 50, None), (0, 1, 60, None)], host)
    assert found == pytest.approx({0: math.sqrt(50 / math.sqrt(90 * 110) * 0.6)})
