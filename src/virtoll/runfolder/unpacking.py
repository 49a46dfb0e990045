"""Reads a packed run, which may come from anybody.

Names, kinds, sizes and digests are checked before a file is whole in its place, and no more is decompressed than the
list in front announces. Main function: `unpack`. Must not: follow a link, write outside the folder it is given, or
believe what tar's own headers say.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from pathlib import Path
from typing import IO, Final

import msgspec

from virtoll.errors import StorageError, UsageError
from virtoll.runfolder.opened import open_file
from virtoll.runfolder.packing import FORMAT, LIST, PLAIN_NAME, Pack, PackedFile, is_too_much, safe_name

_LIST_BYTES: Final = 32 << 20
_HEADER_BYTES: Final = 64 << 10  # tar's own, between two files: tarfile reads ahead by less
_WINDOW_BYTES: Final = 128 << 20  # of memory; what `zstd --decompress` takes at most without being asked
_CHUNK: Final = 1 << 20
_FED_BYTES: Final = 1 << 10  # to zstd at once: of 4 bytes it makes 128 kB at most, and so 32 MB of these


def unpack(archive: Path, into: Path) -> Pack:
    """Put the files of a packed run into the empty folder `into`, checked by their digests; its list.

    UsageError, and `into` holds only a part, where it is no packed run, of a newer format, damaged, or not safe.
    StorageError where there is no room.
    """
    import zstandard

    try:
        file = open_file(archive)
    except OSError as error:
        raise UsageError(f"{archive}: cannot be read ({error.strerror or error}); make it readable") from error
    try:
        with file:
            if file.read(4) != zstandard.FRAME_HEADER:
                raise UsageError(
                    f"{archive}: is no packed run; give a run's folder, or a file that 'virtoll pack' wrote"
                )
            file.seek(0)
            return _unpacked(_Stream(file, archive), archive, into)
    except (tarfile.TarError, zstandard.ZstdError, EOFError, ValueError) as error:  # the last: a header's odd number
        raise UsageError(f"{archive}: is damaged or cut off ({error}); get it again") from error
    except RecursionError as error:  # tarfile reads a header of a header by a call in a call
        raise UsageError(f"{archive}: has headers of headers without end; it is not safe to unpack") from error
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{archive}: two of its files have one place; it is not safe to unpack") from error
    except OSError as error:
        where = error.filename or into
        raise StorageError(
            f"cannot unpack {archive} to {where}: {error.strerror or error}; make room for it"
        ) from error


class _Stream(io.RawIOBase):
    """What an archive decompresses to; a refusal once more has been read than was allowed, against bombs."""

    def __init__(self, file: IO[bytes], archive: Path) -> None:
        import zstandard

        super().__init__()
        self._file = file
        self._archive = archive
        self._zstd = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).decompressobj()
        self._held = bytearray()
        self._left = 0

    def allow(self, size: int) -> None:
        """So many bytes more may be read."""
        self._left += size

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, fewer only at the end; EOFError where the end is missing or not the end."""
        while len(self._held) < size and not self._zstd.eof:
            packed = self._file.read(_FED_BYTES)
            if not packed:
                raise EOFError("its end is missing")
            self._held += self._zstd.decompress(packed)
        data = bytes(self._held[:size])
        del self._held[:size]
        self._left -= len(data)
        if self._left < 0:
            raise UsageError(f"{self._archive}: holds more than its list announces; it is not safe to unpack")
        if not data and (self._zstd.unused_data or self._file.read(1)):
            raise EOFError("something follows its end")
        return data


def _unpacked(stream: _Stream, archive: Path, into: Path) -> Pack:
    stream.allow(_LIST_BYTES)
    with tarfile.open(fileobj=stream, mode="r|", format=tarfile.PAX_FORMAT) as tar:
        listed = _list_of(tar, archive)
        _refuse_too_much(listed, archive, into)
        for folder in listed.folders:
            (into / safe_name(folder, str(archive))).mkdir(parents=True, exist_ok=True)
        missing, folders = dict(listed.files), frozenset(listed.folders)
        while True:
            stream.allow(_HEADER_BYTES)
            member = tar.next()
            if member is None:
                break
            name = member.name.removeprefix(f"{listed.run}/")
            if member.isdir() and (member.name == listed.run or name in folders):
                continue
            expected = missing.pop(name, None)
            if not member.isreg() or member.issparse() or expected is None or member.size != expected.bytes:
                raise UsageError(f"{archive}: {member.name!r} is not what its list has of it; it is not safe to unpack")
            stream.allow(member.size)
            content = tar.extractfile(member)
            assert content is not None  # it is a file
            _put(content, into / safe_name(name, str(archive)), expected, f"{archive}: {name}")
    stream.allow(_HEADER_BYTES)
    while stream.read(_CHUNK):  # what fills the last block, and zstd's own checksum behind it
        pass
    if missing:
        raise UsageError(f"{archive}: is cut off, {min(missing)} is missing; get it again")
    return listed


def _list_of(tar: tarfile.TarFile, archive: Path) -> Pack:
    """The list, which is the first member."""
    first = tar.next()
    if first is None or first.name != LIST or not first.isreg() or first.size > _LIST_BYTES - _HEADER_BYTES:
        raise UsageError(f"{archive}: is compressed, and no packed run; give a file that 'virtoll pack' wrote")
    content = tar.extractfile(first)
    assert content is not None  # it is a file
    data = content.read()
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.format != FORMAT:
            raise UsageError(
                f"{archive}: has pack format {head.format}, this virtoll reads {FORMAT}; use the one that wrote it, "
                f"{head.virtoll}"
            )
        listed = msgspec.json.decode(data, type=Pack)
    except msgspec.DecodeError as error:
        raise UsageError(f"{archive}: its list {LIST} is damaged; get it again") from error
    if not PLAIN_NAME.fullmatch(listed.run) or "manifest.json" not in listed.files:
        raise UsageError(f"{archive}: its list {LIST} names no run; get it again")
    return listed


class _Head(msgspec.Struct):
    """The keys of a list that are read first: another format may have other keys."""

    format: int
    virtoll: str


def _refuse_too_much(listed: Pack, archive: Path, into: Path) -> None:
    if is_too_much(listed, archive.stat().st_size) or any(file.bytes < 0 for file in listed.files.values()):
        announced = f"{listed.bytes} bytes in {len(listed.files)} files, and {len(listed.folders)} empty folders"
        raise UsageError(f"{archive}: announces {announced}, more than a packed run may hold; it is not safe to unpack")
    free = shutil.disk_usage(into).free
    if listed.bytes > free:
        raise StorageError(f"{archive}: needs {listed.bytes} bytes, and {into} has {free} free; make room for it")


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
