"""The clock outside the guest: ``timekeeper-start``, ``marks`` and ``path-delay``, operations of the peer."""

from __future__ import annotations

from virtoll.agent.operations.session import Done
from virtoll.agent.request import Request
from virtoll.runfolder.record import Record


class TimekeeperStartRequest(Request[Done], tag="timekeeper-start"):
    """Captures the marks that arrive on an interface."""

    interface: str


class Mark(Record):
    """A captured mark, by the kernel's stamp."""

    identifier: int
    sequence: int
    received_realtime_ns: int
    realtime_minus_monotonic_ns: int


class MarksReply(Record):
    """The marks that are there, and how many of those that were waited for are not."""

    marks: tuple[Mark, ...]
    missing: int


class MarksRequest(Request[MarksReply], tag="marks"):
    """Waits for so many marks of that identifier on that interface, and forgets them."""

    interface: str
    identifier: int
    wait_for: int
    timeout_ns: int


class PathDelayReply(Record):
    """Round trips to the guest's kernel."""

    round_trip_ns: tuple[int, ...]
    lost: int


class PathDelayRequest(Request[PathDelayReply], tag="path-delay"):
    """Sends so many ICMP echo requests, one after the other; ``timeout_ns`` is that of each reply."""

    interface: str
    source: str
    target: str
    target_mac: str
    count: int
    timeout_ns: int
