"""Whether a run folder is still its writer's: over NFS a host that was cut off loses its locks, and another takes over.

The writer puts a word of its own into the file that it holds a lock of, with its process and its host. Before each
change it looks whether the word is still there. Main functions: `claim`, `refuse_taken_over`. Must not: take the lock,
or wait. Folders are descriptors.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from virtoll.errors import StorageError
from virtoll.system.locks import shown_pid

WRITER: Final = ".writer"
"""The file by which a process holds a folder (`writer.writing`): there while it does, and no part of the run."""
_MOST_BYTES: Final = 512  # of a word, a process's number and a host's name
_words: dict[tuple[int, int], bytes] = {}  # of this process: device and inode of a folder -> its word
_shared: set[tuple[int, int]] = set()  # of these, those on a disk that other hosts may share


def claim(folder: int, held: int, *, shared: bool) -> None:
    """Write a word into the locked file of a folder, and which process of which host this is. OSError.

    ``shared``: whether other hosts may share the disk.
    """
    word = f"{secrets.token_hex(16)} {shown_pid()} {os.uname().nodename}\n".encode()
    os.ftruncate(held, 0)
    os.pwrite(held, word, 0)
    os.fsync(held)
    _words[_key(folder)] = word
    if shared:
        _shared.add(_key(folder))


def claimed_by(held: int) -> tuple[int, str] | None:
    """The process and the host that wrote their word into a folder's file; None where they do not stand there."""
    parts = os.pread(held, _MOST_BYTES, 0).decode("utf-8", errors="replace").split()
    return (int(parts[1]), parts[2]) if len(parts) == 3 and parts[1].isdecimal() else None


def give_up(folder: int) -> bool:
    """Forget the folder's word; whether its file is this process's to remove: nobody else wrote another into it."""
    kept = not is_claimed(folder) or _is_kept(folder)  # none: the disk had no room for it
    _words.pop(_key(folder), None)
    _shared.discard(_key(folder))
    return kept


def is_claimed(folder: int) -> bool:
    """Whether this process is the folder's writer, or was until another took it over."""
    return bool(_words) and _key(folder) in _words


def is_shared(folder: int) -> bool:
    """Whether this process is the folder's writer, and other hosts may share its disk."""
    return _key(folder) in _shared


def refuse_taken_over(folder: int, shown: Path) -> None:
    """StorageError where this process was the folder's writer and another one is now; OSError."""
    if is_claimed(folder) and not _is_kept(folder):
        raise StorageError(
            f"{shown}: another process has taken this run over, since this host was cut off from its disk. "
            "It goes on there; nothing more is written here."
        )


def _is_kept(folder: int) -> bool:
    try:
        file = os.open(WRITER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return False
    try:
        return os.read(file, _MOST_BYTES) == _words.get(_key(folder))
    finally:
        os.close(file)


def _key(folder: int) -> tuple[int, int]:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino
