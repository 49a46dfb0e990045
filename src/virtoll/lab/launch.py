"""From outside into the lab: enters the namespaces, watches over them, leaves nothing.

The chain is launcher (the process that the user started) -> ``setpriv`` / ``unshare`` -> PID 1 of the lab (``init``) ->
the command. The command is the same ``virtoll`` command line again, now inside. Three nets catch a death:

1. a *lifeline*, a socket pair between launcher and PID 1. When the launcher dies, however it dies, PID 1 reads end of
   file and exits. The kernel then kills every process of its PID namespace; network, mounts and taps go with them;
2. the kernel's parent-death signal on ``setpriv`` and ``unshare``, for a launcher that dies before PID 1 listens;
3. a *janitor*, a small process in a session of its own, which waits until launcher and lab are gone and removes what
   can outlive a process (``residue``). It also does so after an ordinary end: one way out. It is there before the lab's
   record, which the launcher hands it with the lock. PID 1 hands it a pidfd of itself, which the kernel marks only when
   all of the PID namespace is dead. Nothing can make a folder after that.
"""

from __future__ import annotations

import contextlib
import os
import platform
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from virtoll.errors import LabError, VirtollError
from virtoll.lab import residue
from virtoll.lab.delegation import groups_parents
from virtoll.lab.interrupts import SIGNALS, handled_by
from virtoll.lab.outside import OUTSIDE_VARIABLE
from virtoll.lab.receiving import PINNER_VARIABLE, pin_for_lab
from virtoll.system.locks import LAUNCHER_VARIABLE
from virtoll.system.python import isolated

LAB_VARIABLE = "VIRTOLL_LAB"
_LEAST_KERNEL = (5, 10)
"""What all that is measured needs; what later kernels add (threaded NAPI, live frames) is done without there."""
_FORBIDDING = (
    ("user.max_user_namespaces", "0", "15000"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
)
"""Settings that keep ordinary users from namespaces: the value that does, and one that does not."""
_PRIVILEGED = "start this container with '--privileged'"
"""For a root that may not, and for a user whose system calls are filtered."""
_LAB_END_SECONDS = 180.0
_PROBE_SECONDS = 120.0
_RECORD_BYTES = 8192  # a path has at most 4096


def inside_lab() -> str | None:
    """The lab's id when this process runs inside one, else None.

    The variable alone is not believed: guests and bridges that were made outside a lab would be the host's own.
    """
    lab_id = os.environ.get(LAB_VARIABLE)
    try:
        first_process = Path("/proc/1/cmdline").read_bytes().split(b"\0")
    except OSError:  # a host's /proc may hide the processes of others (hidepid), and a lab's own does not
        return None
    return lab_id if b"virtoll.lab.init" in first_process else None


def sweep_dead_labs() -> list[str]:
    """Remove what labs left that ended without being swept; returns what was removed."""
    removed: list[str] = []
    for record in residue.dead_labs():
        removed += residue.sweep(record)
        removed.append(str(record.folder))
    return removed


def run_in_lab(
    arguments: Sequence[str], variables: Mapping[str, str] | None = None, descriptors: Sequence[int] = ()
) -> int:
    """Run ``virtoll ARGUMENTS`` inside a fresh lab and return its exit code (137 when it was killed).

    ``variables`` are added to its environment; ``descriptors`` are open in it under the same numbers.
    """
    sweep_dead_labs()
    ours, theirs = socket.socketpair()
    reported, reporter = socket.socketpair()
    with contextlib.ExitStack() as stack:
        give = stack.enter_context(_janitor(reported))
        for end in (ours, theirs, reporter):
            stack.enter_context(end)
        record, lock = residue.create_record()
        stack.callback(os.close, lock)
        give(record, lock)
        residue.note_controllers(record, groups_parents())
        folder = os.open(record.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, folder)
        outside = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, outside)
        lab_environment = {
            LAB_VARIABLE: record.lab_id,
            residue.RECORD_VARIABLE: str(folder),
            OUTSIDE_VARIABLE: str(outside),
        }
        lab_environment[LAUNCHER_VARIABLE] = str(os.getpid())
        environment = {**os.environ, **(variables or {}), **lab_environment}
        ends = (theirs.fileno(), reporter.fileno())
        kept = [*ends, lock, folder, outside, *descriptors]
        if os.geteuid() == 0:
            pinner = stack.enter_context(_pinner(record))
            environment[PINNER_VARIABLE] = str(pinner.fileno())
            kept.append(pinner.fileno())
        command = [*_namespace_command(), *isolated("virtoll.lab.init", *map(str, ends), *arguments)]
        process = subprocess.Popen(command, pass_fds=kept, env=environment, start_new_session=True)
        theirs.close()
        reporter.close()
        return _supervise(process, ours)


@contextlib.contextmanager
def _pinner(record: residue.LabRecord) -> Iterator[socket.socket]:
    """The lab's end of a connection to a thread of this process that pins kernel threads for it."""
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    thread = threading.Thread(target=pin_for_lab, args=(ours, record.folder.parent), daemon=True)
    with theirs:
        # A signal that the kernel gave to this thread would not interrupt the main one, which waits for the lab.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield theirs


def _namespace_command() -> list[str]:
    """``setpriv`` and ``unshare`` with the namespaces of a lab; a user namespace only when not root."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    namespaces = ["--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
    return ["setpriv", "--pdeathsig", "KILL", "--", "unshare", *user, *namespaces, "--propagation", "private", "--"]


def other_system() -> str | None:
    """Why nothing is measured on this machine's operating system, in one sentence; None where that is Linux."""
    system = platform.system()
    return None if system == "Linux" else f"guests are started on Linux, and this is {system}; run Virtoll on Linux"


def newer_kernel_needed(release: str) -> str | None:
    """What to do where a kernel of this release (as ``uname -r`` has it) is too old; None where it is not."""
    numbers = tuple(int(part) for part in release.split("-", maxsplit=1)[0].split(".")[:2] if part.isdigit())
    least = ".".join(map(str, _LEAST_KERNEL))
    return f"boot a kernel of Linux {least} or newer" if numbers < _LEAST_KERNEL else None


def probe_namespaces() -> str | None:
    """Why a lab cannot be made here, or None when it can: found out by making one."""
    if (other := other_system()) is not None:
        return other
    command = [*_namespace_command(), "ip", "link", "set", "lo", "up"]
    try:
        finished = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_SECONDS, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the namespaces of the lab could not be made: {error}"
    if finished.returncode == 0:
        return None
    detail = (finished.stderr.strip().splitlines() or ["no message"])[-1]
    return f"the namespaces of the lab could not be made ({detail}); {how_to_allow_namespaces()}"


def how_to_allow_namespaces(proc: Path = Path("/proc")) -> str:
    """What to do where namespaces cannot be made: what this kernel says of itself, below ``proc``, decides."""
    if os.geteuid() == 0:
        return _PRIVILEGED
    if not (proc / "self/ns/user").exists():
        return "this kernel has no user namespaces (CONFIG_USER_NS), so run as root"
    for setting, forbids, allow in _FORBIDDING:
        with contextlib.suppress(OSError):
            if (proc / "sys" / setting.replace(".", "/")).read_text(encoding="ascii").strip() == forbids:
                return f"allow user namespaces, as root: sysctl -w {setting}={allow}"
    with contextlib.suppress(OSError):
        if "\nSeccomp:\t2\n" in (proc / "self/status").read_text(encoding="utf-8", errors="replace"):
            return _PRIVILEGED
    return "run as root"


@contextlib.contextmanager
def _janitor(reported: socket.socket) -> Iterator[Callable[[residue.LabRecord, int], None]]:
    """A process that outlives everything of the lab by a moment; what is given hands it the lab's record and its lock.

    In its own session, so that no group kill takes it along. Started before there is a record: whenever the launcher is
    killed from then on, somebody sweeps. Where the janitor itself was killed, this process does at the end.
    ``reported`` is the descriptor by which PID 1 informs it.
    """
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with ours:
        with theirs, reported:
            process = subprocess.Popen(
                janitor_command(theirs.fileno(), reported.fileno()),
                pass_fds=(theirs.fileno(), reported.fileno()),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                env=os.environ,
            )
        try:
            yield lambda record, lock: hand_over(ours, record, lock)
        finally:
            ours.close()
            if process.wait() < 0:
                _sweep(None)


def janitor_command(launcher: int, reported: int) -> list[str]:
    """The argument list of a janitor, with the descriptors by which launcher and PID 1 inform it."""
    return isolated("virtoll.lab.launch", str(launcher), str(reported))


def hand_over(janitor: socket.socket, record: residue.LabRecord, lock: int) -> None:
    """Tell the janitor which record is its own, and give it a share of the lock."""
    socket.send_fds(janitor, [os.fsencode(f"{record.lab_id} {record.folder}")], [lock])


def _supervise(process: subprocess.Popen[bytes], lifeline: socket.socket) -> int:
    """Wait for the lab; pass a terminal's interrupt, and requests to end, on to it exactly once each."""

    def forward(number: int, _frame: FrameType | None) -> None:
        try:
            lifeline.send(b"I" if number == signal.SIGINT else b"T")
        except OSError:
            return

    last_word = b""
    with lifeline, handled_by(forward):
        process.wait()
        lifeline.setblocking(False)
        with contextlib.suppress(OSError):
            last_word = lifeline.recv(1)
    # Only PID 1's own word counts: what 'unshare' exits with after a kill differs from version to version.
    if not last_word or last_word[0] == 128 + signal.SIGKILL:
        raise LabError("the lab was killed; what was finished is stored: continue it with 'virtoll resume'")
    return last_word[0]


def janitor_main(launcher: int, reported: int) -> int:
    """Wait until the launcher is gone (its socket ends) and the lab too, then sweep.

    Holds the record's lock until it exits. A launcher that died before it handed a record over may have made one, which
    nobody holds then. It is found among those of dead labs.
    """
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    record = _wait_for_launcher_end(socket.socket(fileno=launcher))
    _wait_for_lab_end(socket.socket(fileno=reported))
    return _sweep(record)


def _sweep(record: residue.LabRecord | None) -> int:
    """Remove what a lab left, or all dead ones without a record; 1 where something stays busy, which stderr says."""
    try:
        if record is None:
            sweep_dead_labs()
        else:
            residue.sweep(record)
    except (OSError, VirtollError) as error:
        print(f"virtoll: {error}; 'virtoll clean' tries again", file=sys.stderr)
        return 1
    return 0


def _wait_for_launcher_end(launcher: socket.socket) -> residue.LabRecord | None:
    """The record that it handed over, whose lock stays open in this process; None where it did not come so far."""
    record = None
    while True:
        message, _, _, _ = socket.recv_fds(launcher, _RECORD_BYTES, 1)
        if not message:
            return record
        lab_id, _, folder = os.fsdecode(message).partition(" ")
        record = residue.LabRecord(lab_id, Path(folder))


def _wait_for_lab_end(reported: socket.socket) -> None:
    """Wait for the death of PID 1, by the pidfd that it sent, and so of all that lived in its namespace.

    A stream that ends without one: PID 1 never came to life, and neither did anything below it.
    """
    _, descriptors, _, _ = socket.recv_fds(reported, 1, 1)
    for descriptor in descriptors:
        select.select([descriptor], [], [], _LAB_END_SECONDS)


if __name__ == "__main__":
    sys.exit(janitor_main(int(sys.argv[1]), int(sys.argv[2])))
