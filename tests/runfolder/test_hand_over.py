"""What two readings of the distance of CPUs say of what was measured between them."""

from __future__ import annotations

import pytest
from tests.support.hand_overs import reading, span

from virtoll.runfolder.hand_over import HandOverSpan


def test_a_round_trip_is_the_shortest_batch_over_its_round_trips() -> None:
    assert reading(52).round_trip_ns == 52.0


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ([48], [80], False),
        ([274], [345], False),
        ([52], [330], True),
        ([330], [52], True),
        ([52, 330], [52, 330], False),  # each pair is compared with itself
        ([52, 60], [52, 310], True),
        ([52, None], [52, 310], False),
        ([None], [52], None),
        ([52], [None], None),
        ([52], [], None),
        ([], [], None),
    ],
)
def test_a_change_of_distance_shows_between_two_readings_of_a_pair(
    before: list[int | None], after: list[int | None], changed: bool | None
) -> None:
    assert span(before, after).changed is changed


def test_of_several_pairs_the_furthest_counts() -> None:
    assert (span([52, 330], [60, None]).before_ns, span([52, 330], [60, None]).after_ns) == (330.0, 60.0)
    assert HandOverSpan((), (), "one CPU").before_ns is None
