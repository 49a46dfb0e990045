"""TCP as netperf measures it (Camargos et al. 2008, Figure 7; Suresh and Kannan 2014, 4.4.4), built into the agent.

netperf itself is not free software in Debian. ``tcp-stream`` is its TCP_STREAM and ``tcp-request-response`` its TCP_RR,
with its default sizes. The amount of work is given instead of the time: the clock outside the guest measures how
long it takes. The connection is there before the start mark; the end mark leaves when the receiving end has said that
it has every byte. A transaction's latency is by the clock of whoever asks, which by default is the peer.

Several connections have each a thread of its own at both ends, and begin together. The work is given in all, and each
has an equal part of it: the rate is of all of it, over the time until the last connection is done.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import ByteSize, Field, model_validator

from virtoll.agent.operations.jobs import (
    Exchange,
    RequestResponseExchange,
    ServeCloseRequest,
    ServeFinishReply,
    ServeFinishRequest,
    ServeRequest,
    Side,
    StreamExchange,
)
from virtoll.agent.timekeeper import TimedJob
from virtoll.errors import GuestError
from virtoll.runfolder.records import duration_ns
from virtoll.workloads.base import DURATION, Bench, Figures, Measurement, Metric, compared
from virtoll.workloads.network_path import FarEnd, NetworkWorkload, Path_co, PathParameters, far_end

Direction = Literal["to-guest", "from-guest"]
_STALL_NS = 60_000_000_000
_FINISH_NS = 10_000_000_000
_BESIDES_SECONDS = 0.15
_NATIVE_BYTES_PER_SECOND, _NATIVE_TRANSACTIONS_PER_SECOND = 1e9, 2e4
_MOST_CONNECTIONS = 256


class TcpStreamParameters(PathParameters):
    """``size``: bytes sent; quick 64 MiB, ten seconds of a gigabit link (netperf's default time) are 1200 MiB.

    ``message_bytes``: handed to the kernel at once; 16 384 is netperf's default on Linux (a new socket's send buffer).
    ``connections``: how many send at once, each its part of ``size``.
    """

    direction: Direction = Field(default="from-guest", description="which way the bytes go")
    size: ByteSize = Field(default=ByteSize(64 * 2**20), ge=1, le=2**42, description="bytes in all")
    message_bytes: int = Field(
        default=16_384, ge=8, le=2**24, description="bytes that are handed to the kernel at once"
    )
    connections: int = Field(
        default=1, ge=1, le=_MOST_CONNECTIONS, description="connections at once, each its part of size"
    )

    @model_validator(mode="after")
    def _each_has_some(self) -> Self:
        if self.connections > self.size:
            raise ValueError("connections must be no more than the bytes of size: each sends a part of them")
        return self


class TcpRequestResponseParameters(PathParameters):
    """``direction``: where the requests go. 1 byte each way is netperf's default; quick 5000 transactions.

    ``connections``: by how many at once, each its part of ``transactions``, one after the other.
    """

    direction: Direction = Field(default="to-guest", description="which way the requests go")
    transactions: int = Field(default=5000, ge=1, le=10**9, description="requests with their answers, in all")
    request_bytes: int = Field(default=1, ge=1, le=2**24, description="size of a request, in bytes")
    response_bytes: int = Field(default=1, ge=1, le=2**24, description="size of an answer, in bytes")
    connections: int = Field(
        default=1, ge=1, le=_MOST_CONNECTIONS, description="connections at once, each its part of the transactions"
    )

    @model_validator(mode="after")
    def _each_has_some(self) -> Self:
        if self.connections > self.transactions:
            raise ValueError("connections must be no more than transactions: each has a part of them")
        return self


class _Tcp(NetworkWorkload[Path_co]):
    """What both share: one exchange of the guest's agent with another agent, between two marks."""

    @abstractmethod
    def native_seconds(self) -> float:
        """About how long it takes on a bare host, in seconds: for estimates and deadlines only."""

    @abstractmethod
    def exchange(self) -> Exchange:
        """What both ends are asked for."""

    @abstractmethod
    def amount(self) -> int:
        """Bytes or transactions: what the check value must be."""

    @abstractmethod
    def figures(self, seconds: float, ends: tuple[Mapping[str, Any], ...]) -> Figures:
        """Rates by the outside clock's ``seconds``, and what ``ends`` (guest, other) say."""

    def estimate_seconds(self, slowdown: float) -> float:
        """Native cost times the platform's slowdown."""
        return _BESIDES_SECONDS + self.native_seconds() * slowdown

    def measure(self, bench: Bench) -> Measurement:
        """The other end serves, the guest's job runs between its marks, and both say what arrived."""
        with far_end(bench, self.parameters) as end:
            timed, served = self._exchange(bench, end)
            shaped_by = end.shaped_by
        expected = str(self.amount())
        value = timed.check if timed.check != expected else served.check
        result: dict[str, Any] = {
            "guest": timed.result,
            "other": served.to_json(),
            "shaped_by": shaped_by,
            "figures": None,
        }
        took_ns = duration_ns(timed.clock)
        if took_ns is not None and took_ns > 0:
            result["figures"] = self.figures(took_ns / 1e9, (timed.result, served.result))
        check, problem = compared(value, expected, timed.problem)
        return Measurement(timed.clock, result, check, None, problem)

    def _exchange(self, bench: Bench, end: FarEnd) -> tuple[TimedJob, ServeFinishReply]:
        exchange = self.exchange()
        deadline = 120.0 + 1000.0 * self.native_seconds()
        serving = end.agent.ask(ServeRequest(address=end.address, cpu=end.cpu, exchange=exchange, timeout_ns=_STALL_NS))
        try:
            where = {"address": end.address, "port": serving.port, "timeout_ns": _STALL_NS}
            timed = bench.timekeeper.time_job("tcp", {**where, "exchange": exchange.to_json()}, deadline)
            served = end.agent.ask(ServeFinishRequest(timeout_ns=_FINISH_NS), _FINISH_NS / 1e9 + 5)
        except GuestError:
            with contextlib.suppress(GuestError):
                end.agent.ask(ServeCloseRequest(), deadline_seconds=5)
            raise
        return timed, served


class TcpStream(_Tcp[TcpStreamParameters]):
    """Bytes one way; the check value is the number that the receiving end has, each message with the right number.

    That is of all connections, each of which must have its part.
    """

    name: ClassVar[str] = "tcp-stream"
    title: ClassVar[str] = "TCP stream"
    about: ClassVar[str] = "bytes one way over TCP"
    parameter_model = TcpStreamParameters
    metrics: ClassVar[tuple[Metric, ...]] = (DURATION, Metric("throughput", "Mbit/s", "higher", "figures"))

    def native_seconds(self) -> float:
        """About 1 GB/s."""
        parameters = self.parameters
        return parameters.transfer_seconds(int(parameters.size), _NATIVE_BYTES_PER_SECOND)

    def exchange(self) -> Exchange:
        """Who sends how much."""
        parameters = self.parameters
        return StreamExchange(
            active=_active(parameters.direction == "from-guest"),
            bytes=int(parameters.size),
            message_bytes=parameters.message_bytes,
            connections=parameters.connections,
        )

    def amount(self) -> int:
        """Bytes."""
        return int(self.parameters.size)

    def figures(self, seconds: float, ends: tuple[Mapping[str, Any], ...]) -> Figures:
        """Payload from mark to mark, in 10^6 bit/s."""
        del ends
        return {"throughput": 8e-6 * self.amount() / seconds}


class TcpRequestResponse(_Tcp[TcpRequestResponseParameters]):
    """Requests and answers; the check value is the number of answers that were those of their requests."""

    name: ClassVar[str] = "tcp-request-response"
    title: ClassVar[str] = "TCP request and response"
    about: ClassVar[str] = "requests and answers over TCP, their latency"
    parameter_model = TcpRequestResponseParameters
    metrics: ClassVar[tuple[Metric, ...]] = (
        DURATION,
        Metric("transaction_rate", "transactions/s", "higher", "figures"),
        Metric("latency_p50_ns", "ns", "lower", "figures"),
        Metric("latency_p99_ns", "ns", "lower", "figures"),
    )

    def native_seconds(self) -> float:
        """About 20 000 transactions a second, and twice the link's delay for each."""
        parameters = self.parameters
        each = 1 / _NATIVE_TRANSACTIONS_PER_SECOND + parameters.link_delay_ms / 500
        size = parameters.request_bytes + parameters.response_bytes
        return parameters.transactions * each + parameters.transfer_seconds(
            parameters.transactions * size, _NATIVE_BYTES_PER_SECOND
        )

    def exchange(self) -> Exchange:
        """Who asks how often."""
        parameters = self.parameters
        return RequestResponseExchange(
            active=_active(parameters.direction == "from-guest"),
            transactions=parameters.transactions,
            request_bytes=parameters.request_bytes,
            response_bytes=parameters.response_bytes,
            connections=parameters.connections,
        )

    def amount(self) -> int:
        """Transactions."""
        return self.parameters.transactions

    def figures(self, seconds: float, ends: tuple[Mapping[str, Any], ...]) -> Figures:
        """The rate from mark to mark; latencies by the asker's clock, from one answer to a connection's next."""
        asker = ends[0 if self.parameters.direction == "from-guest" else 1]
        latency = asker["transaction_ns"]
        return {
            "transaction_rate": self.amount() / seconds,
            "latency_p50_ns": latency["p50"],
            "latency_p99_ns": latency["p99"],
        }


def _active(guest: bool) -> Side:
    """Which end sends or asks, in the agent's words: the guest always opens the connection."""
    return "opener" if guest else "listener"
