"""Takes the plain kernel out of its self-extracting form, and modules out of their compression.

A boot under emulation spends more than half of its time in the kernel's own decompressor; QEMU can start the plain ELF
kernel at its PVH entry instead. Formats: Linux, Documentation/arch/x86/boot.rst (payload_offset, payload_length);
ELF note 18 of owner "Xen" (XEN_ELFNOTE_PHYS32_ENTRY) is the PVH entry.

Must not: touch files; bytes in, bytes out.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import subprocess
import zlib
from collections.abc import Iterator

from virtoll.errors import ImageError
from virtoll.image.debian import find_program

_BZIMAGE_MAGIC_AT = 0x202
_SETUP_SECTORS_AT = 0x1F1
_PAYLOAD_AT = 0x248
_SECTOR_BYTES = 512
_PT_NOTE = 4
_PVH_NOTE = 18
_SIZE_TRAILER_BYTES = 4  # the kernel's build appends the plain size to a payload

# Not in the standard library of Python 3.11: the program that does it, by the stream's first bytes.
_PROGRAMS = {b"\x28\xb5\x2f\xfd": "zstd", b"\x02\x21\x4c\x18": "lz4", b"\x04\x22\x4d\x18": "lz4"}


def decompress(data: bytes) -> bytes:
    """The plain bytes of an xz, gzip, bzip2, zstd or lz4 stream; of anything else, the data itself."""
    if data.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor().decompress(data)
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(data)
    if data.startswith(b"BZh"):
        return bz2.BZ2Decompressor().decompress(data)
    program = _PROGRAMS.get(data[:4])
    return data if program is None else _decompress_by(program, data)


def extract_vmlinux(bzimage: bytes) -> bytes | None:
    """The ELF kernel in an x86 bzImage, or None where it is not one or has no PVH entry to start it at."""
    if bzimage[_BZIMAGE_MAGIC_AT : _BZIMAGE_MAGIC_AT + 4] != b"HdrS":
        return None
    offset, length = struct.unpack_from("<II", bzimage, _PAYLOAD_AT)
    start = ((bzimage[_SETUP_SECTORS_AT] or 4) + 1) * _SECTOR_BYTES + offset
    payload = bzimage[start : start + length]
    if payload[:4] in _PROGRAMS:
        payload = payload[:-_SIZE_TRAILER_BYTES]  # the programs refuse what follows a stream
    kernel = decompress(payload)
    return kernel if has_pvh_entry(kernel) else None


def has_pvh_entry(kernel: bytes) -> bool:
    """Whether a 64-bit ELF kernel says where a hypervisor may enter it in 32-bit mode."""
    if kernel[:6] != b"\x7fELF\x02\x01":
        return False
    (table,) = struct.unpack_from("<Q", kernel, 32)
    size, count = struct.unpack_from("<HH", kernel, 54)
    for index in range(count):
        header = table + size * index
        (kind,) = struct.unpack_from("<I", kernel, header)
        (offset,) = struct.unpack_from("<Q", kernel, header + 8)
        (length,) = struct.unpack_from("<Q", kernel, header + 32)
        if kind == _PT_NOTE and (b"Xen\0", _PVH_NOTE) in _notes(kernel[offset : offset + length]):
            return True
    return False


def _notes(segment: bytes) -> Iterator[tuple[bytes, int]]:
    """(owner, type) of each ELF note of a segment."""
    at = 0
    while at + 12 <= len(segment):
        owner_bytes, content_bytes, kind = struct.unpack_from("<III", segment, at)
        yield segment[at + 12 : at + 12 + owner_bytes], kind
        at += 12 + _aligned(owner_bytes) + _aligned(content_bytes)


def _aligned(count: int) -> int:
    return (count + 3) & ~3


def _decompress_by(program: str, data: bytes) -> bytes:
    answer = subprocess.run([find_program(program), "-dc"], input=data, capture_output=True, check=False)
    if answer.returncode != 0:
        raise ImageError(f"{program} could not decompress a part of the guest kernel: {answer.stderr.decode().strip()}")
    return answer.stdout
