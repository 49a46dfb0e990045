"""Client of the agent: JSON lines over a byte stream, as ``docs/protocol.md`` says.

Main types: ``Caller`` (the seam that the fake platform stands behind too), ``TrafficAgents`` (who generates and who
counts), ``AgentClient`` (a session over two file descriptors), ``AgentModel`` (who answers by itself, without a stream)
and ``ChannelMark`` (a mark that came over the channel, stamped on arrival). One thread a client, no locks: whoever
waits for an answer reads the stream, and stamps what arrives at the moment when it arrives. Where guests are measured
at once, each by a thread, others go on meanwhile (``turns``).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import msgspec

from virtoll.agent import turns
from virtoll.agent.lines import PORTION_BYTES, await_room, read_object, told
from virtoll.agent.operations.session import HelloReply, HelloRequest, Ready, TerminalExit, TerminalOutput
from virtoll.agent.request import REBUILD, Request, read_message
from virtoll.errors import AgentError, GuestDied, GuestNotReady, ProtocolError
from virtoll.lab import interrupts
from virtoll.lab.debug import debug
from virtoll.runfolder.record import Record

PROTOCOL = 6
MAXIMUM_LINE_BYTES = 8 * 2**20
_CONSOLE_KEPT_BYTES = 64 * 1024
_TAKEN_SECONDS = 60.0
# An answer is asked for again each fiftieth of the time that has passed, so that hours of it do not fill a terminal.
_WAKES = 50
_ARRIVING_SECONDS = 15.0
# The longest answer takes 12 minutes over a serial line of 115 200 Bd. Who is slower than that hangs.
_LONGEST_ARRIVAL_SECONDS = 900.0
# What nobody asked for and nobody has taken: a guest that sends more of it is not waited for.
_MOST_HELD = 10_000
_MOST_MIB = 64
_LINE_BYTES = 100  # what reading a line costs, as bytes: a flood of empty ones is one too

Reply = TypeVar("Reply", bound=Record)
JsonObject = Mapping[str, Any]


def _now() -> tuple[int, int]:
    """Real time and monotonic time of this moment, ns."""
    moment = time.monotonic_ns()
    return moment + _realtime_minus_monotonic_ns(), moment


def _realtime_minus_monotonic_ns() -> int:
    """What the real-time clock is ahead of the monotonic one, ns, as the agent reads it (crates/clock).

    Of seven tries the one whose two monotonic readings enclose the real-time reading most tightly: who is off the CPU
    between two readings would see a stepped clock.
    """

    def one_try() -> tuple[int, int]:
        before, realtime, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        return after - before, realtime - (before + after) // 2

    return min(one_try() for _ in range(7))[1]


@dataclass(frozen=True)
class ChannelMark:
    """A mark as seen on the channel: its edge (``start`` or ``end``) and when it arrived, by the host's clocks."""

    edge: str
    realtime_ns: int
    monotonic_ns: int


class Caller(Protocol):
    """Anything that answers the agent's operations: a real agent, or a model of one."""

    channel_marks: deque[ChannelMark]

    @property
    def ended(self) -> bool:
        """True when whoever answers is gone."""
        ...

    def ask(self, request: Request[Reply], deadline_seconds: float = 60.0) -> Reply:
        """Ask one operation and return its reply; raises a ``GuestError`` when there is none."""
        ...

    def close(self) -> None:
        """End the session; the agent leaves when its stream ends."""
        ...


class AgentModel(ABC):
    """A ``Caller`` that answers by itself: what it gives for a request is checked as a real agent's answer is."""

    channel_marks: deque[ChannelMark]
    ended: bool

    @abstractmethod
    def answer(self, request: Request[Record]) -> Record:
        """The reply to one request; ``AgentError`` for what it has not."""

    def ask(self, request: Request[Reply], deadline_seconds: float = 60.0) -> Reply:
        """What it answers, at once."""
        del deadline_seconds
        return request.read_reply(self.answer(request).to_json(), "a model")

    def close(self) -> None:
        """Nothing is open; it has ended."""
        self.ended = True


@dataclass(frozen=True)
class TrafficAgents:
    """Who generates traffic and who counts it: one agent for both, or one on each of two hosts.

    ``of_source``: who sends as each source, in order, where several do; the first is ``generator``. ``of_sink``: who
    counts what arrives by each link to the sink, likewise; the first is ``sink``.
    """

    generator: Caller
    sink: Caller
    of_source: tuple[Caller, ...] = ()
    of_sink: tuple[Caller, ...] = ()

    @classmethod
    def of_one(cls, agent: Caller) -> TrafficAgents:
        """One agent keeps both sides of the books."""
        return cls(agent, agent)

    @property
    def agents(self) -> tuple[Caller, ...]:
        """Each once: the generators in order, and the sinks."""
        return self.generators if self.generator is self.sink else (*self.generators, *self.sinks)

    @property
    def generators(self) -> tuple[Caller, ...]:
        """Each once."""
        return _each_once(self.of_source or (self.generator,))

    @property
    def sinks(self) -> tuple[Caller, ...]:
        """Each once."""
        return _each_once(self.of_sink or (self.sink,))

    def at(self, role: str, place: int = 0) -> Caller:
        """Whose interface a link of that role ends at: a sink's or a source's, by its place among those of the role."""
        if role == "sink":
            return self.of_sink[place] if self.of_sink else self.sink
        return self.of_source[place] if role == "source" and self.of_source else self.generator


def _each_once(agents: tuple[Caller, ...]) -> tuple[Caller, ...]:
    return tuple({id(agent): agent for agent in agents}.values())


@dataclass
class AgentClient:
    """A session with a real agent. ``who`` names it in messages; ``console`` collects what is not the protocol.

    ``window_bytes``: the channel is paced, and at most so much of a request is on the way that was not taken; None: the
    channel has flow control of its own. ``wake_seconds``: after so long without the beginning of an answer an empty
    line asks for it, again and again, ever more rarely. An emulated serial line may lose an interrupt. None: never.
    ``patience``: deadlines are so many times longer, for a channel whose speed says nothing of its guest.
    ``gives_turn``: other threads may go on while it waits; not so for an agent that several threads ask.
    ``arrived``: when something came last, real time and monotonic, ns; ``greeted_monotonic_ns``: when it said that it
    is ready. ``busy``: an answer is outstanding, and it takes no other request before.
    """

    reader: int
    writer: int
    who: str
    channel_marks: deque[ChannelMark] = field(default_factory=deque)
    console: bytearray = field(default_factory=bytearray)
    ready: Ready | None = None
    _buffer: bytearray = field(default_factory=bytearray)
    _scanned: int = 0
    _next_id: int = 1
    _ended: bool = False
    _closed: bool = False
    window_bytes: int | None = None
    wake_seconds: float | None = None
    patience: float = 1.0
    gives_turn: bool = False
    arrived: tuple[int, int] = (0, 0)
    busy: bool = False
    greeted_monotonic_ns: int = 0
    _sent_bytes: int = 0
    _taken_bytes: int = 0
    _received_bytes: int = 0
    _overdue_bytes: int = 0
    _held: deque[JsonObject] = field(default_factory=deque)
    terminal_events: deque[TerminalOutput | TerminalExit] = field(default_factory=deque)
    _greeting: JsonObject | None = None

    def wait_ready(self, deadline_seconds: float) -> HelloReply:
        """Wait until the agent says that it is ready, then agree on the protocol; returns the reply to ``hello``."""
        debug("wait at most %g s: %s is ready", deadline_seconds, self.who)
        deadline = time.monotonic() + deadline_seconds
        self._received_bytes = self._overdue_bytes = 0
        while self._greeting is None:
            message = self._next_message(deadline)
            if message is None:
                raise GuestNotReady(f"{self.who} was not ready within {deadline_seconds:g} s")
            self._take_event(message)
        theirs = self._greeting.get("protocol")
        if theirs != PROTOCOL:
            raise ProtocolError(f"{self.who} speaks protocol {told(theirs)}, this Virtoll speaks {PROTOCOL}; {REBUILD}")
        hello = self.ask(HelloRequest(protocol=PROTOCOL), max(1.0, deadline - time.monotonic()))
        self.ready = hello
        return hello

    def ask(self, request: Request[Reply], deadline_seconds: float = 60.0) -> Reply:
        """Ask one operation; raises as ``call``, and ``ProtocolError`` where the reply is not the operation's."""
        fields = msgspec.to_builtins(request)  # round trips over the channel are timed, and 'to_json' takes longer
        return request.read_reply(self.call(fields.pop("op"), deadline_seconds, **fields), self.who)

    def call(self, op: str, deadline_seconds: float = 60.0, **fields: Any) -> JsonObject:
        """Ask for an answer as it comes; ``AgentError`` when it is refused, ``GuestDied`` when none begins in time.

        Outside the agent's room requests are typed: ``ask``.
        """
        debug("ask %s, at most %g s: %s", self.who, deadline_seconds, op)
        number = self.post(op, **fields)
        self.busy, self._received_bytes, self._overdue_bytes = True, 0, 0
        began, deadline_seconds = time.monotonic(), deadline_seconds * self.patience
        deadline, wake_seconds = began + deadline_seconds, self.wake_seconds
        wake = math.inf if wake_seconds is None else began + wake_seconds
        while True:
            message = self._next_message(min(deadline, wake))
            if message is None and wake_seconds is not None and (now := time.monotonic()) < deadline:
                self._write_whole(b"\n")
                wake = now + max(wake_seconds, (now - began) / _WAKES)
                continue
            if message is None:
                raise GuestDied(f"{self.who} did not answer '{op}' within {deadline_seconds:g} s")
            if self._take_event(message):
                continue
            if message.get("id") == number:
                self.busy = False
                return self._unwrap(message, op)

    def post(self, op: str, **fields: Any) -> int:
        """Send a request without waiting for its answer; returns its id."""
        number = self._next_id
        self._next_id += 1
        line = json.dumps({"id": number, "op": op, **fields}, separators=(",", ":")).encode() + b"\n"
        self._write(line)
        return number

    def pump(self, timeout_seconds: float) -> bool:
        """Take one event, waiting for at most so long: for whoever waits for events and not for an answer."""
        self._received_bytes = self._overdue_bytes = 0
        message = self._next_message(time.monotonic() + timeout_seconds)
        return message is not None and self._take_event(message)

    @property
    def ended(self) -> bool:
        """True when the stream has ended or was closed."""
        return self._ended

    def close(self) -> None:
        """Close the stream; harmless when it is closed already."""
        self._ended = True
        if not self._closed:
            self._closed = True
            for descriptor in {self.reader, self.writer}:
                os.close(descriptor)

    def _unwrap(self, message: JsonObject, op: str) -> JsonObject:
        if "ok" in message and isinstance(message["ok"], dict):
            return message["ok"]
        error = message.get("error")
        if not isinstance(error, dict):
            raise ProtocolError(f"{self.who} answered '{op}' with neither ok nor error; {REBUILD}")
        kind, text = told(error.get("kind")), told(error.get("message"))
        if kind == "protocol-mismatch":
            raise ProtocolError(f"{self.who}: {text}")
        raise AgentError(kind, f"{self.who} refused '{op}': {text}")

    def _take_event(self, message: JsonObject) -> bool:
        event = message.get("event")
        if event is None:
            return False
        if event == "ready":
            self._greeting, self.greeted_monotonic_ns = message, self.arrived[1]
        elif event == "taken":
            taken = message.get("bytes")
            self._taken_bytes = taken if type(taken) is int else 0
        elif event == "mark":
            self._refuse_more_than(_MOST_HELD, len(self.channel_marks), "marks")
            self.channel_marks.append(ChannelMark(told(message.get("edge")), *self.arrived))
        elif event in ("terminal", "terminal-exit"):
            self._take_terminal(message)
        return True

    def _take_terminal(self, message: JsonObject) -> None:
        self._refuse_more_than(_MOST_HELD, len(self.terminal_events), "events of a terminal")
        if message["event"] == "terminal":
            self.terminal_events.append(read_message(TerminalOutput, message, f"{self.who}: output of its terminal"))
        else:
            self.terminal_events.append(read_message(TerminalExit, message, f"{self.who}: the end of its terminal"))

    def _refuse_more_than(self, most: int, held: int, what: str) -> None:
        """Nobody keeps what an agent sends without end: it is given up with its guest."""
        if held >= most:
            self._ended = True
            raise GuestDied(f"{self.who} sent more than {most} {what} that nobody asked for")

    def _next_message(self, deadline: float) -> JsonObject | None:
        """The next message, one that came while a request was being sent before all others."""
        return self._held.popleft() if self._held else self._receive(deadline)

    def _receive(self, deadline: float) -> JsonObject | None:
        """The next protocol message, or None at the deadline; raises ``GuestDied`` at the stream's end.

        A message of which more arrives is not late: a serial line may be slow, but must go on. What had come before the
        deadline is still read, up to the longest line: who never stops sending is not read for ever.
        """
        latest = deadline + _LONGEST_ARRIVAL_SECONDS * self.patience
        while True:
            line = self._take_line()
            if line is not None:
                message = self._parse(line)
                if message is not None:
                    return message
                if self._is_flooded(len(line) + _LINE_BYTES, deadline):
                    return None
                continue
            remaining = deadline - time.monotonic()
            if self._closed:
                raise GuestDied(f"{self.who}: its channel is closed")
            if not self._readable(max(0.0, remaining)) or self._is_flooded(self._read_some(), deadline):
                return None
            if self._buffer.startswith(b"{"):
                deadline = min(max(deadline, time.monotonic() + _ARRIVING_SECONDS * self.patience), latest)

    def _read_some(self) -> int:
        """Take what has come; how many bytes. ``GuestDied`` at the stream's end."""
        try:
            chunk = os.read(self.reader, 1 << 18)
        except BlockingIOError:
            return 0
        except OSError:
            chunk = b""
        if not chunk:
            self._ended = True
            raise GuestDied(f"{self.who} ended while it was needed")
        self._buffer += chunk
        self._received_bytes += len(chunk)
        if self._received_bytes > _MOST_MIB * 2**20:
            self._ended = True
            raise GuestDied(f"{self.who} sent more than {_MOST_MIB} MiB while one answer was awaited")
        return len(chunk)

    def _is_flooded(self, more_bytes: int, deadline: float) -> bool:
        """Whether so much came after the deadline that an answer is not among it."""
        if time.monotonic() <= deadline:
            return False
        self._overdue_bytes += more_bytes
        return self._overdue_bytes > MAXIMUM_LINE_BYTES

    def _readable(self, seconds: float) -> bool:
        """Wait for so long at most until something comes; true where it has, or where the stream has ended."""
        deadline = time.monotonic() + seconds
        longest = math.inf if threading.current_thread() is threading.main_thread() else turns.LOOK_SECONDS
        arrivals = select.poll()  # and not select(), which takes no descriptor from 1024 on: of many guests there are
        arrivals.register(self.reader, select.POLLIN)
        with turns.given_up() if self.gives_turn else contextlib.nullcontext():
            while True:
                remaining = max(0.0, deadline - time.monotonic())
                if arrivals.poll(math.ceil(min(remaining, longest) * 1000)):
                    self.arrived = _now()
                    return True
                if remaining <= longest:
                    return False
                interrupts.check()

    def _take_line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._scanned)
        if end < 0:
            self._scanned = len(self._buffer)
            if len(self._buffer) > MAXIMUM_LINE_BYTES:
                raise ProtocolError(f"{self.who} sent a line longer than {MAXIMUM_LINE_BYTES} bytes; {REBUILD}")
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._scanned = 0
        return line

    def _parse(self, line: bytes) -> JsonObject | None:
        """A protocol message, or None for console text, which is kept."""
        _, brace, rest = line.partition(b"{")
        message = read_object(brace + rest)
        if message is not None and ("event" in message or "id" in message):
            return message
        self.console += line + b"\n"
        del self.console[:-_CONSOLE_KEPT_BYTES]
        return None

    def _write(self, line: bytes) -> None:
        portion = self.window_bytes or len(line)
        for start in range(0, len(line), portion):
            if start:
                self._await_taken()
            self._write_whole(line[start : start + portion])

    def _await_taken(self) -> None:
        """Wait until the agent has read all that was sent; answers to earlier requests are kept."""
        seconds = _TAKEN_SECONDS * self.patience
        deadline = time.monotonic() + seconds
        while self._taken_bytes < self._sent_bytes:
            message = self._receive(deadline)
            if message is None:
                raise GuestDied(f"{self.who} took no part of a request within {seconds:g} s")
            if not self._take_event(message):
                self._refuse_more_than(_MOST_HELD, len(self._held), "answers")
                self._held.append(message)

    def _write_whole(self, data: bytes) -> None:
        self._sent_bytes += len(data)
        view = memoryview(data)
        try:
            while view:
                self._await_room()
                with contextlib.suppress(BlockingIOError):
                    view = view[os.write(self.writer, view[:PORTION_BYTES]) :]
        except OSError as error:
            self._ended = True
            raise GuestDied(f"{self.who} ended while it was needed ({error.strerror})") from error

    def _await_room(self) -> None:
        """Wait until the channel takes a portion of a request. ``GuestDied`` where nobody reads it any more."""
        seconds = _TAKEN_SECONDS * self.patience
        with turns.given_up() if self.gives_turn else contextlib.nullcontext():
            if await_room(self.writer, seconds):
                return
        raise GuestDied(f"{self.who} took no part of a request within {seconds:g} s")
