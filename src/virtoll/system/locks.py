"""A lock among the processes of one user: waiting for it is bounded, and names who holds it.

Main functions: ``held``, ``locked_within`` for a file that others may open, and ``turn``, for all users of a host. The
lock (flock) of ``held`` is on a file of mode 0600 in a folder of this user's, so that no other user can take it. The
kernel frees it when its holder dies, however that happens. The holder writes its pid into the file and removes the file
at the end.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from virtoll.errors import VirtollError
from virtoll.system.private import open_file, path_of

LAUNCHER_VARIABLE: Final = "VIRTOLL_LAUNCHER"
"""In a lab, whose processes have numbers of their own: the number of the process outside that started it."""
_LOOK_SECONDS = 0.02
OF_ALL_USERS: Final = "/"
"""What every process on a host sees, may open, and leaves as it was: a folder that is locked for a while."""


class LockBusy(VirtollError):
    """Another process held a lock for longer than was waited; ``pid`` is its number, None if it is unknown."""

    def __init__(self, path: Path, pid: int | None, seconds: float) -> None:
        """``path``: the lock's file; ``seconds``: how long it was waited for."""
        holder = f"process {pid} ({_program(pid)})" if pid is not None else "another process"
        super().__init__(f"{path} is held by {holder} for more than {seconds:g} s; wait for its end, or end it")
        self.pid = pid


@contextlib.contextmanager
def held(
    name: str, folder: int, seconds: float, waiting: Callable[[int | None], object] = lambda _: None
) -> Iterator[None]:
    """Hold the lock ``name`` in an opened folder; wait at most ``seconds`` for it.

    ``waiting`` is called once, with the holder's pid, if the lock is not free at once. Raises ``LockBusy``,
    ``NotPrivate`` and ``OSError``.
    """
    end = time.monotonic() + seconds
    while (descriptor := _taken(name, folder)) is None:
        pid = _holder(name, folder)
        waiting(pid)
        waiting = _nothing
        if time.monotonic() > end:
            raise LockBusy(path_of(name, folder), pid, seconds)
        time.sleep(_LOOK_SECONDS)  # the kernel gives no event for a lock with a deadline
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{shown_pid()}\n".encode(), 0)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
        os.close(descriptor)


def shown_pid() -> int:
    """This process's number as the host's other processes see it; in a lab its launcher's, by which it can be ended."""
    launcher = os.environ.get(LAUNCHER_VARIABLE, "")
    return int(launcher) if launcher.isdecimal() else os.getpid()


def locked_within(descriptor: int, seconds: float) -> bool:
    """Lock an opened file (flock) that others may lock too; False if it is not free within so many seconds."""
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                return False
        time.sleep(_LOOK_SECONDS)


@contextlib.contextmanager
def turn(seconds: float) -> Iterator[bool]:
    """Of the processes on this host that take turns, this one is next; False if it waited so many seconds in vain."""
    descriptor = os.open(OF_ALL_USERS, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield locked_within(descriptor, seconds)
    finally:
        os.close(descriptor)


def _nothing(_pid: int | None) -> None:
    """It was said once."""


def _taken(name: str, folder: int) -> int | None:
    """The descriptor of the file, once it is locked; None if another process holds it."""
    descriptor = open_file(name, folder, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(name, dir_fd=folder, follow_symlinks=False)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass  # the latter: its holder removed it at this moment
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _holder(name: str, folder: int) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        descriptor = open_file(name, folder)
        with os.fdopen(descriptor, "rb") as file:
            return int(file.read(32))
    return None


def _program(pid: int) -> str:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        return ascii(b" ".join(words[:6]).decode(errors="replace"))[1:-1]
    return "its program is not visible"
