"""Reads Debian packages without dpkg: an ar archive of two tar files (Debian, deb(5)).

It has a reader of its own, because hosts of other distributions have no dpkg, and the format is a line for each member.

Main functions: `control_fields` and `unpack`. Must not: start a program, or take links, owners, device nodes or paths
outside the folder from a package.
"""

from __future__ import annotations

import contextlib
import io
import lzma
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from virtoll.errors import ImageError

_MAGIC = b"!<arch>\n"
_HEAD_BYTES = 60
_HEAD_END = b"`\n"
_READ = ("xz", "gz", "bz2", "tar")  # how a member's name may end: what the standard library unpacks


class _Part(io.RawIOBase):
    """The bytes of one member of an open archive, for reading once from its start."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        """``size`` bytes from ``start``."""
        super().__init__()
        file.seek(start)
        self._file, self._left = file, size

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes; none at the member's end."""
        taken = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(taken)
        return taken


def control_fields(deb: Path) -> dict[str, str]:
    """What a package says of itself in one line each (Package, Version, Architecture); `ImageError` if it is none."""
    with _tar(deb, "control.tar") as archive:
        for member in archive:
            if member.isfile() and PurePosixPath(member.name).name == "control":
                content = archive.extractfile(member)
                text = content.read().decode("utf-8", "replace") if content is not None else ""
                lines = (line.partition(":") for line in text.splitlines() if not line.startswith((" ", "\t")))
                return {name: value.strip() for name, colon, value in lines if colon}
    raise ImageError(f"{deb} is no Debian package: it has no file 'control'; name another file.")


def unpack(deb: Path, folder: Path, is_selected: Callable[[str], bool]) -> None:
    """Writes those plain files of a package below a folder that are wanted by their path (``boot/vmlinuz-6.1``).

    `ImageError` where the file is no package, is damaged, or is packed in a way that is not read here.
    """
    with _tar(deb, "data.tar") as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            if not member.isfile() or path.is_absolute() or ".." in path.parts or not is_selected(str(path)):
                continue
            content = archive.extractfile(member)
            if content is not None:
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    shutil.copyfileobj(content, file)


@contextlib.contextmanager
def _tar(deb: Path, prefix: str) -> Iterator[tarfile.TarFile]:
    """The tar file of a package whose member's name begins so, to be read from start to end."""
    with deb.open("rb") as file:
        name, start, size = _member(file, deb, prefix)
        if name.rpartition(".")[2] not in _READ:
            raise ImageError(
                f"{deb} has {name}, and {', '.join(_READ[:-1])} alone are read here: pack it anew by 'dpkg-deb -Zxz'."
            )
        try:
            with tarfile.open(fileobj=_Part(file, start, size), mode="r|*") as archive:
                yield archive
        except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError) as error:
            raise ImageError(f"{deb} is damaged: its {name} cannot be read ({error}); get it anew.") from error


def _member(file: BinaryIO, deb: Path, prefix: str) -> tuple[str, int, int]:
    """Name, start and size (in bytes) of the first member of an ar archive whose name begins so."""
    end = file.seek(0, io.SEEK_END)
    file.seek(0)
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ImageError(f"{deb} is no Debian package: it does not begin as an ar archive; name another file.")
    at = len(_MAGIC)
    while at < end:
        file.seek(at)
        head = file.read(_HEAD_BYTES)
        size = head[48:58].strip()
        if len(head) < _HEAD_BYTES or head[58:] != _HEAD_END or not size.isdigit():
            raise ImageError(f"{deb} is damaged: at byte {at} is no head of a member; get it anew.")
        start, name = at + _HEAD_BYTES, head[:16].decode("ascii", "replace").strip().rstrip("/")
        if start + int(size) > end:
            raise ImageError(f"{deb} is damaged: it ends within its {name}, after {end} bytes; get it anew.")
        if name.startswith(prefix):
            return name, start, int(size)
        at = start + int(size) + int(size) % 2
    raise ImageError(f"{deb} is no Debian package: it has no {prefix}; name another file.")
