"""What a list of runs shows of one, without a record of its trials being made; and whether a process still writes it.

Main types: ``Overview``, ``Head``. Main functions: ``overview``, ``head``, ``created_ns``, ``run_name``, ``writing``,
``is_written``.

Who writes a run folder holds a lock (flock) of the folder itself, which the kernel takes away with the process. So a
run whose state is ``running`` and whose folder nobody holds was killed. A lock of a folder is its own host's: over NFS
no other host sees it. So there is a second one, of the file ``.writer`` in it, which a file system that is shared
shares too. Whoever ends takes the file away; one that a killed writer left is taken over.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from virtoll.errors import RunFolderError, StorageError
from virtoll.runfolder.jsonlines import MOST_LINE_BYTES, loads, make_folder
from virtoll.runfolder.moments import LAST_MOMENT_NS, as_moment
from virtoll.runfolder.opened import open_file, read_whole
from virtoll.runfolder.taken_over import WRITER, claim, give_up

_CREATED = re.compile(rb'"created_realtime_ns": ?(\d+)[,\s}]')
_NAME = re.compile(rb'"run": ?"([\w.-]+)"')
_TRIAL = re.compile(rb'\{"trial": ?(\d+),')
_HEAD_BYTES = 4096
_TRIES = 100  # to hold a file that others take away meanwhile: each of them had it, and has ended


@dataclass(frozen=True)
class Overview:
    """One run: `state` is ``running``, ``killed``, ``interrupted`` or ``complete``.

    `finished` and `planned` are numbers of trials, warm-ups among them. `created_ns` is of the host's realtime clock.
    """

    experiment: str
    state: str
    finished: int
    planned: int
    created_ns: int
    host: str


def overview(folder: Path) -> Overview:
    """A run as a list shows it; RunFolderError where its manifest or state is damaged.

    Trials are counted by their numbers at the beginnings of whole lines.
    """
    manifest = _json(folder / "manifest.json")
    try:
        return Overview(
            experiment=str(manifest["experiment"]["name"]),
            state=state_now(folder),
            finished=_finished(folder / "trials.jsonl"),
            planned=len(manifest["plan"]["trials"]),
            created_ns=as_moment(manifest["created_realtime_ns"]),
            host=str(manifest["host"]["fingerprint"])[:12],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunFolderError(f"{folder}/manifest.json is damaged ({error!r}); restore it.") from error


@dataclass(frozen=True)
class Head:
    """Which run a folder holds, without its trials; `host` is the manifest's."""

    run: str
    experiment: str
    state: str
    created_ns: int
    host: Mapping[str, Any]


def head(folder: Path) -> Head:
    """What tells runs apart; RunFolderError where the manifest or state is damaged."""
    manifest = _json(folder / "manifest.json")
    try:
        return Head(
            run=str(manifest["run"]),
            experiment=str(manifest["experiment"]["name"]),
            state=state_now(folder),
            created_ns=as_moment(manifest["created_realtime_ns"]),
            host={"fingerprint": manifest["host"]["fingerprint"], **manifest["host"]},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunFolderError(f"{folder}/manifest.json is damaged ({error!r}); restore it.") from error


def state_now(folder: Path) -> str:
    """The state, ``killed`` where it is ``running`` and nobody writes; RunFolderError where it cannot be read."""
    state = _state(folder)
    if state == "running" and not is_written(folder):
        state = _state(folder)  # who ended meanwhile has written how before the lock was free
        return "killed" if state == "running" else state
    return state


def created_ns(folder: Path) -> int:
    """When the run was created, by its manifest's first bytes; 0 where these do not tell it."""
    try:
        with open_file(folder / "manifest.json") as file:
            found = _CREATED.search(file.read(_HEAD_BYTES))
    except OSError:
        return 0
    return int(found[1]) if found and int(found[1]) <= LAST_MOMENT_NS else 0


def run_name(folder: Path) -> str:
    """The run's own name, by its manifest's first bytes; the folder's where these do not tell it."""
    try:
        with open_file(folder / "manifest.json") as file:
            found = _NAME.search(file.read(_HEAD_BYTES))
    except OSError:
        return folder.name
    return found[1].decode() if found else folder.name


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Hold the folder, which is made where it is missing, as its only writer; one that stayed empty is removed again.

    Another process may be on another host that shares the disk. RunFolderError where one does, or the folder cannot be
    made; StorageError where it cannot be written, or its disk has no locks.
    """
    try:
        new = not folder.exists()
        make_folder(folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise RunFolderError(
            f"cannot make {folder}: {error.strerror or error}. Choose a folder that can be written."
        ) from error
    held: int | None = None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = _held_for_all_hosts(descriptor)
            claim(descriptor, held)
        except (BlockingIOError, FileNotFoundError) as error:  # the latter: it has ended, and taken an empty one away
            raise RunFolderError(f"{folder}: a process writes this run now; wait for its end, or end it") from error
        except OSError as error:
            raise StorageError(
                f"cannot lock {folder}: {error.strerror or error}. Choose a folder on a disk that can be written and "
                "has locks."
            ) from error
        yield
    finally:
        if held is not None:
            with suppress(OSError):
                if give_up(descriptor):
                    os.unlink(WRITER, dir_fd=descriptor)  # wherever the folder is by now
            os.close(held)
        if new:
            with suppress(OSError):  # it holds a run
                folder.rmdir()
        os.close(descriptor)


def is_written(folder: Path) -> bool:
    """Whether a process holds the folder as its writer; asked by locks that are free again at once."""
    return _is_locked(folder, os.O_DIRECTORY) or _is_locked(folder / WRITER)


def _held_for_all_hosts(folder: int) -> int:
    """The descriptor of the file that is locked; BlockingIOError where another process has it."""
    for _ in range(_TRIES):
        descriptor = os.open(WRITER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644, dir_fd=folder)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(descriptor, folder):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # who had it has taken it away meanwhile
    raise BlockingIOError


def _is_there(descriptor: int, folder: int) -> bool:
    """Whether a file that is locked is still the one of its name."""
    try:
        own, named = os.fstat(descriptor), os.stat(WRITER, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE):
            return False
        raise
    return own.st_nlink > 0 and (own.st_dev, own.st_ino) == (named.st_dev, named.st_ino)


def _is_locked(path: Path, flags: int = 0) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _state(folder: Path) -> str:
    if not os.path.lexists(folder / "state.json"):  # a link that leads nowhere is damage
        return "interrupted"
    state = _json(folder / "state.json").get("state")
    if state not in ("running", "interrupted", "complete"):
        raise RunFolderError(f"{folder}/state.json is damaged: no such state {state!r}; 'virtoll resume' replaces it.")
    return str(state)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = loads(read_whole(path))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path} is damaged or cannot be read ({error}); restore it.") from error
    if not isinstance(found, dict):
        raise RunFolderError(f"{path} is damaged: it is no JSON object; restore it.")
    return found


def _finished(path: Path) -> int:
    """How many trials have a whole line; one that was repeated counts once."""
    try:
        with open_file(path) as file:
            lines = iter(partial(file.readline, MOST_LINE_BYTES), b"")
            heads = (_TRIAL.match(line) for line in lines if line.endswith(b"\n"))
            return len({head[1] for head in heads if head})
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise RunFolderError(f"cannot read {path}: {error.strerror or error}.") from error
