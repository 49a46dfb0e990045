"""Which CPUs take in what a link carries: for its lab's interface, the guest's.

A veth works what it receives off in softirq, on the CPU of whoever sent it. So the generator's core would do the work
of a router that is the host's kernel. *Threaded NAPI* (``/sys/class/net/IF/threaded``) hands the interface's queue, and
all that follows, to a kernel thread. What the generator's socket sends waits in that queue too, because the agent
switches TCP segmentation off where it sends (``crates/agent/src/traffic/queued.rs``). What servers and clients send
waits in the sender's backlog instead, and is steered to other CPUs for as long as they talk (``steered``).

The lab does not see the kernel's threads, because it has a PID namespace of its own. So a thread of the launcher,
outside, finds and pins them (``pin_for_lab``). Only root may: without it the threads work where the kernel puts them.
All of it belongs to the interface and goes with it. Main types: ``ReceivingCpus`` (what was reached),
``ReceivingInterface``. It must not know what a guest or a link is: that is ``network.py``.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from virtoll.errors import VirtollError
from virtoll.lab.priority import HIGHEST
from virtoll.lab.state import labs_lock

PINNER_VARIABLE = "VIRTOLL_PINNER"  # the number of a descriptor that leads to ``pin_for_lab``, inside the lab
_ANSWER_BYTES = 4096
_ANSWER_SECONDS = 10.0
_VIEWS = Path("/run/virtoll/sys")
_KTHREADD = "2"  # the parent of all threads of the kernel but itself

Means = Literal["threaded NAPI"]


@dataclass(frozen=True)
class ReceivingInterface:
    """An interface of this namespace, or of that of the process ``pid``."""

    name: str
    pid: int | None = None


@dataclass(frozen=True)
class ReceivingCpus:
    """The CPUs that work off what interfaces receive, and by what means.

    No CPUs, for this ``reason``: those of the kernel's choice where there are ``means``, without them the sender's.
    """

    cpus: tuple[int, ...] | None
    means: Means | None = None
    reason: str | None = None


def receive_on(interfaces: Sequence[ReceivingInterface], cpus: Sequence[int]) -> ReceivingCpus:
    """Have these interfaces receive by threads on these CPUs; what is refused is in the reason.

    Threads that cannot be pinned stay, and work where the kernel puts them. An interface that may have none leaves all
    of them to the sender. They must be switched on, with NAPI (``receive_offload``).
    """
    if not cpus:
        return ReceivingCpus(None, reason="the guest is pinned to no CPU")
    unpinned = None
    try:
        for interface in interfaces:
            with _settings(interface) as folder:
                unpinned = _start_threads(folder, interface.name, cpus) or unpinned
    except (OSError, subprocess.SubprocessError) as error:
        _end_threads(interfaces)
        return ReceivingCpus(None, reason=f"threaded NAPI: {_said(error)}")
    return ReceivingCpus(None if unpinned else tuple(cpus), "threaded NAPI", unpinned)


def _start_threads(folder: Path, name: str, cpus: Sequence[int]) -> str | None:
    """Threads for the interface's queues; why they could not be pinned, or None."""
    switch = folder / "threaded"
    descriptor = os.environ.get(PINNER_VARIABLE)
    if descriptor is None:
        switch.write_text("1", encoding="ascii")
        return "a kernel thread can be pinned by root alone"
    with socket.socket(fileno=os.dup(int(descriptor))) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        _ask(connection, f"look {name}")
        try:
            switch.write_text("1", encoding="ascii")
        except OSError:
            connection.send(b"leave")
            raise
        try:
            _ask(connection, f"pin {','.join(map(str, cpus))}")
        except OSError as error:
            return _said(error)
    return None


@contextlib.contextmanager
def steered(interface: ReceivingInterface, cpus: Sequence[int]) -> Iterator[None]:
    """What waits in a sender's backlog for this interface is received on these CPUs: receive packet steering.

    A TCP or UDP socket's segments do so. A router's frames do not: for them it would be one more queue, which cost 20 %
    of the host's rate. Where the kernel refuses, they stay with the sender.
    """
    try:
        _steer(interface, cpus)
        yield
    finally:
        _steer(interface, ())


def _steer(interface: ReceivingInterface, cpus: Sequence[int]) -> None:
    mask = sum(1 << cpu for cpu in cpus)
    words = [f"{mask >> shift & 0xFFFFFFFF:x}" for shift in range(0, max(mask.bit_length(), 1), 32)]
    with contextlib.suppress(OSError, subprocess.SubprocessError), _settings(interface) as folder:
        for queue in folder.glob("queues/rx-*/rps_cpus"):
            queue.write_text(",".join(reversed(words)), encoding="ascii")


def _said(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _end_threads(interfaces: Sequence[ReceivingInterface]) -> None:
    for interface in interfaces:
        with contextlib.suppress(OSError, subprocess.SubprocessError), _settings(interface) as folder:
            (folder / "threaded").write_text("0", encoding="ascii")


@contextlib.contextmanager
def _settings(interface: ReceivingInterface) -> Iterator[Path]:
    """The interface's folder below /sys/class/net, which shows the namespace of whoever mounted it."""
    if interface.pid is None:
        yield _there(Path("/sys/class/net", interface.name))
        return
    view = _VIEWS / str(interface.pid)
    view.mkdir(parents=True, exist_ok=True)
    enter = ["nsenter", f"--net=/proc/{interface.pid}/ns/net", "--"]
    subprocess.run([*enter, "mount", "-t", "sysfs", "sysfs", str(view)], check=True, capture_output=True)
    try:
        yield _there(view / "class/net" / interface.name)
    finally:
        subprocess.run(["umount", str(view)], check=True, capture_output=True)


def _there(folder: Path) -> Path:
    if not folder.is_dir():
        raise OSError(0, f"/sys does not show {folder.name} (this kernel refuses the lab a /sys of its own)")
    return folder


def _ask(connection: socket.socket, request: str) -> None:
    try:
        connection.send(request.encode())
        refused = connection.recv(_ANSWER_BYTES).decode()
    except TimeoutError:
        # An answer that comes later would be taken for that of the next request; the launcher gives up its lock.
        connection.shutdown(socket.SHUT_RDWR)
        raise OSError(0, f"the launcher did not answer within {_ANSWER_SECONDS:g} s") from None
    except ConnectionError:
        raise OSError(0, "the launcher has ended, or is not asked any more") from None
    if refused != "ok":
        raise OSError(0, refused or "the launcher has ended")


def pin_for_lab(connection: socket.socket, labs: Path) -> None:
    """Outside the lab: find the threads that the lab starts between ``look`` and ``pin``, and pin them. Ends with it.

    In between the lock that all labs of this state folder share is held: another lab's interface may have the same
    name. The lab can move nothing else than threads that receive and that are younger than its own request.
    """
    with connection, contextlib.suppress(ConnectionError):  # the lab asks no more
        while request := connection.recv(_ANSWER_BYTES).decode():
            _, _, name = request.partition("look ")
            try:
                with labs_lock(labs):
                    before = napi_threads(name)
                    connection.send(b"ok")
                    _, pin, cpus = connection.recv(_ANSWER_BYTES).decode().partition("pin ")
                    if pin:
                        connection.send(_pin(napi_threads(name) - before, cpus).encode())
            except VirtollError as error:
                connection.send(str(error).encode()[:_ANSWER_BYTES])


def _pin(threads: set[int], cpus: str) -> str:
    if not threads:
        return "no thread of it is seen where Virtoll was started (in a container?)"
    try:
        for thread in threads:
            os.sched_setaffinity(thread, {int(cpu) for cpu in cpus.split(",")})
            # As the softirq whose work it does, and no later than a guest that boots on the same CPU.
            os.setpriority(os.PRIO_PROCESS, thread, HIGHEST)
    except OSError as error:
        return f"its thread could not be pinned ({error.strerror})"
    return "ok"


def napi_threads(name: str) -> set[int]:
    """The kernel's threads that receive for interfaces of this name, in any namespace (``napi/NAME-NUMBER``).

    Any process may give itself such a name; only the kernel's threads have kthreadd as their parent.
    """
    threads = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                head, _, tail = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
                if head.partition("(")[2].startswith(f"napi/{name}-") and tail.split()[1] == _KTHREADD:
                    threads.add(int(entry.name))
    return threads
