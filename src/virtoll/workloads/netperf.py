"""netperf's TCP_STREAM and TCP_RR (Camargos et al. 2008, Figure 7; Suresh and Kannan 2014, 4.4.4): the tool itself.

It is no free software in Debian, so these run only where the experiment asks for the image that has it; ``tcp-stream``
and ``tcp-request-response`` are the same tests built into the agent. netserver serves at the far end, netperf runs in
the guest between its marks, connecting included. To the guest, it is netperf's TCP_MAERTS. A given amount is sent, not
as much as a time allows: netperf takes a negative length for that. Its own rates are by the clock of the guest.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

from pydantic import ByteSize, Field

from virtoll.experiment.model import Image
from virtoll.workloads.base import DURATION, Bench, Figures, Measurement, Metric, compared
from virtoll.workloads.network_path import FarEnd, NetworkWorkload, Path_co, PathParameters, far_end
from virtoll.workloads.programs import ListeningPort, ProgramOutput, run, serving, time_program

_PORT = 12865  # netperf's own
_LOG = "/tmp/virtoll-netserver.log"  # noqa: S108 - in the guest's or the peer's own, where nobody else is
_READY_SECONDS = 30.0
_BESIDES_SECONDS = 0.4
_NATIVE_BYTES_PER_SECOND, _NATIVE_TRANSACTIONS_PER_SECOND = 3e8, 2e4


class NetperfStreamParameters(PathParameters):
    """``size``: bytes sent; quick 64 MiB. Messages and socket buffers are netperf's defaults."""

    direction: Literal["to-guest", "from-guest"] = Field(default="from-guest", description="which way the bytes go")
    size: ByteSize = Field(default=ByteSize(64 * 2**20), ge=1, le=2**42, description="bytes in all")


class NetperfRequestResponseParameters(PathParameters):
    """``transactions`` that the guest asks for, of one byte each way: netperf's default."""

    transactions: int = Field(
        default=5000, ge=1, le=10**9, description="requests with their answers of one byte each, in all"
    )


class _Netperf(NetworkWorkload[Path_co]):
    """What both share: netperf in the guest, netserver at the other end."""

    image: ClassVar[Image] = "full-non-free"
    packages: ClassVar[tuple[str, ...]] = ("netperf",)

    @abstractmethod
    def native_seconds(self) -> float:
        """About how long it takes on a bare host, in seconds: for estimates and deadlines only."""

    @abstractmethod
    def test(self) -> tuple[str, int, tuple[str, ...]]:
        """netperf's name of the test, how much of it, and the keys that the far end's count and the guest's are at."""

    @abstractmethod
    def figures(self, report: dict[str, str]) -> Figures:
        """Rates, by the guest's clock; ValueError where they are not there."""

    def estimate_seconds(self, slowdown: float) -> float:
        """Native cost times the platform's slowdown; a slow guest starts its program late."""
        return _BESIDES_SECONDS + (self.native_seconds() + 0.05) * slowdown

    def measure(self, bench: Bench) -> Measurement:
        """The server listens, the guest's program runs between its marks, and says what both ends counted."""
        parameters = self.parameters
        seconds = 60.0 + 1000.0 * self.native_seconds()
        with far_end(bench, parameters) as end:
            programs, server = end.require_programs(), server_command(end)
            with serving(programs, server, _LOG, ListeningPort("tcp", _PORT).listening(), _READY_SECONDS):
                argv = self.command(end)
                run(bench.guest, [argv[0], "-V"])  # into the page cache
                timed, program, problem = time_program(bench, argv, seconds)
            shaped_by = end.shaped_by
        result: dict[str, Any] = {
            "argv": argv,
            "server_argv": server,
            "status": program.status,
            "output": program.output,
            "complaints": program.complaints,
            "shaped_by": shaped_by,
            "figures": None,
        }
        if problem is not None:
            return Measurement(timed.clock, result, None, None, problem)
        _, amount, keys = self.test()
        try:
            report = parse(program)
            result["figures"] = self.figures(report)
            counts = {number(report, key) for key in keys}
        except ValueError as error:
            return Measurement(timed.clock, result, None, None, f"what netperf printed cannot be read: {error}")
        value = "/".join(f"{count:.0f}" for count in sorted(counts))
        check, problem = compared(value, str(amount), timed.problem)
        return Measurement(timed.clock, result, check, None, problem)

    def command(self, end: FarEnd) -> list[str]:
        """So much of a test against the far end; results as `KEY=value`."""
        name, amount, keys = self.test()
        return [
            "netperf",
            "-4",
            "-H",
            end.address,
            "-p",
            str(_PORT),
            "-t",
            name,
            "-l",
            str(-amount),
            "--",
            "-k",
            ",".join(("THROUGHPUT", "THROUGHPUT_UNITS", "ELAPSED_TIME", *keys, "MEAN_LATENCY", "P99_LATENCY")),
        ]


class NetperfStream(_Netperf[NetperfStreamParameters]):
    """TCP_STREAM from the guest, TCP_MAERTS to it; the check value is the number of bytes that both ends counted."""

    name: ClassVar[str] = "netperf-tcp-stream"
    title: ClassVar[str] = "netperf TCP_STREAM"
    about: ClassVar[str] = "bytes one way by netperf"
    origin: ClassVar[str] = "Camargos 2008, Suresh 2014"
    parameter_model = NetperfStreamParameters
    metrics: ClassVar[tuple[Metric, ...]] = (DURATION, Metric("throughput", "Mbit/s", "higher", "figures"))

    def native_seconds(self) -> float:
        """About 300 MB/s."""
        parameters = self.parameters
        return parameters.transfer_seconds(int(parameters.size), _NATIVE_BYTES_PER_SECOND)

    def test(self) -> tuple[str, int, tuple[str, ...]]:
        """Which way the bytes go."""
        parameters = self.parameters
        if parameters.direction == "from-guest":
            return "TCP_STREAM", int(parameters.size), ("LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD")
        return "TCP_MAERTS", int(parameters.size), ("LOCAL_BYTES_RECVD", "REMOTE_BYTES_SENT")

    def figures(self, report: dict[str, str]) -> Figures:
        """Mbit/s of payload."""
        return {"throughput": rate(report, "10^6bits/s"), "elapsed_seconds": number(report, "ELAPSED_TIME")}


class NetperfRequestResponse(_Netperf[NetperfRequestResponseParameters]):
    """TCP_RR; the check value is the number of bytes, one each way a transaction."""

    name: ClassVar[str] = "netperf-tcp-rr"
    title: ClassVar[str] = "netperf TCP_RR"
    about: ClassVar[str] = "requests and answers by netperf"
    origin: ClassVar[str] = "Suresh 2014"
    parameter_model = NetperfRequestResponseParameters
    metrics: ClassVar[tuple[Metric, ...]] = (DURATION, Metric("transaction_rate", "1/s", "higher", "figures"))

    def native_seconds(self) -> float:
        """About 20 000 a second, and twice the link's delay each."""
        parameters = self.parameters
        return parameters.transactions * (1 / _NATIVE_TRANSACTIONS_PER_SECOND + 2e-3 * parameters.link_delay_ms)

    def test(self) -> tuple[str, int, tuple[str, ...]]:
        """Requests from the guest."""
        return ("TCP_RR", self.parameters.transactions, ("LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD"))

    def figures(self, report: dict[str, str]) -> Figures:
        """Transactions a second; mean and 99th percentile of how long one takes, microseconds."""
        return {
            "transaction_rate": rate(report, "Trans/s"),
            "elapsed_seconds": number(report, "ELAPSED_TIME"),
            "latency_mean_us": number(report, "MEAN_LATENCY"),
            "latency_p99_us": number(report, "P99_LATENCY"),
        }


def server_command(end: FarEnd) -> list[str]:
    """In the foreground, at the address that the guest is given."""
    return ["netserver", "-4", "-D", "-L", end.address, "-p", str(_PORT)]


def parse(program: ProgramOutput) -> dict[str, str]:
    """The `KEY=value` lines of netperf's omni output; ValueError where there is none."""
    report = dict(line.split("=", 1) for line in program.output.splitlines() if "=" in line and line[:1].isupper())
    if "THROUGHPUT" not in report:
        raise ValueError(f"no line THROUGHPUT=: {program.output.strip()[-120:]!r}")
    return report


def number(report: dict[str, str], key: str) -> float:
    """One figure; ValueError where it is missing or no number."""
    if key not in report:
        raise ValueError(f"no line {key}=")
    return float(report[key])


def rate(report: dict[str, str], unit: str) -> float:
    """The throughput, which must be in this unit."""
    if report.get("THROUGHPUT_UNITS") != unit:
        raise ValueError(f"the throughput is in {report.get('THROUGHPUT_UNITS')!r}, not {unit!r}")
    return number(report, "THROUGHPUT")
