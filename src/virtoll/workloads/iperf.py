"""iperf 2 with UDP datagrams of 1472 bytes, to the guest and from it (Mattos et al. 2012, IV.D, Figure 7).

1472 bytes fill an Ethernet frame. The same program of the same image runs at both ends; the guest's is always the
client, between the marks. With ``--reverse`` the server sends to it. Losses are counted against what the sender says it
sent: iperf's own count ends with the last datagram that arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from virtoll.experiment.model import Image
from virtoll.workloads.base import DURATION, Bench, Figures, Measurement, Metric, compared
from virtoll.workloads.network_path import FarEnd, NetworkWorkload, PathParameters, far_end
from virtoll.workloads.programs import ListeningPort, ProgramOutput, run, serving, time_program

_PORT = 5001
_LOG = "/tmp/virtoll-iperf.log"  # noqa: S108 - in the guest's or the peer's own, where nobody else is
_READY_SECONDS = 30.0
_DATAGRAM_BYTES = 1472
_BESIDES_SECONDS = 0.6
_SURPLUS_DATAGRAMS = 2  # iperf 2.1 sends one beyond the number of bytes that it was given, and one to say that it ends
_FIELDS = 14


class IperfUdpParameters(PathParameters):
    """``rate_bits_per_second``: payload that the sender is to send; ``datagrams`` of ``datagram_bytes``.

    Quick: 50 Mbit/s for a second. The paper's: gigabit Ethernet, which is 957 087 379 bit/s of such payload.
    """

    direction: Literal["to-guest", "from-guest"] = Field(default="from-guest", description="which way the datagrams go")
    rate_bits_per_second: int = Field(
        default=50_000_000, ge=10_000, le=10**11, description="payload that the sender is to send, in bit/s"
    )
    datagrams: int = Field(default=4246, ge=10, le=10**9, description="datagrams in all")
    datagram_bytes: int = Field(default=_DATAGRAM_BYTES, ge=64, le=1472, description="payload of a datagram, in bytes")


class IperfUdp(NetworkWorkload[IperfUdpParameters]):
    """The iperf experiment."""

    name: ClassVar[str] = "iperf-udp"
    title: ClassVar[str] = "iperf UDP"
    about: ClassVar[str] = "datagrams at a fixed rate by iperf"
    origin: ClassVar[str] = "Mattos 2012"
    parameter_model = IperfUdpParameters
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("received_rate", "Mbit/s", "higher", "figures"),
        Metric("received_share", "", "higher", "figures"),
        DURATION,
    )
    image: ClassVar[Image] = "full"
    packages: ClassVar[tuple[str, ...]] = ("iperf",)

    def estimate_seconds(self, slowdown: float) -> float:
        """The rate says how long it takes; a slow guest starts its program late."""
        return _seconds(self.parameters) + _BESIDES_SECONDS + 0.05 * slowdown

    def measure(self, bench: Bench) -> Measurement:
        """The server listens, the guest's client runs between its marks, and both say what they sent or received."""
        parameters = self.parameters
        seconds = 60.0 + 20 * _seconds(parameters)
        with far_end(bench, parameters) as end:
            programs, server = end.require_programs(), server_command(parameters)
            with serving(programs, server, _LOG, ListeningPort("udp", _PORT).listening(), _READY_SECONDS) as finish:
                argv = client_command(parameters, end)
                run(bench.guest, [argv[0], "--version"], ok=(0, 1))  # into the page cache; it ends so with 1
                timed, client, problem = time_program(bench, argv, seconds)
                there = finish(seconds if problem is None else 0)
        result: dict[str, Any] = {
            "argv": argv,
            "server_argv": server,
            "status": client.status,
            "output": client.output,
            "complaints": client.complaints,
            "server_output": there.output,
            "shaped_by": end.shaped_by,
            "figures": None,
        }
        if problem is not None:
            return Measurement(timed.clock, result, None, None, problem)
        sending, receiving = (client, there) if parameters.direction == "from-guest" else (there, client)
        try:
            books = _books(parameters, sending, receiving)
        except ValueError as error:
            return Measurement(timed.clock, result, None, None, f"what iperf printed cannot be read: {error}")
        result["figures"] = books.figures()
        check, problem = compared(books.value(parameters), _expected(parameters), timed.problem)
        return Measurement(timed.clock, result, check, None, problem)


@dataclass(frozen=True)
class ReportLine:
    """One line of ``--reportstyle C``: bytes and bit/s; datagrams lost and in all, None at the end that sends."""

    bytes: int
    bits_per_second: int
    jitter_ms: float
    lost_datagrams: int | None
    datagrams: int | None


@dataclass(frozen=True)
class Books:
    """What was sent, what arrived, and how."""

    sent_datagrams: int
    received_datagrams: int
    sent: ReportLine
    received: ReportLine

    def figures(self) -> Figures:
        """Rates are by the clock of the end that they were measured at."""
        lost = self.sent_datagrams - self.received_datagrams
        return {
            "sent_datagrams": self.sent_datagrams,
            "received_datagrams": self.received_datagrams,
            "lost_datagrams": lost,
            "lost_datagrams_by_iperf": self.received.lost_datagrams,
            "received_share": self.received_datagrams / self.sent_datagrams,
            "sent_rate": self.sent.bits_per_second / 1e6,
            "received_rate": self.received.bits_per_second / 1e6,
            "jitter_ms": self.received.jitter_ms,
        }

    def value(self, parameters: IperfUdpParameters) -> str:
        """``_expected`` where all asked for was sent and no more arrived than that."""
        surplus = self.sent_datagrams - parameters.datagrams
        if not 0 <= surplus <= _SURPLUS_DATAGRAMS:
            return f"{self.sent_datagrams} sent"
        if not 0 < self.received_datagrams <= self.sent_datagrams:
            return f"{self.received_datagrams} received of {self.sent_datagrams} sent"
        return _expected(parameters)


def _expected(parameters: IperfUdpParameters) -> str:
    return f"{parameters.datagrams} sent"


def server_command(parameters: IperfUdpParameters) -> list[str]:
    """Serves one client and ends."""
    return [
        "iperf",
        "--server",
        "--udp",
        "--port",
        str(_PORT),
        "--len",
        str(parameters.datagram_bytes),
        "--parallel",
        "1",
        "--reportstyle",
        "C",
    ]


def client_command(parameters: IperfUdpParameters, end: FarEnd) -> list[str]:
    """So many bytes at such a rate; ``--reverse``: the server sends them."""
    return [
        "iperf",
        "--client",
        end.address,
        "--udp",
        "--port",
        str(_PORT),
        "--len",
        str(parameters.datagram_bytes),
        "--bandwidth",
        str(parameters.rate_bits_per_second),
        "--num",
        str(parameters.datagrams * parameters.datagram_bytes),
        "--reportstyle",
        "C",
        *(["--reverse"] if parameters.direction == "to-guest" else []),
    ]


def parse(output: str) -> ReportLine:
    """The last line of iperf 2's CSV; ValueError where there is none.

    `time,address,port,address,port,id,interval,bytes,bits per second,jitter ms,lost,total,lost %,out of order`; at the
    sending end total is -1.
    """
    rows = [line.split(",") for line in output.splitlines()]
    reports = [row for row in rows if len(row) == _FIELDS]
    if not reports:
        raise ValueError(f"no line of {_FIELDS} fields: {output.strip()[-120:]!r}")
    row = reports[-1]
    total = int(row[11])
    sends = total < 0
    lost, datagrams = (None, None) if sends else (int(row[10]), total)
    return ReportLine(int(row[7]), int(row[8]), float(row[9]), lost, datagrams)


def _books(parameters: IperfUdpParameters, sending: ProgramOutput, receiving: ProgramOutput) -> Books:
    sent, received = parse(sending.output), parse(receiving.output)
    if sent.datagrams is not None:
        raise ValueError("the sending end printed no line of its own")
    if received.datagrams is None or received.lost_datagrams is None:
        raise ValueError("the receiving end printed no line of its own")
    arrived = received.bytes // parameters.datagram_bytes
    return Books(sent.bytes // parameters.datagram_bytes, arrived, sent, received)


def _seconds(parameters: IperfUdpParameters) -> float:
    return parameters.datagrams * parameters.datagram_bytes * 8 / parameters.rate_bits_per_second
