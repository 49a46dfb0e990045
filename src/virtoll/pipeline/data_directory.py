"""The data directory of a guest: made before it starts, emptied before each trial, its state reported.

Main types: ``DataKeeper``, ``find_data_volume``. Each trial finds the folder empty, everything written to the disk, and
nothing of the folder's files in a page cache: not the guest's, nor the host's. Only those files are taken out of them
(``POSIX_FADV_DONTNEED``). To drop all caches of the host, as ``vm.drop_caches`` does, would cost everything else that
runs there. It would make the programs of guests on the host's kernel cold and of no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from virtoll.agent.client import Caller
from virtoll.agent.operations.programs import DataReply, DataRequest
from virtoll.errors import GuestError
from virtoll.experiment.model import Parameters
from virtoll.lab.data import DataVolume
from virtoll.platforms.base import DATA_PATH, Platform
from virtoll.platforms.host import Site
from virtoll.workloads.base import DataDirectory

_DEADLINE_SECONDS = 900.0  # an emulated guest removes thousands of files, or writes gigabytes back


@dataclass
class DataKeeper:
    """``flushes``: whether what the guest syncs is synced on the host too."""

    guest: Caller
    volume: DataVolume
    flushes: bool = True

    def empty(self) -> DataDirectory:
        """Remove all that is in it and have everything written back; what a workload learns of it."""
        answer = self._ask(empty=True, evict=True)
        self.volume.evict()
        return DataDirectory(DATA_PATH, answer.file_system, self.reach)

    def state(self, evict: bool) -> dict[str, Any]:
        """What is in it and in the page caches now; with ``evict`` after all was written back and forgotten.

        ``page_cache``: *cold* where nothing of its files is in memory; *warm on the host* where the guest has nothing,
        and the host something of the guest's disk, which may be the file system's own blocks; *cold in the guest* where
        its host does not tell. A guest without a disk of its own has the host's page cache, and may report more than it
        knows (as gVisor does); it is not asked.
        """
        answer = self._ask(empty=False, evict=evict)
        on_host = self.volume.evict() if evict else self.volume.resident()
        in_guest = answer.resident_bytes if self.volume.folder is None else None
        cold = "cold" if on_host is not None else "cold in the guest"
        kept = "warm on the host" if on_host and in_guest == 0 else "warm" if on_host or in_guest else cold
        return {
            "path": DATA_PATH,
            "file_system": answer.file_system,
            "host_file_system": self.volume.file_system,
            "reach": self.reach,
            "page_cache": kept,
            "resident_in_guest_bytes": in_guest,
            "resident_on_host_bytes": on_host,
            "files": answer.files,
            "file_bytes": answer.file_bytes,
            "free_bytes": answer.free_bytes,
        }

    @property
    def reach(self) -> str:
        """How far a write that was synced gets."""
        if not self.volume.on_disk:
            return f"the host's memory ({self.volume.file_system})"
        return (
            f"the host's disk ({self.volume.file_system})" if self.flushes else "the host's memory: flushes are dropped"
        )

    def _ask(self, *, empty: bool, evict: bool) -> DataReply:
        # A folder's file system is the host's: which of its blocks are free is not a guest's to tell.
        trim = empty and self.volume.folder is None
        return self.guest.ask(DataRequest(path=DATA_PATH, empty=empty, evict=evict, trim=trim), _DEADLINE_SECONDS)


def find_data_volume(
    kind: type[Platform[Parameters]], site: Site, size_bytes: int, promised_bytes: int
) -> tuple[DataVolume | None, str | None]:
    """Room for a guest's data directory on its host's disk; or None and why not, in one sentence.

    ``size_bytes``: 0 where no workload needs one. ``promised_bytes``: what other guests' directories may still take.
    """
    if size_bytes == 0:
        return None, None
    if kind.data_by is None:
        return (
            None,
            f"{kind.name} carries no data directory on its host's disk; choose another platform for this workload",
        )
    try:
        return site.host.data_volume(kind.data_by, size_bytes, promised_bytes), None
    except GuestError as error:
        return None, str(error)
