"""Several guests at once: how many, how large, and what their start and their work were.

Main types: ``ScalePoint`` (what an experiment asks for and a record names), ``GroupRecord`` (the start of so many
guests at the same time, and the host's memory around it). What each guest did in a trial is ``GuestRun`` in `records`.
"""

from __future__ import annotations

from typing import Final, Literal

from virtoll.runfolder.record import Record

MOST_GUESTS: Final = 128


class ScalePoint(Record):
    """So many guests at once, each with so many virtual CPUs and bytes of memory."""

    guests: int
    vcpus: int
    memory_bytes: int

    @property
    def label(self) -> str:
        """In a few words: '8 guests'."""
        return "1 guest" if self.guests == 1 else f"{self.guests} guests"

    def guest(self, number: int) -> str:
        """One of them in words; `number`: from 1."""
        return f"guest {number} of {self.guests}" if self.guests > 1 else "its guest"


class GroupRecord(Record):
    """Guests of one platform that were started at the same time: when, which boots, and the host's memory.

    `began_monotonic_ns`: before the first start was asked for; `up_monotonic_ns`: when the last of them could be used,
    None where one of them failed, for this `reason`. `available_..._bytes`: memory that the host has available before
    the start, and when all idle (None: not reported, or one failed). `boots`: of those that started, in order.
    """

    platform: str
    block: int
    scale: ScalePoint
    status: Literal["ok", "failed"]
    reason: str | None
    boots: tuple[str, ...]
    began_monotonic_ns: int
    up_monotonic_ns: int | None
    available_before_bytes: int | None
    available_idle_bytes: int | None
