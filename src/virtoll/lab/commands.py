"""Programs run to their end and programs started: on this machine, or on a host that a command prefix reaches.

Main types: ``Connection`` (how a host is reached), ``ProcessOptions`` (how a program is started) and ``ConnectedHost``,
the one implementation of both, with a deadline and with errors that carry data. It must not know what is run.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from virtoll.errors import CommandFailed, GuestError, HostUnreachable, ProgramMissing
from virtoll.lab.captured import MOST_OUTPUT_BYTES, TooMuchOutput, communicate
from virtoll.lab.cgroups import Group
from virtoll.lab.debug import debug
from virtoll.lab.enter import Enter

CommandRecorder = Callable[[str, Sequence[str], int | None], None]

RUN_SECONDS = 120.0
_NOT_FOUND = 127  # a shell's exit code (POSIX), and nsenter's
_MOST_COMPLAINT = 500  # characters of a sentence
_SSH_FAILED = 255  # what ssh itself ends with when there is no connection; a program there may end with it too
_SSH_COMPLAINTS = re.compile(
    r"^(ssh: |Connection |kex_|mux_|Host key verification failed|Received disconnect|(\S+: )?Permission denied \()",
    re.MULTILINE,
)


def no_record(_role: str, _argv: Sequence[str], _exit: int | None) -> None:
    """Command lines are not recorded."""


@dataclass(frozen=True)
class Connection:
    """How a host is reached: ``prefix`` is what is executed here before an argument list.

    ``quoted``: it takes one argument instead, which a shell there takes apart again (ssh). Every command inherits the
    ``descriptors``. ``remedy``: what to look at when the host cannot be reached.
    """

    name: str
    prefix: tuple[str, ...] = ()
    quoted: bool = False
    descriptors: tuple[int, ...] = ()
    remedy: str = ""

    def command(self, argv: Sequence[str]) -> list[str]:
        """The argument list to execute here so that ``argv`` runs there."""
        return [*self.prefix, shlex.join(argv)] if self.quoted else [*self.prefix, *argv]

    @property
    def where(self) -> str:
        """How a sentence about a program there begins; empty for this machine."""
        return f"{self.name}: " if self.prefix else ""


THIS_MACHINE = Connection("this machine")


@dataclass(frozen=True)
class ProcessOptions:
    """How a program is started: on which CPUs, in which cgroup, with which streams and further descriptors of ours.

    A stream is as ``subprocess`` takes it; None: our own. ``enter``: what else is done before it is executed.
    """

    cpus: tuple[int, ...] = ()
    group: Group | None = None
    stdin: int = subprocess.DEVNULL
    stdout: int = subprocess.DEVNULL
    stderr: int | None = subprocess.DEVNULL
    pass_fds: tuple[int, ...] = ()
    enter: Enter | None = None


PLAIN = ProcessOptions()
PIPED = ProcessOptions(stdin=subprocess.PIPE, stdout=subprocess.PIPE)


class ConnectedHost:
    """The host at the other end of ``connection``, whose files are this machine's; ``record`` is given each command.

    Errors are a ``GuestError`` that names the host, if it is another one.
    """

    connection: Connection
    record: CommandRecorder

    def __init__(self, connection: Connection = THIS_MACHINE, record: CommandRecorder = no_record) -> None:
        """Nothing is connected yet."""
        self.connection = connection
        self.record = record

    @property
    def name(self) -> str:
        """As messages and records name it."""
        return self.connection.name

    @property
    def environment(self) -> dict[str, str] | None:
        """What programs are started with; None: our own."""
        return None

    def run(
        self, argv: Sequence[str], role: str, deadline_seconds: float = RUN_SECONDS, stdin: bytes | None = None
    ) -> str:
        """Run a program there to its end and return its output as text."""
        return self.output(argv, role, deadline_seconds, stdin).decode(errors="replace")

    def output(
        self,
        argv: Sequence[str],
        role: str,
        deadline_seconds: float = RUN_SECONDS,
        stdin: bytes | BinaryIO | None = None,
    ) -> bytes:
        """Run a program there to its end and return its output; an open file as ``stdin`` is never in memory whole.

        ``CommandFailed`` with its complaint, ``ProgramMissing``, ``HostUnreachable``, or ``GuestError`` after the
        deadline, or where it says more than anybody asked for.
        """
        debug("run on %s, at most %g s: %s", self.name, deadline_seconds, argv)
        content, file = (stdin, None) if stdin is None or isinstance(stdin, bytes) else (None, stdin)
        try:
            finished = self._captured(argv, content, file, deadline_seconds)
        except OSError as error:
            raise self._not_started(argv, error) from error
        except subprocess.TimeoutExpired as error:
            self._record(role, argv, None)
            raise GuestError(
                f"{self.connection.where}'{' '.join(argv[:3])}' did not end within {deadline_seconds:g} s"
            ) from error
        except TooMuchOutput as error:
            self._record(role, argv, None)
            raise GuestError(
                f"{self.connection.where}'{' '.join(argv[:3])}' printed more than {MOST_OUTPUT_BYTES >> 20} MiB; see "
                "what is printed there before the program's own output"
            ) from error
        self._record(role, argv, finished.returncode)
        debug("ended with %d: %s", finished.returncode, argv[0])
        if finished.returncode != 0:
            raise self._failure(argv, finished)
        return finished.stdout

    def _captured(
        self, argv: Sequence[str], content: bytes | None, file: BinaryIO | None, deadline_seconds: float
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it to its end, or kill it."""
        with subprocess.Popen(
            self.connection.command(argv),
            stdin=subprocess.PIPE if file is None else file,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=self.connection.descriptors,
            env=self.environment,
            bufsize=0,
        ) as process:
            try:
                output, complained = communicate(process, content, deadline_seconds)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, output, complained)

    def spawn(self, argv: Sequence[str], role: str, options: ProcessOptions = PLAIN) -> subprocess.Popen[bytes]:
        """Start a program there in a session of its own, on its CPUs from its start on."""
        self._refuse_ours(argv, options)
        command = ["taskset", "--cpu-list", ",".join(map(str, options.cpus)), *argv] if options.cpus else list(argv)
        self._record(role, command, None)
        return self._popen(command, options)

    def put(self, path: Path) -> Path:
        """Make a file of this machine available there; returns where."""
        return path

    def _refuse_ours(self, argv: Sequence[str], options: ProcessOptions) -> None:
        """Cgroups and namespaces are a lab's to give; ``Lab`` does."""
        if options.group is not None or options.enter is not None:
            raise GuestError(f"{argv[0]}: cgroups and namespaces are for programs in the lab, not on {self.name}")
        if self.connection.prefix and options.pass_fds:
            raise GuestError(f"{argv[0]}: descriptors of this machine mean nothing on {self.name}")

    def _popen(self, argv: Sequence[str], options: ProcessOptions) -> subprocess.Popen[bytes]:
        debug("start on %s: %s", self.name, argv)
        try:
            return subprocess.Popen(
                self.connection.command(argv),
                stdin=options.stdin,
                stdout=options.stdout,
                stderr=options.stderr,
                pass_fds=(*options.pass_fds, *self.connection.descriptors),
                start_new_session=True,
                env=self.environment,
            )
        except OSError as error:
            raise self._not_started(argv, error) from error

    def _record(self, role: str, argv: Sequence[str], code: int | None) -> None:
        self.record(f"{role} on {self.name}" if self.connection.prefix else role, argv, code)

    def _not_started(self, argv: Sequence[str], error: OSError) -> GuestError:
        """A folder of PATH that may not be looked into makes what is missing look forbidden (execvp(3))."""
        program = self.connection.command(argv)[0]
        if not isinstance(error, FileNotFoundError | PermissionError):
            return GuestError(f"{program}: {error}")
        if isinstance(error, PermissionError) and shutil.which(program) is not None:
            return GuestError(f"{program}: this user may not run it; look at its permissions")
        if self.connection.prefix:
            return GuestError(f"{program}: not found on this machine; install it to reach {self.name}")
        return ProgramMissing(program, f"{program}: not found on this host; install it")

    def _failure(self, argv: Sequence[str], finished: subprocess.CompletedProcess[bytes]) -> GuestError:
        stdout, stderr = (stream.decode(errors="replace").strip() for stream in (finished.stdout, finished.stderr))
        lines = (stderr or stdout or "no message").splitlines()
        if self.connection.quoted and finished.returncode == _SSH_FAILED and _SSH_COMPLAINTS.search(stderr):
            return HostUnreachable(self.name, lines[-1].strip().rstrip(".")[:_MOST_COMPLAINT], self.connection.remedy)
        if self.connection.prefix and finished.returncode == _NOT_FOUND:
            return ProgramMissing(argv[0], f"{argv[0]}: not found on {self.name}; install it there")
        # Some say first what is wrong, and then where in their own source they found it out (VBoxManage).
        complaint = next((line for line in lines if ": error: " in line), lines[-1])[:_MOST_COMPLAINT]
        return CommandFailed(argv, finished.returncode, complaint, self.connection.where, stderr=stderr)
