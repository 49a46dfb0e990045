"""A new run folder that takes an old one's place at once: whoever reads it finds the old one or the new, both whole.

The new one is made beside the old one. The kernel exchanges both in one step (Linux renameat2 with RENAME_EXCHANGE); a
file system that cannot (NFS) has two renames, between which a kill leaves both whole beside the place, under their
names, and the next ``placed`` takes the old one back. What a killed one left is removed. Main functions: ``placed``,
``put``, ``sync_tree``, ``remove_emptied``.

The caller holds the place as its only writer (`overview.writing`).
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from virtoll.errors import RunFolderError, StorageError
from virtoll.runfolder.jsonlines import sync_directory
from virtoll.runfolder.sums import UNDER_WAY

_HERE = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE
_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def placed(target: Path) -> Iterator[Path]:
    """An empty folder that is `target` when the context ends; where it ends by an exception, nothing has changed.

    StorageError naming the folder where it cannot be written.
    """
    new, old = _draft_names(target)
    for left in (new, old):
        if left.is_symlink():
            raise RunFolderError(f"{left}: is a link, and a folder that Virtoll makes goes there; remove it")
    try:
        shutil.rmtree(new, ignore_errors=True)
        if old.exists() and not (target / "manifest.json").exists():
            put(old, target, aside=new)
            shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
        new.mkdir(parents=True)
        yield new
        sync_tree(new)
        put(new, target, aside=old)
    except OSError as error:
        raise StorageError(
            f"cannot write {target}: {error.strerror or error}. What was there is whole; make room, then merge again."
        ) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
        if (target / "manifest.json").exists():
            shutil.rmtree(old, ignore_errors=True)


def exchanged(folder: Path, other: Path) -> bool:
    """Put each of two folders in the other's place at once; False where the file system cannot, and OSError."""
    if _libc.renameat2(_HERE, os.fsencode(folder), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    if ctypes.get_errno() in _CANNOT:
        return False
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(other))


def remove_emptied(target: Path) -> None:
    """Remove what `placed` could not: NFS keeps a file while it is open, such as the lock of the old folder."""
    for name in _draft_names(target):
        with suppress(OSError):  # it is not there, or another's that has begun
            name.rmdir()


def _draft_names(target: Path) -> tuple[Path, Path]:
    """Where the new one is made, and where the old one is meanwhile."""
    return target.with_name(f".{target.name}{UNDER_WAY}merge"), target.with_name(f".{target.name}.old-merge")


def put(new: Path, target: Path, aside: Path) -> None:
    """In the other's place, which then is in its own, or aside where the file system cannot exchange; OSError."""
    if not target.exists():
        new.rename(target)
    elif not exchanged(new, target):
        target.rename(aside)
        try:
            new.rename(target)
        except OSError:
            aside.rename(target)
            raise
    sync_directory(target.parent)


def sync_tree(folder: Path) -> None:
    """Make durable what a folder holds, before it takes another's place; OSError."""
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_directory(path)
        else:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    sync_directory(folder)
