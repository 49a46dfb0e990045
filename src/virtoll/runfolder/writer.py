"""Who writes a run folder: one process at a time, on all hosts that share its disk.

The writer holds a lock (flock) of the file ``.writer`` in the folder, which the kernel takes away with the process. So
a run whose state is ``running`` and whose file nobody holds was killed. The file has the mode 0600: a user who may only
read the run cannot hold it, and stops nobody. Who ends removes the file; one that a killed writer left is taken over.
Main functions: ``writing``, ``is_written``, ``writer_words``.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from virtoll.errors import RunFolderError, StorageError
from virtoll.runfolder.jsonlines import make_folder
from virtoll.runfolder.plain import Place, open_lock, place, refuse_unplain
from virtoll.runfolder.taken_over import WRITER, claim, claimed_by, give_up

_LOCKS: Final = Path("/proc/locks")
_MOUNTS: Final = Path("/proc/self/mountinfo")
_LOCAL: Final = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
_TRIES: Final = 100  # to hold a file that others remove meanwhile: each of them had it, and has ended


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Hold the folder, which is made where it is missing, as its only writer; one that stayed empty is removed again.

    Another process may be on another host that shares the disk. RunFolderError where one does, where the folder holds
    anything but plain files and folders, or where it cannot be made; StorageError where it cannot be written, or its
    disk has no locks.
    """
    with ExitStack() as stack:
        try:
            if not folder.exists():
                stack.callback(_remove_emptied, folder)
            make_folder(folder)
            refuse_unplain(folder)
            at = stack.enter_context(place(folder / WRITER))
        except OSError as error:
            raise RunFolderError(
                f"cannot use {folder}: {error.strerror or error}. Choose a folder that can be written."
            ) from error
        try:
            held = _held(at)
            stack.callback(_end, at, held)
            claim(at.root, held, shared=_file_system(os.fstat(at.root)) not in _LOCAL)
        except FileNotFoundError as error:  # another process has ended, and removed a folder that stayed empty
            raise _refusal(folder, "") from error
        except OSError as error:
            raise StorageError(
                f"cannot lock {folder}: {error.strerror or error}. Choose a folder on a disk that can be written and "
                "has locks."
            ) from error
        yield


def refuse_written(folder: Path) -> None:
    """RunFolderError where a process holds the folder as its writer: before a lab is made, in which no process of the
    host has a number.
    """
    if (words := writer_words(folder)) is not None:
        raise _refusal(folder, words)


def is_written(folder: Path) -> bool:
    """Whether a process holds the folder as its writer."""
    return writer_words(folder) is not None


def writer_words(folder: Path) -> str | None:
    """Which process holds the folder as its writer, such as " (process 12 of this host)"; None: none does.

    Empty where it is not known which. Asked by a lock that is free again at once. A reader who may not open the
    writer's file finds its lock in /proc/locks, which shows those of this host; where the disk may be another host's
    too, the state is believed, and a file that is there counts as held.
    """
    file = folder / WRITER
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except PermissionError:
        return _words_from_outside(file)
    except OSError:
        return None
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None


def _held(at: Place) -> int:
    """The descriptor of the file, which is locked; RunFolderError where another process has it."""
    for _ in range(_TRIES):
        descriptor = open_lock(at)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(descriptor, at):
                return descriptor
        except BlockingIOError as error:
            words = _holder(descriptor)
            os.close(descriptor)
            raise _refusal(at.path.parent, words) from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # who had it has removed it meanwhile
    raise _refusal(at.path.parent, "")


def _end(at: Place, held: int) -> None:
    """Remove the file and free it."""
    with suppress(OSError):
        if give_up(at.root):
            os.unlink(at.name, dir_fd=at.root)  # wherever the folder is by now
    os.close(held)


def _remove_emptied(folder: Path) -> None:
    with suppress(OSError):  # it holds a run
        folder.rmdir()


def _refusal(folder: Path, words: str) -> RunFolderError:
    return RunFolderError(f"{folder}: a process writes this run now{words}; wait for its end, or end it")


def _is_there(descriptor: int, at: Place) -> bool:
    """Whether a file that is locked is still the one of its name."""
    try:
        locked, named = os.fstat(descriptor), os.stat(at.name, dir_fd=at.folder, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE):
            return False
        raise
    return locked.st_nlink > 0 and (locked.st_dev, locked.st_ino) == (named.st_dev, named.st_ino)


def _holder(descriptor: int) -> str:
    """Who holds a locked file, in brackets: by the kernel's list where it is of this host, else by the file's word."""
    if (here := _locking(os.fstat(descriptor))) is not None:
        return f" (process {here} of this host)"
    claimed = claimed_by(descriptor)
    return "" if claimed is None else f" (process {claimed[0]} of {claimed[1]})"


def _words_from_outside(file: Path) -> str | None:
    """As `writer_words`, of a file that this user may not open."""
    try:
        status = file.lstat()
        if not stat.S_ISREG(status.st_mode):
            return None
        if (here := _locking(status)) is not None:
            return f" (process {here} of this host)"
        return None if _file_system(status) in _LOCAL else ""
    except OSError:
        return None


def _locking(status: os.stat_result) -> int | None:
    """The process of this host that holds a lock (flock) of a file; None where none does, or it cannot be seen.

    The kernel lists the device of the file system, which of some (btrfs) is not the one of its files.
    """
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    locks = []
    with suppress(OSError):
        for line in _LOCKS.read_text(encoding="ascii", errors="replace").splitlines():
            fields = line.split()
            if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].endswith(f":{status.st_ino}"):
                locks.append((fields[5].startswith(device), int(fields[4])))
    pids = [pid for _, pid in sorted(locks, reverse=True) if pid > 0]
    return pids[0] if pids else None


def _file_system(status: os.stat_result) -> str:
    """The kind of the file system that a file is in; empty where it is not known."""
    device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
    for line in _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines():
        fields = line.split()
        if fields[2] == device and "-" in fields:
            return fields[fields.index("-") + 1]
    return ""
