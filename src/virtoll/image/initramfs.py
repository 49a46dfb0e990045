"""Writes an initramfs: a cpio archive in the "newc" form that the kernel unpacks as its first root.

It has a writer of its own, because the format is a dozen lines and the `cpio` program does not fit. `cpio` takes device
nodes from the file system, so it needs root (or fakeroot) for /dev/console. It stores inode numbers and times, so two
builds of the same tree differ. Here everything is given, nothing is read from a file system's metadata: the same
entries give the same bytes. Format: Linux, Documentation/driver-api/early-userspace/buffer-format.rst.

Must not: know what is in the image (that is `virtoll.image.guest`).
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_ALIGNMENT = 4  # bytes
_MAGIC = b"070701"
_TRAILER = "TRAILER!!!"


@dataclass(frozen=True)
class Entry:
    """One file of the archive; `path` is relative and has no leading slash; `mode` holds kind and permissions."""

    path: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)

    def write_below(self, root: Path) -> None:
        """Makes this folder, file or link below a real folder; a device node needs root, so it raises ValueError."""
        target = root / self.path
        if stat.S_ISDIR(self.mode):
            target.mkdir()
        elif stat.S_ISLNK(self.mode):
            target.symlink_to(self.content.decode())
        elif stat.S_ISREG(self.mode):
            target.write_bytes(self.content)
            target.chmod(stat.S_IMODE(self.mode))
        else:
            raise ValueError(f"{self.path}: only folders, files and links can be written to a folder")


def folder(path: str) -> Entry:
    """A folder that everyone may read."""
    return Entry(path, stat.S_IFDIR | 0o755)


def program(path: str, content: bytes) -> Entry:
    """An executable file."""
    return Entry(path, stat.S_IFREG | 0o755, content)


def plain_file(path: str, content: bytes) -> Entry:
    """A file that everyone may read."""
    return Entry(path, stat.S_IFREG | 0o644, content)


def link(path: str, target: str) -> Entry:
    """A symbolic link."""
    return Entry(path, stat.S_IFLNK | 0o777, target.encode())


def character_device(path: str, major: int, minor: int) -> Entry:
    """A character device node, for example /dev/console (5, 1)."""
    return Entry(path, stat.S_IFCHR | 0o600, device=(major, minor))


def write_archive(entries: Iterable[Entry]) -> bytes:
    """The archive's bytes, uncompressed; raises ValueError where an entry's folder does not stand before it."""
    known = {""}
    chunks: list[bytes] = []
    for inode, entry in enumerate(entries, start=1):
        parent = entry.path.rpartition("/")[0]
        if parent not in known:
            raise ValueError(f"{entry.path}: its folder {parent} must come before it")
        if stat.S_ISDIR(entry.mode):
            known.add(entry.path)
        chunks.extend(_record(entry, inode))
    chunks.extend(_record(Entry(_TRAILER, 0), 0))
    return b"".join(chunks)


def _record(entry: Entry, inode: int) -> Iterator[bytes]:
    """Header, name and content of one entry, each padded; owner is root, time is zero."""
    name = entry.path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    major, minor = entry.device
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, major, minor, len(name), 0)
    header = _MAGIC + b"".join(b"%08X" % field for field in fields) + name
    for part in (header, entry.content):
        yield part
        yield bytes(-len(part) % _ALIGNMENT)
