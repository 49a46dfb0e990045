"""A host that is reached by a command prefix (``ssh ... host --``): run, start, copy, connect, and leave nothing there.

What is started there runs under the agent's ``keep``, which ends it when its standard input ends. So the process here,
the connection and the program there end together. What no process holds is registered with the agent's ``undo``.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from virtoll.errors import GuestError
from virtoll.hosts.base import LocalHost
from virtoll.hosts.remote_data import RemoteVolume, make_remote
from virtoll.hosts.undo import Undo
from virtoll.lab.captured import passed_on
from virtoll.lab.commands import PIPED, PLAIN, CommandRecorder, ConnectedHost, Connection, ProcessOptions, no_record
from virtoll.lab.data import DataBy
from virtoll.lab.inside import end_process


@dataclass
class RemoteHost(ConnectedHost):
    """The host; ``scratch`` is a folder of its own there, removed by ``undo`` when the connection ends.

    ``lab`` is that of this machine. ``baked``: files that are there from the start, by their SHA-256.
    """

    connection: Connection
    lab: LocalHost
    scratch: Path
    agent: Path
    baked: Mapping[str, Path] = field(default_factory=dict)
    is_root: bool = False
    record: CommandRecorder = field(default=no_record, init=False)
    _undo: subprocess.Popen[bytes] | None = None
    _promises: Undo | None = None
    _guest_folders: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _held: list[BinaryIO] = field(default_factory=list)
    _copies: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Its command lines are recorded where the lab's are; what is baked is a copy already."""
        self.record = self.lab.record
        self._copies.update(self.baked)

    @property
    def local(self) -> None:
        """It is not this machine."""
        return

    @property
    def lab_id(self) -> str:
        """The lab's."""
        return self.lab.lab_id

    def spawn(self, argv: Sequence[str], role: str, options: ProcessOptions = PLAIN) -> subprocess.Popen[bytes]:
        """Start a program there, pinned; the process here is its connection, and ends with it or ends it."""
        self._refuse_ours(argv, options)
        self._record(role, argv, None)
        pinned = ["--cpus", ",".join(map(str, options.cpus))] if options.cpus else []
        command = [str(self.agent), "keep", *pinned, "--", *argv]
        if options.stdin != subprocess.DEVNULL:
            return self._popen(command, options)
        theirs, ours = os.pipe()  # kept open: its end would be the program's
        self._held.append(os.fdopen(ours, "wb"))
        try:
            return self._popen(command, replace(options, stdin=theirs))
        finally:
            os.close(theirs)

    def connect(self, path: Path, who: str, deadline_seconds: float = 60.0) -> socket.socket:
        """A byte stream to a Unix socket or a character device there, through the agent's ``relay``."""
        ours, theirs = socket.socketpair()
        argv = [str(self.agent), "relay", "--seconds", str(max(1, round(deadline_seconds))), str(path)]
        self._record(f"console of {who}", argv, None)
        with theirs:
            self._popen(argv, ProcessOptions(stdin=theirs.fileno(), stdout=theirs.fileno()))
        return ours

    def read(self, path: Path) -> bytes:
        """A file there."""
        return self.output(["cat", "--", str(path)], "evidence")

    def write(self, path: Path, content: bytes) -> None:
        """Make a file there."""
        self._copy(path, content)

    def put(self, path: Path) -> Path:
        """A copy there, once for each content."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        copy = self._copies.get(digest)
        if copy is None:
            copy = self.scratch / f"{digest[:16]}-{path.name}"
            with path.open("rb") as file:
                self._copy(copy, file)
            if os.access(path, os.X_OK):
                self.run(["chmod", "0700", str(copy)], "copy")
            self._copies[digest] = copy
        return copy

    def _copy(self, target: Path, content: bytes | BinaryIO) -> None:
        self.output(["dd", f"of={target}", "bs=1M"], "copy", 600.0, stdin=content)

    def guest_folder(self, name: str) -> Path:
        """A fresh folder there for one guest's sockets and files."""
        folder = self.scratch / f"{next(self._guest_folders)}-{name}"
        self.run(["mkdir", "-m", "0700", "--", str(folder)], "folder")
        return folder

    def data_volume(self, by: DataBy, size_bytes: int, promised_bytes: int = 0) -> RemoteVolume:
        """Empty room for workloads' files on its disk."""
        return make_remote(self, self.agent, by, size_bytes, promised_bytes)

    def start_undo(self) -> None:
        """Start the agent there that runs what is guarded when the connection ends."""
        process = self._popen([str(self.agent), "undo"], replace(PIPED, stderr=subprocess.PIPE))
        passed_on(self.name, process)
        assert process.stdin is not None
        assert process.stdout is not None
        self._undo = process
        self._promises = Undo(self.name, process.stdout, process.stdin, lambda: end_process(process))

    def guard(self, argv: Sequence[str]) -> Callable[[], None]:
        """Have the agent over there run a program when the connection ends, unless withdrawn before."""
        if self._promises is None:
            raise GuestError(f"{self.name}: the agent there that cleans up is not running")
        return self._promises.guard(argv)

    def close(self) -> None:
        """End what was started there, then what ``undo`` holds, and wait until it is done."""
        for writer in self._held:
            with contextlib.suppress(OSError):
                writer.close()
        if self._undo is not None:
            if self._undo.stdin is not None:
                with contextlib.suppress(OSError):  # the connection is gone, and with it what was there
                    self._undo.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._undo.wait(60.0)
            end_process(self._undo)


@contextlib.contextmanager
def open_remote(
    connection: Connection, lab: LocalHost, agent: Path, baked: Mapping[str, Path] | None = None
) -> Iterator[RemoteHost]:
    """The host, with a folder of its own and the agent in it; both are gone when the context or the connection ends."""
    scratch = Path("/tmp") / lab.lab_id  # noqa: S108 - on the other host; made for us alone, and must not be there yet
    host = RemoteHost(connection, lab, scratch, scratch / "virtoll-agent", baked or {})
    host.run(["mkdir", "-m", "0700", "--", str(scratch)], "folder")
    try:
        host.agent = host.put(agent)
        host.is_root = host.run(["id", "-u"], "rights").strip() == "0"
        host.start_undo()
        host.guard(["rm", "-rf", "--", str(scratch)])
    except GuestError:
        with contextlib.suppress(GuestError):
            host.run(["rm", "-rf", "--", str(scratch)], "folder")
        raise
    try:
        yield host
    finally:
        host.close()
