"""``virtoll-agent enter`` as a value: what a program is put into before the process becomes that program.

Main types: ``Enter`` (cgroups, CPUs, namespaces, mounts, another root) and ``ExecutionReport`` (when the program was
executed). The agent is one static program: a guest's start has no interpreter and no ``mount`` process in it.
It must not know platforms. The options are specified in docs/protocol.md.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

Namespace = Literal["cgroup", "ipc", "mount", "net", "pid", "uts"]
_REPORT_BYTES = 64


@dataclass(frozen=True)
class Bind:
    """A file or folder is shown at another place too."""

    source: Path
    target: Path


@dataclass(frozen=True)
class Unmount:
    """What is mounted at a place is taken away, with all below it."""

    target: Path


@dataclass(frozen=True)
class Hide:
    """A folder is covered by an empty file system: to unmount what stands there would take the host's root."""

    folder: Path


@dataclass(frozen=True)
class Disk:
    """The file system in a file (erofs) is mounted for reading, for as long as somebody is in the mount namespace."""

    file: Path
    target: Path


Mount = Bind | Unmount | Hide | Disk


@dataclass(frozen=True, kw_only=True)
class Enter:
    """What is done before a program is executed, in this order.

    ``network``: the file of a namespace that is there. ``namespaces``: fresh ones; a change of ``mounts`` or ``root``
    needs ``mount`` among them. With ``pid`` the program is a child, killed with the process that waits for it.
    ``root``: a folder with the mount points proc, sys, dev, run and tmp, which is not written to; ``shares`` have their
    targets below it. ``protect``: what of /proc and /sys is the whole kernel's is hidden or read-only there.
    ``capabilities``: the kernel's mask of those that the program may have at most; it gets no new privileges then.
    ``reap``: the process stays, reaps the daemons that the program leaves, and ends as the program
    did (libvirt waits for a machine to vanish, not to die). ``report``: the descriptor of an ``ExecutionReport``.
    """

    cgroups: tuple[Path, ...] = ()
    cpus: tuple[int, ...] = ()
    network: Path | None = None
    namespaces: tuple[Namespace, ...] = ()
    mounts: tuple[Mount, ...] = ()
    root: Path | None = None
    shares: tuple[Bind, ...] = ()
    protect: bool = False
    capabilities: int | None = None
    reap: bool = False
    report: int | None = None

    def prefix(self, agent: Path) -> list[str]:
        """What is put before an argument list; nothing where nothing is asked for."""
        options = self._options()
        return [str(agent), "enter", *options, "--"] if options else []

    def _options(self) -> list[str]:
        words = [word for file in self.cgroups for word in ("--cgroup", str(file))]
        if self.cpus:
            words += ["--cpus", ",".join(map(str, self.cpus))]
        if self.network is not None:
            words += ["--net", str(self.network)]
        if self.namespaces:
            words += ["--unshare", ",".join(self.namespaces)]
        words += [word for mount in self.mounts for word in _mount_option(mount)]
        if self.root is not None:
            words += ["--root", str(self.root)]
        words += [word for share in self.shares for word in ("--share", str(share.source), str(share.target))]
        if self.protect:
            words.append("--protect")
        if self.capabilities is not None:
            words += ["--capabilities", f"{self.capabilities:x}"]
        if self.reap:
            words.append("--reap")
        if self.report is not None:
            words += ["--report", str(self.report)]
        return words


def _mount_option(mount: Mount) -> list[str]:
    match mount:
        case Bind(source, target):
            return ["--bind", str(source), str(target)]
        case Unmount(target):
            return ["--unmount", str(target)]
        case Hide(folder):
            return ["--hide", str(folder)]
        case Disk(file, target):
            return ["--disk", str(file), str(target)]


class ExecutionReport:
    """A pipe on which ``enter`` says when it executes the program; ``descriptor`` is handed to it alone."""

    def __init__(self) -> None:
        self._reader, self.descriptor = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def executed_monotonic_ns(self) -> int | None:
        """When the program was executed, by the host's monotonic clock; None where that has not been reported."""
        with contextlib.suppress(BlockingIOError, ValueError):
            return int(os.read(self._reader, _REPORT_BYTES))
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._reader)
        os.close(self.descriptor)
