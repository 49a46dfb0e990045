"""The network outside the lab: one thread is in it for a while, and in its own again afterwards."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.facts import refused
from tests.support.namespaces import network_namespace

from virtoll.errors import GuestError
from virtoll.lab.outside import OUTSIDE_VARIABLE, outside_network

INSIDE_LAB = "links"
pytestmark = [pytest.mark.lab]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Another network namespace, with a loopback interface that is up."""
    with network_namespace() as pid:
        subprocess.run(["nsenter", f"--target={pid}", "--net", "--", "ip", "link", "set", "lo", "up"], check=True)
        descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        monkeypatch.setenv(OUTSIDE_VARIABLE, str(descriptor))
        yield os.fstat(descriptor).st_ino
        os.close(descriptor)


def namespace() -> int:
    return Path("/proc/thread-self/ns/net").stat().st_ino


def test_a_socket_made_outside_stays_there_and_the_thread_comes_back(elsewhere: int) -> None:
    own, seen = namespace(), []
    with outside_network():
        assert namespace() == elsewhere
        other = threading.Thread(target=lambda: seen.append(namespace()))
        with outside_network():
            assert namespace() == elsewhere
        assert namespace() == elsewhere
        listener = socket.create_server(("127.0.0.1", 0))
    assert namespace() == own
    other.start()
    other.join()
    assert seen == [own]
    with listener:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(listener.getsockname(), 2)
        with outside_network():
            socket.create_connection(listener.getsockname(), 2).close()


def test_it_comes_back_from_an_error(elsewhere: int) -> None:
    own = namespace()
    seen = []

    def fail() -> None:
        with outside_network():
            seen.append(namespace())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert seen == [elsewhere]
    assert namespace() == own


def test_without_one_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OUTSIDE_VARIABLE, raising=False)
    own = namespace()
    with outside_network():
        assert namespace() == own


def test_where_it_may_not_be_entered_root_is_named_as_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/proc/self/status").open(encoding="ascii") as file:
        monkeypatch.setenv(OUTSIDE_VARIABLE, str(file.fileno()))
        with refused("root", os.strerror(errno.EINVAL), error=GuestError), outside_network():
            pass
