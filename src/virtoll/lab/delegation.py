"""Where below cgroup v2's root an ordinary user may make groups with limits: a folder that was delegated to them.

systemd does so for a user's own services, with the controllers that ``Delegate=`` of ``user@.service`` names; an
administrator does it by chown. Main functions: ``delegated_folder``, ``groups_parents``. Source: "Delegation" in the
kernel's ``cgroup-v2.rst``. Must not: make or change a group.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from virtoll.lab import residue

NEEDED = ("cpu", "cpuset", "memory")
"""What guests are limited by."""
_WRITTEN = ("cgroup.procs", "cgroup.subtree_control")


def delegated_folder(root: Path | None = None, memberships: str | None = None) -> Path | None:
    """The nearest folder above this process's group below which its user may limit guests; None where there is none.

    ``root``: where v2 is mounted, alone. ``memberships``: the process's /proc/PID/cgroup. The process's own group is
    none: with processes in it the kernel lets nobody hand controllers on. The folder is common to both, so that the
    kernel lets the user move a process from one below it to another.
    """
    for folder in _above(root, memberships):
        if not all(os.access(path, os.W_OK) for path in (folder, *(folder / name for name in _WRITTEN))):
            return None
        if not _words(folder / "cgroup.procs"):
            return folder if set(NEEDED) <= set(_words(folder / "cgroup.controllers")) else None
    return None


def groups_parents() -> list[Path]:
    """The folders of v2 below which labs of this process's user make their own and hand controllers on."""
    if os.geteuid() != 0:
        folder = delegated_folder()
        return [] if folder is None else [folder]
    places = (residue.CGROUP_ROOT, residue.CGROUP_ROOT / "unified")
    return [place for place in places if (place / "cgroup.subtree_control").is_file()]


def _above(root: Path | None, memberships: str | None) -> list[Path]:
    """The folders above a process's group of v2, the nearest first, and not v2's root."""
    root = residue.CGROUP_ROOT if root is None else root
    if not (root / "cgroup.controllers").is_file():
        return []
    text = Path("/proc/self/cgroup").read_text(encoding="utf-8") if memberships is None else memberships
    group = next((line[3:] for line in text.splitlines() if line.startswith("0::/")), "/")
    folder = root / group.lstrip("/")
    return [parent for parent in folder.parents if root in parent.parents]


def _words(file: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return file.read_text(encoding="ascii").split()
    return []
