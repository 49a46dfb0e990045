"""Room on a host's disk for the files that workloads make in a guest. It is a folder for guests on the host's
kernel and for runtimes that share folders. For machines it is a disk with an empty file system.

On this machine all of it is below ``residue.disk_folder``, which is named after the lab and swept with it. A disk's
file loses its name before the guest starts. Other hosts' room is ``hosts.remote_data``. Main types: ``DataVolume`` and
``LocalVolume``. It must not know a platform or a workload.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from virtoll.errors import GuestError
from virtoll.lab import residue
from virtoll.lab.disks import DISKS

Run = Callable[[Sequence[str], str], str]
DataBy = Literal["folder", "disk"]
"""How a guest gets its data directory: a folder of its host to be mounted, or a disk with a file system."""

_MIB = 2**20
SPARED_BYTES = 512 * _MIB
"""What is left to the host."""
_METADATA_BYTES = 64 * _MIB  # a journal, tables of inodes
IN_MEMORY = ("tmpfs", "ramfs", "rootfs")
"""File systems whose files are in memory, and count as that of the guest that writes them into a folder."""
_WINDOW_BYTES = 2**28  # looked at in one call
# The same file system whatever a host's mke2fs has for its defaults, and one that kernels since 3.18 know.
_FEATURES = (
    "none,has_journal,ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink,"
    "extra_isize,metadata_csum"
)
MKE2FS = "mke2fs"
_numbers = itertools.count(1)


@dataclass
class DataVolume(ABC):
    """``folder``: on the guest's host, to be mounted in the guest; None: it is a disk.

    ``size_bytes``: what was asked for; a folder is not held to it. ``file_system``: of the host, under both.
    ``descriptor``: of a disk's file (ext4) on this machine, for reading and writing.
    """

    size_bytes: int
    file_system: str
    folder: Path | None = None
    descriptor: int | None = None

    @property
    def on_disk(self) -> bool:
        """False where the host keeps these files in its memory."""
        return self.file_system not in IN_MEMORY

    @property
    @abstractmethod
    def disk_path(self) -> Path | None:
        """By which a program on the guest's host opens the disk's file; None: it is no disk."""

    @abstractmethod
    def resident(self) -> int | None:
        """How many bytes of its files are in the host's page cache; None: its host does not tell."""

    @abstractmethod
    def evict(self) -> int | None:
        """Have the host write to the disk what is not there yet, and forget it; what ``resident`` says then."""

    @abstractmethod
    def remove(self) -> None:
        """Give the room back; harmless when it is gone."""


@dataclass
class LocalVolume(DataVolume):
    """Room on this machine's disk."""

    @property
    def disk_path(self) -> Path | None:
        """Of this process's descriptor: the file has no name."""
        return Path(f"/proc/{os.getpid()}/fd/{self.descriptor}") if self.descriptor is not None else None

    def files(self) -> Iterator[int]:
        """A descriptor of each file on the host, open as long as it is out."""
        if self.descriptor is not None:
            yield self.descriptor
        for current, _, names in os.walk(self.folder) if self.folder is not None else ():
            for name in names:
                with contextlib.suppress(OSError):  # gone, or a link
                    opened = os.open(Path(current, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                    try:
                        yield opened
                    finally:
                        os.close(opened)

    def resident(self) -> int:
        """By mincore(2)."""
        return sum(resident_bytes(file) for file in self.files())

    def evict(self) -> int:
        """By posix_fadvise(2), file by file."""
        for file in self.files():
            os.fdatasync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        return self.resident()

    def remove(self) -> None:
        """Close the disk's file, or remove the folder."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                self.folder.parent.rmdir()


def make_folder(lab_id: str, size_bytes: int, promised_bytes: int = 0, disks: Path = DISKS) -> LocalVolume:
    """An empty folder; ``promised_bytes``: what other guests may still fill. ``GuestError`` where room is short."""
    base = _base(lab_id, size_bytes + promised_bytes, disks)
    folder = base / f"data-{next(_numbers)}"
    folder.mkdir()
    folder.chmod(0o755)
    return LocalVolume(size_bytes, file_system_of(folder), folder)


def make_disk(lab_id: str, size_bytes: int, run: Run, promised_bytes: int = 0, disks: Path = DISKS) -> LocalVolume:
    """A disk with an empty ext4 in a sparse file without a name; ``run`` runs mke2fs."""
    whole = disk_bytes(size_bytes)
    base = _base(lab_id, whole + promised_bytes, disks)
    file = base / f"disk-{next(_numbers)}"
    try:
        with file.open("xb") as made:
            made.truncate(whole)
        try:
            run(make_file_system(file), "data disk")
        except GuestError as error:
            remedy = "; 'virtoll setup' installs or names e2fsprogs" if shutil.which(MKE2FS) is None else ""
            raise GuestError(f"a data disk could not be made: {error}{remedy}") from error
        return LocalVolume(size_bytes, file_system_of(base), None, os.open(file, os.O_RDWR | os.O_CLOEXEC))
    finally:
        file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            base.rmdir()


def disk_bytes(size_bytes: int) -> int:
    """The size of a disk whose file system has that much room for files, in whole mebibytes."""
    return -(-(size_bytes + size_bytes // 16 + _METADATA_BYTES) // _MIB) * _MIB


def make_file_system(file: Path) -> list[str]:
    """The command that makes an empty ext4 in a disk's file: of the same shape on every host."""
    shape = ["-O", _FEATURES, "-b", "4096", "-I", "128", "-i", "8192", "-m", "0"]
    lazy = "nodiscard,lazy_itable_init=0,lazy_journal_init=0"
    return [MKE2FS, "-q", "-F", "-t", "ext4", *shape, "-E", lazy, str(file)]


def why_no_room(disks: Path, free_bytes: int, needed_bytes: int) -> str | None:
    """Why a host's file system cannot hold it, in one sentence; None: it can."""
    if free_bytes >= needed_bytes + SPARED_BYTES:
        return None
    return (
        f"{disks} has {free_bytes >> 20} MiB free, and the data directory needs {needed_bytes >> 20} MiB and "
        f"leaves {SPARED_BYTES >> 20} MiB to the host; make room there or choose a smaller size"
    )


def file_system_of(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> str:
    """The kind of the file system that holds a path on this machine, as this process's mounts name it.

    Empty where it is not reported.
    """
    return file_system_among(mountinfo.read_text(encoding="utf-8", errors="replace"), path)


def file_system_among(mounts: str, path: Path) -> str:
    """The same of any host, from the text of its ``/proc/self/mountinfo``."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        words, _, rest = line.partition(" - ")
        place = Path(words.split()[4])
        if (path == place or place in path.parents) and len(place.parts) >= best:
            best, kind = len(place.parts), rest.split()[0]
    return kind


def resident_bytes(file: int) -> int:
    """How much of a file is in the page cache, by mincore(2): a look that takes nothing in."""
    whole = os.fstat(file).st_size
    resident = 0
    for start in range(0, whole, _WINDOW_BYTES):
        length = min(_WINDOW_BYTES, whole - start)
        flags = _resident_pages(file, start, length)
        resident += sum(flags) * mmap.PAGESIZE
        if flags and flags[-1]:
            resident -= len(flags) * mmap.PAGESIZE - length
    return resident


def _resident_pages(file: int, start: int, length: int) -> bytes:
    """One byte a page, 1 where it is in memory; ``OSError`` where the file cannot be mapped."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_longlong]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    place = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, file, start)
    if place in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "mmap")
    pages = -(-length // mmap.PAGESIZE)
    flags = ctypes.create_string_buffer(pages)
    try:
        if libc.mincore(place, length, flags) != 0:
            raise OSError(ctypes.get_errno(), "mincore")
    finally:
        libc.munmap(place, length)
    return bytes(flag & 1 for flag in flags.raw)


def _base(lab_id: str, needed_bytes: int, disks: Path) -> Path:
    try:
        room = os.statvfs(disks)
        free = room.f_bavail * room.f_frsize
        if (refusal := why_no_room(disks, free, needed_bytes)) is not None:
            raise GuestError(refusal)
        base = residue.disk_folder(lab_id, disks)
        base.mkdir(mode=0o700, exist_ok=True)
        if base.is_symlink() or base.stat().st_uid != os.geteuid():
            raise GuestError(f"{base} belongs to somebody else; remove it")
    except OSError as error:
        raise GuestError(
            f"no data directory can be made in {disks}: {error.strerror or error}; make it writable"
        ) from error
    return base
