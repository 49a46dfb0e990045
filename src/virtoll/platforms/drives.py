"""Drives of machines that boot the image from a CD-ROM: what their kernel is told of them, and a VMDK's descriptor.

Main types: ``Drive`` and ``Vmdk``. It must not know a platform.
"""

from __future__ import annotations

from dataclasses import dataclass

SECTOR_BYTES = 512
_DESCRIPTOR = """\
# Disk DescriptorFile
version=1
CID=fffffffe
parentCID=ffffffff
createType="{create_type}"

{extent}

ddb.virtualHWVersion = "4"
ddb.adapterType = "{adapter}"
ddb.geometry.cylinders = "{cylinders}"
ddb.geometry.heads = "{heads}"
ddb.geometry.sectors = "63"
"""
_MOST_CYLINDERS = 16383  # of what BIOSes ask; larger disks are addressed by sectors alone


@dataclass(frozen=True)
class Drive:
    """A drive as the guest names it, and the modules that it needs for it, in the order of loading."""

    device: str
    modules: tuple[str, ...]


def drive_words(*, root: Drive | None, data: Drive | None) -> list[str]:
    """What the kernel's line says of the drives that are there: the image's erofs form, the data directory's disk."""
    modules = dict.fromkeys(module for drive in (root, data) if drive is not None for module in drive.modules)
    words = []
    if modules:
        words.append(f"virtoll.modules={','.join(modules)}")
    if root is not None:
        words += [f"virtoll.root={root.device}", "virtoll.disktype=erofs"]
    if data is not None:
        words.append(f"virtoll.data={data.device}")
    return words


@dataclass(frozen=True)
class Vmdk:
    """A product's kind of VMDK whose only extent is a raw disk: its descriptor is a file of text beside that.

    ``extent`` describes the extent, with its ``{sectors}``.
    """

    create_type: str
    extent: str
    adapter: str
    heads: int

    def descriptor(self, size_bytes: int) -> str:
        """Of a disk of this size; what is no whole sector is left out."""
        sectors = size_bytes // SECTOR_BYTES
        cylinders = max(1, min(_MOST_CYLINDERS, sectors // (self.heads * 63)))
        return _DESCRIPTOR.format(
            create_type=self.create_type,
            extent=self.extent.format(sectors=sectors),
            adapter=self.adapter,
            cylinders=cylinders,
            heads=self.heads,
        )
