"""The state folder: where the records of this user's labs are, which no other user may read or write.

Main functions: ``state_directory`` (where it is), ``records`` (what is there), ``new_record`` (makes a record),
``labs_lock`` (among all labs of a user). The folder and each record in it are used only if they belong to this user,
are no links and are closed to others: the sweep of dead labs acts on what the records say. Below ``<state>/labs`` (mode
0700) each lab has a folder of its own.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from virtoll.errors import UsageError
from virtoll.system import locks
from virtoll.system.private import NotPrivate, open_folder, owner, place_refusal

VARIABLE: Final = "VIRTOLL_STATE"
LOCK_SECONDS: Final = 60.0
"""For what all labs of a user share, which each holds for a moment."""
_TRIES: Final = 50
"""To make a folder whose empty parents another run's sweep takes away meanwhile."""
_WRITE: Final = 0o022
_REMEDY: Final = f"set {VARIABLE} to a folder of your own, or have its owner or root remove this one"


def state_directory() -> Path:
    """Where the records are, whether or not the folder exists.

    $VIRTOLL_STATE, else /run/virtoll for root, else virtoll in $XDG_RUNTIME_DIR if that is this user's, else
    virtoll-<uid> in the temporary folder.
    """
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).absolute()
    if os.geteuid() == 0:
        return Path("/run/virtoll")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and _is_own(Path(runtime)):
        return Path(runtime) / "virtoll"
    return Path(tempfile.gettempdir()) / f"virtoll-{os.geteuid()}"


def records(pattern: str) -> list[Path]:
    """The folders of all labs' records, in order; none if the state folder does not exist. ``NotPrivate``."""
    labs = state_directory() / "labs"
    try:
        _check_state(labs.parent)
        _close(labs)
        return sorted(labs.glob(pattern))
    except FileNotFoundError:  # also if the last lab's end takes the empty folder away at this moment
        return []


def new_record(name: str, state: Path | None = None) -> Path:
    """Make the folder of a new record, with the folders above.

    ``state``: where the records are, without it ``state_directory``. Raises ``NotPrivate``; ``UsageError`` if it cannot
    be made.
    """
    labs = (state or state_directory()) / "labs"
    for _ in range(_TRIES):
        try:
            _make(labs)
            (labs / name).mkdir(mode=0o700)
        except FileNotFoundError as error:
            failure: OSError = error
        except OSError as error:
            raise _cannot_make(labs.parent, error) from error
        else:
            _check_owner(labs / name)
            return labs / name
    raise _cannot_make(labs.parent, failure) from failure


@contextlib.contextmanager
def labs_lock(labs: Path, name: str = "lock", seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """While no other process of the same state folder holds the lock; ``LockBusy`` names one that does not let go.

    ``labs``: the folder of all records, which is made if it is missing.
    """
    _make(labs)
    folder = open_folder(labs)
    try:
        with locks.held(name, folder, seconds):
            yield
    finally:
        os.close(folder)
        remove_empty(labs)


def remove_empty(labs: Path) -> None:
    """Remove the folder of all records, and the state folder, if nothing is in them."""
    for folder in (labs, labs.parent):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _make(labs: Path) -> None:
    state = labs.parent
    missing = [folder for folder in (state, *state.parents) if not folder.exists()]
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    _check_state(state)
    with contextlib.suppress(FileExistsError):
        labs.mkdir(mode=0o700)
    _check_owner(labs)
    _close(labs)


def _close(labs: Path) -> None:
    """Close the folder of all records to others, if they could read it; ``NotPrivate`` if they could write to it."""
    status = labs.lstat()
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & _WRITE:
        labs.chmod(0o700)
    os.close(open_folder(labs, _REMEDY))


def _check_state(state: Path) -> None:
    """``NotPrivate`` if another user made the state folder, or may change it; ``FileNotFoundError``.

    A user may have made it himself for all to read: what is below is closed.
    """
    if (refusal := place_refusal(state)) is not None:
        raise NotPrivate(state, refusal, _REMEDY)
    status = state.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise NotPrivate(state, "is a link", _REMEDY)
    if not stat.S_ISDIR(status.st_mode):
        raise NotPrivate(state, "is not a folder", _REMEDY)
    if status.st_uid != os.geteuid():
        raise NotPrivate(state, f"belongs to {owner(status.st_uid)}", _REMEDY)
    if status.st_mode & _WRITE:
        mode = stat.S_IMODE(status.st_mode)
        raise NotPrivate(state, f"may be written to by other users (mode {mode:04o})", _REMEDY)


def _check_owner(folder: Path) -> None:
    """``NotPrivate`` if a folder that was just made belongs to somebody else: a file system that maps users does so."""
    status = folder.lstat()
    if status.st_uid != os.geteuid():
        raise NotPrivate(
            folder,
            f"belongs to {owner(status.st_uid)} although you made it: its file system maps users (NFS root_squash)",
            f"set {VARIABLE} to a folder on a local disk",
        )


def _cannot_make(state: Path, error: OSError) -> UsageError:
    return UsageError(
        f"the state folder {state} cannot be made: {error.strerror or error}; set {VARIABLE} to a folder that you may "
        "write to"
    )


def _is_own(folder: Path) -> bool:
    """Whether a runtime folder is as the XDG Base Directory Specification wants it: this user's, and writable."""
    try:
        status = folder.stat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and os.access(folder, os.W_OK)
