"""What a host can do, in steps: who uses a host asks for the least of these protocols that is enough.

Main types, each with all of the one before: ``CommandRunner`` (run a program to its end), ``Host`` (start one, copy a
file), ``GuestHost`` (hold guests) and ``LocalHost`` (this machine: its processes' numbers, descriptors and cgroups mean
something). Who implements them is a ``virtoll.lab.commands.ConnectedHost``, or a model of a host.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from virtoll.errors import GuestError, UsageError
from virtoll.lab.cgroups import Group, Limits
from virtoll.lab.commands import PLAIN, RUN_SECONDS, CommandRecorder, Connection, ProcessOptions
from virtoll.lab.data import DataBy, DataVolume


class CommandRunner(Protocol):
    """A host on which programs are run to their end: as much as a product's own commands need."""

    @property
    def name(self) -> str:
        """As messages and records name it: ``this machine``, ``ssh user@host``, ``nested xen``."""
        ...

    def run(
        self, argv: Sequence[str], role: str, deadline_seconds: float = RUN_SECONDS, stdin: bytes | None = None
    ) -> str:
        """Run a program there to its end; its output, or a ``GuestError`` with the end of its complaint."""
        ...


class Host(CommandRunner, Protocol):
    """A host on which programs are started too; it is reached from outside the lab as from inside."""

    def spawn(self, argv: Sequence[str], role: str, options: ProcessOptions = PLAIN) -> subprocess.Popen[bytes]:
        """Start a program there in a session of its own; the process here is the program, or the connection to it."""
        ...

    def put(self, path: Path) -> Path:
        """Make a file of this machine available there; returns where: the same path where nothing was copied."""
        ...


class GuestHost(Host, Protocol):
    """The seam between a driver and the machine its guests run on: ``virtoll.lab.inside.Lab`` is this machine,
    ``virtoll.hosts.remote_host.RemoteHost`` another one or a nested host.

    Links are attached by ``Site.network``; a console is reached by ``connect``, or is a file, or a pipe of ``spawn``.
    Paths are there, not here.
    """

    scratch: Path

    @property
    def local(self) -> LocalHost | None:
        """The host itself where it is this machine; None where this machine's processes and paths mean nothing."""
        ...

    @property
    def connection(self) -> Connection:
        """How it is reached from here."""
        ...

    @property
    def lab_id(self) -> str:
        """``virtoll-`` and 12 hex digits: what the names of all begin with that a run makes on a host."""
        ...

    @property
    def is_root(self) -> bool:
        """Whether it may use what the kernel keeps for the host's own root."""
        ...

    def connect(self, path: Path, who: str, deadline_seconds: float = 60.0) -> socket.socket:
        """A byte stream to a Unix socket or a character device there (set raw), waited for until it can be opened."""
        ...

    def read(self, path: Path) -> bytes:
        """A file there; a ``GuestError`` where it cannot be read."""
        ...

    def write(self, path: Path, content: bytes) -> None:
        """Make a file there."""
        ...

    def guard(self, argv: Sequence[str]) -> Callable[[], None]:
        """Have a program run there should this controller die before the returned function withdraws it.

        For what no process of ours holds: a domain of Xen, a machine that VirtualBox has registered, an interface.
        """
        ...

    def guest_folder(self, name: str) -> Path:
        """A fresh folder there for one guest's sockets and files, gone with the lab."""
        ...

    def data_volume(self, by: DataBy, size_bytes: int, promised_bytes: int = 0) -> DataVolume:
        """Empty room for workloads' files on its disk; a ``GuestError`` where there is none.

        ``promised_bytes``: what other guests' rooms may still take.
        """
        ...


class LocalHost(GuestHost, Protocol):
    """This machine: what a driver needs whose guests are its processes, with its descriptors and in its cgroups."""

    @property
    def record(self) -> CommandRecorder:
        """Given every command line, here and on the hosts that are reached from here."""
        ...

    @property
    def cgroup(self) -> str | None:
        """The name below which the lab's cgroups go, for runtimes that make their own; None where none may be made."""
        ...

    def which(self, program: str) -> str | None:
        """The file that is executed by this name here, as PATH has it; None where there is none."""
        ...

    def with_programs(self, programs: Mapping[str, Path]) -> LocalHost:
        """The same machine with these files, by name, before PATH, and with a ``scratch`` of its own."""
        ...

    def group(self, name: str, limits: Limits) -> Group | None:
        """A cgroup for a guest, or None where none may be made and none is needed."""
        ...

    def nameless_copy(self, path: Path) -> int:
        """A descriptor, for ``spawn``, of a copy of a file on a disk: gone with the last process that has it."""
        ...


@contextlib.contextmanager
def as_usage_error(prefix: str = "") -> Iterator[None]:
    """Before anything is started, what is wrong with a host is the user's to mend: a ``UsageError``, by its sentence.

    ``prefix``: how the sentence begins, for what was asked for by a file or a key.
    """
    try:
        yield
    except GuestError as error:
        raise UsageError(f"{prefix}{error}") from error
