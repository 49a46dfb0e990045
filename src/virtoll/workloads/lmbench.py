"""lmbench 3's latencies of the kernel, by the tool itself (Suresh and Kannan 2014, Table 1 and Figure 2).

It is no free software in Debian, so this runs only where the experiment asks for the image that has it;
``kernel-operations`` and ``context-switch`` are the same tests built into the agent. The tool repeats an operation
for a given time by the guest's clock and prints the median of its repetitions. Its figure is the result, and the
duration only says how long the tool took.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import Field

from virtoll.experiment.model import Image, Parameters
from virtoll.workloads.base import DURATION, Bench, Figures, Metric
from virtoll.workloads.kernel import Operation
from virtoll.workloads.programs import ProgramOutput, ProgramWorkload, run

_FOLDER = f"/usr/lib/lmbench/bin/{os.uname().machine}-linux-gnu"  # a guest's machine is the host's
_FILE = "/etc/hostname"
# Without them the tool finds out how long is enough and what its own loop costs, which on a busy host does not end.
_SETTINGS = ("ENOUGH={microseconds}", "TIMING_O=0", "LOOP_O=0")


@dataclass(frozen=True)
class Test:
    """A program of lmbench, its words, and how the line begins that it prints."""

    program: str
    words: tuple[str, ...]
    line: str


TESTS: Final[dict[str, Test]] = {
    "null-call": Test("lat_syscall", ("null",), "Simple syscall"),
    "read": Test("lat_syscall", ("read",), "Simple read"),
    "write": Test("lat_syscall", ("write",), "Simple write"),
    "stat": Test("lat_syscall", ("stat", _FILE), "Simple stat"),
    "fstat": Test("lat_syscall", ("fstat", _FILE), "Simple fstat"),
    "open-close": Test("lat_syscall", ("open", _FILE), "Simple open/close"),
    "signal-install": Test("lat_sig", ("install",), "Signal handler installation"),
    "signal-handle": Test("lat_sig", ("catch",), "Signal handler overhead"),
    "pipe": Test("lat_pipe", (), "Pipe latency"),
    "fork-exit": Test("lat_proc", ("fork",), "Process fork+exit"),
    "fork-exec": Test("lat_proc", ("exec",), "Process fork+execve"),
    "fork-sh": Test("lat_proc", ("shell",), "Process fork+/bin/sh -c"),
}


class LmbenchParameters(Parameters):
    """``repetitions`` of ``repetition_microseconds`` each, of whose figures the tool prints the median."""

    operation: Operation = Field(default="null-call", description="which operation of the kernel is timed")
    repetitions: int = Field(default=11, ge=1, le=1000, description="how often it is timed; the tool prints the median")
    repetition_microseconds: int = Field(
        default=20_000, ge=1000, le=60_000_000, description="length of a repetition, in microseconds"
    )


class Lmbench(ProgramWorkload[LmbenchParameters]):
    """The check value is the name of the operation that the tool says it measured."""

    name: ClassVar[str] = "lmbench"
    title: ClassVar[str] = "lmbench latency"
    about: ClassVar[str] = "one operation of the kernel by lmbench"
    origin: ClassVar[str] = "Suresh 2014"
    resource: ClassVar[str] = "kernel"
    parameter_model = LmbenchParameters
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("operation_time", "ns", "lower", "figures"), DURATION)
    image: ClassVar[Image] = "full-non-free"
    packages: ClassVar[tuple[str, ...]] = ("lmbench",)

    def native_seconds(self) -> float:
        """Each repetition's time, twice: how many operations fill it is found out first."""
        parameters = self.parameters
        return 0.2 + 2e-6 * (parameters.repetitions + 2) * parameters.repetition_microseconds

    def command(self, bench: Bench) -> list[str]:
        """One process, no warm-up."""
        del bench
        parameters = self.parameters
        test = TESTS[parameters.operation]
        settings = [text.format(microseconds=parameters.repetition_microseconds) for text in _SETTINGS]
        path = f"{_FOLDER}/{test.program}"
        return ["env", *settings, path, "-P", "1", "-W", "0", "-N", str(parameters.repetitions), *test.words]

    def prepare(self, bench: Bench) -> str | None:
        """Have the program in the guest's page cache; what it starts itself (fork-exec) as well."""
        test = TESTS[self.parameters.operation]
        run(bench.guest, ["cat", f"{_FOLDER}/{test.program}", f"{_FOLDER}/hello"], 600.0, limit_bytes=0)
        return None

    def figures(self, program: ProgramOutput) -> Figures:
        """``operation_time``: ns an operation, by the guest's clock."""
        name, microseconds = parse(program.complaints)
        return {"operation_time": microseconds * 1e3, "measured": name}

    def check(self, bench: Bench, figures: Figures) -> str:
        """What the tool says it measured."""
        del bench
        return str(figures["measured"])

    def expected_check(self) -> str | None:
        """What was asked for."""
        return TESTS[self.parameters.operation].line


def parse(complaints: str) -> tuple[str, float]:
    """Name and microseconds of the one line that lmbench prints, on its standard error; ValueError otherwise.

    Any other line is a complaint: the tool goes on and prints a figure even where what it starts is not there.
    """
    lines = [line.strip() for line in complaints.splitlines() if line.strip()]
    match = re.fullmatch(r"(.+): ([0-9.]+) microseconds", lines[-1]) if lines else None
    if match is None:
        raise ValueError(f"no line of a latency: {complaints.strip()[-120:]!r}")
    if len(lines) > 1:
        raise ValueError(f"it complained: {lines[0][:120]!r}")
    return match[1], float(match[2])
