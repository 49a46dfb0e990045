"""MariaDB with its client outside: the address that it serves at, who is let in, and what is left behind."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.facts import Fact, refused
from tests.support.repository import RECORDED
from tests.support.workload_trials import ProgramGuest, assert_problem, measure, result_of, trial_bench

from virtoll.errors import GuestCannot
from virtoll.lab.network import plan_links
from virtoll.runfolder.records import Check
from virtoll.workloads.base import Measurement

OLTP = (RECORDED / "sysbench-oltp-read-write.txt").read_text()


def trial(guest: ProgramGuest, programs: ProgramGuest | None, **given: Any) -> Measurement:
    """A trial with what was recorded; ``programs``: beside the peer."""
    bench = trial_bench(guest, ProgramGuest(), programs)
    return measure("mariadb-oltp-outside", bench, **{"threads": 2, "transactions": 200, "rows": 1000, **given})


def serving_guest(rows: str = "1000") -> ProgramGuest:
    """A guest that serves: the client makes the database, lets somebody in, then counts its rows."""
    return ProgramGuest({"mariadb": [{}, {}, {"stdout": f"{rows}\n"}]})


def test_a_client_outside_reaches_the_database_over_the_link() -> None:
    guest, beside = serving_guest(), ProgramGuest({"sysbench": [{}, {"stdout": OLTP}]})
    measured = trial(guest, beside)
    result, link = result_of(measured), plan_links(0).sources[0]
    assert measured.check == Check("200 events, 1000 rows", "200 events, 1000 rows", True)
    assert result["figures"]["latency_p95"] > 0
    assert {f"--bind-address={link.guest_address}", "--port=3306"} <= set(result["server_argv"])
    assert "--skip-networking" not in result["server_argv"]
    assert beside.ran[-1] == result["argv"]
    assert {f"--mysql-host={link.guest_address}", "--mysql-user=virtoll", "--events=200"} <= set(beside.ran[-1])
    (allowed,) = (argv[-1] for argv in guest.ran if "CREATE USER" in argv[-1])
    assert f"'virtoll'@'{link.peer_address}'" in allowed, "nobody else is let in"
    assert guest.servers == {}
    assert guest.patience == [60.0, 75.0, 615.0, 915.0, 1760.714]
    assert beside.patience == [75.0, 860.714]
    assert guest.ran[-1] == ["rm", "-rf", "/data/virtoll-mariadb"]


@pytest.mark.parametrize(
    ("rows", "run", "facts"),
    [
        ("999", {"stdout": OLTP}, ("999 rows", "1000 rows")),
        ("1000", {"status": 1, "stderr": "FATAL: no way\n"}, ("sysbench", "code 1", "FATAL: no way")),
        ("1000", {"stdout": "nothing"}, ("sysbench", "transactions", "'nothing'")),
    ],
)
def test_a_client_outside_that_went_wrong_leaves_nothing(
    rows: str, run: dict[str, Any], facts: tuple[Fact, ...]
) -> None:
    guest = serving_guest(rows)
    assert_problem(trial(guest, ProgramGuest({"sysbench": [{}, run]})), *facts)
    assert guest.servers == {}
    assert guest.names[-1] == "rm"


def test_without_programs_beside_the_peer_nothing_is_made() -> None:
    guest = serving_guest()
    with refused("peer", "image", "'testbed.generator'", error=GuestCannot):
        trial(guest, None)
    assert guest.ran == []
