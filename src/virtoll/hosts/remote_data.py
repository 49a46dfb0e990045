"""Room for workloads' files on the disk of another host: a folder, or a disk in a file that has a name there.

Each is in a folder of its own below ``/var/tmp``, which the host removes should the connection end. What is left by a
host that was switched off meanwhile, ``remove_leftovers`` removes. Main type: ``RemoteVolume``. It must not know a
platform or a workload.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from virtoll.errors import GuestError, ProgramMissing
from virtoll.hosts.base import CommandRunner, GuestHost
from virtoll.lab.data import DataBy, DataVolume, disk_bytes, file_system_among, make_file_system, why_no_room
from virtoll.lab.disks import DISKS
from virtoll.lab.residue import lab_named_in

_SECONDS = 600.0  # gigabytes are written back, or removed
_SUFFIX = "-data-"
_numbers = itertools.count(1)


@dataclass(kw_only=True)
class RemoteVolume(DataVolume):
    """``place`` is its folder on ``host``, ``disk_path`` the file in it; ``agent`` looks into the page cache there."""

    host: GuestHost
    agent: Path
    place: Path
    withdraw: Callable[[], None]
    disk_path: Path | None = None

    def resident(self) -> int:
        """By the agent there."""
        return self._page_cache()

    def evict(self) -> int:
        """By the agent there, file by file."""
        return self._page_cache("--evict")

    def remove(self) -> None:
        """Remove its folder; where that fails it is tried once more when the connection ends."""
        with contextlib.suppress(GuestError):
            self.host.run(["rm", "-rf", "--", str(self.place)], "data directory", _SECONDS)
            self.withdraw()

    def _page_cache(self, *options: str) -> int:
        argv = [str(self.agent), "page-cache", *options, str(self.place)]
        return int(self.host.run(argv, "data directory", _SECONDS))


def make_remote(host: GuestHost, agent: Path, by: DataBy, size_bytes: int, promised_bytes: int) -> RemoteVolume:
    """An empty folder or disk there; ``promised_bytes``: what other guests may still fill.

    ``GuestError`` where room is short, or no file system can be made.
    """
    needed = size_bytes if by == "folder" else disk_bytes(size_bytes)
    blocks, block_bytes = host.run(["stat", "-f", "-c", "%a %S", str(DISKS)], "data directory").split()
    if (refusal := why_no_room(DISKS, int(blocks) * int(block_bytes), needed + promised_bytes)) is not None:
        raise GuestError(f"{host.name}: {refusal}")
    place = DISKS / f"{host.lab_id}{_SUFFIX}{next(_numbers)}"
    host.run(["mkdir", "-m", "0700", "--", str(place)], "data directory")
    withdraw = host.guard(["rm", "-rf", "--", str(place)])
    kind = file_system_among(host.run(["cat", "/proc/self/mountinfo"], "data directory"), place)
    made = RemoteVolume(size_bytes, kind, host=host, agent=agent, place=place, withdraw=withdraw)
    try:
        if by == "folder":
            made.folder = place / "data"
            host.run(["mkdir", "-m", "0755", "--", str(made.folder)], "data directory")
        else:
            made.disk_path = place / "disk"
            host.run(["truncate", "-s", str(needed), str(made.disk_path)], "data disk")
            host.run(make_file_system(made.disk_path), "data disk", _SECONDS)
    except GuestError as error:
        made.remove()
        remedy = " (Debian's package e2fsprogs)" if isinstance(error, ProgramMissing) else ""
        raise GuestError(f"a data {by} could not be made: {error}{remedy}") from error
    return made


def remove_leftovers(host: CommandRunner, alive: frozenset[str], disks: Path = DISKS) -> list[str]:
    """Remove the rooms there of labs that are not among ``alive`` (their ids); what was removed. Nothing else."""
    removed = []
    for name in host.run(["ls", "-1", "--", str(disks)], "clean").splitlines():
        lab = lab_named_in(name)
        if lab is not None and lab not in alive and name.startswith(f"{lab}{_SUFFIX}"):
            host.run(["rm", "-rf", "--", str(disks / name)], "clean", _SECONDS)
            removed.append(f"data directory {disks / name}")
    return removed
