"""Which CPUs take in what a link carries: the kernel's settings inside a lab, and the thread outside that pins."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.facts import assert_facts

from virtoll.lab.interfaces import receive_offload
from virtoll.lab.priority import HIGHEST
from virtoll.lab.receiving import PINNER_VARIABLE, ReceivingInterface, pin_for_lab, receive_on, steered
from virtoll.lab.state import labs_lock

INSIDE_LAB = "links"
pytestmark = pytest.mark.lab

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


def threaded() -> str:
    return Path("/sys/class/net/rcv0/threaded").read_text(encoding="ascii").strip()


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
def test_an_interface_receives_by_a_pinned_thread(
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
    assert (found.cpus, found.means, found.reason) == ((0,), "threaded NAPI", None)
    assert threaded() == "1"


@as_root
def test_what_servers_and_clients_send_is_steered_for_as_long_as_they_talk(interface: ReceivingInterface) -> None:
    def mask() -> int:
        return int(Path("/sys/class/net/rcv0/queues/rx-0/rps_cpus").read_text(encoding="ascii").replace(",", ""), 16)

    with steered(interface, [0]):
        assert mask() == 1
    assert mask() == 0
    with steered(ReceivingInterface("rcv9"), [0]):  # where there is none, all stays as it was
        assert mask() == 0


@as_root
def test_what_is_refused_at_one_interface_is_taken_back_at_the_others(
    interface: ReceivingInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pins(connection: socket.socket) -> None:
        with connection:
            while connection.recv(100):
                connection.send(b"ok")

    with launcher(monkeypatch, pins):
        found = receive_on([interface, ReceivingInterface("rcv9")], [0])
    assert (found.cpus, found.means) == (None, None)
    assert threaded() == "0"


@as_root
def test_a_thread_that_nobody_can_pin_stays(
    interface: ReceivingInterface, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in a lab, whose processes do not see the kernel's threads."""
    with launcher(monkeypatch, lambda connection: pin_for_lab(connection, tmp_path)):
        found = receive_on([interface], [0])
    assert (found.cpus, found.means) == (None, "threaded NAPI")
    assert_facts(found.reason or "", "thread", "container")
    assert threaded() == "1"


def test_without_a_launcher_its_threads_are_where_the_kernel_puts_them(
    interface: ReceivingInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PINNER_VARIABLE, raising=False)
    found = receive_on([interface], [0])
    assert (found.cpus, found.means) == (None, "threaded NAPI")
    assert_facts(found.reason or "", "kernel thread", "root")
    assert threaded() == "1"


@pytest.mark.parametrize(
    ("name", "cpus", "facts"),
    [("rcv9", [0], ("/sys", "rcv9")), ("rcv0", [], ("pinned", "CPU"))],
)
def test_where_it_is_impossible_the_reason_is_reported(
    interface: ReceivingInterface, name: str, cpus: list[int], facts: tuple[str, ...]
) -> None:
    del interface
    found = receive_on([ReceivingInterface(name)], cpus)
    assert (found.cpus, found.means) == (None, None)
    assert_facts(found.reason or "", *facts)


@as_root
def test_a_launcher_that_answers_too_late_is_not_asked_again(
    interface: ReceivingInterface, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its answer would be taken for that of the next request; and every other lab would wait for its lock."""
    monkeypatch.setattr("virtoll.lab.receiving._ANSWER_SECONDS", 0.05)  # nobody need wait for all ten
    labs = tmp_path / "state" / "labs"
    other = contextlib.ExitStack()
    other.enter_context(labs_lock(labs))
    with launcher(monkeypatch, lambda connection: pin_for_lab(connection, labs)):
        late = receive_on([interface], [0])
        assert (late.cpus, late.means) == (None, None)
        assert_facts(late.reason or "", "threaded NAPI", "0.05 s")
        other.close()
        again = receive_on([interface], [0])
        assert (again.cpus, again.means) == (None, None)
        assert_facts(again.reason or "", "threaded NAPI", "launcher")
    with labs_lock(labs, seconds=0.0):
        pass


@as_root
@pytest.mark.parametrize("are_the_kernels", [True, False])
def test_threads_that_appear_are_pinned_and_come_first_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, are_the_kernels: bool
) -> None:
    """Two programs with the names of such threads: one was there before, the other appears between both requests.

    Any user may give a program such a name: only threads of the kernel's are touched.
    """
    if are_the_kernels:
        # No test has threads of the kernel's: its own process stands for their parent.
        monkeypatch.setattr("virtoll.lab.receiving._KTHREADD", str(os.getpid()))
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    worker = threading.Thread(target=pin_for_lab, args=(theirs, tmp_path))
    worker.start()
    with ours, named("napi/rcv0-1") as before:
        untouched = os.sched_getaffinity(before), os.getpriority(os.PRIO_PROCESS, before)
        ours.send(b"look rcv0")
        assert ours.recv(100) == b"ok"
        with named("napi/rcv0-2") as new:
            ours.send(b"pin 0")
            answer = ours.recv(100)
            now = os.sched_getaffinity(new), os.getpriority(os.PRIO_PROCESS, new)
            assert (answer == b"ok") == are_the_kernels
            assert now == (({0}, HIGHEST) if are_the_kernels else untouched)
        assert (os.sched_getaffinity(before), os.getpriority(os.PRIO_PROCESS, before)) == untouched
    worker.join()


@contextlib.contextmanager
def named(name: str) -> Iterator[int]:
    """A program of this name, which waits until it is no longer needed."""
    work = f"echo {name} > /proc/self/comm; echo there; read end"
    with subprocess.Popen(["sh", "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        yield process.pid
        process.kill()
