"""The data directory's disk on a datastore: a VMDK of two files, a descriptor and the disk itself as its one extent.

Main type: ``DatastoreVolume``. It must not connect to anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from virtoll.lab.data import DataVolume
from virtoll.platforms.drives import Vmdk

DESCRIPTOR_FILE, EXTENT_FILE = "data.vmdk", "data-flat.vmdk"
MEDIUM = Vmdk("vmfs", f'RW {{sectors}} VMFS "{EXTENT_FILE}"', adapter="lsilogic", heads=255)


@dataclass
class DatastoreVolume(DataVolume):
    """Room on a datastore; ``file_system``: its kind as the API names it.

    ESXi keeps no pages of a guest's disk, but what storage does behind it is not told, nor can it be emptied. The files
    are in the guest's folder and gone with that.
    """

    @property
    def disk_path(self) -> None:
        """No program is run there."""
        return

    def resident(self) -> None:
        """Not told."""

    def evict(self) -> None:
        """What the guest has written back is with the host's storage already."""

    def remove(self) -> None:
        """By the guest's end."""
