"""What can outlive every process of a lab: cgroup folders, files on disk, PCI devices of machines, and what a product
holds. Recorded before they are made or taken, swept afterwards.

Each lab has a record, a folder ``<state>/labs/<lab id>`` (``state``) with a lock file that is held (flock) by the
launcher, the lab and the janitor. As long as one of them lives, nobody else sweeps it. All cgroup folders of a lab are
below one folder, named after the lab, in each hierarchy, and so are its files on the disk. So the lab's name alone is
their record, and it exists before any of them. PCI devices and clean-ups (``cleanups``) are recorded one by one in
files of that folder, which the lab reaches by a descriptor only. It has a /run of its own.

What a record says is data, and is checked again when it is read: it names only cgroup folders, PCI addresses and
clean-ups of its own lab.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from virtoll.errors import GuestError
from virtoll.lab import cleanups, state
from virtoll.lab.disks import DISKS
from virtoll.lab.vfio import PCI_ADDRESS, PciBus
from virtoll.system.private import NotPrivate, open_file, open_folder, read_file

RECORD_VARIABLE = "VIRTOLL_LAB_RECORD"  # the number of a descriptor of the record's folder, inside the lab
LAB_ID = re.compile(r"^virtoll-[0-9a-f]{12}$")
_NAMED = re.compile(r"^(virtoll-[0-9a-f]{12})-.")
CGROUP_ROOT = Path("/sys/fs/cgroup")
_LOCK = "lock"
_DEVICES = "vfio.jsonl"
_CLEANUPS = "cleanups.jsonl"
_CONTROLLERS = "controllers.jsonl"
_MOST_BYTES = 2**20  # of each of these files: a lab writes some lines
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Of a kernel's driver, or of a cgroup controller."""
_COMMAND_SECONDS = 180.0
_SWEEP_DEADLINE_SECONDS = 60.0


def lab_named_in(name: str) -> str | None:
    """The id of the lab that the name of something in a product begins with; None where it is not a lab's."""
    match = _NAMED.match(name)
    return match[1] if match is not None else None


@dataclass(frozen=True)
class LabRecord:
    """A lab on this host: its id (``virtoll-`` and 12 hex digits) and its folder."""

    lab_id: str
    folder: Path


def create_record(place: Path | None = None) -> tuple[LabRecord, int]:
    """Make the record of a new lab and lock it; ``place``: the state folder, without it the user's.

    Returns it with the lock's file descriptor (inheritable by the caller's choice). Raises ``UsageError``.
    """
    while True:
        lab_id = f"virtoll-{os.urandom(6).hex()}"
        folder = state.new_record(lab_id, place)
        try:
            descriptor = _open(folder, _LOCK, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            continue  # another run's sweep took it for dead before it was locked
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if (folder / _LOCK).exists():
            return LabRecord(lab_id, folder), descriptor
        os.close(descriptor)


def record_folders() -> list[Path]:
    """The folders of all labs' records of this user, in order."""
    return [folder for folder in state.records("virtoll-*") if LAB_ID.match(folder.name)]


def dead_labs() -> Iterator[LabRecord]:
    """The records whose lock nobody holds: labs that ended without being swept. Each is locked while it is out.

    A folder that is not this user's alone is no record.
    """
    for folder in record_folders():
        try:
            descriptor = _open(folder, _LOCK, os.O_RDWR | os.O_CREAT)
        except (OSError, NotPrivate):
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield LabRecord(folder.name, folder)
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)


def _open(folder: Path, name: str, flags: int) -> int:
    """A descriptor of a record's file; ``NotPrivate`` and ``OSError``."""
    opened = open_folder(folder)
    try:
        return open_file(name, opened, flags)
    finally:
        os.close(opened)


def note_whole(name: str, folder: int, content: dict[str, Any]) -> None:
    """Inside a lab: make a file of its record, by the descriptor of the record's folder; it is there whole or not."""
    descriptor = open_file(f"{name}.new", folder, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.rename(f"{name}.new", name, src_dir_fd=folder, dst_dir_fd=folder)


def read_entry(folder: Path, name: str) -> dict[str, Any] | None:
    """What ``note_whole`` wrote into a record's folder; None if it is not there, or not this user's alone."""
    try:
        return next(_lines(folder, name), None)
    except (NotPrivate, OSError):
        return None


def _lines(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """The entries of a record's file; a last line that a crash cut off is left out. ``NotPrivate``."""
    try:
        opened = open_folder(folder)
    except FileNotFoundError:
        return
    try:
        content = read_file(name, opened, _MOST_BYTES)
    finally:
        os.close(opened)
    for line in content.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            entry = json.loads(line)
            if isinstance(entry, dict):
                yield entry


def note_device(address: str, driver: str | None) -> None:
    """Inside a lab: write down that a PCI device is about to be taken from its driver; on disk when this returns."""
    _note(_DEVICES, {"address": address, "driver": driver}, f"vfio: {address} cannot be taken")


def note_command(argv: Sequence[str]) -> int:
    """Inside a lab: a clean-up to run once the lab has ended, newest first; the number to withdraw it by.

    ``GuestError`` for a command that is not in ``cleanups``.
    """
    number = time.monotonic_ns()
    try:
        name, arguments = cleanups.recorded(argv)
    except ValueError as error:
        raise GuestError(str(error)) from error
    entry = {"id": number, "cleanup": name, "arguments": arguments}
    _note(_CLEANUPS, entry, f"'{' '.join(argv[:3])}' cannot be promised")
    return number


def drop_command(number: int) -> None:
    """Withdraw what ``note_command`` noted."""
    _note(_CLEANUPS, {"id": number, "cleanup": None}, "a command cannot be withdrawn")


def noted_commands(folder: Path, lab_id: str) -> list[list[str]]:
    """The clean-ups that a lab noted in its record's folder and did not withdraw, newest first, as argument lists."""
    noted: dict[int, list[str] | None] = {}
    for entry in _lines(folder, _CLEANUPS):
        match entry:
            case {"id": int(number), "cleanup": None}:
                noted[number] = None
            case {"id": int(number), "cleanup": str(name), "arguments": [*arguments]}:
                noted[number] = cleanups.command(name, list(map(str, arguments)), lab_id)
    return [argv for _, argv in sorted(noted.items(), reverse=True) if argv is not None]


def _note(file: str, entry: dict[str, Any], otherwise: str) -> None:
    """Append a line to a file of the lab's record; on disk when this returns."""
    folder = os.environ.get(RECORD_VARIABLE)
    if folder is None:
        raise GuestError(f"{otherwise}: this lab has no record that would undo it")
    _append(file, int(folder), entry)


def _append(file: str, folder: int, entry: dict[str, Any]) -> None:
    descriptor = open_file(file, folder, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, (json.dumps(entry) + "\n").encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def noted_devices(folder: Path) -> list[tuple[str, str | None]]:
    """Address and driver of each device that a lab noted, the first note of each: what came first was the host's."""
    noted: dict[str, str | None] = {}
    for entry in _lines(folder, _DEVICES):
        match entry:
            case {"address": str(address), "driver": str() | None as driver}:
                if re.fullmatch(PCI_ADDRESS, address) and (driver is None or _NAME.fullmatch(driver)):
                    noted.setdefault(address, driver)
    return list(noted.items())


def note_controllers(record: LabRecord, folders: Sequence[Path]) -> None:
    """Write down which controllers these folders of cgroup v2 hand on before the lab makes its own below one of them.

    The sweep of the last lab takes back what came, also by runtimes, which hand on all that there are.
    """
    with state.labs_lock(record.folder.parent):
        for folder in folders:
            before = (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
            _note_controllers(record.folder, folder, before)


def _note_controllers(record: Path, folder: Path, before: Sequence[str]) -> None:
    opened = open_folder(record)
    try:
        _append(_CONTROLLERS, opened, {"folder": str(folder), "before": list(before)})
    finally:
        os.close(opened)


def _noted_controllers(record: Path) -> dict[Path, set[str]]:
    """By folder of v2, the controllers that it handed on before labs came, as a lab's record has it."""
    noted: dict[Path, set[str]] = {}
    for entry in _lines(record, _CONTROLLERS):
        match entry:
            case {"folder": str(name), "before": [*controllers]} if _is_cgroup(Path(name)):
                before = set(map(str, controllers))
                noted[Path(name)] = noted.get(Path(name), before) & before
    return noted


def _is_cgroup(folder: Path) -> bool:
    """Whether a path is one of a folder of cgroup v2, and leads nowhere else."""
    return folder.is_relative_to(CGROUP_ROOT) and folder.resolve().is_relative_to(CGROUP_ROOT.resolve())


def _give_controllers_back(record: LabRecord) -> list[str]:
    """What a folder of v2 handed on before is handed on again, and no more; what others came to use stays.

    While other labs are there, what is known goes to the record of one of them.
    """
    if not record.folder.is_dir():
        return []
    with state.labs_lock(record.folder.parent):
        noted = _noted_controllers(record.folder)
        files = sorted(record.folder.parent.glob(f"virtoll-*/{_CONTROLLERS}"))
        others = [file.parent for file in files if file.parent != record.folder]
        back = []
        for folder, before in noted.items():
            if others:
                _note_controllers(others[0], folder, sorted(before))
            else:
                back += [f"controller {name} of {folder}" for name in _taken_back(folder, before)]
        (record.folder / _CONTROLLERS).unlink(missing_ok=True)
    return back


def _taken_back(folder: Path, before: set[str]) -> Iterator[str]:
    file = folder / "cgroup.subtree_control"
    for name in file.read_text(encoding="ascii").split() if file.is_file() else ():
        if name not in before:
            with contextlib.suppress(OSError):  # EBUSY: a group of somebody else's hands it on by now
                file.write_text(f"-{name}", encoding="ascii")
                yield name


def cgroup_folders(lab_id: str, root: Path = CGROUP_ROOT, more: Sequence[Path] = ()) -> list[Path]:
    """The lab's folder in each cgroup hierarchy where it is there (v1: one a controller; v2: one).

    ``more``: other folders that it may be in.
    """
    if not LAB_ID.match(lab_id):
        return []
    hierarchies = [root, *(path for path in root.iterdir() if path.is_dir())] if root.is_dir() else []
    parents = dict.fromkeys([*hierarchies, *more])
    return [parent / lab_id for parent in parents if (parent / lab_id).is_dir()]


def disk_folder(lab_id: str, disks: Path = DISKS) -> Path:
    """Where a lab's files on the host's disk go; ``ValueError`` for what is no lab's id."""
    if not LAB_ID.match(lab_id):
        raise ValueError(f"{lab_id!r} is no lab's id")
    return disks / lab_id


def sweep(record: LabRecord, pci: PciBus | None = None) -> list[str]:
    """Remove what the lab left; returns what was removed. Raises ``OSError`` when a folder stays busy for a minute."""
    delegated = list(_noted_controllers(record.folder))
    removed = [str(folder) for folder in cgroup_folders(record.lab_id, more=delegated)]
    for folder in removed:
        _remove_cgroup(Path(folder))
    removed += _give_controllers_back(record)
    for argv in noted_commands(record.folder, record.lab_id):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMMAND_SECONDS, check=False)
        removed.append(f"what '{' '.join(argv)}' removes")
    # After the guests that a product has held: a program in one may write to its data directory to the last.
    removed += _remove_files(record.lab_id)
    for address, driver in noted_devices(record.folder):
        (pci or PciBus()).give_back(address, driver)
        removed.append(f"PCI device {address}, back to {driver or 'no driver'}")
    if record.folder.is_dir():
        shutil.rmtree(record.folder, ignore_errors=True)
    state.remove_empty(record.folder.parent)
    return removed


def _remove_files(lab_id: str) -> list[str]:
    """Remove the lab's files on the disk; what another user has put in their place is left alone."""
    folder = disk_folder(lab_id) if LAB_ID.match(lab_id) else None
    if folder is None or not folder.is_dir() or folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        return []
    shutil.rmtree(folder, ignore_errors=True)
    return [str(folder)]


def _remove_cgroup(folder: Path) -> None:
    """Remove a cgroup folder and those below it, deepest first; a group empties when the kernel has reaped its dead."""
    deadline = time.monotonic() + _SWEEP_DEADLINE_SECONDS
    for current, _, _ in os.walk(folder, topdown=False):
        while True:
            try:
                Path(current).rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)  # the kernel gives no event for "group empty" on cgroup v1
