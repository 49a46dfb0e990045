"""What a disk may hold after the power was lost, at the level of its blocks: a log of dm-log-writes, replayed.

The log's layout: Linux, Documentation/admin-guide/device-mapper/log-writes.rst and drivers/md/dm-log-writes.c. It has
each write in the order in which it was complete before the next flush; so each prefix of it is a state of the disk.
Writes after the last flush may have been in the disk's cache only: of those any may be lost, and of a write of several
blocks the last ones. What was flushed, or written through the cache (FUA), stays.

Main types: `Entry`, `State`. Main functions: `entries`, `states`. It knows nothing of what the blocks mean.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

SECTOR_BYTES: Final = 512
BLOCK_BYTES: Final = 4096
"""Which a disk writes whole or not at all."""
_MAGIC: Final = 0x6A736677736872
_HEAD: Final = struct.Struct("<QQQI")
_ENTRY: Final = struct.Struct("<QQQQ")
_FLUSH, _FUA, _DISCARD, _MARK = 1, 2, 4, 8


@dataclass(frozen=True)
class Entry:
    """One entry: ``data`` was written from byte ``offset`` on. ``flush``: all entries before it are durable with it.

    ``through``: it did not stay in the disk's cache. ``mark``: no write, but a name that was set then.
    """

    offset: int = 0
    data: bytes = b""
    flush: bool = False
    through: bool = False
    mark: str = ""


@dataclass(frozen=True)
class State:
    """A state: the first ``length`` entries are complete; ``lost`` of them are not on the disk.

    The first ``sure`` are durable. Of ``torn`` the first ``torn_bytes`` are there. ``told``: the marks set before.
    """

    length: int
    sure: int
    lost: frozenset[int] = frozenset()
    torn: int = -1
    torn_bytes: int = 0
    told: tuple[str, ...] = ()


def entries(log: Path) -> list[Entry]:
    """The entries of a log; ValueError where it is none, or is cut off."""
    with log.open("rb") as file:
        magic, version, count, sector = _HEAD.unpack(_exactly(file, _HEAD.size))
        if (magic, version) != (_MAGIC, 1) or sector < SECTOR_BYTES:
            raise ValueError(f"{log}: no log of dm-log-writes, version 1")
        found, place = [], sector
        for _ in range(count):
            file.seek(place)
            head = _exactly(file, sector)
            first, sectors, flags, more = _ENTRY.unpack_from(head)
            place += sector
            mark, data = "", b""
            if flags & _MARK:
                mark = head[_ENTRY.size : _ENTRY.size + more].rstrip(b"\0").decode()
            elif flags & _DISCARD:
                data = bytes(sectors * sector)
            else:
                data = _exactly(file, sectors * sector)
                place += len(data)
            found.append(Entry(first * sector, data, bool(flags & _FLUSH), bool(flags & _FUA), mark))
    return found


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise ValueError("the log ends before its last entry")
    return data


def states(every: Sequence[Entry], chance: random.Random, others: int = 2) -> Iterator[State]:
    """The states after each write, flush and mark: none lost, all that may be, ``others`` at random; each torn too."""
    told: tuple[str, ...] = ()
    loose: list[int] = []
    for length in range(len(every) + 1):
        if length:
            last = every[length - 1]
            told += (last.mark,) if last.mark else ()
            loose = [] if last.flush else loose
            loose = [*loose, length - 1] if last.data and not last.through else loose
        sure = min(loose, default=length)
        yield State(length, sure, told=told)
        drawn = {frozenset(loose)}
        drawn |= {frozenset(one for one in loose if chance.random() < 0.5) for _ in range(others)}
        for lost in sorted(drawn, key=sorted):
            if lost:
                yield State(length, sure, lost, told=told)
            wide = [one for one in loose if one not in lost and len(every[one].data) > BLOCK_BYTES]
            if wide:
                torn = chance.choice(wide)
                most = len(every[torn].data) // BLOCK_BYTES
                yield State(length, sure, lost, torn, BLOCK_BYTES * chance.randrange(1, most), told)


class Disk:
    """The bytes of a disk as states leave it; states are asked for in the order of their length."""

    def __init__(self, before: bytes, every: Sequence[Entry]) -> None:
        """``before``: the disk when the log began."""
        self._every = every
        self._sure = bytearray(before)
        self._length = 0

    def at(self, state: State) -> bytearray:
        """Its content in a state."""
        if state.sure < self._length:
            raise ValueError("a state from before the last one")
        for number in range(self._length, state.sure):
            _put(self._sure, self._every[number], len(self._every[number].data))
        self._length = state.sure
        content = bytearray(self._sure)
        for number in range(state.sure, state.length):
            if number not in state.lost:
                one = self._every[number]
                _put(content, one, state.torn_bytes if number == state.torn else len(one.data))
        return content


def _put(content: bytearray, one: Entry, size: int) -> None:
    content[one.offset : one.offset + size] = one.data[:size]
