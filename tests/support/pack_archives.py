"""Archives of packed runs: what is in them, and archives of any members and any list."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import zstandard

from virtoll.runfolder import jsonlines
from virtoll.runfolder.packing import FORMAT, LIST, Pack, PackedFile

Member = tuple[tarfile.TarInfo, bytes]


def plain(archive: Path) -> bytes:
    """The tar without its compression."""
    return zstandard.ZstdDecompressor().decompressobj().decompress(archive.read_bytes())


def files_of(archive: Path) -> dict[str, bytes]:
    """Every file in an archive, by its name."""
    with tarfile.open(fileobj=io.BytesIO(plain(archive))) as tar:
        return {one.name: (tar.extractfile(one) or io.BytesIO()).read() for one in tar if one.isreg()}


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, **more: Any) -> Member:
    """A member of a tar."""
    made = tarfile.TarInfo(name)
    made.type, made.size = kind, len(data)
    for key, value in more.items():
        setattr(made, key, value)
    return made, data


def listing(files: Mapping[str, PackedFile], **more: Any) -> Member:
    """The list at an archive's start."""
    return member(LIST, jsonlines.encode(Pack(FORMAT, "0.1.0", "run", None, files).to_json() | more))


def listed(data: bytes) -> PackedFile:
    """The list's entry of a file."""
    return PackedFile(len(data), sha256(data).hexdigest())


def archive_of(path: Path, *members: Member) -> Path:
    """An archive of these members."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for information, data in members:
            tar.addfile(information, io.BytesIO(data))
    path.write_bytes(zstandard.ZstdCompressor().compress(made.getvalue()))
    return path
