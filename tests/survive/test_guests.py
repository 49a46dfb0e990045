"""The short form of the campaign's part *guests*: no forgery counts, and who attacks costs its own trials alone."""

from __future__ import annotations

import os
import random

import pytest
from benches.survive import guests
from benches.survive.hostile_peer import ATTACKS

root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces, packet sockets and containers need root")
SLOW = {"an answer in drops", "half a surrogate pair", "NaN"}
"""These are waited for until a deadline has passed; the campaign tries them too."""
ONCE = [name for name in ATTACKS if name not in SLOW]
RUN = ("marks without end", "escapes in an error", "storm to neighbours and host")


@root
def test_both_sinks_lose_what_a_router_that_forges_dropped_and_count_no_forgery() -> None:
    rows = guests.forged_rows(random.Random(18), 1)
    assert [row.wrong for row in rows] == [[], []]
    assert all(row.sent > 100 and row.counted == 0 for row in rows), rows


@pytest.mark.parametrize("attack", ONCE)
def test_an_agent_that_attacks_is_answered_by_a_sentence(attack: str) -> None:
    stream = random.Random(attack).choice(guests.STREAMS)
    (row,) = guests.channel_rows([attack], [stream], ["answer"])
    assert row.wrong == []
    assert 0 < row.peak_mib < guests.MOST_MIB


@root
def test_guests_that_attack_cost_their_own_trials_alone() -> None:
    rows = guests.run_rows(random.Random(18), [guests.RUN_ATTACKS.index(name) for name in RUN])
    assert [row.wrong for row in rows] == [[], [], []]
    assert [row.others for row in rows] == [0, 0, 0]
    assert sum(row.own for row in rows) >= 2
