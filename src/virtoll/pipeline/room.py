"""This machine's memory for guests: how much is lacking for one more, and who is ended for it.

It must not know how a guest is started or ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from virtoll.host.guest_usage import available_bytes, read_footprint
from virtoll.pipeline.requirements import RESERVE_BYTES
from virtoll.platforms.base import Guest

Key = TypeVar("Key")


def lacking_bytes(memory_bytes: int) -> int:
    """How much memory this machine lacks for a guest that takes so much of it; 0 where it has that, and some is left.

    0 as well where the kernel does not say what it has.
    """
    available = available_bytes()
    return 0 if available is None else max(0, memory_bytes + RESERVE_BYTES - available)


def held_bytes(guest: Guest) -> int:
    """What a guest's processes hold of this machine's memory now; 0 where it has none here."""
    processes = guest.host_processes()
    return 0 if processes is None else read_footprint(processes).held_bytes() or 0


def ended_for(lacking: int, held: Mapping[Key, int]) -> list[Key]:
    """Whose end gives so many bytes, those that hold most first; nobody's where all together do not hold so much."""
    if lacking <= 0 or sum(held.values()) < lacking:
        return []
    keys: list[Key] = []
    for key in sorted(held, key=lambda key: held[key], reverse=True):
        if lacking > 0:
            keys.append(key)
            lacking -= held[key]
    return keys
