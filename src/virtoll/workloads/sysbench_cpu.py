"""sysbench cpu: all primes up to a limit by trial division, a given number of times. CPU: division, square roots.

The work is given and the time is measured (``--time=0``), because the tool's own way round would have the guest's clock
decide when it ends.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import ClassVar

from pydantic import Field

from virtoll.experiment.model import Parameters
from virtoll.workloads.base import Bench, Figures
from virtoll.workloads.programs import ProgramOutput, ProgramWorkload, run


def _rate(text: str) -> float | None:
    """None where no time, or less, had passed by the guest's clock: it is then no number, infinite or negative."""
    rate = float(text)
    return rate if math.isfinite(rate) and rate >= 0 else None


_FIGURES: dict[str, tuple[str, Callable[[str], float | None]]] = {
    "events_per_second": (r"^\s*events per second:\s+(\S+)$", _rate),
    "total_seconds": (r"^\s*total time:\s+([0-9.]+)s$", float),
    "events": (r"^\s*total number of events:\s+([0-9]+)$", int),
    "latency_average_ms": (r"^\s*avg:\s+([0-9.]+)$", float),
    "latency_p95_ms": (r"^\s*95th percentile:\s+([0-9.]+)$", float),
}


class SysbenchCpuParameters(Parameters):
    """``events``: how often all primes up to ``maximum_prime`` are sought, by ``threads`` together."""

    events: int = Field(default=1000, ge=1, le=100_000_000, description="how often all primes are sought")
    maximum_prime: int = Field(default=10_000, ge=3, le=10_000_000, description="up to which number primes are sought")
    threads: int = Field(default=1, ge=1, le=1024, description="threads that seek them together")


class SysbenchCpu(ProgramWorkload[SysbenchCpuParameters]):
    """The check value is the number of events that the tool counted."""

    name: ClassVar[str] = "sysbench-cpu"
    title: ClassVar[str] = "sysbench cpu"
    about: ClassVar[str] = "prime numbers sought by sysbench"
    resource: ClassVar[str] = "CPU"
    parameter_model = SysbenchCpuParameters
    packages: ClassVar[tuple[str, ...]] = ("sysbench",)

    def native_seconds(self) -> float:
        """About 0.4 ms an event up to 10 000, growing with the power 3/2 of the limit."""
        parameters = self.parameters
        return 0.1 + 0.4e-3 * parameters.events * math.pow(parameters.maximum_prime / 10_000, 1.5)

    def command(self, bench: Bench) -> list[str]:
        """A given number of events, without a limit of time."""
        del bench
        parameters = self.parameters
        return [
            "sysbench",
            "cpu",
            f"--threads={parameters.threads}",
            f"--events={parameters.events}",
            "--time=0",
            f"--cpu-max-prime={parameters.maximum_prime}",
            "run",
        ]

    def prepare(self, bench: Bench) -> str | None:
        """Have the program and its libraries in the guest's page cache: reading them from a disk is not the work."""
        run(bench.guest, ["sysbench", "--version"], 600.0)
        return None

    def figures(self, program: ProgramOutput) -> Figures:
        """The tool's own rate, time and latencies, by the guest's clock."""
        return parse(program.output)

    def check(self, bench: Bench, figures: Figures) -> str:
        """What the tool counted."""
        del bench
        return str(figures["events"])

    def expected_check(self) -> str | None:
        """What was asked for."""
        return str(self.parameters.events)


def parse(output: str) -> Figures:
    """Rate (1/s), time (s), number of events and latencies (ms) as sysbench 1.0 prints them; ValueError otherwise.

    The rate is None where sysbench divided by a time of zero: the trial has its duration by the outside clock.
    """
    figures: dict[str, object] = {}
    for name, (pattern, kind) in _FIGURES.items():
        match = re.search(pattern, output, re.MULTILINE)
        if match is None:
            raise ValueError(f"no {name.replace('_', ' ')} in it: {output.strip()[-120:]!r}")
        figures[name] = kind(match[1])
    return figures
