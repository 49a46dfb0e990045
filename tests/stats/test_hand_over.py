"""Two distances of a pair of CPUs are told apart, and what is one distance is not."""

from __future__ import annotations

import random

import pytest
from tests.support.hand_overs import BUSY, reading, span

from virtoll.runfolder.hand_over import Distance, HandOver, HandOverSpan
from virtoll.stats.hand_over import cpu_distances, distance_around


def times(seed: int, near: int, far: int) -> list[int]:
    """So many readings at each distance as the note has them, in any order: 48 to 80 ns, and 274 to 345 ns."""
    dice = random.Random(seed)
    made = [dice.randint(48, 80) for _ in range(near)] + [dice.randint(274, 345) for _ in range(far)]
    dice.shuffle(made)
    return made


@pytest.mark.parametrize(("near", "far"), [(90, 10), (84, 16), (50, 50), (98, 2)])
def test_two_distances_are_found_with_their_share(near: int, far: int) -> None:
    for seed in range(50):
        (found,) = cpu_distances(map(reading, times(seed, near, far)))
        assert (found.readings, found.far, found.missing) == (100, far, 0)
        assert found.near_ns is not None
        assert 48 <= found.near_ns <= 80
        assert found.far_ns is not None
        assert 274 <= found.far_ns <= 345
        assert found.far_share == far / 100


@pytest.mark.parametrize(("near", "far"), [(100, 0), (0, 100), (1, 0), (2, 0)])
def test_one_distance_is_one(near: int, far: int) -> None:
    for seed in range(50):
        (found,) = cpu_distances(map(reading, times(seed, near, far)))
        assert (found.far, found.far_ns) == (0, None)


def test_a_single_reading_is_no_second_distance() -> None:
    (found,) = cpu_distances(map(reading, [50] * 20 + [330]))
    assert (found.near_ns, found.far_ns, found.far) == (50.0, None, 0)


def test_missing_readings_are_counted_and_are_no_zeros() -> None:
    some, none = cpu_distances([reading(None), reading(50), reading(None, (1, 2))])
    assert (some.readings, some.missing, some.near_ns, some.reason) == (1, 1, 50.0, BUSY)
    assert (none.readings, none.missing, none.near_ns, none.far_share) == (0, 1, None, 0.0)


def test_each_pair_stands_for_itself() -> None:
    one, other = cpu_distances([reading(50), reading(330, (1, 2)), reading(51), reading(331, (1, 2))])
    assert (one.near_ns, one.far_ns) == (50.5, None)
    assert (other.near_ns, other.far_ns) == (330.5, None)


PAIRS = {found.cpus: found for found in cpu_distances([reading(time) for time in [50] * 20 + [330] * 3])}


@pytest.mark.parametrize(
    ("before", "after", "distance"),
    [
        (52, 60, Distance.NEAR),
        (310, 340, Distance.FAR),
        (52, 330, Distance.CHANGED),
        (330, 52, Distance.CHANGED),
        (None, 330, Distance.FAR),
        (None, None, None),
    ],
)
def test_a_value_was_near_or_far_or_the_distance_changed(
    before: int | None, after: int | None, distance: Distance | None
) -> None:
    assert distance_around([span([before], [after])], PAIRS) is distance


def test_of_several_points_one_that_was_elsewhere_is_a_change() -> None:
    spans = [span([52], [52]), span([330], [330])]
    assert distance_around(spans, PAIRS) is Distance.CHANGED


def test_of_several_pairs_the_furthest_counts() -> None:
    pairs = {found.cpus: found for other in (0, 2) for found in cpu_distances(both(other))}
    assert distance_around([span([52, 330], [52, 330])], pairs) is Distance.FAR
    assert distance_around([span([52, 52], [52, 330])], pairs) is Distance.CHANGED


def both(other: int) -> list[HandOver]:
    return [reading(time, (1, other)) for time in [50] * 20 + [330] * 3]


def test_a_pair_at_one_distance_says_nothing() -> None:
    """However far it is: nothing was nearer. So does a pair of which the run has no readings."""
    pairs = {found.cpus: found for found in cpu_distances([reading(330)] * 20)}
    assert distance_around([span([330], [330])], pairs) is None
    assert distance_around([HandOverSpan((reading(52, (3, 4)),), ())], pairs) is None
