"""Workloads that run a program of the image: what they share.

The program is started with an argument list, without a shell. Its marks leave just before it is started and just after
it has ended, so that loading it is part of the duration. What it printed is stored as it is, beside what was read from
it. The tool's own figure by the guest's clock is stored beside the duration by the outside clock.

Main types: ``ProgramOutput`` (what a program wrote), ``ProgramWorkload`` (the shape of such a workload), ``serving`` (a
server beside it), ``ListeningPort`` (where one listens).
"""

from __future__ import annotations

import contextlib
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from virtoll.agent import turns
from virtoll.agent.client import Caller
from virtoll.agent.operations.programs import EndReply, EndRequest, ExecReply, ExecRequest, Program, SpawnRequest
from virtoll.agent.request import read_message
from virtoll.agent.timekeeper import TimedJob, time_outside
from virtoll.errors import GuestError
from virtoll.experiment.model import Image
from virtoll.workloads.base import DURATION, Bench, Figures, Measurement, Metric, P_co, Workload, compared

GUEST_HOME = "/tmp"  # noqa: S108 - in the guest, where nobody else is
GUEST_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": GUEST_HOME, "LC_ALL": "C"}
_LIMIT_BYTES = 64 * 1024
_LOG_BYTES = 4096
_LEAVE_SECONDS = 60.0
_READY_STEP_SECONDS = 0.05
_ANSWER_SECONDS = 15.0


@dataclass(frozen=True)
class ProgramOutput:
    """What a program wrote, and its exit code (None: a signal ended it)."""

    status: int | None
    output: str
    complaints: str


class ProgramWorkload(Workload[P_co]):
    """One program, timed; a subclass says which one, what is made ready before it, and what shows that it worked."""

    metrics: ClassVar[tuple[Metric, ...]] = (DURATION,)
    image: ClassVar[Image] = "full"
    limit_bytes: ClassVar[int] = _LIMIT_BYTES
    """The most that is kept of what the program writes."""
    most_slowdown: ClassVar[float] = math.inf
    """For estimates only: how much an emulator slows it at most, such as what waits for a disk."""

    @abstractmethod
    def native_seconds(self) -> float:
        """About how long the program takes on a bare host, in seconds: for estimates and deadlines only."""

    def settle(self, bench: Bench) -> dict[str, Any] | None:
        """After ``prepare``, the state that the program finds, for the record (``result.state``); or None."""
        del bench
        return None

    @abstractmethod
    def command(self, bench: Bench) -> list[str]:
        """The argument list that is timed."""

    @abstractmethod
    def prepare(self, bench: Bench) -> str | None:
        """Make the same state before each trial; returns the check value that is right, where it is known only here."""

    @abstractmethod
    def figures(self, program: ProgramOutput) -> Figures:
        """The tool's own figures, read from what it printed; ValueError where they are not there."""

    @abstractmethod
    def check(self, bench: Bench, figures: Figures) -> str:
        """What was done, found out after the end mark."""

    def expected_check(self) -> str | None:
        """The check value of a right answer; None where ``prepare`` knows it."""
        return None

    def expected(self, prepared: str | None, figures: Figures) -> str | None:
        """The check value of a right answer, for programs that say themselves what they did; else as above."""
        del figures
        return self.expected_check() or prepared

    def estimate_seconds(self, slowdown: float) -> float:
        """Native cost times the platform's slowdown, and as much for what is made ready and checked."""
        return 0.3 + 2 * self.native_seconds() * min(slowdown, self.most_slowdown)

    def measure(self, bench: Bench) -> Measurement:
        """Make ready, time the program, read what it printed, check what it did."""
        prepared = self.prepare(bench)
        state = self.settle(bench)
        argv = self.command(bench)
        timed, program, problem = time_program(bench, argv, self.deadline_seconds(), self.limit_bytes)
        result: dict[str, Any] = {
            "argv": argv,
            "status": program.status,
            "output": program.output,
            "complaints": program.complaints,
            "figures": None,
        }
        if state is not None:
            result["state"] = state
        if problem is not None:
            return Measurement(timed.clock, result, None, None, problem)
        try:
            result["figures"] = figures = self.figures(program)
        except ValueError as error:
            return Measurement(timed.clock, result, None, None, f"what {argv[0]} printed cannot be read: {error}")
        value = self.check(bench, figures)
        expected = self.expected(prepared, figures) or ""  # one that nobody knows is wrong
        check, problem = compared(value, expected, timed.problem)
        return Measurement(timed.clock, result, check, None, problem)

    def deadline_seconds(self) -> float:
        """When a program is given up: far beyond what the slowest emulator takes."""
        return 60.0 + 1000.0 * self.native_seconds()


def time_program(
    bench: Bench, argv: list[str], seconds: float, limit_bytes: int = _LIMIT_BYTES
) -> tuple[TimedJob, ProgramOutput, str | None]:
    """Run a program of the guest between two marks; what it wrote, and why it did not end well, or None."""
    program = _program(argv, seconds, limit_bytes)
    return _timed(bench.timekeeper.time_job("program", program.to_json(), seconds + _ANSWER_SECONDS), argv, seconds)


def time_program_outside(
    bench: Bench, agent: Caller, argv: list[str], seconds: float
) -> tuple[TimedJob, ProgramOutput, str | None]:
    """The same of a program beside the peer, which ``agent`` starts."""
    program, measuring = _program(argv, seconds, _LIMIT_BYTES), bench.timekeeper.measuring
    timed = time_outside(agent, "program", program.to_json(), seconds + _ANSWER_SECONDS, measuring)
    return _timed(timed, argv, seconds)


def _timed(timed: TimedJob, argv: list[str], seconds: float) -> tuple[TimedJob, ProgramOutput, str | None]:
    ended = read_message(ExecReply, timed.result, f"the job 'program' was answered wrongly for {argv[0]}")
    program = _said(ended)
    if ended.timed_out:
        return timed, program, f"{argv[0]} did not end within {seconds:g} s"
    return timed, program, None if program.status == 0 else f"{argv[0]} {ending(program)}"


def run(
    guest: Caller,
    argv: list[str],
    seconds: float = 60.0,
    limit_bytes: int = _LIMIT_BYTES,
    *,
    stdin: str = "",
    ok: tuple[int, ...] = (0,),
) -> str:
    """Run a program of the guest, untimed; returns its output. ``GuestError`` where it does not end well.

    ``ok``: the exit codes that are well.
    """
    program = attempt(guest, argv, seconds, limit_bytes, stdin=stdin)
    if program.status not in ok:
        raise GuestError(f"{argv[0]} {ending(program)} in the guest")
    return program.output


def attempt(
    guest: Caller, argv: list[str], seconds: float = 60.0, limit_bytes: int = _LIMIT_BYTES, *, stdin: str = ""
) -> ProgramOutput:
    """Run a program of the guest that may fail, untimed; ``GuestError`` where it does not end."""
    ended = guest.ask(ExecRequest.from_record(_program(argv, seconds, limit_bytes, stdin)), seconds + _ANSWER_SECONDS)
    if ended.timed_out:
        raise GuestError(f"{argv[0]} did not end within {seconds:g} s in the guest")
    return _said(ended)


def succeeds(guest: Caller, argv: list[str], seconds: float = 60.0) -> bool:
    """Whether a program of the guest ends well."""
    return (
        guest.ask(ExecRequest.from_record(_program(argv, seconds, _LOG_BYTES)), seconds + _ANSWER_SECONDS).status == 0
    )


def write(guest: Caller, path: str, text: str) -> None:
    """Make a small file in the guest."""
    program = attempt(guest, ["tee", path], stdin=text)
    if program.status != 0:
        raise GuestError(f"{path} could not be written in the guest: tee {ending(program)}")


@contextlib.contextmanager
def folder_of_its_own(guest: Caller, folder: str, seconds: float = 600.0) -> Iterator[None]:
    """A new folder, gone after the context, also when the trial fails.

    Not when the run is interrupted: the guest may be at work for long, and goes with all that is in it.
    """
    run(guest, ["rm", "-rf", folder], seconds)
    run(guest, ["mkdir", folder])
    with gone_afterwards(guest, folder, seconds=seconds):
        yield


@contextlib.contextmanager
def gone_afterwards(guest: Caller, *paths: str, seconds: float = 600.0) -> Iterator[None]:
    """Files or folders that the context makes are removed after it, also when the trial fails; as those of a folder."""
    try:
        yield
    except Exception:
        if not guest.ended:
            run(guest, ["rm", "-rf", *paths], seconds)
        raise
    if not guest.ended:
        run(guest, ["rm", "-rf", *paths], seconds)


@contextlib.contextmanager
def serving(
    guest: Caller, argv: list[str], log: str, ready: list[str], seconds: float
) -> Iterator[Callable[[float], ProgramOutput]]:
    """A server of the guest, or beside the peer, while something is done in the context; ended with that in any case.

    ``log``: the file that takes what it writes; ``ready``: a program that ends well once it serves, within ``seconds``.
    ``GuestError`` with its last line where it ends by itself. For a server that is to end by itself, the context gives
    a function that waits for that. It waits so many seconds at most, and says what it wrote.
    """
    name = argv[0]
    started = guest.ask(
        SpawnRequest(name=name, argv=tuple(argv), env=GUEST_ENVIRONMENT, directory=GUEST_HOME, output=log)
    )
    runs = True

    def end() -> EndReply:
        nonlocal runs
        runs = False
        return _end(guest, name)

    def there() -> bool:
        return succeeds(guest, ["test", "-d", f"/proc/{started.pid}"])

    def finish(most_seconds: float) -> ProgramOutput:
        deadline = time.monotonic() + most_seconds
        while there() and time.monotonic() < deadline:
            _step()
        return _written(end())

    try:
        deadline = time.monotonic() + seconds
        while not succeeds(guest, ready):
            if not there():
                raise GuestError(_early(name, end()))
            if time.monotonic() > deadline:
                raise GuestError(f"{name} did not serve within {seconds:g} s in the guest")
            _step()
        yield finish
    except Exception:  # not an interruption: the guest may be at work still, and goes with all that is in it
        if runs:
            with contextlib.suppress(GuestError):
                end()
        raise
    if runs and (ended := end()).by_itself:
        raise GuestError(_early(name, ended))


@dataclass(frozen=True)
class ListeningPort:
    """A port of ``tcp`` or ``udp``."""

    protocol: str
    number: int

    def listening(self) -> list[str]:
        """A program that ends well where somebody listens at it, by the kernel's table of sockets."""
        state = {"tcp": "0A", "udp": "07"}[self.protocol]
        row = rf"^ *[0-9]+: [0-9A-F]+:{self.number:04X} [0-9A-F:]+ {state} "
        return ["grep", "--quiet", "--extended-regexp", row, f"/proc/net/{self.protocol}"]


def _step() -> None:
    with turns.given_up():
        time.sleep(_READY_STEP_SECONDS)


def _early(name: str, ended: EndReply) -> str:
    return f"{name} {ending(_written(ended))} (in the guest, before it was asked to end)"


def _written(ended: EndReply) -> ProgramOutput:
    return ProgramOutput(ended.status, ended.output.decode(errors="replace"), "")


def _end(guest: Caller, name: str) -> EndReply:
    request = EndRequest(name=name, timeout_ns=int(_LEAVE_SECONDS * 1e9), limit_bytes=_LOG_BYTES)
    return guest.ask(request, _LEAVE_SECONDS + _ANSWER_SECONDS)


def _program(argv: list[str], seconds: float, limit_bytes: int, stdin: str = "") -> Program:
    return Program(
        argv=tuple(argv),
        env=GUEST_ENVIRONMENT,
        directory=GUEST_HOME,
        stdin=stdin.encode() if stdin else None,
        timeout_ns=int(seconds * 1e9),
        limit_bytes=limit_bytes,
    )


def _said(ended: ExecReply) -> ProgramOutput:
    return ProgramOutput(ended.status, ended.stdout.decode(errors="replace"), ended.stderr.decode(errors="replace"))


def last_line(output: str) -> str:
    """The last line of what a program wrote, at most 200 characters; empty where it wrote nothing.

    rsync's own last line says that the daemon refused it; why is in the line before, which begins with ``@ERROR``.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("@ERROR")]
    return (causes or lines)[-1][:200] if lines else ""


def ending(program: ProgramOutput) -> str:
    """How a program that did not end well ended, with the last line that it wrote."""
    how = "was ended by a signal" if program.status is None else f"failed with exit code {program.status}"
    last = last_line(program.complaints or program.output)
    return f"{how}: {last}" if last else how
