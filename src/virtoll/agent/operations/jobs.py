"""``run``, a built-in job between two marks; ``serve`` and its end, the other side of the job ``tcp``."""

from __future__ import annotations

from typing import Any, Literal

from virtoll.agent.operations.session import Done
from virtoll.agent.request import Message, Request
from virtoll.runfolder.record import Record
from virtoll.runfolder.records import GuestClock

Side = Literal["opener", "listener"]


class MarkLink(Message):
    """The link that carries the marks: ICMP echo requests, whose second sequence number is one more."""

    interface: str
    source: str
    target: str
    target_mac: str
    identifier: int
    first_sequence: int


class RunReply(Record):
    """``result``: the job's own figures; ``check``: what shows that it was done."""

    guest: GuestClock
    result: dict[str, Any]
    check: str


class RunRequest(Request[RunReply], tag="run"):
    """Runs a job ``repeats`` times; without ``marks`` they come over the channel alone.

    ``pause_ns``: how long the guest sleeps between the start mark and the job; ``delay_ns``: how long after the request
    it sends the start mark.
    """

    job: str
    parameters: dict[str, Any]
    marks: MarkLink | None = None
    repeats: int = 1
    pause_ns: int = 0
    delay_ns: int = 0


class StreamExchange(Message, tag="stream", tag_field="kind"):
    """The active end sends bytes, by each of its ``connections`` a part."""

    active: Side
    bytes: int
    message_bytes: int
    connections: int = 1


class RequestResponseExchange(Message, tag="request-response", tag_field="kind"):
    """The active end asks and the other one answers, by each of its ``connections`` a part."""

    active: Side
    transactions: int
    request_bytes: int
    response_bytes: int
    connections: int = 1


Exchange = StreamExchange | RequestResponseExchange


class ServeReply(Record):
    """Where it listens."""

    port: int


class ServeRequest(Request[ServeReply], tag="serve"):
    """Listens for the exchange's connections, and does its end of it while the session goes on; port 0: any."""

    address: str
    exchange: Exchange
    timeout_ns: int
    port: int = 0
    cpu: int | None = None


class TcpInformation(Record):
    """The connection's counters, TCP_INFO of the kernel."""

    retransmitted_segments: int
    round_trip_us: int
    sent_segment_bytes: int
    received_segment_bytes: int


class ServeFinishReply(Record):
    """``result``: the exchange's own figures; ``connections``: those of each of several, with its counters.

    ``tcp``: the only connection's; None of several, and where the kernel has no counters.
    """

    result: dict[str, Any]
    check: str
    tcp: TcpInformation | None
    connections: tuple[dict[str, Any], ...] = ()


class ServeFinishRequest(Request[ServeFinishReply], tag="serve-finish"):
    """Waits for the end of what is served."""

    timeout_ns: int


class ServeCloseRequest(Request[Done], tag="serve-close"):
    """Breaks off what is served."""
