"""The operation that measures how fast CPUs hand a cache line to each other: ``hand-over``."""

from __future__ import annotations

from virtoll.agent.request import Request
from virtoll.runfolder.hand_over import HandOver
from virtoll.runfolder.record import Record


class HandOverReply(Record):
    """A reading of each pair, in the order of the request."""

    readings: tuple[HandOver, ...]


class HandOverRequest(Request[HandOverReply], tag="hand-over"):
    """The CPUs of each pair, by the kernel's numbers."""

    pairs: tuple[tuple[int, int], ...]
