"""A run in one file: a tar archive, compressed by zstd (RFC 8878), whose first member lists all others with digests.

    virtoll-pack.json        `Pack`: the format, the run's name, size and SHA-256 of each file
    <run>/...                the run folder, names in order; the report is left out, because it is made anew

Times, owners and modes are fixed, so that the same folder gives the same bytes by the same version of zstd. Any tar
that knows zstd unpacks it. Main functions: `pack`, `unpack`. What is read may come from anybody: names, kinds, sizes
and digests are checked before a file is whole in its place, and no more is decompressed than the list announces.

zstandard is imported where an archive is written or read: no other start pays for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from pydantic import TypeAdapter, ValidationError

from virtoll import __version__
from virtoll.errors import StorageError, UsageError
from virtoll.runfolder import jsonlines
from virtoll.runfolder.overview import created_ns, is_written
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import UNDER_WAY, is_of_the_report

if TYPE_CHECKING:
    import zstandard

FORMAT: Final = 1
ENDING: Final = ".virtoll.tar.zst"
LIST: Final = "virtoll-pack.json"
MOST_BYTES: Final = 16 << 30  # of all files together
MOST_FILES: Final = 100_000
MOST_RATIO: Final = 1000  # of the files to the archive; runs have 10 to 100
_FREE_BYTES: Final = 64 << 20  # to which a small archive may grow at any ratio
_LIST_BYTES: Final = 32 << 20
_HEADER_BYTES: Final = 64 << 10  # tar's own, between two files: tarfile reads ahead by less
_WINDOW_BYTES: Final = 128 << 20  # of memory; what `zstd --decompress` takes at most without being asked
_LEVEL: Final = 15  # 15 MB of records become 1.4 MB in 2 s; level 19 takes four times as long for a fifth less
_CHUNK: Final = 1 << 20
_NAME_BYTES: Final = 255  # NAME_MAX of Linux
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")  # a run's name that can be a folder's


@dataclass(frozen=True)
class PackedFile:
    """One file of a packed run: its size in bytes, and its SHA-256 in hex."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Pack:
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
        return sum(one.bytes for one in self.files.values())


def pack(folder: Path, output: Path) -> Pack:
    """Write the run in `folder` to the file `output`, whole or not at all; its list.

    UsageError where it is no run, a process writes it, or it holds what no archive takes. StorageError where it cannot
    be read or written.
    """
    run = RunFolder.open(folder)
    if is_written(folder):
        raise UsageError(f"{folder}: a process writes this run now; pack it when it has ended")
    try:
        listed = _listed(folder, run)
        size = _write(folder, listed, output)
    except OSError as error:
        raise StorageError(
            f"cannot pack {folder} into {output}: {error.strerror or error}. Make room, or give another file with "
            "--output."
        ) from error
    if _is_too_much(listed, size):  # what is refused when it is read is not written
        output.unlink()
        raise UsageError(f"{folder}: holds more than a packed run may; take what is no record of Virtoll's out of it")
    return listed


def is_packed(path: Path) -> bool:
    """Whether it is a file, and so no run folder: a packed run, or a mistake that `unpack` tells."""
    return path.is_file()


def name_of(run: RunFolder) -> str:
    """The name of a run's folder in its archive: the run's own where that can be a name of a file."""
    name = run.manifest.run
    return name if _PLAIN.fullmatch(name) else "run"


def unpack(archive: Path, into: Path) -> Pack:
    """Put the files of a packed run into the empty folder `into`, checked by their digests; its list.

    UsageError, and `into` holds only a part, where it is no packed run, of a newer format, damaged, or not safe.
    StorageError where there is no room.
    """
    import zstandard

    damaged = f"{archive}: is damaged or cut off ({{}}); get it again"
    try:
        with archive.open("rb") as file:
            if file.read(4) != zstandard.FRAME_HEADER:
                raise UsageError(
                    f"{archive}: is no packed run; give a run's folder, or a file that 'virtoll pack' wrote"
                )
            file.seek(0)
            reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).stream_reader(file)
            return _unpacked(_Allowed(reader, archive), archive, into)
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        raise UsageError(damaged.format(error)) from error
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{archive}: two of its files have one place; it is not safe to unpack") from error
    except OSError as error:
        where = error.filename or into
        raise StorageError(
            f"cannot unpack {archive} to {where}: {error.strerror or error}; make room for it"
        ) from error


class _Allowed(io.RawIOBase):
    """A stream that ends in a refusal once more has been read of it than was allowed: the defence against bombs."""

    def __init__(self, stream: zstandard.ZstdDecompressionReader, archive: Path) -> None:
        super().__init__()
        self._stream = stream
        self._archive = archive
        self._left = 0

    def allow(self, size: int) -> None:
        """So many bytes more may be read."""
        self._left += size

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, fewer only at the end."""
        found = self._stream.read(size)
        self._left -= len(found)
        if self._left < 0:
            raise UsageError(f"{self._archive}: holds more than its list announces; it is not safe to unpack")
        return found


def _unpacked(stream: _Allowed, archive: Path, into: Path) -> Pack:
    stream.allow(_LIST_BYTES)
    with tarfile.open(fileobj=stream, mode="r|", format=tarfile.PAX_FORMAT) as tar:
        listed = _list_of(tar, archive)
        _refuse_too_much(listed, archive, into)
        for folder in listed.folders:
            (into / _safe(folder, str(archive))).mkdir(parents=True, exist_ok=True)
        missing = dict(listed.files)
        while True:
            stream.allow(_HEADER_BYTES)
            member = tar.next()
            if member is None:
                break
            name = member.name.removeprefix(f"{listed.run}/")
            if member.isdir() and (member.name == listed.run or name in listed.folders):
                continue
            expected = missing.pop(name, None)
            if not member.isreg() or member.issparse() or expected is None or member.size != expected.bytes:
                raise UsageError(f"{archive}: {member.name!r} is not what its list has of it; it is not safe to unpack")
            stream.allow(member.size)
            content = tar.extractfile(member)
            assert content is not None  # it is a file
            _put(content, into / _safe(name, str(archive)), expected, f"{archive}: {name}")
    if missing:
        raise UsageError(f"{archive}: is cut off, {min(missing)} is missing; get it again")
    return listed


def _list_of(tar: tarfile.TarFile, archive: Path) -> Pack:
    """The list, which is the first member."""
    first = tar.next()
    if first is None or first.name != LIST or not first.isreg() or first.size > _LIST_BYTES - _HEADER_BYTES:
        raise UsageError(f"{archive}: is an archive, and no packed run; give a file that 'virtoll pack' wrote")
    content = tar.extractfile(first)
    assert content is not None  # it is a file
    data = content.read()
    try:
        found = TypeAdapter(_Head).validate_json(data)
        if found.format != FORMAT:
            raise UsageError(
                f"{archive}: has pack format {found.format}, this virtoll reads {FORMAT}; use the one that wrote it, "
                f"{found.virtoll}"
            )
        listed = TypeAdapter(Pack).validate_json(data)
    except ValidationError as error:
        raise UsageError(f"{archive}: its list {LIST} is damaged; get it again") from error
    if not _PLAIN.fullmatch(listed.run) or "manifest.json" not in listed.files:
        raise UsageError(f"{archive}: its list {LIST} names no run; get it again")
    return listed


@dataclass(frozen=True)
class _Head:
    """Of a list what is asked first: another format may have other keys."""

    format: int
    virtoll: str


def _refuse_too_much(listed: Pack, archive: Path, into: Path) -> None:
    if _is_too_much(listed, archive.stat().st_size) or any(one.bytes < 0 for one in listed.files.values()):
        raise UsageError(f"{archive}: announces more than a packed run may hold; it is not safe to unpack")
    free = shutil.disk_usage(into).free
    if listed.bytes > free:
        raise StorageError(f"{archive}: needs {listed.bytes} bytes, and {into} has {free} free; make room for it")


def _is_too_much(listed: Pack, packed_bytes: int) -> bool:
    most = min(MOST_BYTES, max(_FREE_BYTES, MOST_RATIO * packed_bytes))
    return listed.bytes > most or len(listed.files) + len(listed.folders) > MOST_FILES


def _safe(name: str, what: str) -> str:
    """The name, which leads to a place below the folder; UsageError for any other."""
    parts = name.split("/")
    if not name.isprintable() or any(part in ("", ".", "..") or len(part.encode()) > _NAME_BYTES for part in parts):
        raise UsageError(f"{what}: {name!r} is no name that a run's files have; it is not safe to unpack")
    return name


def _put(content: IO[bytes], path: Path, expected: PackedFile, what: str) -> None:
    """Write a file that is not there yet, and compare its digest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with path.open("xb") as file:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    if digest.hexdigest() != expected.sha256:
        raise UsageError(f"{what} is not what it was when it was packed; get the archive again")


def _listed(folder: Path, run: RunFolder) -> Pack:
    """The list of a folder's files; UsageError for what is neither a file nor a folder."""
    files, folders = {}, []
    for path in sorted(folder.rglob("*"), key=lambda one: one.relative_to(folder).as_posix()):
        name = _safe(path.relative_to(folder).as_posix(), str(folder))
        if is_of_the_report(name) or (name.endswith(".new") and "/" not in name):  # a replacement that was killed
            continue
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            folders.append(name)
        elif stat.S_ISREG(mode):
            with path.open("rb") as file:
                files[name] = PackedFile(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())
        else:
            raise UsageError(f"{path}: is neither a file nor a folder, so that no archive takes it; remove it")
    by = run.manifest.anonymised
    return Pack(FORMAT, __version__, name_of(run), None if by is None else by.virtoll, files, tuple(folders))


def _write(folder: Path, listed: Pack, output: Path) -> int:
    """Write the archive beside its place, and then put it there; its size in bytes."""
    import zstandard

    seconds = created_ns(folder) // 10**9
    descriptor, beside = tempfile.mkstemp(prefix=f".{output.name}{UNDER_WAY}", dir=output.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
            with (
                compressor.stream_writer(file, closefd=False) as stream,
                tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
            ):
                for name, source in _members(folder, listed):
                    _add(tar, name, source, seconds)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), 0o666 & ~_umask())
            size = file.tell()
        Path(beside).replace(output)
        jsonlines.sync_directory(output.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(beside).unlink()
        raise
    return size


def _members(folder: Path, listed: Pack) -> Iterator[tuple[str, Path | bytes]]:
    """Name and source of each member in order: the list, then the run's folder."""
    yield LIST, jsonlines.encode(asdict(listed))
    yield listed.run, folder
    for name in sorted({*listed.files, *listed.folders}):
        yield f"{listed.run}/{name}", folder / name


def _add(tar: tarfile.TarFile, name: str, source: Path | bytes, seconds: int) -> None:
    member = tarfile.TarInfo(name)
    member.mtime = seconds
    if isinstance(source, Path) and source.is_dir():
        member.type, member.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(member)
        return
    member.mode = 0o644
    with source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as file:
        member.size = source.stat().st_size if isinstance(source, Path) else len(source)
        tar.addfile(member, file)


def _umask() -> int:
    """The process's, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
