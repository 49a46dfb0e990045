"""The lab as the pipeline and the platforms see it from inside: run a program, start one, know what was started.

Main type: ``Lab``, a ``ConnectedHost`` that is this machine. Every command line is handed to ``record``, so that the
report can show all of them. It must not know what a platform, a workload or a trial is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from virtoll.errors import GuestDied, GuestError, LabError, remedy_for
from virtoll.lab import cgroups, disks, residue
from virtoll.lab.commands import (
    PLAIN,
    THIS_MACHINE,
    CommandRecorder,
    ConnectedHost,
    Connection,
    ProcessOptions,
    no_record,
)
from virtoll.lab.data import DataBy, LocalVolume, make_disk, make_folder
from virtoll.lab.debug import debug
from virtoll.lab.delegation import delegated_folder
from virtoll.lab.enter import Enter
from virtoll.lab.init import SCRATCH
from virtoll.lab.launch import inside_lab


@dataclass
class Lab(ConnectedHost):
    """The namespaces that this process runs in. ``scratch`` is a memory file system that ends with the lab.

    ``agent``: the agent's binary, whose ``relay`` reaches character devices and whose ``enter`` starts programs.
    ``programs``: a folder that comes before PATH for what is run and started.
    """

    lab_id: str
    scratch: Path = SCRATCH
    record: CommandRecorder = no_record
    agent: Path | None = None
    programs: Path | None = None
    connection: Connection = field(default=THIS_MACHINE, init=False)
    _guest_folders: int = field(default=0, init=False)

    @property
    def local(self) -> Lab:
        """It is this machine."""
        return self

    @property
    def is_root(self) -> bool:
        """True when the lab belongs to the host's root: cgroup limits can be set."""
        return Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]

    @property
    def cgroup(self) -> str | None:
        """The cgroup folder below which everything of this lab goes, or None where it may not make one.

        Its path from each hierarchy's root; an ordinary user's is below a folder of v2 that was delegated to them.
        """
        if self.is_root:
            return self.lab_id if residue.CGROUP_ROOT.is_dir() else None
        parent = delegated_folder()
        return None if parent is None else str(parent.relative_to(residue.CGROUP_ROOT) / self.lab_id)

    @property
    def environment(self) -> dict[str, str] | None:
        """Our own, with the folder of programs before PATH."""
        return None if self.programs is None else {**os.environ, "PATH": self._path}

    @property
    def _path(self) -> str:
        path = os.environ.get("PATH", os.defpath)
        return path if self.programs is None else f"{self.programs}{os.pathsep}{path}"

    def which(self, program: str) -> str | None:
        """The file that is executed by this name, as PATH has it; None where there is none."""
        return shutil.which(program, path=self._path)

    def with_programs(self, programs: Mapping[str, Path]) -> Lab:
        """The same lab with these files, by name, before PATH, and with a ``scratch`` of its own.

        Products keep their state there, and another build may write it otherwise. A folder of links has these programs
        alone in view, whatever else is beside their files.
        """
        builds = self.scratch / "builds"
        builds.mkdir(exist_ok=True)
        scratch = builds / str(sum(1 for _ in builds.iterdir()) + 1)
        folder = scratch / "programs"
        folder.mkdir(parents=True)
        for name, file in programs.items():
            (folder / name).symlink_to(file)
        return replace(self, scratch=scratch, programs=folder)

    def group(self, name: str, limits: cgroups.Limits) -> cgroups.Group | None:
        """A cgroup for a guest of this name with its limits, or None where the lab may not make one.

        ``GuestError`` when quota, weight or rate cannot be set; memory is what a guest without a limit is asked not to
        exceed.
        """
        if self.cgroup is None:
            if replace(limits, memory_bytes=None).any:
                what = "a CPU quota" if limits.cpu_quota is not None else "a limit"
                raise GuestError(f"{name}: {what} needs cgroups, and those root; run as root or leave it out")
            return None
        return cgroups.make_group(self.cgroup, name.replace("/", "-"), limits)

    def nameless_copy(self, path: Path) -> int:
        """A descriptor of a copy of a file, on a disk and without a name: gone with the last process that has it."""
        return disks.nameless_copy(path)

    def guest_folder(self, name: str) -> Path:
        """A fresh folder for one guest's sockets and files, in memory."""
        self._guest_folders += 1
        folder = self.scratch / "guests" / f"{self._guest_folders}-{name}"
        folder.mkdir(parents=True)
        return folder

    def data_volume(self, by: DataBy, size_bytes: int, promised_bytes: int = 0) -> LocalVolume:
        """Empty room for workloads' files on this machine's disk."""
        if by == "folder":
            return make_folder(self.lab_id, size_bytes, promised_bytes)
        return make_disk(self.lab_id, size_bytes, self.run, promised_bytes)

    def spawn(self, argv: Sequence[str], role: str, options: ProcessOptions = PLAIN) -> subprocess.Popen[bytes]:
        """Start a program in a session of its own, on its CPUs and in its cgroup and namespaces from its start on."""
        around, files = options.enter or Enter(), () if options.group is None else options.group.process_files
        around = replace(around, cpus=options.cpus or around.cpus, cgroups=(*around.cgroups, *files))
        command = list(argv) if around == Enter() else [*around.prefix(self._known_agent(argv[0])), *argv]
        self._record(role, command, None)
        return self._popen(command, options)

    def _known_agent(self, program: str) -> Path:
        if self.agent is None:
            raise GuestError(f"{program}: the agent starts it in its cgroup and on its CPUs; {remedy_for('agent')}")
        return self.agent

    def connect(self, path: Path, who: str, deadline_seconds: float = 10.0) -> socket.socket:
        """A byte stream to a Unix socket or a character device (by the agent's ``relay``), waited for."""
        wait_until(path.exists, deadline_seconds, f"{who}: {path}")
        if not path.is_socket():
            return self._relay(path, who)
        return await_listener(path, deadline_seconds, f"{who}: a listener at {path}")

    def _relay(self, path: Path, who: str) -> socket.socket:
        if self.agent is None:
            raise GuestError(f"{who}: {path} is reached by the agent, and there is none; {remedy_for('agent')}")
        ours, theirs = socket.socketpair()
        with theirs:
            self.spawn(
                [str(self.agent), "relay", str(path)],
                f"console of {who}",
                ProcessOptions(stdin=theirs.fileno(), stdout=theirs.fileno()),
            )
        return ours

    def read(self, path: Path) -> bytes:
        """A file's content."""
        try:
            return path.read_bytes()
        except OSError as error:
            raise GuestError(f"{path} cannot be read: {error.strerror}") from error

    def write(self, path: Path, content: bytes) -> None:
        """Make a file."""
        try:
            path.write_bytes(content)
        except OSError as error:
            raise GuestError(f"{path} cannot be written: {error.strerror}") from error

    def guard(self, argv: Sequence[str]) -> Callable[[], None]:
        """Have the janitor run a program once the lab has ended, unless the returned function withdraws it before."""
        number = residue.note_command(argv)
        return lambda: residue.drop_command(number)


def this_lab(record: CommandRecorder = no_record) -> Lab:
    """The lab that this process runs in; ``LabError`` when it does not run in one."""
    lab_id = inside_lab()
    if lab_id is None:
        raise LabError("this must run inside a lab; start it through the 'virtoll' command line")
    return Lab(lab_id, record=record)


def end_process(process: subprocess.Popen[bytes], patience_seconds: float = 3.0) -> None:
    """End a process that ``spawn`` started: ask, wait, then kill it and its session."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_seconds)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def signal_tree(roots: Sequence[int], number: int) -> None:
    """Send a signal to processes and all below them; looks again until no process is new, since one may fork."""
    reached: set[int] = set()
    while new := [pid for pid in with_descendants(roots) if pid not in reached]:
        for pid in new:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        reached |= set(new)


def with_descendants(roots: Sequence[int]) -> list[int]:
    """These processes and all below them, parents first; a process that has ended is left out."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int(entry.name)
            parent = int((entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(pid)
    known = {pid for below in children.values() for pid in below}
    pids = [pid for pid in dict.fromkeys(roots) if pid in known]
    for pid in pids:
        pids += [child for child in children.get(pid, []) if child not in pids]
    return pids


def connect_unix(path: Path) -> socket.socket | None:
    """A stream to who listens at the UNIX socket ``path``, None while nobody does.

    A server's socket is there from its ``bind`` on, and takes nobody before its ``listen``. To wait for the file alone
    loses that race on a busy machine.
    """
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except (ConnectionRefusedError, FileNotFoundError):
        connection.close()
        return None
    return connection


def is_listened(path: Path) -> bool:
    """Whether somebody takes connections at the UNIX socket ``path``."""
    connection = connect_unix(path)
    if connection is not None:
        connection.close()
    return connection is not None


def await_listener(
    path: Path, deadline_seconds: float, awaited: str, ended: Callable[[], bool] = lambda: False
) -> socket.socket:
    """A stream to who listens there, as soon as somebody does; ``GuestDied`` where ``ended`` holds before."""
    listener: socket.socket | None = None

    def decided() -> bool:
        nonlocal listener
        listener = connect_unix(path)
        return listener is not None or ended()

    wait_until(decided, deadline_seconds, awaited)
    if listener is None:
        raise GuestDied(f"{awaited} did not happen: what should listen there has ended")
    return listener


def wait_until(condition: Callable[[], bool], deadline_seconds: float, awaited: str) -> None:
    """Poll ``condition`` until it holds; for what gives no event to wait for. ``GuestError`` names what was awaited."""
    debug("wait at most %g s: %s", deadline_seconds, awaited)
    deadline = time.monotonic() + deadline_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise GuestError(f"{awaited} did not happen within {deadline_seconds:g} s")
        time.sleep(0.005)
