"""A folder that is made anew at once or not at all: whoever reads it finds the old one or the new one, and both whole.

The new one is made beside the old one and synced. It takes the place in one step of the kernel (Linux renameat2 with
RENAME_EXCHANGE). What an earlier try left when it was killed is removed; a try that is under way holds a lock
(flock), which the kernel takes from it however it ends. Main function: `renewed`.
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from virtoll.runfolder.placing import put, sync_tree
from virtoll.runfolder.sums import UNDER_WAY

_OLD: Final = "-old"
_LAST: Final = "index.html"  # what a reader opens


@contextmanager
def renewed(target: Path) -> Iterator[Path]:
    """An empty folder, which is `target` when the context ends; where it ends by an exception, nothing has changed.

    Where `target` holds what the new one has not (a file of somebody else), or nothing may be written beside it, each
    entry takes its predecessor's place by itself, and the page is the last. OSError where it cannot be written.
    """
    target = target.resolve()
    beside = _place_for(target)
    _clear(beside, target.name)
    new = beside / f"{_prefix(target.name)}{secrets.token_hex(4)}"
    new.mkdir()
    lock = os.open(new, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield new
        sync_tree(new)
        if beside == target or _holds_more(target, new):
            for one in sorted(new.iterdir(), key=lambda path: path.name == _LAST):
                _put(one, target / one.name)
        else:
            _put(new, target)
    finally:
        os.close(lock)
        shutil.rmtree(new, ignore_errors=True)


def _place_for(target: Path) -> Path:
    """The folder that the new one is made in: where `target` is, or itself."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and (target.is_mount() or not os.access(target.parent, os.W_OK)):
        return target
    return target.parent


def _prefix(name: str) -> str:
    return f".{name}{UNDER_WAY}"


def _clear(folder: Path, name: str) -> None:
    """Remove what others began and will not end; an old one that was set aside for one that never came is back."""
    for old in folder.glob(f"{_escaped(_prefix(name))}*"):
        try:
            lock = os.open(old, os.O_RDONLY)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if old.name.endswith(_OLD) and not (folder / name).exists():
                old.rename(folder / name)
            shutil.rmtree(old, ignore_errors=True)
        except BlockingIOError:
            pass  # under way
        finally:
            os.close(lock)


def _escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _holds_more(target: Path, new: Path) -> bool:
    if not target.exists():
        return False
    return bool({one.name for one in target.iterdir()} - {one.name for one in new.iterdir()})


def _put(new: Path, target: Path) -> None:
    """In the other's place, which then is in its own: at once, or by steps where the file system cannot."""
    old = new.with_name(f"{new.name}{_OLD}")
    put(new, target, aside=old)
    if old.exists():
        old.rename(new)
