"""Limits on what runs below this host's own kernel: one cgroup folder a guest, below the lab's, in each hierarchy.

Main types: ``Layout`` (which hierarchy holds which controller on this host: v1, v2 or both), ``Limits`` (what is asked)
and ``Group`` (one guest's folders: join, read, remove). Sources: the kernel's ``cgroup-v1/`` and ``cgroup-v2.rst``.
It must not know platforms, and never freezes. What the v1 freezer holds cannot be killed, and would outlive a lab that
ends by kill -9. What it makes goes with the lab's folder (``residue``) when nobody removes it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from virtoll.errors import GuestError
from virtoll.lab import residue

_PERIOD_MICROSECONDS = 100_000
_CONTROLLERS = ("memory", "cpu", "cpuset", "cpuacct")
_REMOVE_SECONDS = 60.0
_NO_LIMIT_FROM = 2**62  # v1 writes "no limit" as the largest number of whole pages


@dataclass(frozen=True)
class Limits:
    """Memory in bytes, CPU time per wall time in CPUs (0.2: a fifth of one), host CPUs; None or empty: no limit.

    ``cpu_period_microseconds``: over which the CPU time is counted.
    """

    memory_bytes: int | None = None
    cpu_quota: float | None = None
    cpus: tuple[int, ...] = ()
    cpu_period_microseconds: int = _PERIOD_MICROSECONDS


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
    found: dict[str, Path] = {}
    if unified is not None:
        with contextlib.suppress(OSError):
            offered = (unified / "cgroup.controllers").read_text(encoding="ascii").split()
            found = {name: unified for name in _CONTROLLERS if name in offered}
            if found:  # part of the core of v2, named there by no controller
                found["cpuacct"] = unified
    for name in _CONTROLLERS:
        if (root / name / "cgroup.procs").is_file():
            found[name] = root / name
    known = {path.resolve() for path in found.values()}
    mounted = [] if unified == root or not root.is_dir() else sorted(path for path in root.iterdir() if path.is_dir())
    others = {
        path.name: path
        for path in mounted
        if not path.is_symlink() and (path / "cgroup.procs").is_file() and path.resolve() not in known
    }
    return Layout(found, unified, others)


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

        A group empties when the kernel has reaped its dead. ``GuestError`` after a minute.
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
                    time.sleep(0.01)  # cgroup v1 gives no event for "group empty"


def charged_memory_bytes(memberships: str, below: str | None = None) -> int | None:
    """What a process's group is charged; ``memberships``: its /proc/PID/cgroup.

    ``below``: only if the group is below one of this name, as a guest's is below its lab's.
    """
    layout = detect()
    folder = folder_of(memberships, "memory", layout)
    if folder is None or (below is not None and below not in folder.parent.parts):
        return None
    name = "memory.current" if layout.is_v2("memory") else "memory.usage_in_bytes"
    with contextlib.suppress(OSError, ValueError):
        return int((folder / name).read_text(encoding="ascii"))
    return None


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
    root, found = layout.controllers[controller], []
    names = (v2_file,) if layout.is_v2(controller) else v1_files
    for place in (folder, *folder.parents):
        with contextlib.suppress(OSError):
            found.append(" ".join((place / name).read_text(encoding="ascii").strip() for name in names))
        if place == root:
            break
    return found


def folder_of(memberships: str, controller: str, layout: Layout) -> Path | None:
    """The folder of a process's group of a controller; None without the controller."""
    if controller not in layout.controllers:
        return None
    for line in memberships.splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if controller in names.split(",") if not layout.is_v2(controller) else line.startswith("0::"):
            return layout.controllers[controller] / path.lstrip("/")
    return None


def make_group(lab_cgroup: str, name: str, limits: Limits, layout: Layout | None = None) -> Group:
    """Make ``<hierarchy>/<lab_cgroup>/<name>`` in each hierarchy and set the limits.

    ``GuestError`` when a limit that was asked for cannot be set: a guest without it would be another guest.
    """
    layout = detect() if layout is None else layout
    group = Group(name, layout)
    try:
        for controller, root in layout.controllers.items():
            group.folders[controller] = _folder(root, lab_cgroup, name, v2=layout.is_v2(controller))
        for hierarchy, root in layout.others.items():
            with contextlib.suppress(OSError):  # nothing is limited there; a manager that needs it says so itself
                group.folders[hierarchy] = _folder(root, lab_cgroup, name, v2=root == layout.unified)
        for controller, settings in _settings(limits, layout).items():
            if controller not in group.folders:
                asked = ", ".join(settings)
                raise GuestError(f"{name}: no cgroup controller '{controller}' for {asked} on this host; mount it")
            for file, value in settings.items():
                _write(group.folders[controller] / file, value)
    except GuestError:
        with contextlib.suppress(GuestError):
            group.remove()
        raise
    return group


def _settings(limits: Limits, layout: Layout) -> dict[str, dict[str, str]]:
    """What is written where: controller -> file -> text."""
    wanted: dict[str, dict[str, str]] = {}
    if limits.memory_bytes is not None:
        v2 = "memory" in layout.controllers and layout.is_v2("memory")
        wanted["memory"] = {"memory.max" if v2 else "memory.limit_in_bytes": str(limits.memory_bytes)}
    if limits.cpu_quota is not None:
        quota = str(round(limits.cpu_quota * limits.cpu_period_microseconds))
        v2 = "cpu" in layout.controllers and layout.is_v2("cpu")
        period = str(limits.cpu_period_microseconds)
        first = {"cpu.cfs_period_us": period, "cpu.cfs_quota_us": quota}
        wanted["cpu"] = {"cpu.max": f"{quota} {period}"} if v2 else first
    if limits.cpus:
        wanted["cpuset"] = {"cpuset.cpus": ",".join(map(str, limits.cpus))}
    return wanted


def _folder(root: Path, lab_cgroup: str, name: str, *, v2: bool) -> Path:
    """Make the folder and those above it; below v2 each level hands its controllers on, below cpuset its CPUs."""
    above = root
    for part in (lab_cgroup, name):
        if v2:
            _hand_on(above)
        below = above / part
        below.mkdir(exist_ok=True)
        for inherited in ("cpuset.cpus", "cpuset.mems"):
            if not v2 and (below / inherited).is_file() and not (below / inherited).read_text("ascii").strip():
                _write(below / inherited, (above / inherited).read_text("ascii").strip())
        above = below
    return above


def _hand_on(folder: Path) -> None:
    offered = (folder / "cgroup.controllers").read_text(encoding="ascii").split()
    active = (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
    for name in (name for name in _CONTROLLERS if name in offered and name not in active):
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
