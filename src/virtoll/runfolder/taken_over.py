"""Whether a run folder is still its writer's: over NFS a host that was cut off loses its locks, and another takes over.

The writer puts a word of its own into the file that it holds a lock of. Before each change it looks whether the word is
still there. Main functions: `claim`, `refuse_taken_over`. Must not: take the lock, or wait.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from virtoll.errors import StorageError

WRITER: Final = ".writer"
"""The file by which a process holds a folder (`overview.writing`): there while it does, and no part of the run."""
_words: dict[tuple[int, int], bytes] = {}  # of this process: device and inode of a folder -> its word


def claim(folder: int, held: int) -> None:
    """Write a word into the locked file of a folder; both by descriptors. OSError."""
    word = secrets.token_hex(16).encode()
    os.ftruncate(held, 0)
    os.pwrite(held, word, 0)
    os.fsync(held)
    _words[_key(os.fstat(folder))] = word


def give_up(folder: int) -> bool:
    """Forget the folder's word; whether its file is this process's to remove: nobody else wrote another into it."""
    key = _key(os.fstat(folder))
    kept = key not in _words or _is_kept(key, folder)  # none: the disk had no room for it
    _words.pop(key, None)
    return kept


def is_claimed(folder: Path) -> bool:
    """Whether this process is the folder's writer, or was until another took it over."""
    try:
        return bool(_words) and _key(folder.stat()) in _words
    except FileNotFoundError:
        return False


def refuse_taken_over(folder: Path) -> None:
    """StorageError where this process was the folder's writer and another one is now; OSError."""
    if not is_claimed(folder):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not _is_kept(_key(os.fstat(descriptor)), descriptor):
            raise StorageError(
                f"{folder}: another process has taken this run over, since this host was cut off from its disk. "
                "It goes on there; nothing more is written here."
            )
    finally:
        os.close(descriptor)


def _is_kept(key: tuple[int, int], folder: int) -> bool:
    try:
        file = os.open(WRITER, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return False
    try:
        return os.read(file, 64) == _words.get(key)
    finally:
        os.close(file)


def _key(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
