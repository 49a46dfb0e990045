"""What is on this machine: processes, namespaces, interfaces, mounts, cgroup folders, files; before and after.

Main types: ``Family`` (a process and all below it, as they were at one moment) and ``Snapshot`` (what the host has).
Everything is read from /proc and /sys. ``frozen`` makes a family stand still, so that a look at it meets it as it was.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from virtoll.lab.disks import DISKS
from virtoll.lab.inside import wait_until, with_descendants
from virtoll.lab.residue import LAB_ID

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
TOKEN = "VIRTOLL_TEST_TOKEN"
END_SECONDS = 180.0
"""For what has been ended to be gone: a bound on a hang, and no expectation of any machine."""
_LAB = re.compile(r"virtoll-[0-9a-f]{12}")
_KINDS = ("net", "mnt", "pid", "ipc", "uts", "user")


@dataclass(frozen=True)
class Process:
    """One process; number and start time together name it for good."""

    pid: int
    started_ticks: int
    parent: int
    argv: tuple[str, ...]

    @property
    def alive(self) -> bool:
        """Whether it is still there, and not only waiting to be reaped."""
        found = read_process(self.pid)
        return found is not None and found.started_ticks == self.started_ticks

    @property
    def inner_pid(self) -> int | None:
        """Its number in its own PID namespace."""
        for line in _text(PROC / str(self.pid) / "status").splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
        return None


ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that end a run in order."""


@dataclass(frozen=True)
class Family:
    """A process and all its descendants; the namespaces that they have and the host does not; their labs' ids."""

    processes: tuple[Process, ...]
    namespaces: frozenset[str]
    interfaces: frozenset[str]
    labs: frozenset[str] = frozenset()

    def find(self, *words: str, inner_pid: int | None = None) -> Process | None:
        """The first process with all these words among its arguments."""
        for process in self.processes:
            if all(word in process.argv for word in words) and inner_pid in (None, process.inner_pid):
                return process
        return None

    def await_end(self) -> None:
        """Until none of them is alive, however long this machine takes to end them."""
        await_ends(self.processes, 600.0)
        alive = [process for process in self.processes if process.alive]
        assert alive == [], "they did not end"


@dataclass(frozen=True)
class Snapshot:
    """The host's own interfaces, mounts and cgroup folders, and the labs' folders on its disk."""

    interfaces: frozenset[str]
    mounts: frozenset[str]
    cgroups: frozenset[str]
    disk: frozenset[str]

    def new_since(self, before: Snapshot) -> list[str]:
        """What is here and was not before."""
        return [
            *(f"interface {name}" for name in sorted(self.interfaces - before.interfaces)),
            *(f"mount {name}" for name in sorted(self.mounts - before.mounts)),
            *(f"cgroup {name}" for name in sorted(self.cgroups - before.cgroups)),
            *(f"on disk {name}" for name in sorted(self.disk - before.disk)),
        ]


def snapshot() -> Snapshot:
    """The host now."""
    mounts = {line.split()[4] for line in _text(PROC / "self" / "mountinfo").splitlines()}
    mounts -= {name for name in mounts if name.startswith("/run/netns/")}  # made by 'ip netns', which is not used here
    folders = {current for current, _, _ in os.walk(CGROUPS)} if CGROUPS.is_dir() else set()
    disk = {str(path) for path in DISKS.iterdir() if LAB_ID.match(path.name)}
    return Snapshot(frozenset(interfaces_of(os.getpid())), frozenset(mounts), frozenset(folders), frozenset(disk))


def family(*pids: int) -> Family:
    """Processes and all below them, with their namespaces and the interfaces in them."""
    children: dict[int, list[Process]] = {}
    for process in processes():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    queue = [root for pid in reversed(pids) if (root := read_process(pid)) is not None]
    while queue:
        process = queue.pop()
        if process in found:
            continue
        found.append(process)
        queue += children.get(process.pid, [])
    own = namespaces_of(os.getpid())
    namespaces = {name for process in found for name in namespaces_of(process.pid)} - own
    interfaces = {name for process in found if namespaces_of(process.pid) - own for name in interfaces_of(process.pid)}
    labs = {lab for process in found for lab in _values(process.pid, "VIRTOLL_LAB")}
    return Family(tuple(found), frozenset(namespaces), frozenset(interfaces - {"lo"}), frozenset(labs))


@contextlib.contextmanager
def frozen(*pids: int) -> Iterator[Family]:
    """Processes and all below them stand still for the block: what is seen, sent and killed meets one moment."""
    seen = freeze(*pids)
    try:
        yield seen
    finally:
        thaw(seen.processes)


def freeze(*pids: int) -> Family:
    """Stop processes and all below them, and look at them once all stand still; ``thaw`` lets them go on."""

    def still() -> bool:
        everyone = with_descendants(pids)
        # Who starts a program by vfork(2) can be stopped only once the child executes it: that one must go on.
        waiting = {pid for pid in everyone if "D" in _states(pid)}
        children = set(with_descendants(list(waiting))) - waiting
        moving = [pid for pid in everyone if pid in waiting or pid in children or not _stands_still(pid)]
        for pid in moving:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT if pid in children else signal.SIGSTOP)
        return not moving

    wait_until(still, END_SECONDS, "that all processes stand still")
    return family(*pids)


def thaw(processes: Sequence[Process]) -> None:
    """Let them go on, those below before those above, of which some stop when what they wait for stands still."""
    for process in reversed(processes):
        if process.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)


def is_pending(process: Process, number: int) -> bool:
    """Whether a signal has been sent to a process that has not taken it yet: one that stands still takes none."""
    return number in _signals(process, "SigPnd") | _signals(process, "ShdPnd")


def ignores(process: Process, number: int) -> bool:
    """Whether a signal does nothing to a process."""
    return number in _signals(process, "SigIgn")


def _signals(process: Process, mask: str) -> set[int]:
    """The signals of one of the masks in ``/proc/PID/status``."""
    for line in _text(PROC / str(process.pid) / "status").splitlines():
        name, _, bits = line.partition(":")
        if name == mask:
            return {number for number in range(1, signal.NSIG) if int(bits, 16) >> (number - 1) & 1}
    return set()


def held(pid: int) -> list[str]:
    """What a process's descriptors are of: paths, or the kernel's words such as ``socket:[23]``."""
    found = []
    with contextlib.suppress(OSError):
        for descriptor in (PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                found.append(str(descriptor.readlink()))
    return found


def sleeps(pid: int) -> bool:
    """Whether a process waits for something."""
    return _text(PROC / str(pid) / "stat").rpartition(")")[2].split()[:1] == ["S"]


def _stands_still(pid: int) -> bool:
    """Whether every thread of a process has stopped, or the process has ended."""
    return all(state in "TtZX" for state in _states(pid))


def _states(pid: int) -> list[str]:
    """What each thread of a process does, in the kernel's letters; none if the process has ended."""
    threads: list[Path] = []
    with contextlib.suppress(OSError):  # it ends while it is read
        threads += (PROC / str(pid) / "task").iterdir()
    states = [_text(thread / "stat").rpartition(")")[2].split()[:1] for thread in threads]
    return [state[0] for state in states if state]


def processes() -> list[Process]:
    """Every process that is not a zombie."""
    found = (read_process(int(entry.name)) for entry in PROC.iterdir() if entry.name.isdigit())
    return [process for process in found if process is not None]


def read_process(pid: int) -> Process | None:
    """A process by its number; None when it is gone or a zombie."""
    _, _, rest = _text(PROC / str(pid) / "stat").rpartition(")")
    words = rest.split()
    if len(words) < 20 or words[0] in "ZX":
        return None
    argv = _bytes(PROC / str(pid) / "cmdline").split(b"\0")
    return Process(pid, int(words[19]), int(words[1]), tuple(word.decode(errors="replace") for word in argv))


def namespaces_of(pid: int) -> frozenset[str]:
    """The names of a process's namespaces, such as ``net:[4026531840]``."""
    found = set()
    for kind in _KINDS:
        with contextlib.suppress(OSError):
            found.add(str((PROC / str(pid) / "ns" / kind).readlink()))
    return frozenset(found)


def left_of(gone: Family, token: str) -> list[str]:
    """What is still there of a family: its processes, others with its token, orphans in its namespaces.

    The kernel gives a namespace's number anew once it is free, so a process whose parents live is somebody else's:
    what a family leaves has lost them, and hangs below process 1.
    """
    left = []
    known = {(process.pid, process.started_ticks) for process in gone.processes}
    for process in processes():
        orphaned = process.parent in {1, *(pid for pid, _ in known)}
        inside = namespaces_of(process.pid) & gone.namespaces if orphaned else frozenset()
        marked = _values(process.pid, TOKEN)
        others = (marked and token not in marked) or _values(process.pid, "VIRTOLL_LAB") - gone.labs
        if (process.pid, process.started_ticks) in known or token in marked or (inside and not others):
            left.append(f"process {process.pid} {' '.join(process.argv)[:120]} {sorted(inside)}")
    return left


def living_labs() -> set[str]:
    """The ids of all labs that live now, whoever's they are."""
    return {lab for process in processes() for lab in _values(process.pid, "VIRTOLL_LAB")}


def marked_by(token: str) -> list[Process]:
    """The processes that were started with this token."""
    return [process for process in processes() if token in _values(process.pid, TOKEN)]


def lab_in(name: str) -> str | None:
    """The lab whose id is in the name of a folder or a mount."""
    found = _LAB.search(name)
    return found.group() if found else None


def files_below(folders: Iterable[Path]) -> set[str]:
    """Every file and folder below these."""
    return {str(Path(current) / name) for top in folders for current, ds, fs in os.walk(top) for name in (*ds, *fs)}


def sockets_outside(of: Family) -> list[str]:
    """Sockets of the host's own network (TCP, UDP, raw, packet, listening UNIX) that a family holds."""
    names = {Path(name).name for process in of.processes for name in held(process.pid)}
    sockets = {name for name in names if name.startswith("socket:[")}  # /dev/pts/0 is none with the number 0
    inodes = {name.removeprefix("socket:[").removesuffix("]") for name in sockets}
    found = []
    for table, column in (("tcp", 9), ("tcp6", 9), ("udp", 9), ("udp6", 9), ("raw", 9), ("raw6", 9), ("packet", 8)):
        rows = [line.split() for line in _text(PROC / "net" / table).splitlines()[1:]]
        found += [f"{table} {row}" for row in rows if len(row) > column and row[column] in inodes]
    for line in _text(PROC / "net" / "unix").splitlines()[1:]:
        row = line.split()
        if int(row[3], 16) & 0x10000 and row[6] in inodes:
            found.append(f"unix {row}")
    return found


def await_ends(processes: Iterable[Process], deadline_seconds: float = END_SECONDS) -> None:
    """Until the kernel says that none of these is alive, or the deadline has passed."""
    deadline = time.monotonic() + deadline_seconds
    for process in processes:
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            continue
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        if process.alive:
            waiting.poll(1000 * max(0.0, deadline - time.monotonic()))
        os.close(descriptor)


def poll_until_empty(look: Callable[[], list[str]], deadline_seconds: float = END_SECONDS) -> tuple[list[str], float]:
    """Look until nothing is found or the deadline has passed: what is left, and how long it took in seconds.

    For what gives no event. A look costs more than a short pause, so that each pause is longer than the one before.
    """
    started, pause_seconds = time.monotonic(), 0.01
    while (left := look()) and time.monotonic() - started < deadline_seconds:
        time.sleep(pause_seconds)
        pause_seconds = min(2 * pause_seconds, 0.3)
    return left, time.monotonic() - started


def await_state(condition: Callable[[], bool], awaited: str, deadline_seconds: float = END_SECONDS) -> None:
    """Look in the same way until a condition holds."""
    left, _ = poll_until_empty(lambda: [] if condition() else [awaited], deadline_seconds)
    assert left == [], f"within {deadline_seconds:g} s this did not come"


def interfaces() -> set[str]:
    """The names of those in the network of this process: in a lab, the lab's."""
    return interfaces_of(os.getpid())


def interfaces_of(pid: int) -> set[str]:
    """The names of those in the network of a process."""
    return {line.partition(":")[0].strip() for line in _text(PROC / str(pid) / "net" / "dev").splitlines()[2:]}


def _values(pid: int, variable: str) -> set[str]:
    """What a process was given as this environment variable: one value or none."""
    settings = _bytes(PROC / str(pid) / "environ").decode(errors="replace").split("\0")
    return {value for name, _, value in (setting.partition("=") for setting in settings) if name == variable}


def _text(path: Path) -> str:
    return _bytes(path).decode(errors="replace")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def why_not_pinned(*, root: bool) -> str | None:
    """What a record says where the kernel's threads cannot be pinned; None where they can.

    In a PID namespace of its own, as in a container or in the minimal Debian of `make test-fresh`, root sees none.
    """
    if not root:
        return "a kernel thread can be pinned by root alone"
    if _text(PROC / "2" / "comm") == "kthreadd\n":
        return None
    return "no thread of it is seen where Virtoll was started (in a container?)"
