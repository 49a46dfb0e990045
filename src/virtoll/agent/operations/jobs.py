"""``run``, a built-in job between two marks; ``serve`` and its end, the other side of the job ``tcp``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from virtoll.agent.messages import Message, Request
from virtoll.agent.operations.session import Done

Side = Literal["opener", "listener"]


class MarkLink(Message):
    """The link that carries the marks: ICMP echo requests, whose second sequence number is one more."""

    interface: str
    source: str
    target: str
    target_mac: str
    identifier: int
    first_sequence: int


class GuestTimes(Message):
    """The guest's clocks at the marks, the pause from the start mark to the job, and the CPU time between the marks."""

    start_monotonic_ns: int
    end_monotonic_ns: int
    start_realtime_ns: int
    end_realtime_ns: int
    user_cpu_ns: int
    system_cpu_ns: int
    pause_ns: int = 0


class RunReply(Message):
    """``result``: the job's own figures; ``check``: what shows that it was done."""

    guest: GuestTimes
    result: Mapping[str, Any]
    check: str


class RunRequest(Request[RunReply], op="run"):
    """Runs a job ``repeats`` times; without ``marks`` they come over the channel alone.

    ``pause_ns``: how long the guest sleeps between the start mark and the job; ``delay_ns``: how long after the request
    it sends the start mark.
    """

    job: str
    parameters: Mapping[str, Any]
    marks: MarkLink | None = None
    repeats: int = 1
    pause_ns: int = 0
    delay_ns: int = 0


class StreamExchange(Message):
    """The active end sends bytes, by each of its ``connections`` a part."""

    kind: Literal["stream"]
    active: Side
    bytes: int
    message_bytes: int
    connections: int = 1


class RequestResponseExchange(Message):
    """The active end asks and the other one answers, by each of its ``connections`` a part."""

    kind: Literal["request-response"]
    active: Side
    transactions: int
    request_bytes: int
    response_bytes: int
    connections: int = 1


Exchange = StreamExchange | RequestResponseExchange


class ServeReply(Message):
    """Where it listens."""

    port: int


class ServeRequest(Request[ServeReply], op="serve"):
    """Listens for the exchange's connections, and does its end of it while the session goes on; port 0: any."""

    address: str
    exchange: Exchange
    timeout_ns: int
    port: int = 0
    cpu: int | None = None


class TcpInformation(Message):
    """The connection's counters, TCP_INFO of the kernel."""

    retransmitted_segments: int
    round_trip_us: int
    sent_segment_bytes: int
    received_segment_bytes: int


class ServeFinishReply(Message):
    """``result``: the exchange's own figures; ``connections``: those of each of several, with its counters.

    ``tcp``: the only connection's; None of several, and where the kernel has no counters.
    """

    result: Mapping[str, Any]
    check: str
    tcp: TcpInformation | None
    connections: tuple[Mapping[str, Any], ...] = ()


class ServeFinishRequest(Request[ServeFinishReply], op="serve-finish"):
    """Waits for the end of what is served."""

    timeout_ns: int


class ServeCloseRequest(Request[Done], op="serve-close"):
    """Breaks off what is served."""
