"""Limits on what runs below this host's own kernel: one cgroup folder a guest, below the lab's, in each hierarchy.

Main types: ``Layout`` (which hierarchy holds which controller on this host: v1, v2 or both), ``Limits`` (what is asked)
and ``Group`` (one guest's folders: join, read, remove). ``read_back`` says what the kernel holds of what was asked.
Sources: the kernel's ``cgroup-v1/`` and ``cgroup-v2.rst``.
It must not know platforms, and never freezes. What the v1 freezer holds cannot be killed, and would outlive a lab that
ends by kill -9. What it makes goes with the lab's folder (``residue``) when nobody removes it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from virtoll.errors import GuestError
from virtoll.lab import residue

_PERIOD_MICROSECONDS = 100_000
_CONTROLLERS = ("memory", "cpu", "cpuset", "cpuacct")  # of every guest's group
_EVERY_CONTROLLER = (*_CONTROLLERS, "io")
_V1_NAMES = {"io": "blkio"}
_BY_DISK = ("io.max", "blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device")  # a line for each disk
_REMOVE_SECONDS = 60.0
_NO_LIMIT_FROM = 2**62  # v1 writes "no limit" as the largest number of whole pages


@dataclass(frozen=True)
class DiskRate:
    """Bytes per second that are read from a disk at most, and as many written; ``device``: its number, as ``8:0``."""

    device: str
    bytes_per_second: int


@dataclass(frozen=True)
class Limits:
    """Memory in bytes, CPU time per wall time in CPUs (0.2: a fifth of one), host CPUs; None or empty: no limit.

    ``cpu_period_microseconds``: over which the CPU time is counted. ``cpu_weight``: by which the group shares a CPU
    with its neighbours, as cgroup v2 counts it (1 to 10000, 100 by default).
    """

    memory_bytes: int | None = None
    cpu_quota: float | None = None
    cpus: tuple[int, ...] = ()
    cpu_period_microseconds: int = _PERIOD_MICROSECONDS
    cpu_weight: int | None = None
    disk: DiskRate | None = None

    @property
    def cpu_shares(self) -> int | None:
        """The weight as cgroup v1 counts it (``cpu.shares``, 1024 by default; the kernel's least is 2)."""
        return None if self.cpu_weight is None else max(2, round(self.cpu_weight * 1024 / 100))

    @property
    def any(self) -> bool:
        """Whether more is limited than which CPUs are used."""
        limits = (self.memory_bytes, self.cpu_quota, self.cpu_weight, self.disk)
        return not all(limit is None for limit in limits)


@dataclass(frozen=True)
class Layout:
    """Where each controller is: the root folder of its hierarchy. ``unified`` is cgroup v2's, where it is mounted.

    ``others``: hierarchies without limits of ours, by name. A guest is in a group there too. Container managers (LXC,
    systemd-nspawn) make groups of their own below their first one, in every hierarchy.
    """

    controllers: Mapping[str, Path]
    unified: Path | None
    others: Mapping[str, Path] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """``v1``, ``v2``, ``hybrid`` (v1's controllers beside a v2 hierarchy) or ``none``."""
        if not self.controllers:
            return "none"
        first = [root for root in self.controllers.values() if root != self.unified]
        if not first:
            return "v2"
        return "hybrid" if self.unified is not None else "v1"

    def is_v2(self, controller: str) -> bool:
        """Whether a controller's files are cgroup v2's."""
        return self.controllers[controller] == self.unified


def detect(root: Path | None = None) -> Layout:
    """Look at what is mounted at ``root`` (/sys/fs/cgroup); raises nothing."""
    root = residue.CGROUP_ROOT if root is None else root
    unified = next((path for path in (root, root / "unified") if (path / "cgroup.controllers").is_file()), None)
    controllers = _offered(unified) if unified is not None else {}
    for name in _EVERY_CONTROLLER:
        mounted_at = root / _V1_NAMES.get(name, name)
        if (mounted_at / "cgroup.procs").is_file():
            controllers[name] = mounted_at
    known = {path.resolve() for path in controllers.values()}
    mounted = [] if unified == root or not root.is_dir() else sorted(path for path in root.iterdir() if path.is_dir())
    others = {path.name: path for path in mounted if _is_hierarchy(path) and path.resolve() not in known}
    return Layout(controllers, unified, others)


def _is_hierarchy(path: Path) -> bool:
    return not path.is_symlink() and (path / "cgroup.procs").is_file()


def _offered(unified: Path) -> dict[str, Path]:
    """The controllers that a hierarchy of v2 offers."""
    try:
        offered = (unified / "cgroup.controllers").read_text(encoding="ascii").split()
    except OSError:
        return {}
    controllers = {name: unified for name in _EVERY_CONTROLLER if name in offered}
    if controllers:  # part of the core of v2, named there by no controller
        controllers["cpuacct"] = unified
    return controllers


@dataclass
class Group:
    """One guest's folders, by controller or, where none of ours is there, by hierarchy; several may share one."""

    name: str
    layout: Layout
    folders: dict[str, Path] = field(default_factory=dict)

    @property
    def process_files(self) -> tuple[Path, ...]:
        """The files that take a process into the group: for ``Enter.cgroups``."""
        return tuple(sorted({folder / "cgroup.procs" for folder in self.folders.values()}))

    def memory_bytes(self) -> int | None:
        """Memory that is charged to the group now; None without the controller."""
        folder = self.folders.get("memory")
        if folder is None:
            return None
        name = "memory.current" if self.layout.is_v2("memory") else "memory.usage_in_bytes"
        return int((folder / name).read_text(encoding="ascii"))

    def remove(self) -> None:
        """Remove the folders and what a container manager made below them, deepest first.

        Who is still in them is killed: a manager that was killed itself leaves its container to nobody. A group empties
        when the kernel has reaped its dead. ``GuestError`` after a minute.
        """
        deadline = time.monotonic() + _REMOVE_SECONDS
        tops = sorted({folder.resolve() for folder in self.folders.values()})
        for folder in (Path(below) for top in tops for below, _, _ in os.walk(top, topdown=False)):
            while folder.is_dir():
                try:
                    folder.rmdir()
                except OSError as error:
                    if time.monotonic() > deadline:
                        raise GuestError(f"cgroup {folder} could not be removed: {error.strerror}") from error
                    _kill_all_in(folder)
                    time.sleep(0.01)  # cgroup v1 gives no event for "group empty"


def _kill_all_in(folder: Path) -> None:
    """kill -9 of a group's processes, as far as they are of this PID namespace: the kernel names others 0."""
    with contextlib.suppress(OSError):
        for pid in {int(line) for line in (folder / "cgroup.procs").read_text(encoding="ascii").split()} - {0}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def charged_memory_bytes(memberships: str, below: str | None = None) -> int | None:
    """What a process's group is charged; ``memberships``: its /proc/PID/cgroup.

    ``below``: only if the group is below one of this name, as a guest's is below its lab's.
    """
    layout = detect()
    folder = folder_of(memberships, "memory", layout)
    if folder is None or (below is not None and Path(below).name not in folder.parent.parts):
        return None
    name = "memory.current" if layout.is_v2("memory") else "memory.usage_in_bytes"
    with contextlib.suppress(OSError, ValueError):
        return int((folder / name).read_text(encoding="ascii"))
    return None


@dataclass(frozen=True)
class MemoryKills:
    """How many processes the kernel had killed for want of memory in the groups of a guest's processes, ``pids``.

    ``counts``: by group, whoever's limit it was, or the whole host's memory. ``shared``: the one among them that this
    process is in too. A machine without limits has no group of its own, and others' processes are killed there.
    """

    pids: tuple[int, ...]
    counts: Mapping[Path, int]
    shared: Path | None

    @classmethod
    def of(cls, pids: Iterable[int]) -> MemoryKills:
        """Without the groups that cannot be told: no controller, or the end of the process or its group."""
        guest_pids, layout = tuple(pids), detect()
        kills: dict[Path, int] = {}
        for pid in guest_pids:
            with contextlib.suppress(GuestError, OSError, ValueError):
                folder = folder_of(memberships_of(pid), "memory", layout)
                if folder is not None and folder not in kills:
                    kills[folder] = _memory_kills_in(folder)
        return cls(guest_pids, kills, folder_of(memberships_of(os.getpid()), "memory", layout))

    def since(self) -> int:
        """How many it has killed since; in the shared group no more than have ended of the guest's processes.

        Of a group that is gone nothing is known.
        """
        killed = 0
        for folder, count in self.counts.items():
            with contextlib.suppress(OSError, ValueError):
                more = _memory_kills_in(folder) - count
                killed += min(more, sum(map(_has_ended, self.pids))) if folder == self.shared else more
        return killed


def _has_ended(pid: int) -> bool:
    """Whether a process is gone, or is a zombie."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True


def _memory_kills_in(folder: Path) -> int:
    """Of v2 before Linux 5.2 also those of the groups below, which v1 and a group's local events have not."""
    names = ("memory.events.local", "memory.events", "memory.oom_control")
    file = next((folder / name for name in names if (folder / name).exists()), folder / names[0])
    rows = dict(line.split() for line in file.read_text(encoding="ascii").splitlines())
    return int(rows.get("oom_kill", ""))


def limits_of(memberships: str, layout: Layout | None = None) -> Limits:
    """The tightest limits on a process by its groups and all above them; ``memberships``: its /proc/PID/cgroup."""
    layout = detect() if layout is None else layout
    memory = [
        value
        for text in _upwards(memberships, "memory", layout, "memory.max", "memory.limit_in_bytes")
        if text.isdigit() and (value := int(text)) < _NO_LIMIT_FROM
    ]
    quotas = []
    for text in _upwards(memberships, "cpu", layout, "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"):
        quota, _, period = text.partition(" ")
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            quotas.append(int(quota) / int(period))
    return Limits(min(memory, default=None), min(quotas, default=None))


def _upwards(memberships: str, controller: str, layout: Layout, v2_file: str, *v1_files: str) -> list[str]:
    """What a limit's files hold, in a process's group of a controller and in each above it, joined by a space."""
    folder = folder_of(memberships, controller, layout)
    if folder is None:
        return []
    root, values = layout.controllers[controller], []
    names = (v2_file,) if layout.is_v2(controller) else v1_files
    for place in (folder, *folder.parents):
        with contextlib.suppress(OSError):
            values.append(" ".join((place / name).read_text(encoding="ascii").strip() for name in names))
        if place == root:
            break
    return values


def folder_of(memberships: str, controller: str, layout: Layout) -> Path | None:
    """The folder of a process's group of a controller; None without the controller."""
    if controller not in layout.controllers:
        return None
    for line in memberships.splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        in_v1 = _V1_NAMES.get(controller, controller) in names.split(",")
        if in_v1 if not layout.is_v2(controller) else line.startswith("0::"):
            return layout.controllers[controller] / path.lstrip("/")
    return None


def memberships_of(pid: int) -> str:
    """A process's /proc/PID/cgroup; ``GuestError`` where it has ended."""
    try:
        return Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
    except OSError as error:
        raise GuestError(f"the cgroups of process {pid} cannot be read: {error.strerror}") from error


def read_back(limits: Limits, memberships: str, lab_cgroup: str, layout: Layout | None = None) -> dict[str, str]:
    """What the files of a guest's group below the lab's hold of these limits, by file; ``GuestError`` where another.

    ``memberships``: the guest's /proc/PID/cgroup. Of a file with a line for each disk, that of the limited one.
    """
    held = {}
    for file, text in _own_files(limits, memberships, lab_cgroup, detect() if layout is None else layout):
        try:
            lines = [line.split() for line in file.read_text(encoding="ascii").splitlines()]
        except OSError as error:
            raise GuestError(f"cgroup file {file} cannot be read: {error.strerror}") from error
        words = text.split()
        rows = [line for line in lines if file.name not in _BY_DISK or line[:1] == words[:1]]
        held[file.name] = " ".join(rows[0]) if rows else ""
        if held[file.name].split()[: len(words)] != words:
            raise GuestError(f"cgroup file {file} holds '{held[file.name]}' and was to hold '{text}'")
    return held


def write_into(limits: Limits, memberships: str, lab_cgroup: str) -> None:
    """Set limits on the group that a guest is in already; ``GuestError`` where one cannot be set."""
    for file, text in _own_files(limits, memberships, lab_cgroup, detect()):
        _write(file, text)


def _own_files(limits: Limits, memberships: str, lab_cgroup: str, layout: Layout) -> Iterator[tuple[Path, str]]:
    """The files of these limits with what each is to hold, in the guest's group directly below the lab's.

    That one competes with other guests'. Container managers make further ones below it.
    """
    for controller, settings in _settings(limits, layout).items():
        folder = folder_of(memberships, controller, layout)
        if folder is None:
            raise GuestError(f"no cgroup controller '{controller}' for {', '.join(settings)} on this host; mount it")
        top = layout.controllers[controller] / lab_cgroup
        if top not in folder.parents:
            raise GuestError(f"the guest is in {folder}, not in a cgroup below {top} that has its limits")
        group = top / folder.relative_to(top).parts[0]
        for name, text in settings.items():
            yield group / name, text


def make_group(lab_cgroup: str, name: str, limits: Limits, layout: Layout | None = None) -> Group:
    """Make ``<hierarchy>/<lab_cgroup>/<name>`` in each hierarchy and set the limits.

    ``GuestError`` when a limit that was asked for cannot be set: a guest without it would be another guest.
    """
    layout = detect() if layout is None else layout
    group = Group(name, layout)
    try:
        handed = _CONTROLLERS if limits.disk is None else _EVERY_CONTROLLER
        for controller, root in layout.controllers.items():
            group.folders[controller] = _folder(root, lab_cgroup, name, handed if layout.is_v2(controller) else None)
        for hierarchy, root in layout.others.items():
            with contextlib.suppress(OSError):  # nothing is limited there; a manager that needs it says so itself
                group.folders[hierarchy] = _folder(root, lab_cgroup, name, handed if root == layout.unified else None)
        for controller, settings in _settings(limits, layout).items():
            if controller not in group.folders:
                files = ", ".join(settings)
                raise GuestError(f"{name}: no cgroup controller '{controller}' for {files} on this host; mount it")
            for file, value in settings.items():
                _write(group.folders[controller] / file, value)
    except GuestError:
        with contextlib.suppress(GuestError):
            group.remove()
        raise
    return group


def _settings(limits: Limits, layout: Layout) -> dict[str, dict[str, str]]:
    """What is written where: controller -> file -> text."""

    def v2(controller: str) -> bool:
        return controller in layout.controllers and layout.is_v2(controller)

    settings: dict[str, dict[str, str]] = {}
    if limits.memory_bytes is not None:
        pages = limits.memory_bytes // mmap.PAGESIZE * mmap.PAGESIZE  # as the kernel rounds it
        settings["memory"] = {"memory.max" if v2("memory") else "memory.limit_in_bytes": str(pages)}
    if limits.cpu_quota is not None:
        quota = str(round(limits.cpu_quota * limits.cpu_period_microseconds))
        period = str(limits.cpu_period_microseconds)
        first = {"cpu.cfs_period_us": period, "cpu.cfs_quota_us": quota}
        settings["cpu"] = {"cpu.max": f"{quota} {period}"} if v2("cpu") else first
    if limits.cpu_weight is not None:
        weight = {"cpu.weight": str(limits.cpu_weight)} if v2("cpu") else {"cpu.shares": str(limits.cpu_shares)}
        settings["cpu"] = settings.get("cpu", {}) | weight
    if limits.cpus:
        settings["cpuset"] = {"cpuset.cpus": ",".join(map(str, limits.cpus))}
    if (disk := limits.disk) is not None:
        rate = disk.bytes_per_second
        both = {f"blkio.throttle.{way}_bps_device": f"{disk.device} {rate}" for way in ("read", "write")}
        settings["io"] = {"io.max": f"{disk.device} rbps={rate} wbps={rate}"} if v2("io") else both
    return settings


def _folder(root: Path, lab_cgroup: str, name: str, handed: tuple[str, ...] | None) -> Path:
    """Make the folder and the lab's above it; v2's levels hand controllers on, v1's cpuset its CPUs."""
    above = root / Path(lab_cgroup).parent
    for part in (Path(lab_cgroup).name, name):
        if handed is not None:
            _hand_on(above, handed)
        below = above / part
        below.mkdir(exist_ok=True)
        for inherited in ("cpuset.cpus", "cpuset.mems"):
            if handed is None and (below / inherited).is_file() and not (below / inherited).read_text("ascii").strip():
                _write(below / inherited, (above / inherited).read_text("ascii").strip())
        above = below
    return above


def _hand_on(folder: Path, names: tuple[str, ...]) -> None:
    offered = (folder / "cgroup.controllers").read_text(encoding="ascii").split()
    active = (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
    for name in (name for name in names if name in offered and name not in active):
        _write(folder / "cgroup.subtree_control", f"+{name}")


def _write(file: Path, text: str) -> None:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise GuestError(f"cgroup file {file} did not take '{text}': {error.strerror}") from error
