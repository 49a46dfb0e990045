"""nginx under the real httperf, inside the guest over its loopback (Suresh and Kannan 2014, Figure 5).

The tool of the study, for comparison with ``nginx``. Here client and server share the guest's CPU, and no link is
crossed. The times are the tool's, by the guest's clock, from the moment when it came to send.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from virtoll.workloads.base import DURATION, Bench, Figures, Measurement, Metric, Needs
from virtoll.workloads.nginx_server import MEMORY_BYTES, PATH, PORT, WebParameters, web_server
from virtoll.workloads.programs import ProgramOutput, ProgramWorkload, run

_ADDRESS = "127.0.0.1"
_TOTAL = re.compile(r"^Total: connections (\d+) requests (\d+) replies (\d+) test-duration ([0-9.]+) s$", re.MULTILINE)
_CONNECTION = re.compile(
    r"^Connection time \[ms\]: min ([0-9.]+) avg ([0-9.]+) max ([0-9.]+) median ([0-9.]+) stddev ([0-9.]+)$",
    re.MULTILINE,
)
_REPLY = re.compile(r"^Reply time \[ms\]: response ([0-9.]+) transfer ([0-9.]+)$", re.MULTILINE)
_SIZE = re.compile(r"^Reply size \[B\]: header [0-9.]+ content ([0-9.]+) footer", re.MULTILINE)
_STATUS = re.compile(r"^Reply status: 1xx=\d+ 2xx=(\d+) ", re.MULTILINE)
_ERRORS = re.compile(
    r"^Errors: total (\d+) client-timo (\d+) socket-timo (\d+) connrefused (\d+) connreset (\d+)$", re.MULTILINE
)


class NginxHttperfParameters(WebParameters):
    """Fewer than from outside: httperf never waits, so that client and server fight for the guest's CPU."""

    rate_requests_per_second: float = Field(default=50.0, gt=0, le=1e6)
    requests: int = Field(default=100, ge=10, le=100_000_000)
    timeout_milliseconds: int = Field(default=5000, ge=1, le=600_000)


class NginxHttperf(ProgramWorkload[NginxHttperfParameters]):
    """The check value is that every connection became a good reply of the file's size, or an error that is counted."""

    name: ClassVar[str] = "nginx-httperf"
    title: ClassVar[str] = "nginx with httperf in the guest"
    about: ClassVar[str] = "web requests by httperf in the guest"
    origin: ClassVar[str] = "Suresh 2014"
    resource: ClassVar[str] = "application"
    loads_peer: ClassVar[bool] = True
    parameter_model = NginxHttperfParameters
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("connection_time_average", "ns", "lower", "figures"),
        Metric("replies_per_second", "replies/s", "higher", "figures"),
        DURATION,  # at a fixed rate all platforms that keep up take equally long
    )
    packages: ClassVar[tuple[str, ...]] = ("nginx-light", "httperf")

    def native_seconds(self) -> float:
        """As long as the schedule, on every platform that keeps to it."""
        return self.parameters.schedule_seconds

    def estimate_seconds(self, slowdown: float) -> float:
        """The schedule does not stretch; starting the server does."""
        return self.parameters.schedule_seconds + 0.5 * slowdown

    def deadline_seconds(self) -> float:
        """A schedule that is not kept ends when the last connection is given up."""
        parameters = self.parameters
        return 120.0 + 20 * (parameters.schedule_seconds + parameters.timeout_milliseconds / 1000)

    def needs(self) -> Needs:
        """Server and client."""
        return Needs(MEMORY_BYTES + int(self.parameters.size_bytes))

    def measure(self, bench: Bench) -> Measurement:
        """A server of its own for the trial."""
        folder = f"{bench.data.path}/virtoll-nginx"
        with web_server(bench.guest, folder, _ADDRESS, self.parameters):
            measured = super().measure(bench)
        reported = (measured.result or {}).get("figures")
        if reported and not reported["replies"]:
            return replace(
                measured,
                problem=f"no connection got a reply: {reported['timeouts']} of {reported['connections']} timed out, "
                f"{reported['refused']} were refused, {reported['reset']} reset",
            )
        if reported and reported["errors"]:
            reported["connection_time_average"] = None  # of those that got a reply, so better the more got none
        return measured

    def command(self, bench: Bench) -> list[str]:
        """One request a connection. Without ``--hog``, by which the tool chooses its ports: in gVisor it never ends."""
        del bench
        parameters = self.parameters
        return [
            "httperf",
            f"--server={_ADDRESS}",
            f"--port={PORT}",
            f"--uri={PATH}",
            f"--rate={parameters.rate_requests_per_second:g}",
            f"--num-conns={parameters.requests}",
            "--num-calls=1",
            f"--timeout={parameters.timeout_milliseconds / 1000:g}",
        ]

    def prepare(self, bench: Bench) -> str | None:
        """Server, client and file in the page cache."""
        run(bench.guest, ["httperf", f"--server={_ADDRESS}", f"--port={PORT}", f"--uri={PATH}", "--num-conns=5"])
        return None

    def figures(self, program: ProgramOutput) -> Figures:
        """Counts, and times in ns, by the guest's clock."""
        return parse(program.output)

    def check(self, bench: Bench, figures: Figures) -> str:
        """What the tool counted."""
        del bench
        counted = figures["replies"] + figures["errors"]
        return f"{counted} connections, {figures['good_replies']} good, {figures['content_bytes']} B each"

    def expected(self, prepared: str | None, figures: Figures) -> str | None:
        """Every connection, every reply good, each of the file's size."""
        del prepared
        parameters = self.parameters
        return f"{parameters.requests} connections, {figures['replies']} good, {int(parameters.size_bytes)} B each"


def parse(output: str) -> Figures:
    """Counts, rate (1/s) and times (ns) from what httperf 0.9.0 prints; ValueError where a line is missing."""
    total = _line(_TOTAL, output, "total")
    connection = _line(_CONNECTION, output, "connection times")
    reply = _line(_REPLY, output, "reply times")
    errors = _line(_ERRORS, output, "errors")
    names = ("minimum", "average", "maximum", "median", "standard_deviation")
    seconds = float(total[4])
    return {
        "connections": int(total[1]),
        "requests": int(total[2]),
        "replies": int(total[3]),
        "total_seconds": seconds,
        "replies_per_second": int(total[3]) / seconds if seconds else None,
        **{f"connection_time_{name}": _ns(text) for name, text in zip(names, connection.groups(), strict=True)},
        "response_time": _ns(reply[1]),
        "transfer_time": _ns(reply[2]),
        "content_bytes": round(float(_line(_SIZE, output, "reply sizes")[1])),
        "good_replies": int(_line(_STATUS, output, "reply status")[1]),
        "errors": int(errors[1]),
        "timeouts": int(errors[2]),
        "refused": int(errors[4]),
        "reset": int(errors[5]),
    }


def _line(pattern: re.Pattern[str], output: str, name: str) -> re.Match[str]:
    match = pattern.search(output)
    if match is None:
        raise ValueError(f"no line with {name}")
    return match


def _ns(milliseconds: str) -> int:
    return round(float(milliseconds) * 1e6)
