"""Which CPUs take in what a link carries: for its lab's interface, the guest's.

A veth works what it receives off in softirq, on the CPU of whoever sent it. So the generator's core would do the work
of a router that is the host's kernel. There are two ways to the stack, and each has its own means:

- frames of an XDP program wait in the interface's queue. *Threaded NAPI* (``/sys/class/net/IF/threaded``) hands the
  queue, and all that follows, to a kernel thread. The lab does not see the kernel's threads, because it has a PID
  namespace of its own. So a thread of the launcher, outside, finds and pins them (``pin_for_lab``);
- frames of a socket wait in the sender's backlog. *Receive packet steering* (``rps_cpus``) chooses another CPU's.

One of them alone would leave a part of the work, or one kind of sender, to the sender's CPU: it is both or none. Both
belong to the interface and go with it. Main types: ``ReceivingCpus`` (what was reached), ``ReceivingInterface``.
It must not know what a guest or a link is: that is ``network.py``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from virtoll.lab.priority import HIGHEST

PINNER_VARIABLE = "VIRTOLL_PINNER"  # the number of a descriptor that leads to ``pin_for_lab``, inside the lab
_ANSWER_BYTES = 4096
_ANSWER_SECONDS = 10.0
_VIEWS = Path("/run/virtoll/sys")

Means = Literal["threaded NAPI and RPS"]


@dataclass(frozen=True)
class ReceivingInterface:
    """An interface of this namespace, or of that of the process ``pid``."""

    name: str
    pid: int | None = None


@dataclass(frozen=True)
class ReceivingCpus:
    """The CPUs that work off what interfaces receive, and by what means; None where it was left to the sender's, for
    this ``reason``.
    """

    cpus: tuple[int, ...] | None
    means: Means | None = None
    reason: str | None = None


def receive_on(interfaces: Sequence[ReceivingInterface], cpus: Sequence[int]) -> ReceivingCpus:
    """Have these interfaces receive on these CPUs; what is refused is in the reason, and leaves them as they were.

    They must be switched on, with NAPI (``receive_offload``).
    """
    if not cpus:
        return ReceivingCpus(None, reason="nothing is pinned: this host has too few CPUs")
    for means, setting in (
        ("threaded NAPI", lambda folder, name: _start_threads(folder, name, cpus)),
        ("RPS", lambda folder, _: _steer(folder, cpus)),
    ):
        if refused := _refused(means, interfaces, setting):
            for undo in (lambda folder, _: _end_threads(folder), lambda folder, _: _steer(folder, ())):
                _refused(means, interfaces, undo)
            return ReceivingCpus(None, reason=refused)
    return ReceivingCpus(tuple(cpus), "threaded NAPI and RPS")


def _refused(means: str, interfaces: Sequence[ReceivingInterface], setting: Callable[[Path, str], None]) -> str | None:
    """Set it on each interface, by the folder of its settings and its name; what was refused, or None."""
    try:
        for interface in interfaces:
            with _settings(interface) as folder:
                setting(folder, interface.name)
    except (OSError, subprocess.SubprocessError) as error:
        said = error.strerror if isinstance(error, OSError) else None
        return f"{means}: {said or error}"
    return None


def _start_threads(folder: Path, name: str, cpus: Sequence[int]) -> None:
    """Threads for the interface's queues, pinned; without the pinning it has none again."""
    connection = _pinner()
    switch = folder / "threaded"
    with connection:
        _ask(connection, f"look {name}")
        try:
            switch.write_text("1", encoding="ascii")
        except OSError:
            connection.send(b"leave")
            raise
        try:
            _ask(connection, f"pin {','.join(map(str, cpus))}")
        except OSError:
            switch.write_text("0", encoding="ascii")
            raise


def _end_threads(folder: Path) -> None:
    if (folder / "threaded").read_text(encoding="ascii").strip() != "0":
        (folder / "threaded").write_text("0", encoding="ascii")


def _steer(folder: Path, cpus: Sequence[int]) -> None:
    mask = sum(1 << cpu for cpu in cpus)
    words = [f"{mask >> shift & 0xFFFFFFFF:x}" for shift in range(0, max(mask.bit_length(), 1), 32)]
    queues = sorted(folder.glob("queues/rx-*/rps_cpus"))
    if not queues:
        raise OSError(0, "this kernel has no rps_cpus")
    for queue in queues:
        queue.write_text(",".join(reversed(words)), encoding="ascii")


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


def _pinner() -> socket.socket:
    given = os.environ.get(PINNER_VARIABLE)
    if given is None:
        raise OSError(0, "a kernel thread can be pinned by root alone")
    connection = socket.socket(fileno=os.dup(int(given)))
    connection.settimeout(_ANSWER_SECONDS)
    return connection


def _ask(connection: socket.socket, request: str) -> None:
    connection.send(request.encode())
    refused = connection.recv(_ANSWER_BYTES).decode()
    if refused != "ok":
        raise OSError(0, refused or "the launcher has ended")


def pin_for_lab(connection: socket.socket, lock: Path) -> None:
    """Outside the lab: find the threads that the lab starts between ``look`` and ``pin``, and pin them. Ends with it.

    In between ``lock``, a folder that all labs of this host share, is held: another lab's interface may have the same
    name. The lab can move nothing else than threads that receive and that are younger than its own request.
    """
    with connection:
        while request := connection.recv(_ANSWER_BYTES).decode():
            _, _, name = request.partition("look ")
            descriptor = os.open(lock, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                before = napi_threads(name)
                connection.send(b"ok")
                _, pin, cpus = connection.recv(_ANSWER_BYTES).decode().partition("pin ")
                if pin:
                    connection.send(_pin(napi_threads(name) - before, cpus).encode())
            finally:
                os.close(descriptor)


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
    """The kernel's threads that receive for interfaces of this name, in any namespace (``napi/NAME-NUMBER``)."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "comm").read_text(encoding="utf-8", errors="replace").startswith(f"napi/{name}-"):
                    found.add(int(entry.name))
    return found
