"""Operations that any session has: ``hello``, ``clocks``, ``facts``, ``shutdown``, and a terminal in the guest."""

from __future__ import annotations

from virtoll.agent.request import Request
from virtoll.runfolder.facts import Facts
from virtoll.runfolder.record import Record


class Done(Record):
    """The reply of an operation without a result."""


class Ready(Record):
    """What the agent says of itself: at its start, and as the reply to ``hello``."""

    protocol: int
    version: str | None = None
    build: str | None = None
    role: str | None = None
    pid: int | None = None
    started_monotonic_ns: int | None = None
    started_boottime_ns: int | None = None
    ready_monotonic_ns: int | None = None


class HelloReply(Ready):
    """``target``: the target triple that the agent was built for."""

    target: str | None = None


class HelloRequest(Request[HelloReply], tag="hello"):
    """The controller's version of the protocol."""

    protocol: int


class ClocksReply(Record):
    """The agent's clocks, read back to back."""

    realtime_ns: int
    monotonic_ns: int
    monotonic_raw_ns: int
    boottime_ns: int


class ClocksRequest(Request[ClocksReply], tag="clocks"):
    """What its clocks say; also the shortest question that there is."""


class FactsRequest(Request[Facts], tag="facts"):
    """What the guest is, for the equivalence report."""


class ShutdownRequest(Request[Done], tag="shutdown"):
    """The agent answers and leaves; as a machine's first process it powers that off."""


class TerminalRequest(Request[Done], tag="terminal"):
    """A process on a pseudo terminal; what it writes comes as events."""

    argv: tuple[str, ...]
    rows: int
    columns: int


class TerminalOutput(Record, tag="terminal", tag_field="event"):
    """The event that the terminal's process has written."""

    data: bytes


class TerminalExit(Record, tag="terminal-exit", tag_field="event"):
    """The event that it has ended, with an exit status or by a signal."""

    status: int | None
    signal: int | None

    @property
    def code(self) -> int:
        """As a shell tells it: 128 more than the signal's number where that ended it."""
        return self.status if self.status is not None else 128 + (self.signal or 0)


class TerminalInputRequest(Request[Done], tag="terminal-input"):
    """Keys for the terminal's process."""

    data: bytes


class TerminalResizeRequest(Request[Done], tag="terminal-resize"):
    """The terminal's new size in characters."""

    rows: int
    columns: int


class TerminalCloseRequest(Request[Done], tag="terminal-close"):
    """Ends the terminal's process."""
