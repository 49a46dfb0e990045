"""Compiler, database and web server: parsers on what the real tools printed, command lines, and what is left behind."""

from __future__ import annotations

import base64
import contextlib
import subprocess
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.agents import ScriptedAgent
from tests.support.benches import channel_bench
from tests.support.repository import RECORDED
from tests.workloads.test_programs import said

from virtoll.agent.client import ChannelMark, TrafficAgents
from virtoll.agent.messages import Message, Request
from virtoll.agent.operations.http import HttpLoadRequest
from virtoll.agent.operations.jobs import RunRequest
from virtoll.agent.operations.network import Interface, NetworkRequest
from virtoll.agent.operations.programs import EndRequest, ExecRequest, SpawnRequest
from virtoll.agent.operations.session import ClocksRequest
from virtoll.campaign.requirements import unmet
from virtoll.errors import AgentError, GuestCannot, GuestDied, GuestError
from virtoll.lab.network import plan_links
from virtoll.workloads import WORKLOADS, kernel_compile, mariadb_oltp, nginx_httperf
from virtoll.workloads.base import Bench, DataDirectory, Measurement
from virtoll.workloads.nginx_server import WebParameters, configuration
from virtoll.workloads.programs import serving

# sysbench 1.0.20, httperf 0.9.0 and make of Linux 6.1 in Debian 12's image full.
OLTP, HTTPERF, STOPPED = (
    (RECORDED / f"{name}.txt").read_text() for name in ("sysbench-oltp-read-write", "httperf", "httperf-stopped-server")
)
NETWORK = plan_links(0)


class Guest(ScriptedAgent):
    """Every program ends well and silently, but for what is ``reported`` of those that ran as ``argv[0]``.

    ``ready_after``: how often a server is asked before it serves. ``ends``: how it ended, where it did by itself.
    """

    def __init__(self, reported: dict[str, list[dict[str, Any]]] | None = None, ready_after: int = 0) -> None:
        super().__init__()
        self.reported = {name: deque(said(**one) for one in answers) for name, answers in (reported or {}).items()}
        self.ready_after = ready_after
        self.ran: list[list[str]] = []
        self.alive: dict[str, list[str]] = {}
        self.by_itself: dict[str, Any] | None = None

    def tell(self, request: Request[Message]) -> Mapping[str, Any]:
        """A clock, a program, a server."""
        if self.ended:
            raise GuestDied("the guest ended while it was needed")
        match request:
            case ClocksRequest():
                return {}
            case SpawnRequest():
                self.alive[request.name] = list(request.argv)
                return {"pid": 7}
            case EndRequest():
                if request.name not in self.alive:
                    raise AgentError("bad-request", "nothing runs under that name")
                del self.alive[request.name]
                ended = {"status": 0, "signal": None, "by_itself": False, "killed": False, "output": ""}
                return ended | (self.by_itself or {})
            case ExecRequest():
                return self.run(list(request.argv))
            case RunRequest(job="program"):
                self.channel_marks += (ChannelMark("start", 1000, 1000), ChannelMark("end", 50_001_000, 50_001_000))
                return {"result": self.run(request.parameters["argv"]), "check": "not used"}
        raise AssertionError(request)

    def run(self, argv: list[str]) -> dict[str, Any]:
        """What was reported beforehand, or nothing and well."""
        self.ran.append(argv)
        if argv[:2] == ["test", "-d"]:
            return said(1 if self.by_itself else 0)
        if argv[0] in ("test", "mariadb-admin") and self.ready_after:
            self.ready_after -= 1
            return said(1)
        answers = self.reported.get(argv[0])
        return answers.popleft() if answers else said()


class Peer(Guest):
    """Answers ``http-load`` with a whole answer, changed by ``more``; remembers what it was asked."""

    def __init__(self, **more: Any) -> None:
        super().__init__()
        self.more = more
        self.failure: GuestError | None = None

    def tell(self, request: Request[Message]) -> Mapping[str, Any]:
        """The interface's address, and the load."""
        if isinstance(request, NetworkRequest):
            return {"interfaces": []}
        assert isinstance(request, HttpLoadRequest)
        if self.failure is not None:
            raise self.failure
        requests = request.requests
        latency = {"p50": 300, "p90": 400, "p99": 500, "p999": 600, "maximum": 700, "mean": 310, "count": requests}
        return {
            "intended_requests": requests,
            "replies": requests,
            "statuses": {"200": requests},
            "timeouts": 0,
            "failures": {},
            "body_bytes": 1024 * requests,
            "start_monotonic_ns": 10,
            "last_reply_monotonic_ns": 10 + 1_000_000_000,
            "latency_ns": latency,
            **self.more,
        }


def measure(
    name: str, guest: Guest, peer: Peer | None = None, programs: Guest | None = None, *, vcpus: int = 1, **given: Any
) -> Measurement:
    """One trial over the channel."""
    return WORKLOADS[name].with_parameters(given).measure(bench_of(guest, peer, programs, vcpus=vcpus))


def bench_of(guest: Guest, peer: Peer | None = None, programs: Guest | None = None, *, vcpus: int = 1) -> Bench:
    """Marks over the channel, and a data directory of its own name."""
    return channel_bench(
        guest,
        peer=TrafficAgents.of_one(peer) if peer else None,
        network=NETWORK,
        generator_cpu=1,
        sink_cpu=1,
        data=DataDirectory("/data"),
        programs=programs,
        vcpus=vcpus,
    )


def test_sysbenchs_transactions() -> None:
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


@pytest.mark.parametrize("cut", ["transactions:", "95th percentile", "total number of events", "ignored errors", " |"])
def test_a_report_of_sysbench_without_a_figure_is_refused(cut: str) -> None:
    lines = "".join(line for line in OLTP.splitlines(keepends=True) if cut not in line)
    with pytest.raises(ValueError, match=r"no .* in it"):
        mariadb_oltp.parse(lines)


def test_httperfs_report() -> None:
    reported = nginx_httperf.parse(HTTPERF)
    assert {name: reported[name] for name in ("connections", "requests", "replies", "good_replies", "errors")} == {
        "connections": 200,
        "requests": 200,
        "replies": 200,
        "good_replies": 200,
        "errors": 0,
    }
    assert reported["replies_per_second"] == pytest.approx(200 / 0.996)
    assert (reported["connection_time_average"], reported["connection_time_maximum"]) == (100_000, 5_300_000)
    assert (reported["response_time"], reported["content_bytes"]) == (100_000, 1024)


def test_httperf_of_a_server_that_does_not_answer() -> None:
    reported = nginx_httperf.parse(STOPPED)
    assert (reported["replies"], reported["errors"], reported["timeouts"], reported["replies_per_second"]) == (
        0,
        20,
        20,
        0,
    )


@pytest.mark.parametrize("cut", ["Total:", "Connection time [ms]: min", "Reply time", "Reply status", "Errors: total"])
def test_a_report_of_httperf_without_a_line_is_refused(cut: str) -> None:
    lines = "".join(line for line in HTTPERF.splitlines(keepends=True) if not line.startswith(cut))
    with pytest.raises(ValueError, match="no line with"):
        nginx_httperf.parse(lines)


def server(clients: int = 1, **given: Any) -> list[str]:
    """The server of the folder /data/x."""
    wanted = mariadb_oltp.OltpParameters(**given)
    return mariadb_oltp.server_command("/data/x", "/data/x/socket", wanted, clients=clients)


def test_the_database_needs_no_more_address_space_than_its_buffers() -> None:
    # Without the limit MariaDB 10.11 reserves 8 TiB, which User-mode Linux has not.
    for command in (mariadb_oltp.install_command("/data/x"), server()):
        limits = [word for word in command if word.startswith("--innodb-buffer-pool-size-max=")]
        assert len(limits) == 1
        assert int(limits[0].partition("=")[2]) <= 64 * 2**20
        assert "--innodb-use-native-aio=0" in command
        assert "--user=root" in command


def test_the_database_has_a_socket_alone() -> None:
    command = server()
    assert "--skip-networking" in command
    assert not [word for word in command if "port" in word or "bind" in word]
    paths = [value for value in (word.partition("=")[2] for word in command) if value.startswith("/")]
    assert all(path == "/usr" or path.startswith("/data/x") for path in paths)


def test_a_server_of_many_has_the_pool_of_as_many_servers_and_lets_all_in() -> None:
    def number(command: list[str], name: str) -> int:
        (found,) = (word for word in command if word.startswith(f"--{name}="))
        return int(found.partition("=")[2])

    one, many = server(threads=8), server(32, threads=8)
    assert number(many, "innodb-buffer-pool-size") == 32 * number(one, "innodb-buffer-pool-size")
    assert number(many, "innodb-buffer-pool-size-max") == number(many, "innodb-buffer-pool-size")
    assert number(many, "max-connections") > 32 * 8
    assert number(server(threads=256), "max-connections") > 256


def test_the_paper_s_table_fits_the_smallest_of_its_guests() -> None:
    """Camargos' Table 4: 101 MB for each of 32. Its files are on a disk and count there alone."""
    needs = WORKLOADS["mariadb-oltp"].with_parameters({"transactions": 10_000, "rows": 10_000}).needs()
    assert 50 * 2**20 < needs.memory_bytes < 101 * 2**20
    assert needs.data_bytes > 47 * 2**20


@dataclass
class Company:
    """Two guests at once, of which the other is always there already."""

    number: int
    guests: int = 2
    met: int = 0

    def meet(self) -> None:
        """Count."""
        self.met += 1


@pytest.mark.parametrize(("server", "databases"), [("shared", (1, 2)), ("shared-database", (1, 1))])
@pytest.mark.parametrize("number", [0, 1])
def test_one_server_for_all_is_the_first_guests(number: int, server: str, databases: tuple[int, int]) -> None:
    makes_none = (number, server) == (1, "shared-database")
    guest, company = recorded(), Company(number)
    if makes_none:
        guest = Guest({"sysbench": [{"stdout": OLTP}], "mariadb": [{"stdout": "1000\n"}]})
    workload = WORKLOADS["mariadb-oltp"].with_parameters(
        {"threads": 2, "transactions": 200, "rows": 1000, "server": server}
    )
    measured = workload.measure(channel_bench(guest, data=DataDirectory("/data"), company=company))
    assert measured.check == {"value": "200 events, 1000 rows", "expected": "200 events, 1000 rows", "ok": True}
    assert company.met == 2, "before the first table is made, and after the last rows are counted"
    started = [argv for argv in guest.ran if argv[0] == "mariadb-install-db"]
    assert len(started) == (1 if number == 0 else 0)
    assert guest.alive == {}
    assert measured.result is not None
    assert {f"--mysql-db=sbtest{databases[number]}", "--mysql-socket=@virtoll-mariadb"} <= set(measured.result["argv"])
    made = [argv for argv in guest.ran if argv[0] == "sysbench" and argv[-1] == "prepare"]
    assert len(made) == (0 if makes_none else 1)


def test_the_web_server_does_not_need_ipv6() -> None:
    # Debian's own site listens on [::]:80, which a kernel without IPv6 refuses: nginx then does not start at all.
    text = configuration("/data/x", "10.64.0.1", WebParameters())
    assert [line.split()[1] for line in text.splitlines() if line.split()[:1] == ["listen"]] == ["10.64.0.1:8080"]
    assert "[::]" not in text
    assert "include" not in text
    paths = [line.split()[1].rstrip(";") for line in text.splitlines() if "_path" in line or "pid" in line]
    assert all(path.startswith("/data/x") for path in paths)


def oltp(guest: Guest, **given: Any) -> Measurement:
    """A trial of the database with what was recorded."""
    given = {"threads": 2, "transactions": 200, "rows": 1000} | given
    return measure("mariadb-oltp", guest, **given)


def recorded(rows: str = "1000", **run: Any) -> Guest:
    """A guest in which the database works: sysbench prepares, then runs; the client makes it, then counts."""
    return Guest({"sysbench": [{}, {"stdout": OLTP} | run], "mariadb": [{}, {"stdout": f"{rows}\n"}]})


def test_the_database_is_made_for_the_trial_and_gone_after_it() -> None:
    guest = recorded()
    measured = oltp(guest)
    assert measured.problem is None
    assert measured.check == {"value": "200 events, 1000 rows", "expected": "200 events, 1000 rows", "ok": True}
    assert measured.result is not None
    assert measured.result["figures"]["transactions_per_second"] == 1052.80
    assert guest.alive == {}
    assert [argv[0] for argv in guest.ran] == [
        "rm",
        "mkdir",
        "mariadb-install-db",
        "mariadb-admin",
        "mariadb",
        "sysbench",
        "sysbench",
        "mariadb",
        "rm",
    ]
    assert guest.ran[0] == guest.ran[-1] == ["rm", "-rf", "/data/virtoll-mariadb"]
    timed = guest.ran[6]
    assert {"oltp_read_write", "--threads=2", "--events=200", "--time=0", "run"} <= set(timed)
    assert "--mysql-socket=/data/virtoll-mariadb/socket" in timed


@pytest.mark.parametrize(
    ("guest", "problem"),
    [
        (recorded(rows="999"), "the check value is wrong: '200 events, 999 rows'"),
        (
            recorded(status=1, stderr="FATAL: mysql_drv_query() returned error 2013\n"),
            "sysbench failed with exit code 1: FATAL: mysql_drv_query() returned error 2013",
        ),
    ],
)
def test_a_database_that_went_wrong_is_gone_too(guest: Guest, problem: str) -> None:
    measured = oltp(guest)
    assert measured.problem is not None
    assert measured.problem.startswith(problem)
    assert guest.alive == {}
    assert guest.ran[-1] == ["rm", "-rf", "/data/virtoll-mariadb"]


def outside(guest: Guest, programs: Guest | None, **given: Any) -> Measurement:
    """A trial of the database from outside, with what was recorded."""
    given = {"threads": 2, "transactions": 200, "rows": 1000} | given
    return measure("mariadb-oltp-outside", guest, Peer(), programs, **given)


def served(rows: str = "1000") -> Guest:
    """A guest in which the database serves: sysbench fills it, the client makes it, lets somebody in, then counts."""
    return Guest({"mariadb": [{}, {}, {"stdout": f"{rows}\n"}]})


def test_a_client_outside_reaches_the_database_over_the_link() -> None:
    guest, beside = served(), Guest({"sysbench": [{}, {"stdout": OLTP}]})
    measured = outside(guest, beside)
    link = NETWORK.sources[0]
    assert measured.problem is None
    assert measured.check == {"value": "200 events, 1000 rows", "expected": "200 events, 1000 rows", "ok": True}
    assert measured.result is not None
    assert measured.result["figures"]["latency_p95"] > 0
    assert {f"--bind-address={link.guest_address}", "--port=3306"} <= set(measured.result["server_argv"])
    assert "--skip-networking" not in measured.result["server_argv"]
    assert beside.ran[-1] == measured.result["argv"]
    assert {f"--mysql-host={link.guest_address}", "--mysql-user=virtoll", "--events=200"} <= set(beside.ran[-1])
    (allowed,) = (argv[-1] for argv in guest.ran if "CREATE USER" in argv[-1])
    assert f"'virtoll'@'{link.peer_address}'" in allowed, "nobody else is let in"
    assert guest.alive == {}
    assert guest.ran[-1] == ["rm", "-rf", "/data/virtoll-mariadb"]


@pytest.mark.parametrize(
    ("rows", "run", "problem"),
    [
        ("999", {"stdout": OLTP}, "the check value is wrong: '200 events, 999 rows' instead of"),
        ("1000", {"status": 1, "stderr": "FATAL: no way\n"}, "sysbench failed with exit code 1: FATAL: no way"),
        ("1000", {"stdout": "nothing"}, "what sysbench printed cannot be read: no transactions in it: 'nothing'"),
    ],
)
def test_a_client_outside_that_went_wrong_leaves_nothing(rows: str, run: dict[str, Any], problem: str) -> None:
    guest = served(rows)
    measured = outside(guest, Guest({"sysbench": [{}, run]}))
    assert measured.problem is not None
    assert measured.problem.startswith(problem)
    assert guest.alive == {}
    assert guest.ran[-1][0] == "rm"


def test_without_programs_beside_the_peer_nothing_is_made() -> None:
    guest = served()
    with pytest.raises(GuestCannot, match="a program of the image, which the peer on another host lacks"):
        outside(guest, None)
    assert guest.ran == []


def test_a_database_that_cannot_be_filled_is_gone_too() -> None:
    guest = Guest({"sysbench": [{"status": 1, "stderr": "FATAL: no room\n"}]})
    with pytest.raises(GuestError, match="sysbench failed with exit code 1: FATAL: no room"):
        oltp(guest)
    assert guest.alive == {}
    assert guest.ran[-1][0] == "rm"


def test_read_only_is_a_script_of_its_own() -> None:
    guest = recorded()
    oltp(guest, mode="read-only")
    assert {argv[1] for argv in guest.ran if argv[0] == "sysbench"} == {"oltp_read_only"}


def test_a_server_is_asked_until_it_serves() -> None:
    guest = Guest(ready_after=2)
    with serving(guest, ["server"], "/tmp/log", ["mariadb-admin", "ping"], 10.0):
        assert guest.alive == {"server": ["server"]}
    assert [argv[0] for argv in guest.ran].count("mariadb-admin") == 3
    assert guest.alive == {}


def test_a_server_that_does_not_start_is_told_with_its_last_line() -> None:
    guest = Guest(ready_after=1)
    last = base64.b64encode(b"starting\nCannot map innodb_buffer_pool_size_max\n").decode()
    guest.by_itself = {"status": 1, "by_itself": True, "output": last}
    with (
        pytest.raises(GuestError, match=r"server failed with exit code 1: Cannot map .* before it was asked to end"),
        serving(guest, ["server"], "/tmp/log", ["mariadb-admin", "ping"], 10.0),
    ):
        pytest.fail("it does not serve")
    assert guest.alive == {}


def test_a_server_that_dies_in_the_trial_fails_it() -> None:
    guest = Guest()
    with (
        pytest.raises(GuestError, match="server was ended by a signal"),
        serving(guest, ["server"], "/tmp/log", ["true"], 10.0),
    ):
        guest.by_itself = {"status": None, "signal": 9, "by_itself": True, "output": ""}


def test_a_dead_guest_is_not_asked_to_clean_up() -> None:
    class Dying(Guest):
        def run(self, argv: list[str]) -> dict[str, Any]:
            self.ended = self.ended or argv[0] == "sysbench"
            if self.ended:
                raise GuestDied("the guest ended while it was needed")
            return super().run(argv)

    guest = Dying()
    with pytest.raises(GuestDied):
        oltp(guest)
    assert guest.ran[-1][0] == "mariadb"


def test_the_load_comes_from_outside_and_its_address_goes_again() -> None:
    guest, peer = Guest(), Peer()
    measured = measure("nginx", guest, peer, requests=200)
    assert measured.problem is None
    assert measured.clock is None
    assert measured.check is not None
    assert measured.check["ok"]
    assert measured.result is not None
    assert measured.result["figures"]["latency_p99"] == 500
    assert measured.result["figures"]["replies_per_second"] == 200
    link = NETWORK.sources[0]
    given, taken = (request.interfaces[0] for request in peer.requests(NetworkRequest))
    assert given.address == f"{link.peer_address}/24"
    assert taken == Interface(mac=link.peer_mac, without_address=True)
    warm, load = peer.requests(HttpLoadRequest)
    assert warm.requests < load.requests == 200
    assert load.target == f"{link.guest_address}:8080"
    assert (load.rate_requests_per_second, load.keep_alive, load.timeout_ns) == (200, False, 2_000_000_000)
    assert guest.alive == {}


def test_what_warms_a_server_up_is_not_measured() -> None:
    guest, peer, sent = Guest(), Peer(), []

    @contextlib.contextmanager
    def measuring() -> Iterator[None]:
        before = len(peer.requests(HttpLoadRequest))
        yield
        sent.append((before, len(peer.requests(HttpLoadRequest))))

    bench = bench_of(guest, peer)
    with bench.timekeeper.also(measuring):
        assert WORKLOADS["nginx"].with_parameters({"requests": 200}).measure(bench).problem is None
    assert sent == [(1, 2)]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"timeouts": 1}, "the check value is wrong: '201 requests"),
        ({"statuses": {"200": 150, "404": 50}}, "the check value is wrong: '200 requests, 150 of 200 replies good"),
        ({"body_bytes": 7}, "the check value is wrong"),
        (
            {"replies": 0, "statuses": {}, "body_bytes": 0, "timeouts": 200, "last_reply_monotonic_ns": None},
            "no request was answered: 200 timed out",
        ),
    ],
)
def test_books_that_do_not_balance_are_the_trials_problem(more: dict[str, Any], problem: str) -> None:
    measured = measure("nginx", Guest(), Peer(**more), requests=200)
    assert measured.problem is not None
    assert measured.problem.startswith(problem)


def test_late_replies_lower_the_rate_and_lost_ones_are_a_share() -> None:
    late = {
        "replies": 150,
        "statuses": {"200": 150},
        "body_bytes": 150 * 1024,
        "timeouts": 40,
        "failures": {"connect": 10},
        "last_reply_monotonic_ns": 10 + 3_000_000_000,
    }
    measured = measure("nginx", Guest(), Peer(**late), requests=200)
    assert measured.problem is None
    assert measured.result is not None
    assert measured.result["figures"]["replies_per_second"] == 50
    assert measured.result["figures"]["unanswered_share"] == 0.25


def test_an_address_that_the_load_needed_goes_when_it_fails() -> None:
    peer = Peer()
    guest = Guest({"nginx": []})
    peer.failure = AgentError("system", "connect: no room")
    with pytest.raises(AgentError, match="no room"):
        measure("nginx", guest, peer, requests=200)
    assert peer.requests(NetworkRequest)[-1].interfaces[0].without_address
    assert guest.alive == {}


def test_httperf_runs_inside_against_a_server_of_its_own() -> None:
    guest = Guest({"httperf": [{}, {"stdout": HTTPERF}]})
    measured = measure("nginx-httperf", guest, requests=200, rate_requests_per_second=200)
    assert measured.problem is None
    assert measured.clock is not None
    assert guest.alive == {}
    configured = next(argv for argv in guest.ran if argv[0] == "tee")
    assert configured == ["tee", "/data/virtoll-nginx/nginx.conf"]
    assert {"--rate=200", "--num-conns=200", "--num-calls=1", "--timeout=5"} <= set(guest.ran[-2])


def test_httperf_that_got_no_reply_is_no_result() -> None:
    measured = measure("nginx-httperf", Guest({"httperf": [{}, {"stdout": STOPPED}]}), requests=20)
    assert measured.problem is not None
    assert measured.problem.startswith("no connection got a reply: 20 of 20 timed out")


def test_httperfs_mean_is_of_no_use_where_some_got_no_reply() -> None:
    """It is of those that got one: a guest that answers a few at once and the others never would be the fastest."""
    some = HTTPERF.replace("Errors: total 0 client-timo 0", "Errors: total 5 client-timo 5")
    measured = measure("nginx-httperf", Guest({"httperf": [{}, {"stdout": some}]}), requests=205)
    assert measured.result is not None
    figures = measured.result["figures"]
    assert (figures["errors"], figures["connection_time_average"]) == (5, None)
    assert figures["replies_per_second"] > 0


COMPILED = """make: Entering directory '/data/virtoll-kernel/linux-source-6.1'
  CALL    scripts/checksyscalls.sh
  CC      lib/math/gcd.o
  AS      lib/math/thing.o
  AR      lib/math/lib.a
"""
OBJECTS = ("lib/math/gcd.o", "lib/math/thing.o")


def hashed(folder: str, *digits: str) -> dict[str, str]:
    """What sha256sum says of the objects."""
    lines = [f"{digit * 64}  {folder}/linux-source-6.1/{name}\n" for digit, name in zip(digits, OBJECTS, strict=False)]
    return {"stdout": "".join(lines)}


def beside(made: bool = True) -> Guest:
    """The image's programs beside the peer, where the tree and its objects are made, or are there already."""
    right = hashed("/tmp/virtoll-kernel", "a", "b")
    finds = [{"stdout": "x"}] if made else [{}, right]
    return Guest({"find": finds, "cat": [right]})


def compiling(*digits: str, listed: str = "\n".join(OBJECTS)) -> Guest:
    """A guest that compiles two objects, in another order than beside the peer."""
    lines = hashed("/data/virtoll-kernel", *digits)["stdout"].splitlines(keepends=True)
    return Guest({"make": [{"stdout": COMPILED}], "find": [{"stdout": listed}, {"stdout": "".join(lines[::-1])}]})


def test_the_quick_tree_is_made_once_beside_the_peer_and_copied() -> None:
    for made in (False, True):
        guest, programs = compiling("a", "b"), beside(made)
        measured = measure("kernel-compile", guest, Peer(), programs, jobs=2)
        assert measured.problem is None
        assert measured.result is not None
        assert measured.result["figures"]["objects"] == sorted(OBJECTS)
        targets = [argv[-1] for argv in programs.ran if argv[0] == "make"]
        assert targets == ([] if made else ["tinyconfig", "prepare", "lib/math/"])
        assert [argv for argv in programs.ran if argv[0] == "tee"] == (
            [] if made else [["tee", "/tmp/virtoll-kernel.made"]]
        ) + [["tee", "/tmp/virtoll-rsyncd.conf"]]
        # What was built there does not go along.
        assert made == (not [argv for argv in programs.ran if argv[-1] == "-delete"])
        copied = next(argv for argv in guest.ran if argv[0] == "rsync")
        assert copied[-1] == "/data/virtoll-kernel/"
        assert [argv[-2:] for argv in guest.ran if argv[0] == "make"] == [["KBUILD_BUILD_VERSION=1", "lib/math/"]]
        assert guest.ran[-1] == ["rm", "-rf", "/data/virtoll-kernel"]
        assert programs.alive == {}


@pytest.mark.parametrize(
    ("guest", "problem"),
    [
        (compiling("a", "b", listed=OBJECTS[0]), "the check value is wrong: '1 objects"),
        (compiling("a", "c"), "the check value is wrong: '2 objects, sha256"),
        (compiling("a"), "the check value is wrong: '2 objects, sha256"),
    ],
)
def test_objects_are_the_same_as_those_built_beside_the_peer(guest: Guest, problem: str) -> None:
    measured = measure("kernel-compile", guest, Peer(), beside())
    assert measured.problem is not None
    assert measured.problem.startswith(problem)
    assert guest.ran[-1] == ["rm", "-rf", "/data/virtoll-kernel"]


def test_a_tree_needs_a_place_beside_the_peer() -> None:
    guest = Guest()
    with pytest.raises(AgentError, match="a host without the image; reach it by SSH") as refused:
        measure("kernel-compile", guest, Peer())
    assert refused.value.kind == "unsupported"
    assert guest.ran[-1] == ["rm", "-rf", "/data/virtoll-kernel"]


def test_the_papers_size_is_a_whole_kernel_made_in_the_guest() -> None:
    assert kernel_compile.unpack_command("/data/x", ())[-1] == "--no-same-owner"
    # As make said it of a whole kernel: the objects of its own tools with their whole paths, and those of modules.
    tool, module = "tools/objtool/check.o", "net/ipv4/netfilter/iptable_nat.o"
    said = f"{COMPILED}  CC      /data/virtoll-kernel/linux-source-6.1/{tool}\n  CC [M]  {module}\n"
    guest = Guest({"make": [{}, {"stdout": said}, {}], "find": [{"stdout": "\n".join([*OBJECTS, tool, module])}]})
    measured = measure("kernel-compile", guest, size="paper", jobs=8)
    assert measured.problem is None
    assert measured.check == {"value": "4 objects, 0 left to do", "expected": "4 objects, 0 left to do", "ok": True}
    made = [argv for argv in guest.ran if argv[0] == "make"]
    assert [argv[-1] for argv in made] == ["defconfig", *["KBUILD_BUILD_VERSION=1"] * 2], "plain make"
    assert all("--jobs=8" in argv for argv in made)


def test_a_job_for_each_virtual_cpu() -> None:
    guest = Guest({"make": [{"stdout": COMPILED}], "find": [{"stdout": ""}]})
    measure("kernel-compile", guest, size="paper", jobs="vcpus", timed="unpack-and-build", vcpus=4)
    made = [argv for argv in guest.ran if argv[0] == "make"]
    assert len(made) == 2
    assert all("--jobs=4" in argv for argv in made), "the build, and the one that says what is left to do"
    asked, told = ({"size": "paper", "jobs": jobs} for jobs in ("vcpus", 8))
    needs, eight = (WORKLOADS["kernel-compile"].with_parameters(one).needs() for one in (asked, told))
    assert needs.memory_bytes + 8 * needs.memory_bytes_a_vcpu == eight.memory_bytes
    assert unmet("kernel-compile", needs, (8, eight.memory_bytes), "model", {}) is None
    assert "needs" in (unmet("kernel-compile", needs, (8, eight.memory_bytes - 1), "model", {}) or "")


def test_a_kernel_that_is_compiled_again_was_not_done() -> None:
    again = {"stdout": "  CC      lib/math/gcd.o\n"}
    guest = Guest({"make": [{}, {"stdout": COMPILED}, again], "find": [{"stdout": "\n".join(OBJECTS)}]})
    measured = measure("kernel-compile", guest, size="paper")
    assert measured.check == {"value": "2 objects, 1 left to do", "expected": "2 objects, 0 left to do", "ok": False}


def test_unpacking_can_be_timed_with_the_build() -> None:
    """The quick tree's packed copy, and the whole archive with its configuration."""
    guest = compiling("a", "b")
    measured = measure("kernel-compile", guest, Peer(), beside(), jobs=2, timed="unpack-and-build")
    assert measured.problem is None
    assert measured.result is not None
    assert measured.result["argv"][:4] == ["make", "--file", "/data/virtoll-kernel/unpack-and-build.mk", "--jobs=2"]
    assert not [argv for argv in guest.ran if argv[0] == "tar"], "before the mark nothing is unpacked"
    guest = Guest({"make": [{"stdout": COMPILED}, {}], "find": [{"stdout": "\n".join(OBJECTS)}]})
    measured = measure("kernel-compile", guest, size="paper", jobs=8, timed="unpack-and-build")
    assert measured.check == {"value": "2 objects, 0 left to do", "expected": "2 objects, 0 left to do", "ok": True}
    again = [argv for argv in guest.ran if argv[0] == "make"][-1]
    assert "--directory" in again, "what is left to do is asked of the build alone"


def test_the_makefile_unpacks_configures_and_builds_by_as_many_jobs(tmp_path: Path) -> None:
    """By the real make, on a small tree whose own makefile says what it is asked."""
    folder, tree = tmp_path / "a folder", tmp_path / "packed" / "linux-source-6.1"
    folder.mkdir()
    tree.mkdir(parents=True)
    said = "@echo $@ $(filter -j%,$(MAKEFLAGS)) $(KBUILD_BUILD_USER) >>said"
    (tree / "Makefile").write_text(f"all: one two\n\t{said}\none two: ; sleep 0\ndefconfig:\n\t{said}\n")
    unpack = ["cp", "-r", str(tree), str(folder)]
    (folder / "it.mk").write_text(kernel_compile.makefile(str(folder), unpack, ("defconfig", "all")))
    argv = ["make", "--file", str(folder / "it.mk"), "--jobs=3", "KBUILD_BUILD_USER=virtoll"]
    subprocess.run(argv, check=True, capture_output=True)
    lines = (folder / "linux-source-6.1" / "said").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["defconfig", "all"]
    assert all(line.split()[-2:] == ["-j3", "virtoll"] for line in lines)


def test_an_interrupted_run_does_not_wait_for_what_the_guest_is_at() -> None:
    class Interrupted(Guest):
        def run(self, argv: list[str]) -> dict[str, Any]:
            if argv[0] == "sysbench":
                raise KeyboardInterrupt
            return super().run(argv)

    guest = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        oltp(guest)
    assert guest.ran[-1][0] == "mariadb"
    assert guest.alive
