"""What the head of a program says: for which machine it is, and whether it starts without a dynamic loader.

Standard library only, and nothing of Virtoll: the set-up of a clone and the build of a wheel load this file by its
path, before anything is installed. Main function: ``read_head``.
"""

import struct
from typing import NamedTuple

MACHINES = {62: "x86_64", 183: "aarch64"}
"""The machines that a wheel is made for, as ``uname -m`` names them, by their numbers in an ELF head."""
_LOADER = 3  # PT_INTERP
_HEAD_BYTES = 64


class Head(NamedTuple):
    """``machine`` as ``uname -m`` says it, ``machine 243`` for one of another number; ``static``: needs no loader."""

    machine: str
    static: bool


def read_head(program: bytes) -> Head | None:
    """The head of a 64-bit little-endian ELF program; None where these bytes are none, or are cut off in it."""
    if program[:6] != b"\x7fELF\x02\x01" or len(program) < _HEAD_BYTES:
        return None
    (machine,) = struct.unpack_from("<H", program, 18)
    (table,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    if len(program) < table + size * count:
        return None
    kinds = [struct.unpack_from("<I", program, table + size * index)[0] for index in range(count)]
    return Head(MACHINES.get(machine, f"machine {machine}"), _LOADER not in kinds)
