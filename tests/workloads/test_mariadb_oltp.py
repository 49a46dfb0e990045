"""MariaDB under sysbench: reports, command lines, one server for each guest or for all, and what is left behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.facts import Fact, refused
from tests.support.repository import RECORDED
from tests.support.workload_trials import ProgramGuest, assert_problem, measure, result_of, trial_bench

from virtoll.errors import GuestDied, GuestError
from virtoll.runfolder.records import Check
from virtoll.workloads import WORKLOADS, mariadb_oltp
from virtoll.workloads.base import Measurement

# sysbench 1.0.20 of Debian 12, from the image full.
OLTP = (RECORDED / "sysbench-oltp-read-write.txt").read_text()
FOLDER = "/data/virtoll-mariadb"
GONE = ["rm", "-rf", FOLDER]
RIGHT = Check("200 events, 1000 rows", "200 events, 1000 rows", True)


def test_its_report() -> None:
    assert mariadb_oltp.parse(OLTP) == {
        "transactions": 200,
        "transactions_per_second": 1052.80,
        "queries": 4032,
        "queries_per_second": 21224.47,
        "ignored_errors": 2,
        "reconnects": 0,
        "total_seconds": 0.1896,
        "events": 200,
        "latency_minimum": 1_340_000,
        "latency_average": 1_870_000,
        "latency_maximum": 4_070_000,
        "latency_p95": 2_350_000,
        "latency_p99": 2_662_000,
    }


def test_a_percentile_of_the_histogram_is_what_sysbench_prints() -> None:
    assert round(mariadb_oltp.percentile_ns(OLTP, 95) / 1e6, 2) == 2.35
    assert mariadb_oltp.percentile_ns(OLTP, 100) == 4_101_000


@pytest.mark.parametrize(
    ("cut", "missing"),
    [
        ("transactions:", "transactions"),
        ("95th percentile", "latency p95"),
        ("total number of events", "events"),
        ("ignored errors", "ignored errors"),
        (" |", "histogram"),
    ],
)
def test_a_report_without_a_figure_names_it(cut: str, missing: str) -> None:
    lines = "".join(line for line in OLTP.splitlines(keepends=True) if cut not in line)
    with refused(missing, error=ValueError):
        mariadb_oltp.parse(lines)


def server(clients: int = 1, **given: Any) -> list[str]:
    """The server of the folder /data/x."""
    wanted = mariadb_oltp.OltpParameters(**given)
    return mariadb_oltp.server_command("/data/x", "/data/x/socket", wanted, clients=clients)


def number(command: list[str], name: str) -> int:
    """The number that an option of the server has, once."""
    (option,) = (word for word in command if word.startswith(f"--{name}="))
    return int(option.partition("=")[2])


def test_the_server_needs_no_more_address_space_than_its_buffers() -> None:
    """Without the limit MariaDB 10.11 reserves 8 TiB, which User-mode Linux does not have."""
    for command in (mariadb_oltp.install_command("/data/x"), server()):
        assert number(command, "innodb-buffer-pool-size-max") <= 64 * 2**20
        assert "--innodb-use-native-aio=0" in command
        assert "--user=root" in command


def test_the_server_has_a_socket_alone() -> None:
    command = server()
    assert "--skip-networking" in command
    assert not [word for word in command if "port" in word or "bind" in word]
    paths = [value for value in (word.partition("=")[2] for word in command) if value.startswith("/")]
    assert all(path == "/usr" or path.startswith("/data/x") for path in paths)


def test_a_server_of_many_has_the_pool_of_as_many_servers_and_lets_all_in() -> None:
    one, many = server(threads=8), server(32, threads=8)
    assert number(many, "innodb-buffer-pool-size") == 32 * number(one, "innodb-buffer-pool-size")
    assert number(many, "innodb-buffer-pool-size-max") == number(many, "innodb-buffer-pool-size")
    assert number(many, "max-connections") > 32 * 8
    assert number(server(threads=256), "max-connections") > 256


def test_the_papers_table_fits_the_smallest_of_its_guests() -> None:
    """Camargos' Table 4: 101 MB for each of 32. Its files are on a disk and count there alone."""
    needs = WORKLOADS["mariadb-oltp"].with_parameters({"transactions": 10_000, "rows": 10_000}).needs()
    assert 50 * 2**20 < needs.memory_bytes < 101 * 2**20
    assert needs.data_bytes > 47 * 2**20


def trial(guest: ProgramGuest, **given: Any) -> Measurement:
    """A trial with what was recorded."""
    return measure("mariadb-oltp", guest, **{"threads": 2, "transactions": 200, "rows": 1000, **given})


def working(rows: str = "1000", **run: Any) -> ProgramGuest:
    """A guest in which the database works: the client makes it, then counts its rows."""
    return ProgramGuest({"mariadb": [{}, {"stdout": f"{rows}\n"}]}, timed={"stdout": OLTP} | run)


@dataclass
class Group:
    """Two guests at once, of which the other is always there already."""

    number: int
    guests: int = 2
    met: int = 0

    def meet(self) -> None:
        """Count."""
        self.met += 1


@pytest.mark.parametrize(
    ("number", "server", "database"),
    [(0, "shared", 1), (1, "shared", 2), (0, "shared-database", 1), (1, "shared-database", 1)],
)
def test_one_server_for_all_is_the_first_guests(number: int, server: str, database: int) -> None:
    makes_table = (number, server) != (1, "shared-database")
    group = Group(number)
    guest = working() if makes_table else ProgramGuest({"mariadb": [{"stdout": "1000\n"}]}, timed={"stdout": OLTP})
    parameters = {"threads": 2, "transactions": 200, "rows": 1000, "server": server}
    measured = measure("mariadb-oltp", trial_bench(guest, group=group), **parameters)
    assert measured.check == RIGHT
    assert group.met == 2, "before the first table is made, and after the last rows are counted"
    assert guest.names.count("mariadb-install-db") == (1 if number == 0 else 0)
    assert guest.servers == {}
    argv = result_of(measured)["argv"]
    assert {f"--mysql-db=sbtest{database}", "--mysql-socket=@virtoll-mariadb"} <= set(argv)
    made = [argv for argv in guest.ran if argv[0] == "sysbench" and argv[-1] == "prepare"]
    assert len(made) == (1 if makes_table else 0)


def test_the_database_is_made_for_the_trial_and_gone_after_it() -> None:
    guest = working()
    measured = trial(guest)
    assert result_of(measured)["figures"]["transactions_per_second"] == 1052.80
    assert measured.check == RIGHT
    assert guest.servers == {}
    steps = ["rm", "mkdir", "mariadb-install-db", "mariadb-admin", "mariadb", "sysbench", "sysbench", "mariadb", "rm"]
    assert guest.names == steps
    assert guest.ran[0] == guest.ran[-1] == GONE
    (timed,) = guest.timed_commands
    assert {"oltp_read_write", "--threads=2", "--events=200", "--time=0", "run"} <= set(timed)
    assert f"--mysql-socket={FOLDER}/socket" in timed


@pytest.mark.parametrize(
    ("guest", "facts"),
    [
        (working(rows="999"), ("200 events", "999 rows", "1000 rows")),
        (
            working(status=1, stderr="FATAL: mysql_drv_query() returned error 2013\n"),
            ("sysbench", "code 1", "FATAL: mysql_drv_query()", 2013),
        ),
    ],
)
def test_a_database_that_went_wrong_is_gone_too(guest: ProgramGuest, facts: tuple[Fact, ...]) -> None:
    assert_problem(trial(guest), *facts)
    assert guest.servers == {}
    assert guest.ran[-1] == GONE


def test_a_database_that_cannot_be_filled_is_gone_too() -> None:
    guest = ProgramGuest({"sysbench": [{"status": 1, "stderr": "FATAL: no room\n"}]})
    with refused("sysbench", "code 1", "FATAL: no room", error=GuestError):
        trial(guest)
    assert guest.servers == {}
    assert guest.ran[-1] == GONE


def test_read_only_is_a_script_of_its_own() -> None:
    guest = working()
    trial(guest, mode="read-only")
    assert {argv[1] for argv in guest.ran if argv[0] == "sysbench"} == {"oltp_read_only"}


class Failing(ProgramGuest):
    """A guest that dies, or whose run is interrupted, when sysbench starts."""

    def __init__(self, failure: BaseException) -> None:
        super().__init__()
        self.failure = failure

    def run(self, argv: list[str]) -> dict[str, Any]:
        """It works until then."""
        self.ended = self.ended or (argv[0] == "sysbench" and isinstance(self.failure, GuestDied))
        if argv[0] == "sysbench":
            raise self.failure
        return super().run(argv)


@pytest.mark.parametrize("failure", [GuestDied("gone"), KeyboardInterrupt()])
def test_a_guest_that_cannot_answer_does_not_clean_up(failure: BaseException) -> None:
    guest = Failing(failure)
    with pytest.raises(type(failure)):
        trial(guest)
    assert guest.names[-1] == "mariadb"
    assert guest.servers, "it goes with the guest"
