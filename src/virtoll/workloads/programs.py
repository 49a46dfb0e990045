"""Workloads that run a program of the image: what they share.

The program is started with an argument list, without a shell; its marks leave just before it is started and just after
it has ended, so that loading it is part of the duration. What it printed is stored as it is, beside what was read from
it: the tool's own figure by the guest's clock stands beside the duration by the outside clock.

Main types: ``Said`` (what a program wrote), ``ProgramWorkload`` (the shape of such a workload).
"""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from virtoll.agent import Answer, Caller
from virtoll.errors import GuestError
from virtoll.experiment import Parameters
from virtoll.timekeeper import TimedJob
from virtoll.workloads.base import DURATION, Bench, Image, Measurement, Metric, Needs

_HOME = "/tmp"  # noqa: S108 - in the guest, where nobody else is
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": _HOME, "LC_ALL": "C"}
_LIMIT_BYTES = 64 * 1024
_ANSWER_SECONDS = 15.0
_LISTEN_SECONDS = 30.0
_KILL = 9


@dataclass(frozen=True)
class Said:
    """What a program wrote, and its exit code (None: a signal ended it)."""

    status: int | None
    output: str
    complaints: str


class ProgramWorkload:
    """One program, timed; a subclass says which one, what is made ready before it, and what shows that it worked."""

    metrics: ClassVar[tuple[Metric, ...]] = (DURATION,)
    image: ClassVar[Image] = "full"

    def native_seconds(self, parameters: Parameters) -> float:
        """About how long the program takes on a bare host, in seconds: for estimates and deadlines only."""
        raise NotImplementedError

    def needs(self, parameters: Parameters) -> Needs:
        """Nothing but the image."""
        del parameters
        return Needs()

    def command(self, bench: Bench, parameters: Parameters) -> list[str]:
        """The argument list that is timed."""
        raise NotImplementedError

    def prepare(self, bench: Bench, parameters: Parameters) -> str | None:
        """Make the same state before each trial; returns the check value that is right, where it is known only here."""
        raise NotImplementedError

    def figures(self, said: Said) -> dict[str, Any]:
        """The tool's own figures, read from what it printed; ValueError where they are not there."""
        raise NotImplementedError

    def check(self, bench: Bench, parameters: Parameters, figures: dict[str, Any]) -> str:
        """What was done, found out after the end mark."""
        raise NotImplementedError

    def expected_check(self, parameters: Parameters) -> str | None:
        """The check value of a right answer; None where ``prepare`` knows it."""
        raise NotImplementedError

    def estimate_seconds(self, parameters: Parameters, slowdown: float) -> float:
        """Native cost times the platform's slowdown, and as much for what is made ready and checked."""
        return 0.3 + 2 * self.native_seconds(parameters) * slowdown

    def measure(self, bench: Bench, parameters: Parameters) -> Measurement:
        """Make ready, time the program, read what it printed, check what it did."""
        prepared = self.prepare(bench, parameters)
        argv = self.command(bench, parameters)
        seconds = self.deadline_seconds(parameters)
        timed = bench.timekeeper.time_job("program", _request(argv, seconds), seconds + _ANSWER_SECONDS)
        said = _said(timed.result)
        result: dict[str, Any] = {
            "argv": argv, "status": said.status, "output": said.output, "complaints": said.complaints, "figures": None,
        }  # fmt: skip
        if timed.result["timed_out"] or said.status != 0:
            why = f"did not end within {seconds:g} s" if timed.result["timed_out"] else _ending(said)
            return Measurement(timed.clock, result, None, None, f"{argv[0]} {why}")
        try:
            result["figures"] = figures = self.figures(said)
        except ValueError as error:
            return Measurement(timed.clock, result, None, None, f"what {argv[0]} printed cannot be read: {error}")
        expected = self.expected_check(parameters) or prepared
        value = self.check(bench, parameters, figures)
        right = value == expected
        problem = timed.problem
        if not right:
            problem = f"the check value is wrong: {value[:40]!r} instead of {str(expected)[:40]!r}"
        return Measurement(timed.clock, result, {"value": value, "expected": expected, "ok": right}, None, problem)

    def deadline_seconds(self, parameters: Parameters) -> float:
        """When a program is given up: far beyond what the slowest emulator takes."""
        return 60.0 + 1000.0 * self.native_seconds(parameters)


def run(
    guest: Caller, argv: list[str], seconds: float = 60.0, *, stdin: str = "", ok: tuple[int, ...] = (0,)
) -> str:  # fmt: skip
    """Run a program of the guest, untimed; returns its output. ``GuestError`` where it does not end well."""
    answer = guest.call("exec", deadline_seconds=seconds + _ANSWER_SECONDS, **_request(argv, seconds, stdin))
    said = _said(answer)
    if answer["timed_out"]:
        raise GuestError(f"{argv[0]} did not end within {seconds:g} s in the guest")
    if said.status not in ok:
        raise GuestError(f"{argv[0]} {_ending(said)} in the guest")
    return said.output


def _request(argv: list[str], seconds: float, stdin: str = "") -> dict[str, Any]:
    given = base64.b64encode(stdin.encode()).decode() if stdin else None
    return {
        "argv": argv, "env": _ENVIRONMENT, "directory": _HOME, "stdin": given,
        "timeout_ns": int(seconds * 1e9), "limit_bytes": _LIMIT_BYTES,
    }  # fmt: skip


def _said(answer: Answer) -> Said:
    output, complaints = (base64.b64decode(answer[name]).decode(errors="replace") for name in ("stdout", "stderr"))
    return Said(answer["status"], output, complaints)


def _ending(said: Said) -> str:
    lines = [line.strip() for line in (said.complaints or said.output).splitlines() if line.strip()]
    how = "was ended by a signal" if said.status is None else f"failed with exit code {said.status}"
    return f"{how}: {lines[-1][:200]}" if lines else how


def time_program(bench: Bench, argv: list[str], seconds: float) -> tuple[TimedJob, Said, str | None]:
    """Run a program of the guest between two marks; what it wrote, and why it did not end well, or None."""
    timed = bench.timekeeper.time_job("program", _request(argv, seconds), seconds + _ANSWER_SECONDS)
    said = _said(timed.result)
    if timed.result["timed_out"]:
        return timed, said, f"{argv[0]} did not end within {seconds:g} s"
    return timed, said, None if said.status == 0 else f"{argv[0]} {_ending(said)}"


@contextlib.contextmanager
def serving(agent: Caller, argv: list[str], port: Port, seconds: float) -> Iterator[Callable[[], Said]]:
    """A program in the background beside ``agent``, which listens at ``port`` when the context begins.

    Yields a function that waits for its end, or ends it by SIGTERM after ``seconds``, and says what it wrote. What is
    left of it is killed when the context ends.
    """
    agent.call("program-start", **_request(argv, seconds))
    left = True

    def end(signal: int | None = None) -> Said:
        nonlocal left
        left = False
        answer = agent.call(
            "program-end", deadline_seconds=seconds + _ANSWER_SECONDS, signal=signal, timeout_ns=int(seconds * 1e9)
        )
        return _said(answer)

    try:
        _await_port(agent, argv[0], port, end)
        yield end
    finally:
        if left:
            with contextlib.suppress(GuestError):
                agent.call("program-end", deadline_seconds=_ANSWER_SECONDS, signal=_KILL, timeout_ns=0)


def _await_port(agent: Caller, program: str, port: Port, end: Callable[[int], Said]) -> None:
    """Wait until somebody listens: the kernel tells of no such event."""
    deadline = time.monotonic() + _LISTEN_SECONDS
    while not port.taken(run(agent, ["cat", f"/proc/net/{port.protocol}"])):
        if time.monotonic() > deadline:
            said = end(_KILL)
            raise GuestError(
                f"{program} does not listen at {port.protocol} port {port.number} after {_LISTEN_SECONDS:g} s: "
                f"{(said.complaints or said.output).strip()[-200:] or 'nothing'}"
            )
        time.sleep(0.005)


@dataclass(frozen=True)
class Port:
    """A port of ``tcp`` or ``udp``."""

    protocol: str
    number: int

    def taken(self, table: str) -> bool:
        """Whether somebody listens at it, from the kernel's table (/proc/net/tcp, /proc/net/udp)."""
        waiting = {"tcp": "0A", "udp": "07"}[self.protocol]
        rows = [line.split() for line in table.splitlines()[1:]]
        return any(
            len(row) > 3 and row[1].endswith(f":{self.number:04X}") and row[3] == waiting for row in rows
        )  # fmt: skip
