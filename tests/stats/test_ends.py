"""The host at both ends of a platform's turn: what is compared with what, and what a step of the host leaves open."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from tests.stats.test_promises import allowed
from tests.support.by_hand import task
from tests.support.stepped import LONG, SHORT, experiment_of, false_differences, places

from virtoll.experiment.plan import TrialSeconds
from virtoll.stats.compare import Verdict, compare, paired_shares
from virtoll.stats.ends import left_open, mean_step
from virtoll.stats.values import Observation
from virtoll.stats.verdicts import Rules, decide

TASK = task("superpi", "marks", {})
PLATFORM, HOST = "runc", "native"


def observed(label: str, *entries: tuple[int, float], block: int = 0, turn: int = 0) -> list[Observation]:
    """By number of trial, what it took."""
    return [Observation(TASK, label, trial, block, trial, value, round=turn) for trial, value in entries]


def test_a_platform_is_compared_with_the_nearest_entries_on_both_sides() -> None:
    """100 and 121 stand next to it: 110 by their geometric mean. The median of all three is 121."""
    host = observed(HOST, (0, 400.0), (2, 100.0), (4, 121.0))
    assert dict(paired_shares(TASK, observed(PLATFORM, (3, 220.0)), host)) == pytest.approx({0: 0.5})
    assert mean_step(observed(PLATFORM, (3, 220.0)), host) == pytest.approx(math.log(1.21))


@pytest.mark.parametrize("trial", [1, 9])
def test_with_the_host_on_one_side_alone_its_median_counts(trial: int) -> None:
    host = observed(HOST, (2, 100.0), (3, 110.0), (4, 400.0))
    platform = observed(PLATFORM, (trial, 220.0))
    assert dict(paired_shares(TASK, platform, host)) == pytest.approx({0: 0.5})
    assert mean_step(platform, host) == 0


@pytest.mark.parametrize(("rounds", "share"), [(2, 0.5), (3, 0.55)])
def test_with_three_rounds_the_median_of_a_round_counts(rounds: int, share: float) -> None:
    host: list[Observation] = []
    platform: list[Observation] = []
    for turn in range(rounds):
        first = 10 * turn
        host += observed(HOST, (first, 400.0), (first + 2, 100.0), (first + 4, 121.0), turn=turn)
        platform += observed(PLATFORM, (first + 3, 220.0), turn=turn)
    assert dict(paired_shares(TASK, platform, host)) == pytest.approx({0: share})


@pytest.mark.parametrize(("step", "opened"), [(1.09, 1.0), (1.21, 1.1), (1 / 1.21, 1.1)])
def test_half_of_a_mean_step_stays_open(step: float, opened: float) -> None:
    """Up to 10 % it is no step: what it may hide is then 5 % at most."""
    assert math.exp(left_open(math.log(step))) == pytest.approx(opened)


def blocks_of(after: Sequence[float], took: float) -> tuple[list[Observation], list[Observation]]:
    """The host before and after a platform in each block: 100 before it."""
    host: list[Observation] = []
    platform: list[Observation] = []
    for block, value in enumerate(after):
        first = 10 * block
        host += observed(HOST, (first, 100.0), (first + 2, value), block=block)
        platform += observed(PLATFORM, (first + 1, took + block), block=block)
    return platform, host


@pytest.mark.parametrize(
    ("after", "took", "verdict"),
    [
        ([150.0, 151.0, 152.0, 149.0], 150.0, Verdict.UNKNOWN),
        ([150.0, 151.0, 152.0, 149.0], 100.0, Verdict.UNKNOWN),
        ([150.0, 151.0, 152.0, 149.0], 300.0, Verdict.SLOWER),
        ([100.0, 101.0, 102.0, 99.0], 150.0, Verdict.SLOWER),
    ],
    ids=["as-fast-as-after", "as-fast-as-before", "slower-than-both", "without-a-step"],
)
def test_a_difference_holds_against_the_host_before_and_after(
    after: Sequence[float], took: float, verdict: Verdict
) -> None:
    platform, host = blocks_of(after, took)
    ((compared,), _) = decide([compare(TASK, PLATFORM, platform, host, None)], [], Rules())
    assert compared.verdict is verdict
    if verdict is Verdict.UNKNOWN:
        assert "before its turn and after it" in compared.reason
        assert compared.gap > 1.2


@pytest.mark.parametrize(
    ("platforms", "rounds", "seconds"),
    [(5, 5, LONG), (2, 5, LONG), (1, 5, LONG), (2, 2, SHORT)],
    ids=["five-once", "two-once", "one-once", "two-in-two-rounds"],
)
def test_a_step_of_the_host_at_any_place_is_no_difference(platforms: int, rounds: int, seconds: TrialSeconds) -> None:
    """The host is 1.3 times faster from one place of each block on: before, up to 82 % of runs found a difference."""
    runs, experiment = 40, experiment_of(platforms, rounds=rounds, blocks=3)
    shares = [
        false_differences(experiment, seconds, place, 0.02, runs) for place in range(1, places(experiment, seconds))
    ]
    assert sum(shares) / len(shares) <= 0.05
    assert max(shares) <= allowed(0.05, runs)
