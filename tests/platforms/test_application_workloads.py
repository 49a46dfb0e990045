"""Compiler, database and web server for real, on the image full where it is built (make tools).

The short form: in bare namespaces, without the compiler, whose tree takes a minute to make. ``extended``: all of them
in guests of each sort, and what would go wrong in User-mode Linux without what tests/workloads sees that they do.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.support import guests
from tests.support.facts import refused
from tests.support.present import present

from virtoll.agent.operations.http import HttpLoadReply, HttpLoadRequest
from virtoll.errors import GuestError
from virtoll.lab.inside import wait_until
from virtoll.lab.local_network import Network
from virtoll.pipeline.peer import peer_programs
from virtoll.pipeline.session import RunSession
from virtoll.workloads import WORKLOADS, mariadb_oltp, nginx
from virtoll.workloads.base import Bench, Measurement
from virtoll.workloads.network_path import addressed
from virtoll.workloads.nginx_server import PORT, WebParameters, configuration, web_server
from virtoll.workloads.programs import attempt, run, serving, succeeds, write

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.slow]
SMALL: dict[str, dict[str, Any]] = {
    "mariadb-oltp": {"transactions": 30, "rows": 200, "threads": 2},
    "mariadb-oltp-outside": {"transactions": 30, "rows": 200, "threads": 2},
    "rsync-file": {"size_bytes": "1MiB", "direction": "from-guest", "files": "disk"},
    "nginx": {"requests": 60, "rate_requests_per_second": 100, "timeout_milliseconds": 600_000},
    "nginx-httperf": {"requests": 20, "rate_requests_per_second": 20, "timeout_milliseconds": 600_000},
}
WITH_COMPILER: dict[str, dict[str, Any]] = {**SMALL, "kernel-compile": {}}
ROOM_BYTES = 256 * 2**20


@pytest.fixture(scope="module")
def tools() -> Iterator[RunSession]:
    """The lab's run session with the tools in its image, and who starts its programs beside the peer."""
    with guests.session_with_tools() as made:
        site = made.site
        assert isinstance(site.network, Network)
        with peer_programs(site.this_machine, site.image, site.network, made.pinning.generator_cpu) as site.programs:
            yield made


@pytest.fixture(scope="module")
def live(tools: RunSession) -> Iterator[guests.Connected]:
    """A guest in bare namespaces."""
    with guests.running("netns", tools, data_bytes=ROOM_BYTES) as found:
        yield found


def measured(live: guests.Connected, name: str, **more: Any) -> Measurement:
    """One small trial in an empty data directory."""
    workload = WORKLOADS[name].with_parameters(WITH_COMPILER[name] | more)
    return guests.measured(workload, lambda: outfitted(live))


def outfitted(live: guests.Connected) -> Bench:
    """The bench with an empty data directory, links that can be shaped, and programs beside the peer."""
    site = live.site
    return replace(live.emptied(), lab_links=site.network.local, programs=site.programs)


def left(live: guests.Connected) -> list[str]:
    """The data directory's entries, but for the file system's own."""
    found = run(live.bench.guest, ["ls", "-A", live.emptied().data.path]).split()
    return [name for name in found if name != "lost+found"]


def right(live: guests.Connected, name: str) -> None:
    """One trial, with a right answer, figures, and nothing left."""
    result = guests.assert_right(measured(live, name))
    for metric in WORKLOADS[name].metrics:
        if metric.source == "figures" and metric.name != "connection_time_average":  # which httperf rounds to 0.1 ms
            assert result["figures"][metric.name] > 0, metric.name
    assert left(live) == []


@pytest.mark.parametrize(
    "name",  # rsync's daemon sets its groups, which a user namespace forbids
    [pytest.param(name, marks=pytest.mark.root) if name == "rsync-file" else name for name in SMALL],
)
def test_they_give_right_answers_and_leave_nothing(live: guests.Connected, name: str) -> None:
    right(live, name)


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["netns", "runc", "runsc-systrap", "uml-raw", "qemu-tcg"])
def test_they_give_right_answers_in_each_sort_of_guest(tools: RunSession, kind: str) -> None:
    found = guests.start(kind, tools, data_bytes=ROOM_BYTES)
    for name in WITH_COMPILER:
        right(found, name)
    assert measured(found, "kernel-compile", timed="unpack-and-build").problem is None
    found.guest.stop()


def test_a_client_outside_waits_for_the_link(live: guests.Connected) -> None:
    """256 KiB take 105 ms at 20 Mbit/s; the rows that a transaction is answered with, some 30 kB, 48 ms at 5 Mbit/s."""
    slow = {"requests": 10, "rate_requests_per_second": 5, "size_bytes": "256KiB"}
    web = measured(live, "nginx", **slow, link_rate_bits_per_second=20_000_000).result or {}
    assert web["shaped_by"] in ("tbf", "netem")
    assert web["figures"]["latency_p50"] >= 80_000_000
    database = measured(live, "mariadb-oltp-outside", transactions=10, link_rate_bits_per_second=5_000_000).result or {}
    assert database["shaped_by"] in ("tbf", "netem")
    assert database["figures"]["latency_average"] >= 20_000_000
    assert left(live) == []


def test_connections_are_used_again_where_that_is_asked_for(live: guests.Connected) -> None:
    """With few at once, since each that is due while all others wait for their reply would open another one."""
    each, kept = (measured(live, "nginx", keep_alive=keep, connections=4).result or {} for keep in (False, True))
    assert each["connections_opened"] == each["replies"] == 60
    assert 1 <= kept["connections_opened"] <= 4
    assert kept["replies"] == 60
    # Whoever generates has no address any more, so that its kernel answers nothing in other workloads.
    target = f"{live.bench.network.sources[0].guest_address}:8080"
    load = HttpLoadRequest(
        target=target,
        path="/file",
        requests=1,
        rate_requests_per_second=1000,
        connections=1,
        keep_alive=True,
        timeout_ns=int(guests.HANG_SECONDS * 1e9),
    )
    assert live.bench.peer.generator.ask(load, guests.HANG_SECONDS).failures == {"socket": 1}


def test_a_server_that_stalls_is_charged_with_all_that_it_owes(live: guests.Connected) -> None:
    # nginx's worker is stopped until forty requests, due one each 5 ms, have come in: the first twenty of them have
    # then waited for 95 ms at least. A generator that waited for replies would have asked once and be told one.
    wanted = nginx.NginxParameters(requests=100, rate_requests_per_second=200, timeout_milliseconds=600_000)
    link, guest = live.bench.network.sources[0], live.bench.guest
    answers: list[HttpLoadReply] = []
    folder = f"{live.emptied().data.path}/virtoll-nginx"
    with web_server(guest, folder, link.guest_address, wanted), addressed(live.bench, (link,)) as generator:
        load = threading.Thread(
            target=lambda: answers.append(nginx.http_load(generator, link, wanted, wanted.requests, None))
        )
        # It serves, by its own file, before it has started who does.
        wait_until(lambda: len(workers(live)) == 1, guests.HANG_SECONDS, "nginx's worker")
        (worker,) = workers(live)
        os.kill(worker, signal.SIGSTOP)
        try:
            load.start()
            wait_until(lambda: connections(live) >= 40, guests.HANG_SECONDS, "connections of forty requests")
        finally:
            os.kill(worker, signal.SIGCONT)
            load.join()
    buckets = present(answers[0].latency_ns).histogram or ()
    assert answers[0].replies == sum(count for _, count in buckets) == 100
    assert sum(count for nanoseconds, count in buckets if nanoseconds >= 90_000_000) >= 20
    assert nginx.figures(answers[0], wanted)["latency_p90"] >= 90_000_000


def workers(live: guests.Connected) -> list[int]:
    """nginx's processes that serve."""
    return [one.pid for one in live.processes().processes if one.argv[0].startswith("nginx: worker")]


def connections(live: guests.Connected) -> int:
    """How many are open at the server's port, by the guest's kernel."""
    rows = [line.split() for line in run(live.bench.guest, ["cat", "/proc/net/tcp"]).splitlines()]
    return sum(row[1].endswith(f":{PORT:04X}") and row[3] == "01" for row in rows)


def test_a_server_that_does_not_start_tells_why(live: guests.Connected) -> None:
    guest = live.bench.guest
    command = ["nginx", "-e", "stderr", "-p", "/tmp", "-c", "/tmp/no-such.conf"]
    with (
        refused("no-such.conf", error=GuestError),
        serving(guest, command, "/tmp/virtoll-log", ["test", "-s", "/tmp/virtoll-pid"], guests.HANG_SECONDS),
    ):
        pass
    run(guest, ["rm", "/tmp/virtoll-log"])


def test_a_server_ends_with_what_needed_it(live: guests.Connected) -> None:
    guest = live.bench.guest
    with serving(guest, ["sleep", "1000"], "/tmp/virtoll-log", ["true"], guests.HANG_SECONDS):
        assert succeeds(guest, ["pidof", "sleep"])
    assert not succeeds(guest, ["pidof", "sleep"])
    run(guest, ["rm", "/tmp/virtoll-log"])


@pytest.fixture(scope="module")
def uml(tools: RunSession) -> Iterator[guests.Connected]:
    """A guest of User-mode Linux, whose kernel has neither IPv6 nor terabytes of address space."""
    with guests.running("uml-raw", tools, data_bytes=ROOM_BYTES) as found:
        yield found


@pytest.mark.extended
def test_a_web_server_that_listens_on_ipv6_as_well_does_not_start_there(uml: guests.Connected) -> None:
    guest, folder = uml.bench.guest, "/tmp/virtoll-trap"
    run(guest, ["mkdir", "-p", folder])
    command = ["nginx", "-e", "stderr", "-t", "-p", folder, "-c", f"{folder}/nginx.conf"]
    own = configuration(folder, "127.0.0.1", WebParameters())
    write(guest, f"{folder}/nginx.conf", own)
    assert attempt(guest, command).status == 0
    # As Debian's own site has it.
    write(guest, f"{folder}/nginx.conf", own.replace("root ", f"listen [::]:{PORT};\n        root "))
    said = attempt(guest, command)
    assert said.status != 0
    assert f"socket() [::]:{PORT} failed (97: " in said.complaints
    run(guest, ["rm", "-rf", folder])


@pytest.mark.extended
def test_a_database_that_reserves_what_it_may_grow_to_does_not_start_there(uml: guests.Connected) -> None:
    guest, folder = uml.bench.guest, f"{uml.emptied().data.path}/virtoll-trap"
    run(guest, ["mkdir", folder])
    run(guest, mariadb_oltp.install_command(folder), guests.HANG_SECONDS)
    socket = f"{folder}/socket"
    command = mariadb_oltp.server_command(folder, socket, mariadb_oltp.OltpParameters())
    asked = mariadb_oltp.client(socket, "mariadb-admin", "ping")
    with serving(guest, command, f"{folder}/log", asked, guests.HANG_SECONDS):
        pass
    unlimited = [word for word in command if not word.startswith("--innodb-buffer-pool-size-max=")]
    assert len(unlimited) == len(command) - 1
    with (
        refused("mariadbd", error=GuestError, without=(f"{guests.HANG_SECONDS:g} s",)),
        serving(guest, unlimited, f"{folder}/log", asked, guests.HANG_SECONDS),
    ):
        pass
    assert "innodb_buffer_pool_size_max" in run(guest, ["cat", f"{folder}/log"])
    run(guest, ["rm", "-rf", folder])
