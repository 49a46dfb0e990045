"""What workloads that run a program share: servers beside them, and who listens at a port."""

from __future__ import annotations

import subprocess

import pytest
from tests.support.facts import assert_facts, refused
from tests.support.repository import RECORDED
from tests.support.workload_trials import ProgramGuest, server_end

from virtoll.errors import GuestError
from virtoll.workloads.programs import ListeningPort, ProgramOutput, ending, serving

PING = ["mariadb-admin", "ping"]


def fail_to_serve(guest: ProgramGuest, seconds: float = 10.0) -> None:
    with serving(guest, ["server"], "/tmp/log", PING, seconds):
        pytest.fail("it serves")


def test_a_server_is_asked_until_it_serves() -> None:
    guest = ProgramGuest(unready=2)
    with serving(guest, ["server"], "/tmp/log", PING, 10.0):
        assert guest.servers == {"server": ["server"]}
    assert guest.names.count("mariadb-admin") == 3
    assert guest.servers == {}


def test_a_client_that_its_server_refuses_is_reported_with_the_cause() -> None:
    refused_client = "@ERROR: setgroups failed\nrsync error: error starting client-server protocol (code 5) at main.c\n"
    assert_facts(ending(ProgramOutput(5, "", refused_client)), 5, "setgroups failed")


def test_a_server_that_does_not_start_is_refused_with_its_last_line() -> None:
    guest = ProgramGuest(unready=1, early=server_end("starting\nCannot map innodb_buffer_pool_size_max\n", 1))
    with refused("server", "code 1", "Cannot map innodb_buffer_pool_size_max", error=GuestError):
        fail_to_serve(guest)
    assert guest.servers == {}


def test_a_server_that_is_never_ready_is_given_up_and_ended() -> None:
    guest = ProgramGuest(unready=10**6)
    with refused("server", "0.01 s", error=GuestError):
        fail_to_serve(guest, 0.01)
    assert guest.servers == {}


def test_a_server_that_dies_in_the_trial_fails_it() -> None:
    guest = ProgramGuest()
    with refused("server", "signal", error=GuestError), serving(guest, ["server"], "/tmp/log", ["true"], 10.0):
        guest.early = server_end(status=None)


UDP_TABLE = (RECORDED / "proc-net-udp.txt").read_text()
TCP_TABLE = (RECORDED / "proc-net-tcp.txt").read_text()


@pytest.mark.parametrize(
    ("protocol", "number", "table", "taken"),
    [
        ("udp", 5001, UDP_TABLE, True),
        ("udp", 5002, UDP_TABLE, False),
        ("tcp", 8730, TCP_TABLE, True),
        ("tcp", 8080, TCP_TABLE, False),  # a connection
        ("tcp", 8730, "", False),
    ],
)
def test_the_kernels_table_shows_who_listens(protocol: str, number: int, table: str, taken: bool) -> None:
    *command, place = ListeningPort(protocol, number).listening()
    assert place == f"/proc/net/{protocol}"
    assert (subprocess.run(command, input=table, text=True, check=False).returncode == 0) == taken
