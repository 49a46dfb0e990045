"""The short form of the campaign's part *guests*: no forgery counts, and who attacks costs its own trials alone."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Sequence

import pytest
from benches.survive import guests
from benches.survive.hostile_peer import ATTACKS

pytestmark = pytest.mark.slow
root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces, packet sockets and containers need root")
ONCE = (
    "events without end",
    "console without end",
    "a line without end",
    "empty lines without end",
    "acknowledgements that are no numbers",
    "never reads",
    "half closed",
    "bad UTF-8",
    "nested",
    "a number of 4000 digits",
    "1e999",
    "wrong ids",
    "an error of 7 MB",
    "escapes in an error",
    "half a surrogate pair",
)
"""Of ``hostile_peer.ATTACKS``: each that once hung the controller, ended it, or reached the terminal."""
RUNS = (("marks without end",), ("storm to neighbours and host", "forged test frames"))
"""Of runs of their own: who sends marks without end is lost, and would forge no frame later."""


def is_extended(item: pytest.Function) -> bool:
    """What makes an image of its own for a machine."""
    return item.originalname == "test_a_machine_that_lies_costs_its_own_trials_alone"


@root
def test_both_sinks_count_what_a_forging_router_dropped_and_no_forgery() -> None:
    rows = guests.forged_rows(random.Random(18), 1)
    assert [row.wrong for row in rows] == [[], []]
    assert all(row.sent > 100 and row.counted == 0 for row in rows), rows


@pytest.mark.parametrize("attack", ONCE)
def test_an_agent_that_attacks_is_answered_and_costs_little_memory(attack: str) -> None:
    assert attack in ATTACKS
    stream = random.Random(attack).choice(guests.STREAMS)
    (row,) = guests.channel_rows([attack], [stream], ["answer"])
    assert row.wrong == []
    assert 0 < row.more_mib < guests.MOST_MORE_MIB


@root
@pytest.mark.parametrize("attacks", RUNS, ids=lambda names: names[0])
def test_guests_that_attack_cost_their_own_trials_alone(attacks: Sequence[str]) -> None:
    rows = guests.run_rows(random.Random(18), [guests.RUN_ATTACKS.index(name) for name in attacks])
    # On a machine that is short of CPU time a good guest's traffic may be no result, whoever attacks.
    assert [complaint for row in rows for complaint in row.wrong if " is invalid: " not in complaint] == []
    assert [row.counted for row in rows] == [0] * len(attacks)
    by_attack = {row.attack.removeprefix("run: "): row for row in rows}
    if "marks without end" in attacks:
        assert by_attack["marks without end"].own > 0
    else:
        assert by_attack["forged test frames"].sent > 0, "the sink saw some"


@root
@pytest.mark.skipif(shutil.which("linux.uml") is None, reason="User-mode Linux is not installed")
def test_a_machine_that_lies_costs_its_own_trials_alone() -> None:
    """Its first process is the real agent, which speaks through one that lies."""
    (row,) = guests.run_rows(random.Random(18), [guests.RUN_ATTACKS.index("lies of its result")], "uml", ("native",))
    assert row.wrong == []
    assert (row.own, row.others) == (1, 0)
