"""A host that is reached by a command prefix (``ssh ... host --``): run, start, copy, connect, and leave nothing there.

What is started there runs under the agent's ``keep``, which ends it when its standard input ends: so the process here,
the connection and the program there end together. What no process holds is told to the agent's ``undo``.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shlex
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from virtoll.errors import GuestError
from virtoll.lab.cgroups import Group, Limits
from virtoll.lab.enter import Enter
from virtoll.lab.inside import Lab, end_process, output_of

_SSH_FAILED = 255  # what ssh itself ends with when there is no connection
_SSH_OPTIONS = (
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=0",
    "-o",
    "ControlPersist=no",
)


@dataclass(frozen=True)
class Connection:
    """How a host is reached: ``prefix`` is followed by one argument, which a shell there takes apart again.

    ``descriptors`` are inherited by every command; ``baked``: files that are there from the start, by their SHA-256.
    """

    name: str
    prefix: tuple[str, ...]
    descriptors: tuple[int, ...] = ()
    baked: Mapping[str, Path] = field(default_factory=dict)


def ssh_connection(destination: str, outside: int, lab: Lab) -> Connection:
    """A real host: the network namespace outside the lab (a descriptor) is where it is reached from.

    Several commands share one connection, whose socket is in the lab.
    """
    control = lab.scratch / f"ssh-{hashlib.sha256(destination.encode()).hexdigest()[:12]}"
    enter = ("nsenter", f"--net=/proc/self/fd/{outside}", "--")
    options = (*_SSH_OPTIONS, "-o", "ControlMaster=auto", "-o", f"ControlPath={control}")
    return Connection(f"ssh {destination}", (*enter, "ssh", *options, destination, "--"), (outside,))


@dataclass
class RemoteHost:
    """The host; ``scratch`` is a folder of its own there, removed by ``undo`` when the connection ends."""

    connection: Connection
    lab: Lab
    scratch: Path
    agent: Path
    is_root: bool = False
    _undo: subprocess.Popen[bytes] | None = None
    _undo_ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _guest_folders: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _held: list[BinaryIO] = field(default_factory=list)
    _copies: dict[str, Path] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As messages and records name it."""
        return self.connection.name

    @property
    def lab_id(self) -> str:
        """The lab's."""
        return self.lab.lab_id

    @property
    def remote(self) -> bool:
        """It is not this machine."""
        return True

    @property
    def cgroup(self) -> None:
        """No cgroups are made there."""
        return

    def command(self, argv: Sequence[str]) -> list[str]:
        """The argument list that runs ``argv`` there, from here."""
        return [*self.connection.prefix, shlex.join(argv)]

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 120.0, stdin: bytes | None = None) -> str:
        """Run a program there to its end; its output, or a ``GuestError`` with the end of its complaint."""
        return output_of(argv, self._finished(argv, role, deadline_seconds, stdin), f"{self.name}: ")

    def _finished(
        self, argv: Sequence[str], role: str, deadline_seconds: float, stdin: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        try:
            finished = subprocess.run(
                self.command(argv),
                capture_output=True,
                timeout=deadline_seconds,
                input=stdin or b"",
                check=False,
                start_new_session=True,
                pass_fds=self.connection.descriptors,
            )
        except FileNotFoundError as error:
            raise GuestError(f"{self.connection.prefix[0]}: not found on this machine; install it") from error
        except subprocess.TimeoutExpired as error:
            self.lab.record(f"{role} on {self.name}", argv, None)
            raise GuestError(
                f"{self.name}: '{' '.join(argv[:3])}' did not end within {deadline_seconds:g} s"
            ) from error
        self.lab.record(f"{role} on {self.name}", argv, finished.returncode)
        complaint = finished.stderr.decode(errors="replace").strip()
        if finished.returncode == _SSH_FAILED and complaint.startswith(("ssh:", "Connection", "kex_", "mux_")):
            raise GuestError(f"{self.name} cannot be reached: {complaint.splitlines()[-1]}")
        if finished.returncode == 127:
            raise GuestError(f"{argv[0]}: not found on {self.name}; install it there")
        return finished

    def spawn(
        self,
        argv: Sequence[str],
        role: str,
        *,
        enter: Enter | None = None,
        cpus: Sequence[int] = (),
        group: Group | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a program there, pinned; the process here is its connection, and ends with it or ends it."""
        if pass_fds or group is not None or enter is not None:
            raise GuestError(
                f"{argv[0]}: descriptors, cgroups and namespaces of this machine mean nothing on {self.name}"
            )
        pinned = ["--cpus", ",".join(map(str, cpus))] if cpus else []
        self.lab.record(f"{role} on {self.name}", argv, None)
        ours, theirs = (0, 0)
        if stdin == subprocess.DEVNULL:
            theirs, ours = os.pipe()  # kept open: its end would be the program's
        process = subprocess.Popen(
            self.command([str(self.agent), "keep", *pinned, "--", *argv]),
            stdin=theirs or stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            pass_fds=self.connection.descriptors,
        )
        if stdin == subprocess.DEVNULL:
            os.close(theirs)
            self._held.append(os.fdopen(ours, "wb"))
        return process

    def group(self, name: str, limits: Limits) -> Group | None:
        """None: no cgroups are made there; a ``GuestError`` where a CPU quota needs one."""
        if limits.cpu_quota is not None:
            raise GuestError(
                f"{name}: a CPU quota by cgroup is for guests of this machine; leave it out on {self.name}"
            )
        return None

    def connect(self, path: Path, who: str, deadline_seconds: float = 60.0) -> socket.socket:
        """A byte stream to a Unix socket or a character device there, through the agent's ``relay``."""
        ours, theirs = socket.socketpair()
        argv = [str(self.agent), "relay", "--seconds", str(max(1, round(deadline_seconds))), str(path)]
        self.lab.record(f"console of {who} on {self.name}", argv, None)
        with theirs:
            subprocess.Popen(
                self.command(argv),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=self.connection.descriptors,
            )
        return ours

    def read(self, path: Path) -> bytes:
        """A file there."""
        finished = self._finished(["cat", "--", str(path)], "evidence", 120.0)
        output_of(["cat", str(path)], finished, f"{self.name}: ")
        return finished.stdout

    def write(self, path: Path, content: bytes) -> None:
        """Make a file there."""
        self.run(["dd", f"of={path}", "bs=1M"], "copy", 600.0, stdin=content)

    def put(self, path: Path) -> Path:
        """A copy there, once for each content."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        found = self.connection.baked.get(digest) or self._copies.get(digest)
        if found is None:
            found = self.scratch / f"{digest[:16]}-{path.name}"
            self.write(found, path.read_bytes())
            if os.access(path, os.X_OK):
                self.run(["chmod", "0700", str(found)], "copy")
            self._copies[digest] = found
        return found

    def nameless_copy(self, path: Path) -> int:
        """Refused: a descriptor is this machine's."""
        raise GuestError(f"{path.name}: a disk is attached by a descriptor on this machine; not on {self.name}")

    def guest_folder(self, name: str) -> Path:
        """A fresh folder there for one guest's sockets and files."""
        folder = self.scratch / f"{next(self._guest_folders)}-{name}"
        self.run(["mkdir", "-m", "0700", "--", str(folder)], "folder")
        return folder

    def guard(self, argv: Sequence[str]) -> Callable[[], None]:
        """Have the agent over there run a program when the connection ends, unless withdrawn before."""
        number = next(self._undo_ids)
        self._tell({"id": number, "add": list(argv)})
        return lambda: self._tell({"id": number, "drop": True})

    def _tell(self, line: dict[str, object]) -> None:
        process = self._undo
        if process is None or process.stdin is None or process.stdout is None:
            raise GuestError(f"{self.name}: the agent there that cleans up is not running")
        try:
            process.stdin.write(json.dumps(line).encode() + b"\n")
            process.stdin.flush()
            answered = process.stdout.readline()
        except OSError:
            answered = b""
        if not answered:
            raise GuestError(f"{self.name}: the agent there that cleans up is gone")

    def close(self) -> None:
        """End what was started there, then what ``undo`` holds, and wait until it is done."""
        for writer in self._held:
            with contextlib.suppress(OSError):
                writer.close()
        if self._undo is not None:
            if self._undo.stdin is not None:
                self._undo.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._undo.wait(60.0)
            end_process(self._undo)


@contextlib.contextmanager
def open_remote(connection: Connection, lab: Lab, agent: Path) -> Iterator[RemoteHost]:
    """The host, with a folder of its own and the agent in it; both are gone when the context or the connection ends."""
    scratch = Path("/tmp") / lab.lab_id  # noqa: S108 - on the other host; made for us alone, and must not be there yet
    host = RemoteHost(connection, lab, scratch, scratch / "virtoll-agent")
    host.run(["mkdir", "-m", "0700", "--", str(scratch)], "folder")
    try:
        host.agent = host.put(agent)
        host.is_root = host.run(["id", "-u"], "rights").strip() == "0"
        host._undo = subprocess.Popen(  # noqa: SLF001 - its own constructor would have to connect
            host.command([str(host.agent), "undo"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            pass_fds=connection.descriptors,
        )
        host.guard(["rm", "-rf", "--", str(scratch)])
    except GuestError:
        with contextlib.suppress(GuestError):
            host.run(["rm", "-rf", "--", str(scratch)], "folder")
        raise
    try:
        yield host
    finally:
        host.close()
