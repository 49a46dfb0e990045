"""dbench: the file operations of a file server's clients, replayed (Camargos et al. 2008, Figure 5). Disk, metadata.

It ends by a clock and not by its work, and that is the guest's. Its throughput is stored beside the duration between
the marks, whose disagreement is the guest's clock error. Figures: what dbench 4 prints at its end.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from virtoll.errors import GuestCannot
from virtoll.experiment.model import Parameters
from virtoll.workloads.base import Bench, Figures, Measurement, Metric
from virtoll.workloads.on_disk import RATE, DiskWorkload
from virtoll.workloads.programs import ProgramOutput

_LOAD = "/usr/share/dbench/client.txt"
# Its processes wait at a semaphore, which it removes as soon as it has released them: who is woken after that fails.
_LOST_AT_START = "failed to use the barrier semaphore in child"
_STARTS = 5
_CLIENT_BYTES = 32 * 2**20
_OPERATION = re.compile(r"^ (\w+) +(\d+) +([0-9.]+) +([0-9.]+)$", re.MULTILINE)
_THROUGHPUT = re.compile(
    r"^Throughput ([0-9.]+) MB/sec .*?(\d+) clients +(\d+) procs +max_latency=([0-9.]+) ms", re.MULTILINE
)
# What the load consists of, and what it begins with: a slow guest does not get as far as the rest in a few seconds.
_KINDS = ("NTCreateX", "Close", "WriteX", "ReadX", "Unlink", "Find", "Flush")
_FIRST_KINDS = ("NTCreateX", "Close", "WriteX")


class DbenchParameters(Parameters):
    """``clients`` at once for ``seconds``: quick 1 for 3 s, the paper's 100 for 300 s.

    ``synced``: every write is flushed (``-F``); the paper's are not, but for the load's own flushes.
    """

    clients: int = Field(default=1, ge=1, le=10_000, description="clients at once; the paper's number is 100")
    seconds: int = Field(default=3, ge=2, le=86_400, description="how long they run, in s; the paper's time is 300")
    synced: bool = Field(default=False, description="whether every write is flushed, dbench's -F")


class Dbench(DiskWorkload[DbenchParameters]):
    """The check value: how many clients ran, and that what the load begins with was done."""

    name: ClassVar[str] = "dbench"
    title: ClassVar[str] = "dbench"
    about: ClassVar[str] = "a file server's load by dbench"
    origin: ClassVar[str] = "Camargos 2008"
    resource: ClassVar[str] = "disk"
    parameter_model = DbenchParameters
    metrics: ClassVar[tuple[Metric, ...]] = (RATE,)
    packages: ClassVar[tuple[str, ...]] = ("dbench",)

    def native_seconds(self) -> float:
        """As long as it is asked to, and its load file read and its files removed."""
        parameters = self.parameters
        return parameters.seconds + 0.5 + 0.05 * parameters.clients

    def estimate_seconds(self, slowdown: float) -> float:
        """Its own time does not grow with the platform's slowdown."""
        parameters = self.parameters
        return parameters.seconds + (1.0 + 0.05 * parameters.clients) * slowdown

    def data_bytes(self) -> int:
        """A client's files take up to 32 MiB."""
        return self.parameters.clients * _CLIENT_BYTES

    def command(self, bench: Bench) -> list[str]:
        """The paper's command, with the load file that Debian ships."""
        parameters = self.parameters
        flush = ["-F"] if parameters.synced else []
        return [
            "dbench",
            "-t",
            str(parameters.seconds),
            "-D",
            bench.data.path,
            "-c",
            _LOAD,
            *flush,
            str(parameters.clients),
        ]

    def prepare(self, bench: Bench) -> str | None:
        """Nothing: it makes its files itself, and the data directory is empty."""
        del bench
        return None

    def measure(self, bench: Bench) -> Measurement:
        """As all; begun again where its processes did not get away from the start, before any work."""
        for start in range(1, _STARTS + 1):
            measured = super().measure(bench)
            result = measured.result or {}
            if _LOST_AT_START not in result.get("output", ""):
                return replace(measured, result={**result, "starts": start})
        raise GuestCannot(
            f"dbench did not start in {_STARTS} attempts: it removes the semaphore that its processes wait at before "
            "this kernel wakes them; take this workload out"
        )

    def figures(self, program: ProgramOutput) -> Figures:
        """Throughput, the number of each operation, latencies; all by the guest's clock."""
        return parse(program.output)

    def check(self, bench: Bench, figures: Figures) -> str:
        """What it says that it did."""
        del bench
        missing = [name for name in _FIRST_KINDS if name in figures["kinds_not_reached"]]
        return f"{figures['clients']} clients, without: {', '.join(missing) or 'nothing'}"

    def expected_check(self) -> str | None:
        """All clients, at work."""
        return f"{self.parameters.clients} clients, without: nothing"


def parse(output: str) -> Figures:
    """Throughput in B/s (dbench's MB are 10^6 bytes), counts of operations, longest latency in ns; or ValueError.

    ``kinds_not_reached``: what of the load's kinds of operations was not done in the time that was given.
    """
    total = _THROUGHPUT.search(output)
    operations = {match[1]: int(match[2]) for match in _OPERATION.finditer(output)}
    if total is None or not operations:
        raise ValueError(f"no line with its throughput, or no operations: {output[-80:]!r}")
    return {
        "bytes_per_second": float(total[1]) * 1e6,
        "clients": int(total[2]),
        "latency_longest_ns": round(float(total[4]) * 1e6),
        "operations": operations,
        "kinds_not_reached": [name for name in _KINDS if not operations.get(name)],
    }
