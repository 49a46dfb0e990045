"""Folders and files that belong to one user: opened without following links, and used only if their owner and mode fit.

``open_folder`` and ``open_file`` open what this user alone may read and write. ``place_refusal`` looks at the folders
above, ``writers_refusal`` at who else may write to what all may read, and ``make_shown_folder`` makes such a folder.
Raises ``NotPrivate``, which names the path, its owner and what to do.

A check by name and a use by name are two moments, between which another user may put a link there. So files are
opened by name relative to the descriptor of a folder that was checked, and looked at by their own descriptor.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from functools import cache
from pathlib import Path
from typing import Final

from virtoll.errors import UsageError

_OTHERS: Final = 0o077
_OTHERS_WRITE: Final = 0o022
_IDENTITY: Final = ["0", "0", "4294967295"]  # user_namespaces(7): the map of a host's first namespace


class NotPrivate(UsageError):
    """A folder or file that another user may have made or may change; ``path`` names it, ``reason`` is the clause."""

    def __init__(self, path: str | Path, reason: str, remedy: str = "") -> None:
        """``remedy``: what to do, as the sentence ends."""
        super().__init__(f"{path} {reason}, so Virtoll does not use it{f'; {remedy}' if remedy else ''}")
        self.path = str(path)
        self.reason = reason


def open_folder(path: Path, remedy: str = "") -> int:
    """A descriptor of a folder that this user alone may use (mode 0700); its path is trusted up to its parent.

    Raises ``NotPrivate``; ``OSError`` if the folder is missing.
    """
    descriptor = _open(str(path), os.O_RDONLY | os.O_DIRECTORY, None, path, remedy)
    try:
        _check(os.fstat(descriptor), path, _OTHERS, remedy)
    except NotPrivate:
        os.close(descriptor)
        raise
    return descriptor


def open_file(name: str, folder: int, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file of this user's alone (mode 0600) in an opened folder, made with ``O_CREAT``.

    Raises ``NotPrivate``, also for a file with a second name (a hard link); ``OSError`` if it is missing.
    """
    path = path_of(name, folder)
    descriptor = _open(name, flags | os.O_NONBLOCK | os.O_NOCTTY, folder, path)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotPrivate(path, "is not a regular file")
        if status.st_nlink > 1:
            raise NotPrivate(path, "has a second name (a hard link)")
        _check(status, path, _OTHERS)
    except NotPrivate:
        os.close(descriptor)
        raise
    return descriptor


def read_file(name: str, folder: int, most_bytes: int) -> bytes:
    """All of such a file, nothing if it is missing; ``NotPrivate`` if it is larger than ``most_bytes``."""
    try:
        descriptor = open_file(name, folder)
    except FileNotFoundError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_size > most_bytes:
            raise NotPrivate(path_of(name, folder), f"is larger than {most_bytes} bytes")
        return file.read(most_bytes)


def place_refusal(path: Path) -> str | None:
    """Why nothing of this user's is safe at ``path``, whatever is there; None if it is.

    Each folder above must belong to this user or to root, and if all users may write to it, be sticky as ``/tmp`` is:
    otherwise another user may rename what is in it. What is missing is no reason.
    """
    parent = path.parent.resolve()
    for folder in (*reversed(parent.parents), parent):
        try:
            status = folder.stat()
        except OSError:
            return None
        if not is_trusted(status.st_uid):
            return f"is below {folder}, which belongs to {owner(status.st_uid)}"
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            return f"is below {folder}, in which every user may rename files (chmod +t {folder})"
    return None


def writers_refusal(path: Path) -> str | None:
    """Why what is in a folder may be another user's; None if only this user and root may write to it.

    All may read it. ``OSError`` if it is missing.
    """
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return "is a link"
    if not is_trusted(status.st_uid):
        return f"belongs to {owner(status.st_uid)}"
    if status.st_mode & _OTHERS_WRITE:
        return f"may be written to by others (mode {stat.S_IMODE(status.st_mode):04o}; chmod go-w {path})"
    return None


def path_of(name: str, folder: int) -> Path:
    """Where a file of an opened folder is, for a sentence."""
    return Path(f"/proc/self/fd/{folder}").readlink() / name


def make_shown_folder(path: Path) -> None:
    """Make a folder, with its parents, to which this user alone writes and which all may read (mode 0755).

    What is in a folder that others could write to may be theirs: such a folder of this user's is emptied first.
    ``NotPrivate`` if it belongs to somebody else or is a link; ``OSError``.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)  # whatever the umask
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode) or status.st_uid != os.geteuid():
        raise NotPrivate(path, writers_refusal(path) or f"belongs to {owner(status.st_uid)}")
    if status.st_mode & _OTHERS_WRITE:
        path.chmod(0o755)
        for entry in path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def is_trusted(uid: int) -> bool:
    """Whether a file's owner is this user or root, also as a user namespace shows the root outside of it."""
    return uid in (os.geteuid(), 0) or (uid == _unmapped() and _in_user_namespace())


def owner(uid: int) -> str:
    """A user for a sentence: by name if there is one, and number."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _open(name: str, flags: int, folder: int | None, path: str | Path, remedy: str = "") -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise NotPrivate(path, "is a link", remedy) from error
        if status.st_uid != os.geteuid():
            raise NotPrivate(path, f"belongs to {owner(status.st_uid)}", remedy) from error
        if folder is not None and not stat.S_ISREG(status.st_mode):
            raise NotPrivate(path, "is not a regular file", remedy) from error
        raise


def _check(status: os.stat_result, path: str | Path, forbidden: int, remedy: str = "") -> None:
    if status.st_uid != os.geteuid():
        raise NotPrivate(path, f"belongs to {owner(status.st_uid)}", remedy)
    if status.st_mode & forbidden:
        mode = stat.S_IMODE(status.st_mode)
        raise NotPrivate(path, f"is open to other users (mode {mode:04o})", remedy or f"chmod go-rwx {path}")


@cache
def _unmapped() -> int:
    """The owner that a user namespace shows for users whom it does not know (user_namespaces(7))."""
    return int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="ascii"))


def _in_user_namespace() -> bool:
    try:
        return Path("/proc/self/uid_map").read_text(encoding="ascii").split() != _IDENTITY
    except OSError:
        return False
