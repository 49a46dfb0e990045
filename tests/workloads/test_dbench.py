"""dbench: its report, its operations, and a start that fails."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.facts import refused
from tests.support.workload_trials import DataState, ProgramGuest, exited, measure, result_of, trial_bench

from virtoll.errors import GuestCannot
from virtoll.workloads import dbench

# dbench 4.00 of Debian 12, from the image full.
DBENCH = """dbench version 4.00 - Copyright Andrew Tridgell 1999-2004

Running for 3 seconds with load '/usr/share/dbench/client.txt' and minimum warmup 0 secs
failed to create barrier semaphore 
0 of 1 processes prepared for launch   0 sec
1 of 1 processes prepared for launch   0 sec
releasing clients
   1    160195   881.46 MB/sec  execute   1 sec  latency 2.584 ms
   1    325273   884.36 MB/sec  execute   2 sec  latency 6.233 ms
   1  cleanup   3 sec
   0  cleanup   3 sec

 Operation      Count    AvgLat    MaxLat
 ----------------------------------------
 NTCreateX      83313     0.003     0.427
 Close          61261     0.000     1.176
 WriteX         41884     0.005     0.155
 ReadX         130364     0.001     0.182
 Flush           5843     0.219    23.483

Throughput 884.36 MB/sec  1 clients  1 procs  max_latency=6.233 ms
"""  # noqa: W291 - as it was printed
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
