"""``http-load``: requests to a web server at a fixed rate, an operation of the peer."""

from __future__ import annotations

from virtoll.agent.request import Request
from virtoll.runfolder.record import Record
from virtoll.runfolder.traffic_records import Distribution, Processor


class HttpLoadCpu(Record):
    """CPU time of the generator, and what the host's CPUs did meanwhile."""

    generator_cpu_ns: int
    core: int | None
    processors: tuple[Processor, ...]


class HttpLoadReply(Record):
    """The books: ``intended = replies + timeouts + failures``; times in ns by the peer's clock."""

    intended_requests: int
    replies: int
    statuses: dict[str, int]
    timeouts: int
    unsent_requests: int
    failures: dict[str, int]
    body_bytes: int
    connections_opened: int
    connections_open_maximum: int
    start_realtime_ns: int
    start_monotonic_ns: int
    last_reply_monotonic_ns: int | None
    end_monotonic_ns: int
    latency_ns: Distribution | None
    service_ns: Distribution | None
    late_ns: Distribution | None
    cpu: HttpLoadCpu


class HttpLoadRequest(Request[HttpLoadReply], tag="http-load"):
    """An open loop: requests become due at a fixed rate, whatever the server does."""

    target: str
    path: str
    requests: int
    rate_requests_per_second: float
    keep_alive: bool
    connections: int
    timeout_ns: int
    cpu: int | None = None
