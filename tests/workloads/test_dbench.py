"""dbench: its report, its operations, and a start that fails."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.facts import refused
from tests.support.repository import RECORDED
from tests.support.workload_trials import DataState, ProgramGuest, exited, measure, result_of, trial_bench

from virtoll.errors import GuestCannot
from virtoll.workloads import dbench

# dbench 4.00 of Debian 12, from the image full.
DBENCH = (RECORDED / "dbench.txt").read_text()
LOST = """releasing clients
failed to use the barrier semaphore in child 10
Child failed with status 1
"""


def test_its_report() -> None:
    figures = dbench.parse(DBENCH)
    assert figures["bytes_per_second"] == pytest.approx(884.36e6)
    assert figures["operations"] == {
        "NTCreateX": 83313,
        "Close": 61261,
        "WriteX": 41884,
        "ReadX": 130364,
        "Flush": 5843,
    }
    assert (figures["clients"], figures["latency_longest_ns"]) == (1, 6_233_000)
    with refused("throughput", error=ValueError):
        dbench.parse(DBENCH[: DBENCH.index("Throughput")])


@pytest.mark.parametrize(
    ("text", "clients", "right"),
    [
        (DBENCH, 1, True),
        (DBENCH, 2, False),
        (DBENCH.replace(" WriteX         41884", " WriteX             0"), 1, False),
    ],
)
def test_all_clients_must_have_worked(text: str, clients: int, right: bool) -> None:
    measured = measure("dbench", ProgramGuest(timed={"stdout": text}), clients=clients)
    assert (measured.problem is None) == right


def test_operations_that_a_slow_guest_did_not_reach_are_named() -> None:
    slow = "".join(line for line in DBENCH.splitlines(keepends=True) if not line.startswith((" Flush", " ReadX")))
    result = result_of(measure("dbench", ProgramGuest(timed={"stdout": slow})))
    assert result["figures"]["kinds_not_reached"] == ["ReadX", "Unlink", "Find", "Flush"]


class Starts(ProgramGuest):
    """A guest in which dbench fails at its start a few times before it works."""

    def __init__(self, lost: int) -> None:
        super().__init__()
        self.lost = lost

    def run(self, argv: list[str]) -> dict[str, Any]:
        """It fails or works."""
        super().run(argv)
        failed = len(self.timed_commands) <= self.lost
        return exited(int(failed), LOST if failed else DBENCH)


def test_a_start_that_failed_is_repeated() -> None:
    guest, state = Starts(2), DataState()
    result = result_of(measure("dbench", trial_bench(guest, state=state)))
    assert len(guest.timed_commands) == result["starts"] == 3
    assert state.asked == [True] * 3, "cold each time"


def test_a_start_that_always_fails_skips_the_trial() -> None:
    guest = Starts(100)
    with refused("dbench", "semaphore", error=GuestCannot):
        measure("dbench", guest)
    assert len(guest.timed_commands) == 5
