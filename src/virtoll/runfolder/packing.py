"""A run in one file: a tar archive, compressed by zstd (RFC 8878), whose first member lists all others with digests.

    virtoll-pack.json        `Pack`: the format, the run's name, size and SHA-256 of each file
    <run>/...                the run folder, names in order; the report is left out, because it is made anew

Times, owners and modes are fixed, so that the same folder gives the same bytes by the same version of zstd. Any tar
that knows zstd unpacks it. Main types: `Pack`. Main function: `pack`; `unpacking` reads it.

zstandard is imported where an archive is written or read: no other start pays for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final

from virtoll.errors import StorageError, UsageError
from virtoll.runfolder import jsonlines
from virtoll.runfolder.overview import created_ns
from virtoll.runfolder.plain import MOST_PARTS, entries, reader
from virtoll.runfolder.record import Record
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import UNDER_WAY, is_of_the_report
from virtoll.runfolder.taken_over import WRITER
from virtoll.runfolder.under_way import under_way
from virtoll.runfolder.writer import writer_words
from virtoll.version import __version__

FORMAT: Final = 1
ENDING: Final = ".virtoll.tar.zst"
LIST: Final = "virtoll-pack.json"
MOST_BYTES: Final = 16 << 30  # of all files together
MOST_FILES: Final = 100_000
MOST_EMPTY_FOLDERS: Final = 1000  # a folder without a file is no part of a run; one that a full disk left may be there
MOST_RATIO: Final = 1000  # of the files to the archive; runs have 10 to 100
_FREE_BYTES: Final = 64 << 20  # to which a small archive may grow at any ratio
_LEVEL: Final = 15  # 15 MB of records become 1.4 MB in 2 s; level 19 takes four times as long for a fifth less
_NAME_BYTES: Final = 255  # NAME_MAX of Linux
_PATH_BYTES: Final = 1024  # a quarter of Linux's PATH_MAX: the folder's own path is in front
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")  # a run's name that can be a folder's


class PackedFile(Record):
    """One file of a packed run: its size in bytes, and its SHA-256 in hex."""

    bytes: int
    sha256: str


class Pack(Record):
    """The list in front of a packed run.

    `run` is the folder that the files are in, by their paths below it. `anonymised`: which Virtoll replaced the names
    of hosts, users and places by stand-ins; None: the run is as it was measured.
    """

    format: int
    virtoll: str
    run: str
    anonymised: str | None
    files: Mapping[str, PackedFile]
    folders: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """The size of all files together."""
        return sum(file.bytes for file in self.files.values())


def pack(folder: Path, output: Path) -> Pack:
    """Write the run in `folder` to the file `output`, whole or not at all; its list.

    UsageError where it is no run, a process writes it or begins to, or it holds what no archive takes. StorageError
    where it cannot be read or written.
    """
    run = RunFolder.open(folder)
    if (words := writer_words(folder)) is not None:
        raise UsageError(f"{folder}: a process writes this run now{words}; pack it when it has ended")
    try:
        listed = _listed(folder, run)
        _write(folder, listed, output)
    except OSError as error:
        raise StorageError(
            f"cannot pack {folder} into {output}: {error.strerror or error}. Make room, or give another file with "
            "--output."
        ) from error
    return listed


def name_of(run: RunFolder) -> str:
    """The name of a run's folder in its archive: the run's own where that can be a name of a file."""
    name = run.manifest.run
    return name if PLAIN_NAME.fullmatch(name) else "run"


def is_too_much(listed: Pack, packed_bytes: int) -> bool:
    """Whether it is more than a run: what is refused to everybody, lest a small file fills a disk."""
    most = min(MOST_BYTES, max(_FREE_BYTES, MOST_RATIO * packed_bytes))
    filled = _folders_of(name for name in listed.files if name.count("/") < MOST_PARTS)
    return (
        listed.bytes > most
        or len(listed.files) + len(filled) > MOST_FILES
        or len(set(listed.folders) - filled) > MOST_EMPTY_FOLDERS
    )


def _folders_of(files: Iterable[str]) -> set[str]:
    """Every folder that files are in, by their paths."""
    folders: set[str] = set()
    for name in files:
        folder = name.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


def safe_name(name: str, what: str) -> str:
    """The name, which leads to a place below the folder; UsageError for any other."""
    parts = name.split("/")
    if (
        not name.isprintable()
        or len(parts) > MOST_PARTS
        or len(name.encode()) > _PATH_BYTES
        or any(part in ("", ".", "..") or len(part.encode()) > _NAME_BYTES for part in parts)
    ):
        raise UsageError(f"{what}: {name!r} is no name that a run's files have; it is not safe to unpack")
    return name


def _listed(folder: Path, run: RunFolder) -> Pack:
    """The list of a folder's files; UsageError for what is neither a file nor a folder."""
    files, folders = {}, []
    for path, status in sorted(entries(folder)):
        name = safe_name(path, str(folder))
        killed = name == WRITER or (name.endswith(".new") and "/" not in name)  # what a killed writer left
        if killed or is_of_the_report(name):
            continue
        if stat.S_ISDIR(status.st_mode):
            folders.append(name)
            continue
        with reader(folder / name, folder) as file:
            size = os.fstat(file.fileno()).st_size
            files[name] = PackedFile(size, hashlib.file_digest(file, "sha256").hexdigest())
    by = run.manifest.anonymised
    return Pack(FORMAT, __version__, name_of(run), None if by is None else by.virtoll, files, tuple(folders))


def _write(folder: Path, listed: Pack, output: Path) -> None:
    """Write the archive beside its place, and then put it there."""
    import zstandard

    seconds = created_ns(folder) // 10**9
    with under_way(output.parent, f".{output.name}{UNDER_WAY}") as draft:
        whole = draft / "packed"
        with whole.open("xb") as file:
            compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
            with (
                compressor.stream_writer(file, closefd=False) as stream,
                tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
            ):
                for name, source in _members(folder, listed):
                    packed = listed.files.get(name.removeprefix(f"{listed.run}/"))
                    _add(tar, _header(name, seconds), source, packed, folder)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        if is_too_much(listed, size):  # what is refused when it is read is not written
            raise UsageError(f"{folder}: holds more than a packed run may; take what is no record out of it")
        whole.replace(output)
        jsonlines.sync_directory(output.parent)


def _members(folder: Path, listed: Pack) -> Iterator[tuple[str, Path | bytes]]:
    """Name and source of each member in order: the list, then the run's folder."""
    yield LIST, jsonlines.encode(listed.to_json())
    yield listed.run, folder
    for name in sorted({*listed.files, *listed.folders}):
        yield f"{listed.run}/{name}", folder / name


def _header(name: str, seconds: int) -> tarfile.TarInfo:
    """A file's, without its size."""
    member = tarfile.TarInfo(name)
    member.mtime, member.mode = seconds, 0o644
    return member


def _add(
    tar: tarfile.TarFile, member: tarfile.TarInfo, source: Path | bytes, listed: PackedFile | None, folder: Path
) -> None:
    """Add one member; UsageError where a file is not what the list in front says of it."""
    if isinstance(source, Path) and listed is None:
        member.type, member.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(member)
        return
    with reader(source, folder) if isinstance(source, Path) else io.BytesIO(source) as file:
        if isinstance(source, bytes):
            member.size = len(source)
        elif listed is not None:
            member.size = listed.bytes
        read = _Read(file)
        with contextlib.suppress(EOFError):
            tar.addfile(member, read)
            if file.read(1):
                raise EOFError
            if listed is None or read.digest.hexdigest() == listed.sha256:
                return
    raise UsageError(f"{source!s}: changes while it is packed; pack the run when it has ended")


class _Read(io.RawIOBase):
    """A file that is read once, and its digest; EOFError where it is shorter than was asked for."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """As much as is asked for."""
        data = self._file.read(size)
        if len(data) < size:
            raise EOFError
        self.digest.update(data)
        return data
