"""How Virtoll opens what is in a run folder, which may hold anything: plain files and folders, and no link.

A link, a device, a pipe, or a file with several names (hard links) would have Virtoll change what stands elsewhere. The
path that the user gave may be a link; nothing below it is followed: each name is opened relative to the open folder
above it. Main type: ``Place``. Main functions: ``entries`` and ``refuse_unplain`` (the whole folder, before a command
writes into it or copies it), ``place`` (one name below it), ``open_new``, ``open_appended``, ``open_changed``,
``open_lock``, ``reader``. Raises ``RunFolderError`` for what is not plain, else ``OSError``.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Final

from virtoll.errors import RunFolderError
from virtoll.system.private import owner

MOST_PARTS: Final = 16
"""Of the path of a file below a run folder; runs have four."""
FILE_MODE: Final = 0o664  # with the umask: who may write besides the group is never said by it
FOLDER_MODE: Final = 0o775
LOCK_MODE: Final = 0o600  # who may open a file may lock it
_TRIES: Final = 100  # to open a lock that others remove meanwhile
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def entries(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below a folder, by its path there; RunFolderError at the first that is not a plain file or folder.

    What other processes remove meanwhile is left out.
    """
    descriptor = os.open(folder, _FOLDER)
    try:
        yield from _entries(descriptor, folder, ())
    finally:
        os.close(descriptor)


def refuse_unplain(folder: Path) -> None:
    """RunFolderError, which names the entry, where a folder holds anything but plain files and folders."""
    try:
        for _ in entries(folder):
            pass
    except OSError as error:
        raise RunFolderError(
            f"{folder}: cannot be looked through ({error.strerror or error}); let yourself read all that is in it"
        ) from error


def _entries(descriptor: int, top: Path, above: tuple[str, ...]) -> Iterator[tuple[str, os.stat_result]]:
    if len(above) >= MOST_PARTS:
        raise RunFolderError(f"{top.joinpath(*above)}: is {MOST_PARTS} folders deep, as no run is; remove it")
    with os.scandir(descriptor) as listing:
        names = sorted(entry.name for entry in listing)
    for name in names:
        parts = (*above, name)
        try:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            _refuse(status, top.joinpath(*parts))
            yield "/".join(parts), status
            if not stat.S_ISDIR(status.st_mode):
                continue
            below = _open_folder(name, descriptor, top.joinpath(*parts))
        except FileNotFoundError:
            continue
        try:
            yield from _entries(below, top, parts)
        finally:
            os.close(below)


def _refuse(status: os.stat_result, shown: Path) -> None:
    """RunFolderError for what is neither a folder nor a file with one name."""
    if stat.S_ISDIR(status.st_mode):
        return
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        raise RunFolderError(
            f"{shown}: has a second name elsewhere (a hard link), and both would change; use a copy of the folder "
            "('cp -r')"
        )
    if not stat.S_ISREG(status.st_mode):
        what = "a link" if stat.S_ISLNK(status.st_mode) else "a device or a pipe"
        raise RunFolderError(f"{shown}: is {what}, and a run folder holds plain files and folders only; remove it")


@dataclass(frozen=True)
class Place:
    """A name in an open folder below an open run folder; both are descriptors. `path`: for sentences."""

    root: int
    folder: int
    name: str
    path: Path


@contextmanager
def place(path: Path, root: Path | None = None) -> Iterator[Place]:
    """The place of `path` below the run folder `root` (default: the folder that it stands in); OSError.

    RunFolderError where a folder between both is a link.
    """
    root = path.parent if root is None else root
    between = path.parent.relative_to(root).parts
    opened = [os.open(root, _FOLDER)]
    try:
        for number, name in enumerate(between, 1):
            opened.append(_open_folder(name, opened[-1], root.joinpath(*between[:number])))
        yield Place(opened[0], opened[-1], path.name, path)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def make_folders(path: Path, root: Path) -> None:
    """Make a folder below a run folder, with those between where they are missing, and make their names durable."""
    for number in range(1, len(path.relative_to(root).parts) + 1):
        with place(root.joinpath(*path.relative_to(root).parts[:number]), root) as at:
            try:
                os.mkdir(at.name, FOLDER_MODE, dir_fd=at.folder)
            except FileExistsError:
                os.close(_open_folder(at.name, at.folder, at.path))
            else:
                os.fsync(at.folder)


def open_new(at: Place, mode: int = FILE_MODE) -> int:
    """A file that is made now, to be written: what has the name is removed first."""
    with suppress(FileNotFoundError):
        os.unlink(at.name, dir_fd=at.folder)
    return os.open(at.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, mode, dir_fd=at.folder)


def open_appended(at: Place) -> int:
    """A file to read and append to, which is made where it is missing."""
    return _plain(at, os.O_RDWR | os.O_APPEND | os.O_CREAT)


def open_changed(at: Place) -> int:
    """A file that is there, to read and change."""
    return _plain(at, os.O_RDWR)


def reader(path: Path, root: Path) -> BufferedReader:
    """A file below a run folder, to be read."""
    with place(path, root) as at:
        return os.fdopen(_plain(at, os.O_RDONLY), "rb")


def open_lock(at: Place) -> int:
    """A file of this user's that only this user may lock, which is made where it is missing; to read and write.

    RunFolderError where another user made it, or it is no plain file.
    """
    for _ in range(_TRIES):
        with suppress(FileExistsError):
            return os.open(at.name, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, LOCK_MODE, dir_fd=at.folder)
        try:
            _refuse_others(os.stat(at.name, dir_fd=at.folder, follow_symlinks=False), at.path)
            descriptor = _plain(at, os.O_RDWR)
        except FileNotFoundError:  # who held it has removed it meanwhile
            continue
        try:
            _refuse_others(os.fstat(descriptor), at.path)
            os.fchmod(descriptor, LOCK_MODE)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor
    raise BlockingIOError


def _refuse_others(status: os.stat_result, shown: Path) -> None:
    """RunFolderError where a lock's file is no plain file, or another user's."""
    _refuse(status, shown)
    if stat.S_ISDIR(status.st_mode):
        raise RunFolderError(f"{shown}: is a folder, and must be a file by which Virtoll locks; remove it")
    if status.st_uid != os.geteuid():
        raise RunFolderError(
            f"{shown}: belongs to {owner(status.st_uid)}; wait until that user's process ends, or remove the file if "
            "there is no such process"
        )


def _plain(at: Place, flags: int) -> int:
    try:
        descriptor = os.open(at.name, flags | _FLAGS, FILE_MODE, dir_fd=at.folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket or a device without a driver
            _refuse(os.stat(at.name, dir_fd=at.folder, follow_symlinks=False), at.path)
        raise
    try:
        _refuse(os.fstat(descriptor), at.path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open_folder(name: str, folder: int, shown: Path) -> int:
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            _refuse(os.stat(name, dir_fd=folder, follow_symlinks=False), shown)
        raise
