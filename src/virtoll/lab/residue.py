"""What can outlive every process of a lab: cgroup folders, files on disk, PCI devices of machines, and what a product
holds. Recorded before they are made or taken, swept afterwards.

Each lab has a folder ``<state>/labs/<lab id>`` with a lock file that is held (flock) by the launcher, the lab and the
janitor. As long as one of them lives, nobody else sweeps it. All cgroup folders of a lab are below one folder, named
after the lab, in each hierarchy, and so are its files on the disk. So the lab's name alone is their record, and it
exists before any of them. PCI devices are noted one by one in a file of that folder, which the lab reaches by a
descriptor only. It has a /run of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from virtoll.errors import GuestError
from virtoll.lab.disks import DISKS
from virtoll.lab.vfio import PciBus

RECORD_VARIABLE = "VIRTOLL_LAB_RECORD"  # the number of a descriptor of the record's folder, inside the lab
LAB_ID = re.compile(r"^virtoll-[0-9a-f]{12}$")
_NAMED = re.compile(r"^(virtoll-[0-9a-f]{12})-.")
CGROUP_ROOT = Path("/sys/fs/cgroup")
_DEVICES = "vfio.jsonl"
_COMMANDS = "commands.jsonl"
_CONTROLLERS = "controllers.jsonl"
_COMMAND_SECONDS = 180.0
_SWEEP_DEADLINE_SECONDS = 60.0


def lab_named_in(name: str) -> str | None:
    """The id of the lab that the name of something in a product begins with; None where it is not a lab's."""
    found = _NAMED.match(name)
    return found[1] if found is not None else None


@dataclass(frozen=True)
class LabRecord:
    """A lab on this host: its id (``virtoll-`` and 12 hex digits) and its folder."""

    lab_id: str
    folder: Path


def state_directory() -> Path:
    """Where the records stand.

    $VIRTOLL_STATE, else /run/virtoll for root, else $XDG_RUNTIME_DIR or a private folder in /tmp.
    """
    if chosen := os.environ.get("VIRTOLL_STATE"):
        return Path(chosen)
    if os.geteuid() == 0:
        return Path("/run/virtoll")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime) / "virtoll"
    return Path(tempfile.gettempdir()) / f"virtoll-{os.geteuid()}"


def create_record(state: Path | None = None) -> tuple[LabRecord, int]:
    """Make the record of a new lab and lock it; ``state``: where the records stand, without it `state_directory`.

    Returns it with the lock's file descriptor (inheritable by the caller's choice).
    """
    while True:
        lab_id = f"virtoll-{os.urandom(6).hex()}"
        folder = (state or state_directory()) / "labs" / lab_id
        try:
            folder.mkdir(parents=True, mode=0o700)
            descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # another run's sweep took the empty parents away at this moment
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if (folder / "lock").exists():
            return LabRecord(lab_id, folder), descriptor
        os.close(descriptor)  # another run's sweep took it for dead before it was locked


def record_folders() -> list[Path]:
    """The folders of all labs' records, in order; none where the last lab's end takes their empty parent away."""
    try:
        return sorted((state_directory() / "labs").glob("virtoll-*"))
    except FileNotFoundError:  # between glob's look at the parent and its reading of it
        return []


def dead_labs() -> Iterator[LabRecord]:
    """The records whose lock nobody holds: labs that ended without being swept. Each is locked while it is out."""
    for folder in record_folders():
        try:
            descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield LabRecord(folder.name, folder)
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)


def note_device(address: str, driver: str | None) -> None:
    """Inside a lab: write down that a PCI device is about to be taken from its driver; on disk when this returns."""
    _note(_DEVICES, {"address": address, "driver": driver}, f"vfio: {address} cannot be taken")


def note_command(argv: Sequence[str]) -> int:
    """Inside a lab: a program that is to be run once the lab has ended, newest first; the number to withdraw it by."""
    number = time.monotonic_ns()
    _note(_COMMANDS, {"id": number, "argv": list(argv)}, f"'{' '.join(argv[:3])}' cannot be promised")
    return number


def drop_command(number: int) -> None:
    """Withdraw what ``note_command`` noted."""
    _note(_COMMANDS, {"id": number, "argv": None}, "a command cannot be withdrawn")


def noted_commands(folder: Path) -> list[list[str]]:
    """What a lab noted and did not withdraw, newest first."""
    file = folder / _COMMANDS
    found: dict[int, list[str] | None] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        with contextlib.suppress(ValueError):
            noted = json.loads(line)
            found[noted["id"]] = noted["argv"]
    return [argv for _, argv in sorted(found.items(), reverse=True) if argv is not None]


def _note(file: str, entry: dict[str, Any], otherwise: str) -> None:
    """Append a line to a file of the lab's record; on disk when this returns."""
    folder = os.environ.get(RECORD_VARIABLE)
    if folder is None:
        raise GuestError(f"{otherwise}: this lab has no record that would undo it")
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(file, flags, 0o600, dir_fd=int(folder))
    try:
        os.write(descriptor, (json.dumps(entry) + "\n").encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def noted_devices(folder: Path) -> list[tuple[str, str | None]]:
    """Address and driver of each device that a lab noted, the first note of each: what came first was the host's."""
    file = folder / _DEVICES
    found: dict[str, str | None] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        with contextlib.suppress(ValueError):  # a last line that was cut off by a crash: nothing was taken yet
            noted = json.loads(line)
            found.setdefault(noted["address"], noted["driver"])
    return list(found.items())


def note_controllers(record: LabRecord, folders: Sequence[Path]) -> None:
    """Write down which controllers these folders of cgroup v2 hand on before the lab makes its own below one of them.

    The sweep of the last lab takes back what came, also by runtimes, which hand on all that there are.
    """
    with _lock_of(record):
        for folder in folders:
            before = (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
            _add(record.folder / _CONTROLLERS, {"folder": str(folder), "before": before})


def _add(file: Path, entry: dict[str, Any]) -> None:
    with file.open("a", encoding="utf-8") as written:
        written.write(json.dumps(entry) + "\n")


@contextlib.contextmanager
def _lock_of(record: LabRecord) -> Iterator[None]:
    """While no other lab of the same state folder notes controllers or gives them back."""
    descriptor = os.open(record.folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _noted_controllers(folder: Path) -> dict[Path, set[str]]:
    """By folder of v2, the controllers that it handed on before labs came, as a lab's record has it."""
    file = folder / _CONTROLLERS
    found: dict[Path, set[str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        with contextlib.suppress(ValueError):
            noted = json.loads(line)
            before = set(noted["before"])
            found[Path(noted["folder"])] = found.get(Path(noted["folder"]), before) & before
    return found


def _give_controllers_back(record: LabRecord) -> list[str]:
    """What a folder of v2 handed on before is handed on again, and no more; what others came to use stays.

    While other labs are there, what is known goes to the record of one of them.
    """
    if not record.folder.is_dir():
        return []
    with _lock_of(record):
        noted = _noted_controllers(record.folder)
        others = [
            one for one in sorted(record.folder.parent.glob(f"virtoll-*/{_CONTROLLERS}")) if one.parent != record.folder
        ]
        back = []
        for folder, before in noted.items():
            if others:
                _add(others[0], {"folder": str(folder), "before": sorted(before)})
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
    for argv in noted_commands(record.folder):
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
    for parent in (record.folder.parent, record.folder.parent.parent):
        with contextlib.suppress(OSError):
            parent.rmdir()
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
