"""Which CPUs take in what a link carries: the kernel's settings inside a lab, and the thread outside that pins."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from virtoll.lab.interfaces import receive_offload
from virtoll.lab.receiving import PINNER_VARIABLE, ReceivingInterface, pin_for_lab, receive_on

INSIDE_LAB = True
pytestmark = pytest.mark.lab

SETTINGS = Path("/sys/class/net/rcv0")
as_root = pytest.mark.root


@pytest.fixture
def interface() -> Iterator[ReceivingInterface]:
    """One end of a pair that is on at both, with NAPI."""
    subprocess.run(["ip", "link", "add", "rcv0", "type", "veth", "peer", "rcv1"], check=True)
    for name in ("rcv0", "rcv1"):
        receive_offload(name)
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
    yield ReceivingInterface("rcv0")
    subprocess.run(["ip", "link", "del", "rcv0"], check=True)


def read(name: str) -> str:
    return (SETTINGS / name).read_text(encoding="ascii").strip()


@contextlib.contextmanager
def launcher(monkeypatch: pytest.MonkeyPatch, work: Callable[[socket.socket], None]) -> Iterator[None]:
    """Somebody who is asked to pin, as the launcher is."""
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    thread = threading.Thread(target=work, args=(ours,))
    with theirs:
        thread.start()
        monkeypatch.setenv(PINNER_VARIABLE, str(theirs.fileno()))
        yield
    thread.join()


@as_root
def test_an_interface_receives_by_a_pinned_thread_and_steered(
    interface: ReceivingInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def pins(connection: socket.socket) -> None:
        with connection:
            while request := connection.recv(100):
                asked.append(request)
                connection.send(b"ok")

    with launcher(monkeypatch, pins):
        found = receive_on([interface], [0])
    assert asked == [b"look rcv0", b"pin 0"]
    assert (found.cpus, found.means, found.reason) == ((0,), "threaded NAPI and RPS", None)
    assert (read("threaded"), int(read("queues/rx-0/rps_cpus").replace(",", ""), 16)) == ("1", 1)


@as_root
def test_a_thread_that_nobody_can_pin_is_taken_away_again(
    interface: ReceivingInterface, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in a lab, whose processes do not see the kernel's threads; what sockets send is steered all the same."""
    with launcher(monkeypatch, lambda connection: pin_for_lab(connection, tmp_path)):
        found = receive_on([interface], [0])
    assert (found.cpus, found.means) == ((0,), "RPS")
    assert found.reason == "threaded NAPI: no thread of it is seen where Virtoll was started (in a container?)"
    assert read("threaded") == "0"


@as_root
def test_without_a_launcher_there_is_no_thread(interface: ReceivingInterface, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PINNER_VARIABLE, raising=False)
    found = receive_on([interface], [0])
    assert (found.cpus, found.means) == ((0,), "RPS")
    assert found.reason == "threaded NAPI: a kernel thread can be pinned by root alone"
    assert read("threaded") == "0"


@pytest.mark.parametrize(
    ("name", "cpus", "words"),
    [("rcv9", [0], "/sys does not show rcv9"), ("rcv0", [], "nothing is pinned: this host has too few CPUs")],
)
def test_where_it_cannot_be_the_reason_is_told(
    interface: ReceivingInterface, name: str, cpus: list[int], words: str
) -> None:
    del interface
    found = receive_on([ReceivingInterface(name)], cpus)
    assert (found.cpus, found.means) == (None, None)
    assert words in (found.reason or "")
