"""A new folder while it is made: private, next to its later place, and locked, so that none that lives is swept.

Its name begins as all of its kind do. The lock (flock) is one that the kernel frees however the process ends: the next
one of the kind removes what a killed process left. Main functions: ``under_way``, ``sweep``. Must not: follow a link,
or touch another user's folder.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def under_way(place: Path, prefix: str) -> Iterator[Path]:
    """An empty folder in `place` whose name has this beginning, for this user alone; it is removed at the end. OSError.

    What an earlier process left there when it was killed is removed first.
    """
    for folder in sweep(place, prefix):
        shutil.rmtree(folder, ignore_errors=True)
    new, lock = _locked(place, prefix)
    try:
        yield new
    finally:
        os.close(lock)
        shutil.rmtree(new, ignore_errors=True)


def sweep(place: Path, prefix: str) -> Iterator[Path]:
    """This user's folders whose name has this beginning and that no process holds, each held meanwhile."""
    try:
        folders = sorted(place.iterdir())
    except OSError:  # a folder that may be written to, and not be read
        return
    for folder in (folder for folder in folders if folder.name.startswith(prefix)):
        try:
            lock = os.open(folder, _FLAGS)
        except OSError:  # a link, no folder, another user's, or gone
            continue
        try:
            if _is_free(lock):
                yield folder
        finally:
            os.close(lock)


def _is_free(lock: int) -> bool:
    if os.fstat(lock).st_uid != os.geteuid():
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _locked(place: Path, prefix: str) -> tuple[Path, int]:
    """A new folder and its lock: another process may sweep it before it is locked, and then there is a next one."""
    while True:
        new = place / f"{prefix}{secrets.token_hex(4)}"
        new.mkdir(0o700)
        with suppress(FileNotFoundError):
            lock = os.open(new, _FLAGS)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if new.exists():
                return new, lock
            os.close(lock)
