"""Packed runs that nobody should unpack, made from one that is right.

Main functions: ``archives`` (which trick and where, drawn by Hypothesis), ``made`` (its bytes) and ``READERS`` (every
command that takes a packed run).
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import zstandard
from hypothesis import strategies as st

from virtoll.runfolder.packing import LIST

RUN: Final = "models"
ZEROES: Final = 4 << 30
Reader = Callable[[Path, Path], Sequence[str]]

READERS: Final[Mapping[str, Reader]] = {
    "unpack": lambda archive, to: ["unpack", str(archive), "--into", str(to / "unpacked")],
    "unpack by name": lambda archive, _to: ["unpack", str(archive)],
    "claims": lambda archive, _to: ["claims", str(archive)],
    "verify": lambda archive, _to: ["verify", str(archive)],
    "export": lambda archive, _to: ["export", str(archive), "--format", "markdown"],
    "query": lambda archive, _to: ["query", "select * from runs", str(archive)],
    "compare": lambda archive, _to: ["compare", str(archive), str(archive)],
    "validation": lambda archive, _to: ["validation", str(archive)],
    "resume": lambda archive, _to: ["resume", str(archive)],
    "pack": lambda archive, to: ["pack", str(archive), "--output", str(to / "again.virtoll.tar.zst")],
}  # fmt: skip


@dataclass
class Parts:
    """What an archive is made of: its list and its members, in order; ``data`` goes in the place of the tar file."""

    listed: dict[str, Any]
    members: list[tuple[tarfile.TarInfo, bytes]]
    raw: list[bytes] = field(default_factory=list)
    data: bytes | None = None
    pax: dict[str, str] = field(default_factory=dict)


Trick = Callable[[Parts, random.Random], None]


def parts_of(folder: Path) -> Parts:
    """Of a run's folder, as ``virtoll pack`` packs it."""
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
    listed = {
        "format": 1,
        "virtoll": "0.1.0",
        "run": RUN,
        "anonymised": None,
        "files": {name: entry(data) for name, data in files.items()},
        "folders": ["evidence"],
    }
    top, evidence = tarfile.TarInfo(RUN), tarfile.TarInfo(f"{RUN}/evidence")
    top.type = evidence.type = tarfile.DIRTYPE
    return Parts(listed, [(top, b""), (evidence, b""), *(member(f"{RUN}/{n}", data) for n, data in files.items())])


def entry(data: bytes) -> dict[str, Any]:
    """Of the list."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def member(name: str, data: bytes = b"") -> tuple[tarfile.TarInfo, bytes]:
    """A file in a tar archive."""
    found = tarfile.TarInfo(name)
    found.size = len(data)
    found.mode = 0o644
    return found, data


def made(parts: Parts, trick: str, number: int) -> bytes:
    """An archive with one trick."""
    dice = random.Random(number)
    listed = json.loads(json.dumps(parts.listed))
    copied = [
        (tarfile.TarInfo.frombuf(one.tobuf(tarfile.PAX_FORMAT)[-512:], "utf-8", "strict"), data)
        for one, data in parts.members
    ]
    own = Parts(listed, copied)
    if trick in BYTES:
        return BYTES[trick](_packed(own), dice)
    TRICKS[trick](own, dice)
    return _packed(own)


def _packed(parts: Parts) -> bytes:
    out = io.BytesIO()
    compressor = zstandard.ZstdCompressor(level=1, write_checksum=True)
    with compressor.stream_writer(out, closefd=False) as stream:
        if parts.data is not None:
            stream.write(parts.data)
            return _ended(stream, out)
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, pax_headers=parts.pax) as tar:
            first, data = member(LIST, json.dumps(parts.listed).encode() + b"\n")
            tar.addfile(first, io.BytesIO(data))
            for info, content in parts.members:
                if info.size > len(content):
                    tar.addfile(info, _Zeroes(info.size))
                else:
                    tar.addfile(info, io.BytesIO(content))
            for one in parts.raw:
                assert tar.fileobj is not None
                tar.fileobj.write(one)
        return _ended(stream, out)


def _ended(stream: Any, out: io.BytesIO) -> bytes:
    stream.close()
    return out.getvalue()


class _Zeroes(io.RawIOBase):
    """So many."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._left = size

    def read(self, size: int = -1) -> bytes:
        """At most so many."""
        given = min(self._left, size if size >= 0 else self._left)
        self._left -= given
        return bytes(given)


def _more(name: str, data: bytes = b"reached", *, listed: bool = True, **changed: Any) -> Trick:
    """One member more, under the run's folder where its name does not lead elsewhere."""

    def trick(parts: Parts, _dice: random.Random) -> None:
        info, content = member(name, data)
        for key, value in changed.items():
            setattr(info, key, value)
        if changed.get("type", tarfile.REGTYPE) != tarfile.REGTYPE:
            info.size, content = 0, b""
        parts.members.append((info, content))
        if listed:
            parts.listed["files"][name.removeprefix(f"{RUN}/")] = entry(content)

    return trick


def _of_list(**changed: Any) -> Trick:
    return lambda parts, _dice: parts.listed.update(changed)


def _of_first_file(**changed: Any) -> Trick:
    def trick(parts: Parts, _dice: random.Random) -> None:
        parts.listed["files"]["manifest.json"].update(changed)

    return trick


def _header(kind: bytes, name: str, data: bytes, size: int | None = None) -> bytes:
    """A raw header of tar's, with its data."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(data) if size is None else size
    return info.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)


def _raw(*blocks: bytes) -> Trick:
    """Blocks of tar behind the list and the run's files."""
    return lambda parts, _dice: parts.raw.extend(blocks)


def _pax(records: Mapping[str, str]) -> bytes:
    """A pax header (POSIX.1-2001) of these records."""
    data = b""
    for key, value in records.items():
        body = f" {key}={value}\n".encode()
        length = len(body) + len(str(len(body) + len(str(len(body)))))
        data += str(length).encode() + body
    return _header(tarfile.XHDTYPE, "./PaxHeaders/x", data)


def _bomb(parts: Parts, _dice: random.Random) -> None:
    """A file of zeroes that is listed as it is: a thousandth of it in the archive."""
    info = tarfile.TarInfo(f"{RUN}/evidence/zeroes")
    info.size = ZEROES
    parts.members.append((info, b""))
    parts.listed["files"]["evidence/zeroes"] = {"bytes": ZEROES, "sha256": "0" * 64}


def _unlisted_bomb(parts: Parts, dice: random.Random) -> None:
    _bomb(parts, dice)
    parts.listed["files"]["evidence/zeroes"]["bytes"] = 10


def _many(parts: Parts, _dice: random.Random) -> None:
    for number in range(120_000):
        parts.listed["files"][f"evidence/{number}"] = {"bytes": 0, "sha256": hashlib.sha256(b"").hexdigest()}


def _many_folders(parts: Parts, _dice: random.Random) -> None:
    parts.listed["folders"] = [f"evidence/{number}" for number in range(120_000)]


def _changed(parts: Parts, dice: random.Random) -> None:
    number = dice.randrange(2, len(parts.members))
    info, data = parts.members[number]
    flipped = bytearray(data or b"x")
    flipped[dice.randrange(len(flipped))] ^= 1 << dice.randrange(8)
    info.size = len(flipped)
    parts.members[number] = info, bytes(flipped)


def _order(parts: Parts, dice: random.Random) -> None:
    dice.shuffle(parts.members)


def _missing(parts: Parts, dice: random.Random) -> None:
    del parts.members[dice.randrange(2, len(parts.members))]


def _twice(parts: Parts, dice: random.Random) -> None:
    parts.members.append(dice.choice(parts.members[2:]))


def _as_tar(data: bytes) -> Trick:
    def trick(parts: Parts, _dice: random.Random) -> None:
        parts.data = data

    return trick


def _list_text(text: bytes) -> Trick:
    """The list is this."""

    def trick(parts: Parts, _dice: random.Random) -> None:
        parts.data = _header(tarfile.REGTYPE, LIST, text) + bytes(1024)

    return trick


def _through_a_link(parts: Parts, dice: random.Random) -> None:
    _more(f"{RUN}/way", type=tarfile.SYMTYPE, linkname="/var/tmp")(parts, dice)  # noqa: S108
    _more(f"{RUN}/way/virtoll-inputs-reached")(parts, dice)


_UP: Final = "../" * 12 + "var/tmp/virtoll-inputs-reached"
TRICKS: Final[Mapping[str, Trick]] = {
    "as it is": lambda _parts, _dice: None,
    "folder above": _more(f"{RUN}/../reached"),
    "far above": _more(f"{RUN}/{_UP}"),
    "above, from the top": _more("../reached", listed=False),
    "absolute": _more("/var/tmp/virtoll-inputs-reached"),  # noqa: S108
    "absolute, unlisted": _more("/var/tmp/virtoll-inputs-reached", listed=False),  # noqa: S108
    "dot": _more(f"{RUN}/./evidence/x"),
    "two slashes": _more(f"{RUN}/evidence//x"),
    "another run's folder": _more("other/x", listed=False),
    "symbolic link": _more(f"{RUN}/evidence/link", type=tarfile.SYMTYPE, linkname="/etc"),
    "symbolic link as the folder": _more(f"{RUN}/evidence", type=tarfile.SYMTYPE, linkname="/var/tmp"),  # noqa: S108
    "through a link": _through_a_link,
    "hard link": _more(f"{RUN}/evidence/hard", type=tarfile.LNKTYPE, linkname="/etc/passwd"),
    "device": _more(f"{RUN}/evidence/device", type=tarfile.CHRTYPE, devmajor=1, devminor=5),
    "block device": _more(f"{RUN}/evidence/disk", type=tarfile.BLKTYPE, devmajor=8, devminor=0),
    "FIFO": _more(f"{RUN}/evidence/pipe", type=tarfile.FIFOTYPE),
    "unknown type": _more(f"{RUN}/evidence/what", type=b"Z"),
    "contiguous file": _more(f"{RUN}/evidence/what", type=tarfile.CONTTYPE),
    "multi-volume": _raw(_header(b"M", f"{RUN}/evidence/x", b"x")),
    "volume label": _raw(_header(b"V", "label", b"")),
    "folder listing": _raw(_header(b"D", f"{RUN}/evidence", b"Yx\0\0")),
    "sparse by GNU": _raw(_header(tarfile.GNUTYPE_SPARSE, f"{RUN}/evidence/sparse", b"", 1 << 40)),
    "sparse by pax": _raw(
        _pax({"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 40)}),
        _header(tarfile.REGTYPE, f"{RUN}/evidence/sparse", b"1\n0\n1\n"),
    ),
    "sparse by an older pax": _raw(
        _pax({"GNU.sparse.size": str(1 << 40), "GNU.sparse.map": "0,1," * 3000 + "0,1"}),
        _header(tarfile.REGTYPE, f"{RUN}/evidence/sparse", b"x"),
    ),
    "member twice": _twice,
    "another case": _more(f"{RUN}/MANIFEST.JSON"),
    "a file as folder": _more(f"{RUN}/manifest.json/x"),
    "a folder as file": _more(f"{RUN}/evidence"),
    "long part": _more(f"{RUN}/evidence/{'x' * 300}"),
    "long name": _more(f"{RUN}/{'/'.join(['x' * 200] * 40)}"),
    "deep name": _more(f"{RUN}/{'/'.join(['x'] * 2000)}"),
    "control in name": _more(f"{RUN}/evidence/\x1b[31m"),
    "line end in name": _more(f"{RUN}/evidence/a\nb"),
    "right to left": _more(f"{RUN}/evidence/\u202egnp.exe"),
    "surrogate in name": _more(f"{RUN}/evidence/\udcff"),
    "NUL in name": _raw(_pax({"path": f"{RUN}/evidence/a\0b"}), _header(tarfile.REGTYPE, "x", b"reached")),
    "setuid": _more(f"{RUN}/evidence/setuid", mode=0o7777, uid=0),
    "SHA256SUMS of others": _more(f"{RUN}/evidence/SHA256SUMS", b"0" * 64 + b"  ../../../../etc/passwd\n"),
    "pax path": _raw(_pax({"path": f"{RUN}/{_UP}"}), _header(tarfile.REGTYPE, f"{RUN}/evidence/x", b"reached")),
    "pax size": _raw(_pax({"size": str(1 << 50)}), _header(tarfile.REGTYPE, f"{RUN}/evidence/x", b"reached")),
    "pax size below zero": _raw(_pax({"size": "-1"}), _header(tarfile.REGTYPE, f"{RUN}/evidence/x", b"")),
    "pax size is a word": _raw(_pax({"size": "x"}), _header(tarfile.REGTYPE, f"{RUN}/evidence/x", b"")),
    "pax time": _raw(_pax({"mtime": "nan", "uid": "9" * 5000}), _header(tarfile.REGTYPE, f"{RUN}/evidence/x", b"")),
    "pax of many megabytes": _raw(_pax({"comment": "x" * (40 << 20)}), _header(tarfile.REGTYPE, f"{RUN}/x", b"")),
    "pax that is no pax": _raw(_header(tarfile.XHDTYPE, "x", b"99999999999999999999 a=b\n")),
    "pax without length": _raw(_header(tarfile.XHDTYPE, "x", b"0 a=b\n")),
    "pax for all": lambda parts, _dice: parts.pax.update({"path": f"{RUN}/../reached"}),
    "pax for all, size": lambda parts, _dice: parts.pax.update({"size": "10"}),
    "long name by GNU": _raw(_header(tarfile.GNUTYPE_LONGNAME, "././@LongLink", b"", 1 << 33)),
    "long link by GNU": _raw(
        _header(tarfile.GNUTYPE_LONGLINK, "././@LongLink", b"../" * 99 + b"\0"),
        _header(tarfile.SYMTYPE, f"{RUN}/evidence/x", b""),
    ),
    "headers of headers": _raw(*[_header(tarfile.GNUTYPE_LONGNAME, "././@LongLink", b"x\0")] * 3000),
    "ratio": _bomb,
    "more than listed": _unlisted_bomb,
    "many files": _many,
    "many folders": _many_folders,
    "folder above, listed": lambda parts, _dice: parts.listed["folders"].append("../reached"),
    "folder is absolute": lambda parts, _dice: parts.listed["folders"].append("/var/tmp/virtoll-inputs-reached"),  # noqa: S108
    "folder is no text": _of_list(folders=[1, None, {}]),
    "run above": _of_list(run="../reached"),
    "run is absolute": _of_list(run="/var/tmp/virtoll-inputs-reached"),  # noqa: S108
    "run is empty": _of_list(run=""),
    "run is a dot": _of_list(run=".."),
    "run is an option": _of_list(run="--help"),
    "run steers": _of_list(run="\x1b[31m"),
    "other format": _of_list(format=2, virtoll="\x1b[31m9.9"),
    "format is a word": _of_list(format="x"),
    "no files": _of_list(files={}),
    "files is a list": _of_list(files=[]),
    "sizes below zero": _of_first_file(bytes=-1),
    "size is huge": _of_first_file(bytes=10**30),
    "size is 10 TB": _of_first_file(bytes=10**13),
    "size is a word": _of_first_file(bytes="x"),
    "another digest": _of_first_file(sha256="0" * 64),
    "digest steers": _of_first_file(sha256="\x1b[31m"),
    "changed": _changed,
    "another order": _order,
    "member missing": _missing,
    "no list": _as_tar(_header(tarfile.REGTYPE, f"{RUN}/manifest.json", b"{}") + bytes(1024)),
    "list is no JSON": _list_text(b"{"),
    "list is empty": _list_text(b""),
    "list is deep": _list_text(b"[" * 100_000),
    "list is a list": _list_text(b"[]"),
    "list is null": _list_text(b"null"),
    "list of many digits": _list_text(b'{"format":' + b"9" * 10_000 + b"}"),
    "list is 40 MB": _list_text(b" " * (40 << 20)),
    "list announces 1 TB": _as_tar(_header(tarfile.REGTYPE, LIST, b"", 1 << 40)),
    "list is a link": _as_tar(_header(tarfile.SYMTYPE, LIST, b"") + bytes(1024)),
    "no tar": _as_tar(b"hello"),
    "nothing": _as_tar(b""),
    "zeroes": _as_tar(bytes(1 << 20)),
}  # fmt: skip


def _flipped(data: bytes, dice: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(dice.randint(1, 3)):
        found[dice.randrange(len(found))] ^= 1 << dice.randrange(8)
    return bytes(found)


def _large_window(_data: bytes, _dice: random.Random) -> bytes:
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=31)
    return zstandard.ZstdCompressor(compression_params=parameters).compressobj().compress(bytes(10)) + bytes(20)


BYTES: Final[Mapping[str, Callable[[bytes, random.Random], bytes]]] = {
    "bits flipped": _flipped,
    "cut": lambda data, dice: data[: dice.randrange(len(data))],
    "something behind it": lambda data, _dice: data + b"x",
    "two archives": lambda data, _dice: data + data,
    "skippable frame": lambda data, _dice: b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + data,
    "skippable frame behind": lambda data, _dice: data + b"\x50\x2a\x4d\x18\x04\0\0\0abcd",
    "window of 2 GiB": _large_window,
    "dictionary": lambda data, _dice: data[:4] + bytes([data[4] | 3]) + b"\1\2\3\4" + data[5:],
    "gzip": lambda _data, _dice: b"\x1f\x8b\x08" + bytes(100),
    "zip": lambda _data, _dice: b"PK\x03\x04" + bytes(100),
    "magic alone": lambda _data, _dice: zstandard.FRAME_HEADER,
    "empty": lambda _data, _dice: b"",
    "noise": lambda _data, dice: zstandard.FRAME_HEADER + dice.randbytes(2000),
}


@st.composite
def archives(draw: st.DrawFn) -> tuple[str, str, int]:
    """Which trick, by which reader, and a number that says where."""
    trick = draw(st.sampled_from([*TRICKS, *BYTES]))
    return trick, draw(st.sampled_from(list(READERS))), draw(st.integers(0, 2**32 - 1))


HARMLESS: Final = frozenset(
    {
        "as it is",
        "another order",
        "another case",
        "setuid",
        "SHA256SUMS of others",
        "contiguous file",
        "pax time",
        "pax without length",  # tarfile takes these two for the end: what is listed came before it
        "pax that is no pax",
    }
)
"""Tricks after which the run may be taken: what is odd about it is not believed, or means nothing."""
