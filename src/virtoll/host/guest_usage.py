"""What a guest costs the host, read from the host's own /proc: processes, memory, page tables, CPU time.

Main types: ``GuestProcesses`` (which processes are a guest's), ``Footprint`` (memory at one moment) and ``HostView``
(what the host says of itself and of the limits on a guest); readings of processes are the run folder's records. Raw
readings only: differences and shares are made by ``stats/guests.py``. Nothing of it is read while a trial is timed.

A guest's processes are the one that was started, with all below it. Where an engine started what runs inside, they are
also that one with all below it, and its ancestors. These end at a process that serves several guests (a daemon, which
is named by itself) or that is not the guest's. Work that the kernel does for a guest in other tasks' time (softirq,
kernel threads) is in none of these figures.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from virtoll.lab.cgroups import Limits, charged_memory_bytes, limits_of
from virtoll.runfolder.guest_records import CpuReading, CpuSpan, HostCpu, HostProcess, ProcessMemory, ProcessTime

PROC = Path("/proc")
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_SCHEDULER_CLOCK = 2  # CPUCLOCK_SCHED: what a process has run, in nanoseconds (linux/posix-timers.h)
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
_ROLLUP = {
    "Rss": "rss_bytes",
    "Pss": "pss_bytes",
    "Pss_Anon": "pss_anonymous_bytes",
    "Pss_File": "pss_file_bytes",
    "Pss_Shmem": "pss_shared_bytes",
    "SwapPss": "swap_pss_bytes",
}


@dataclass(frozen=True)
class GuestProcesses:
    """Where a guest's processes are found: ``started`` by the driver, ``inner`` what an engine started inside.

    ``shared`` are processes that serve several guests, by what they are called; ``folder`` holds the guest's files in
    the lab's memory file system.
    """

    started: int
    inner: int | None = None
    shared: tuple[tuple[str, int], ...] = ()
    folder: Path | None = None


@dataclass(frozen=True)
class Footprint:
    """What a guest holds of the host's memory at one moment.

    ``charged_bytes``: what its cgroup below the lab's is charged, page cache and the kernel's own included; ``files``:
    what its folder takes in the lab's memory file system. ``shared`` holds the processes that it shares with others.
    """

    monotonic_ns: int
    processes: tuple[ProcessMemory, ...]
    shared: dict[str, tuple[ProcessMemory, ...]]
    charged_bytes: int | None
    files_bytes: int | None

    def held_bytes(self) -> int | None:
        """PSS and page tables of the guest's own processes together; None where one of them cannot be read."""
        parts = [part for process in self.processes for part in (process.pss_bytes, process.page_tables_bytes)]
        known = [part for part in parts if part is not None]
        return sum(known) if known and len(known) == len(parts) else None


@dataclass(frozen=True)
class HostView:
    """What the host says: its own boot, its memory in bytes, and the limits on the guest's process from outside.

    ``process``: what that process is on the host; None where the guest has none here.
    """

    boot_id: str | None = None
    memory_total_bytes: int | None = None
    limits: Limits = field(default_factory=Limits)
    process: HostProcess | None = None


def view_of_host(guest: GuestProcesses | None) -> HostView:
    """The host now; without limits where the guest has no process here."""
    boot = _text(PROC / "sys/kernel/random/boot_id").strip() or None
    limits, process = Limits(), None
    if guest is not None:
        innermost = _Tree.read().innermost(guest)
        if innermost is not None:
            limits = limits_of(_text(PROC / str(innermost) / "cgroup"))
            process = process_on_host(innermost)
    return HostView(boot, _kilobytes(PROC / "meminfo").get("MemTotal"), limits, process)


def process_on_host(pid: int) -> HostProcess | None:
    """What a process may do on this host, by the kernel's own account; None when it is gone."""
    rows = (line.partition(":") for line in _text(PROC / str(pid) / "status").splitlines())
    status = {name: value.split() for name, _, value in rows}
    if not {"Uid", "CapEff", "CapBnd"} <= status.keys():
        return None
    namespaces = [kind for kind in _NAMESPACES if _namespace(str(pid), kind) not in (None, _namespace("self", kind))]
    seccomp, barred = status.get("Seccomp"), status.get("NoNewPrivs")
    return HostProcess(
        name=" ".join(status["Name"]),
        user=int(status["Uid"][1]),
        capabilities_hex=status["CapEff"][0],
        capabilities_bounding_hex=status["CapBnd"][0],
        seccomp_mode=int(seccomp[0]) if seccomp else None,
        no_new_privileges=barred[0] == "1" if barred else None,
        own_namespaces=tuple(namespaces),
        network_namespace=_namespace(str(pid), "net"),
    )


def _namespace(process: str, kind: str) -> str | None:
    try:
        return (PROC / process / "ns" / kind).readlink().name
    except OSError:
        return None


def available_bytes() -> int | None:
    """Memory that this process may still take: what the host has available, or less where its cgroups are bounded."""
    memory, memberships = _kilobytes(PROC / "meminfo"), _text(PROC / "self/cgroup")
    left = [memory["MemAvailable"]] if "MemAvailable" in memory else []
    limit, used = limits_of(memberships).memory_bytes, charged_memory_bytes(memberships)
    return min([*left, *([limit - used] if limit is not None and used is not None else [])], default=None)


def swapped_out_pages() -> int | None:
    """Pages that the host has written to swap since its boot."""
    rows = (line.split() for line in _text(PROC / "vmstat").splitlines())
    return next((int(row[1]) for row in rows if row[:1] == ["pswpout"]), None)


@dataclass
class CpuAround:
    """What `cpu_around` gives: readings before and after, the second when its context has come to an orderly end."""

    guest: GuestProcesses
    used: HostCpu

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """Around one request whose answer is what is measured; kept after an orderly end only."""
        before = read_cpu(self.guest)
        yield
        span = CpuSpan(before, read_cpu(self.guest))
        self.used = self.used.replace(measured=(*self.used.measured, span))


@contextlib.contextmanager
def cpu_around(guest: GuestProcesses | None) -> Iterator[CpuAround | None]:
    """CPU time before and after what happens in the context; ``after`` stays None where that fails."""
    if guest is None:
        yield None
        return
    around = CpuAround(guest, HostCpu(read_cpu(guest), None))
    yield around
    around.used = around.used.replace(after=read_cpu(guest))


def read_footprint(guest: GuestProcesses, lab_cgroup: str | None = None) -> Footprint:
    """The guest's memory now; ``lab_cgroup`` is the folder below which the lab's cgroups are, where it has any."""
    tree = _Tree.read()
    pids = tree.family(guest)
    return Footprint(
        monotonic_ns=time.monotonic_ns(),
        processes=tuple(_memory(pid, tree.names[pid]) for pid in pids),
        shared={
            name: tuple(_memory(child, tree.names[child]) for child in tree.below(pid, set(pids)))
            for name, pid in guest.shared
        },
        charged_bytes=_charged(tree.innermost(guest), lab_cgroup),
        files_bytes=_allocated_bytes(guest.folder) if guest.folder is not None else None,
    )


def read_cpu(guest: GuestProcesses) -> CpuReading:
    """The guest's CPU time so far."""
    tree = _Tree.read()
    pids = tree.family(guest)
    return CpuReading(
        monotonic_ns=time.monotonic_ns(),
        processes=_times(pids),
        shared={name: _times(tree.below(pid, set(pids))) for name, pid in guest.shared},
    )


def pids_of(guest: GuestProcesses) -> tuple[int, ...]:
    """The guest's processes now, and those that it shares with others."""
    tree = _Tree.read()
    pids = tree.family(guest)
    return tuple(dict.fromkeys([*pids, *(child for _, pid in guest.shared for child in tree.below(pid, set(pids)))]))


@dataclass(frozen=True)
class _Tree:
    """Every process that can be seen: its parent, its name."""

    parents: dict[int, int]
    names: dict[int, str]

    @classmethod
    def read(cls) -> _Tree:
        parents, names = {}, {}
        for entry in PROC.iterdir():
            if entry.name.isdigit() and (stat := _stat(int(entry.name))) is not None:
                name, words = stat
                if words[0] not in "ZX":
                    parents[int(entry.name)], names[int(entry.name)] = int(words[1]), name
        return cls(parents, names)

    def family(self, guest: GuestProcesses) -> list[int]:
        """The guest's processes, in the order found; ancestors of what runs inside end at what is not the guest's."""
        others = {1, os.getpid(), *(pid for _, pid in guest.shared)}
        roots = [guest.started]
        if guest.inner is not None:
            roots.append(guest.inner)
            above = self.parents.get(guest.inner)
            while above is not None and above not in others and above in self.parents and above not in roots:
                roots.append(above)
                above = self.parents.get(above)
        shared = {pid for _, pid in guest.shared}
        return list(dict.fromkeys(pid for root in reversed(roots) for pid in self.below(root, shared)))

    def innermost(self, guest: GuestProcesses) -> int | None:
        """What runs inside, or else the deepest below what was started: it is in the guest's own cgroup."""
        if guest.inner in self.parents:
            return guest.inner
        return next(reversed(self.below(guest.started, set())), None)

    def below(self, root: int, without: set[int]) -> list[int]:
        """A process and all below it, without some and what is below those."""
        pids, queue = [], [root] if root in self.parents else []
        while queue:
            pid = queue.pop(0)
            if pid not in without and pid not in pids:
                pids.append(pid)
                queue += [child for child, parent in self.parents.items() if parent == pid]
        return pids


def _stat(pid: int) -> tuple[str, list[str]] | None:
    """A process's name and what follows it in its ``stat``, from the state on (proc(5)); None when it is gone."""
    head, _, rest = _text(PROC / str(pid) / "stat").rpartition(")")
    return (head.partition("(")[2], rest.split()) if rest else None


def _memory(pid: int, name: str) -> ProcessMemory:
    rollup = _kilobytes(PROC / str(pid) / "smaps_rollup")
    status = _kilobytes(PROC / str(pid) / "status")
    words = (_stat(pid) or ("", []))[1]
    return ProcessMemory(
        pid=pid,
        name=name,
        threads=int(words[17]) if len(words) > 17 else None,
        page_tables_bytes=status.get("VmPTE"),
        **{field: rollup.get(key) for key, field in _ROLLUP.items()},
    )


def _times(pids: Sequence[int]) -> tuple[ProcessTime, ...]:
    times = []
    for pid in pids:
        read = _stat(pid)
        if read is None or len(read[1]) < 20:
            continue
        name, words = read
        user, system, children_user, children_system = (int(word) * _TICK_NS for word in words[11:15])
        times.append(
            ProcessTime(
                pid=pid,
                started_ticks=int(words[19]),
                name=name,
                cpu_ns=ran_ns(pid),
                user_ns=user,
                system_ns=system,
                children_user_ns=children_user,
                children_system_ns=children_system,
            )
        )
    return tuple(times)


def ran_ns(pid: int) -> int | None:
    """What all threads of a process have run, those that ended included; clock_getcpuclockid(3) gives this clock."""
    try:
        return time.clock_gettime_ns((~pid << 3) | _SCHEDULER_CLOCK)
    except OSError:
        return None


def _charged(pid: int | None, lab_cgroup: str | None) -> int | None:
    if pid is None or lab_cgroup is None:
        return None
    return charged_memory_bytes(_text(PROC / str(pid) / "cgroup"), lab_cgroup)


def _allocated_bytes(folder: Path) -> int:
    """What a folder's files take, without what is mounted below it."""
    total, device = 0, None
    for current, folders, files in os.walk(folder):
        with contextlib.suppress(OSError):
            here = Path(current).stat().st_dev
            device = here if device is None else device
            if here != device:
                folders.clear()
                continue
        for name in files:
            with contextlib.suppress(OSError):
                total += (Path(current) / name).lstat().st_blocks * 512
    return total


def _kilobytes(path: Path) -> dict[str, int]:
    """The ``Name: number kB`` lines of a file, in bytes; empty where it may not be read."""
    rows = (line.split() for line in _text(path).splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) == 3 and row[2] == "kB"}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
