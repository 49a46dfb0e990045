"""Workloads that run a program of the image: what they share.

The program is started with an argument list, without a shell; its marks leave just before it is started and just after
it has ended, so that loading it is part of the duration. What it printed is stored as it is, beside what was read from
it: the tool's own figure by the guest's clock stands beside the duration by the outside clock.

Main types: ``Said`` (what a program wrote), ``ProgramWorkload`` (the shape of such a workload).
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, ClassVar

from virtoll.agent import Answer, Caller
from virtoll.errors import GuestError
from virtoll.experiment import Parameters
from virtoll.workloads.base import DURATION, Bench, Image, Measurement, Metric, Needs

_HOME = "/tmp"  # noqa: S108 - in the guest, where nobody else is
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": _HOME, "LC_ALL": "C"}
_LIMIT_BYTES = 64 * 1024
_ANSWER_SECONDS = 15.0


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

    def settle(self, bench: Bench) -> dict[str, Any] | None:
        """After ``prepare``, the state that the program finds, for the record (``result.state``); or None."""
        del bench
        return None

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
        state = self.settle(bench)
        argv = self.command(bench, parameters)
        seconds = self.deadline_seconds(parameters)
        timed = bench.timekeeper.time_job("program", _request(argv, seconds), seconds + _ANSWER_SECONDS)
        said = _said(timed.result)
        result: dict[str, Any] = {
            "argv": argv, "status": said.status, "output": said.output, "complaints": said.complaints, "figures": None,
        }  # fmt: skip
        if state is not None:
            result["state"] = state
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


def run(guest: Caller, argv: list[str], seconds: float = 60.0) -> str:
    """Run a program of the guest, untimed; returns its output. ``GuestError`` where it does not end well."""
    said = attempt(guest, argv, seconds)
    if said.status != 0:
        raise GuestError(f"{argv[0]} {_ending(said)} in the guest")
    return said.output


def attempt(guest: Caller, argv: list[str], seconds: float = 60.0) -> Said:
    """Run a program of the guest that may fail, untimed; ``GuestError`` where it does not end."""
    answer = guest.call("exec", deadline_seconds=seconds + _ANSWER_SECONDS, **_request(argv, seconds))
    if answer["timed_out"]:
        raise GuestError(f"{argv[0]} did not end within {seconds:g} s in the guest")
    return _said(answer)


def _request(argv: list[str], seconds: float) -> dict[str, Any]:
    return {
        "argv": argv, "env": _ENVIRONMENT, "directory": _HOME, "stdin": None,
        "timeout_ns": int(seconds * 1e9), "limit_bytes": _LIMIT_BYTES,
    }  # fmt: skip


def _said(answer: Answer) -> Said:
    output, complaints = (base64.b64decode(answer[name]).decode(errors="replace") for name in ("stdout", "stderr"))
    return Said(answer["status"], output, complaints)


def _ending(said: Said) -> str:
    lines = [line.strip() for line in (said.complaints or said.output).splitlines() if line.strip()]
    how = "was ended by a signal" if said.status is None else f"failed with exit code {said.status}"
    return f"{how}: {lines[-1][:200]}" if lines else how
