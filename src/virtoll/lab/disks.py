"""Disks for guests: copies of an image's file that have no name, so that they are gone with whoever has them open.

It must not know what is in them.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from virtoll.errors import GuestError

DISKS = Path("/var/tmp")  # noqa: S108 - on a disk by the file system hierarchy's rule, and only files without a name
_PORTION_BYTES = 2**24


def nameless_copy(source: Path, folder: Path = DISKS) -> int:
    """A descriptor, for reading and writing, of a copy with the same holes; ``GuestError`` without space for it."""
    try:
        with source.open("rb", buffering=0) as original, tempfile.TemporaryFile(dir=folder, buffering=0) as copy:
            size = os.fstat(original.fileno()).st_size
            copy.truncate(size)
            _copy_data(original.fileno(), copy.fileno(), size)
            os.lseek(copy.fileno(), 0, os.SEEK_SET)
            return os.dup(copy.fileno())
    except OSError as error:
        raise GuestError(
            f"the disk {source.name} could not be copied to {folder}: {error.strerror or error}; make room there"
        ) from error


def place_of_device(folder: Path, devices: Path) -> Path:
    """The block device that a folder is on, in ``devices`` (/sys/dev/block); nothing is there if it is on none."""
    on = folder.stat().st_dev
    return devices / f"{os.major(on)}:{os.minor(on)}"


def number_of_disk(folder: Path = DISKS, devices: Path = Path("/sys/dev/block")) -> str:
    """The number (``8:0``) of the disk that a folder is on, of a partition the whole disk's, which alone has a rate.

    ``GuestError`` where that is no one disk: in memory, over a network, on a file system of several disks.
    """
    place = place_of_device(folder, devices)
    if not place.is_dir():
        raise GuestError(f"{folder} is not on one disk of this host (device {place.name})")
    device = place.resolve()
    whole = device.parent if (device / "partition").is_file() else device
    return (whole / "dev").read_text(encoding="ascii").strip()


def node_of_disk(number: str, devices: Path = Path("/sys/dev/block")) -> Path:
    """The device node by which programs name the disk of this number."""
    lines = (devices / number / "uevent").read_text(encoding="ascii").splitlines()
    named = dict(line.partition("=")[::2] for line in lines)
    return Path("/dev") / named["DEVNAME"]


def _copy_data(original: int, copy: int, size: int) -> None:
    at = 0
    while at < size:
        try:
            start = os.lseek(original, at, os.SEEK_DATA)
        except OSError:  # nothing but a hole is left
            return
        at = os.lseek(original, start, os.SEEK_HOLE)
        while start < at:
            portion = os.pread(original, min(_PORTION_BYTES, at - start), start)
            start += os.pwrite(copy, portion, start)
