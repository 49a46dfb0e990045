"""The kernel's part and the agent's part of a channel, for a client of which nothing may wait."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from virtoll.agent import client

READER, WRITER = 7, 8
AHEAD_NS = 5_000_000_000_000
"""What the real-time clock is ahead of the monotonic one."""
READY = {"event": "ready", "protocol": client.PROTOCOL}


def line(message: object) -> bytes:
    """A message as the channel has it."""
    return json.dumps(message).encode() + b"\n"


def answer(number: int, **fields: Any) -> bytes:
    """The answer to the request of that number."""
    return line({"id": number, "ok": fields})


class Played:
    """A channel on which an agent says what it is to say at its moments, and whose clock goes on by waiting alone."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.began = self.now
        self.arrivals: deque[tuple[float, bytes]] = deque()
        self.waits: list[float] = []
        self.polled: list[tuple[int, int]] = []
        self.heard: list[tuple[float, bytes]] = []
        self.closed: list[int] = []
        self.rooms: list[tuple[int, float]] = []
        self.has_room = True
        self.reads: deque[bytes | OSError] = deque()
        self.writes: deque[int | OSError] = deque()
        self.read_monotonic_ns: Callable[[], int] = lambda: round(self.now * 1e9)
        self.read_time_ns: Callable[[], int] = lambda: self.read_monotonic_ns() + AHEAD_NS
        self.on_line: Callable[[bytes], None] = lambda _: None
        self.on_wait: Callable[[], None] = lambda: None
        self.on_room: Callable[[], None] = lambda: None

    def say(self, *portions: bytes, after: float = 0.0) -> None:
        """Each portion is read by itself; `after`: seconds from the beginning."""
        self.arrivals.extend((self.began + after, portion) for portion in portions)

    @property
    def passed(self) -> float:
        """Seconds since the beginning."""
        return self.now - self.began

    @property
    def requests(self) -> list[Any]:
        """What was asked."""
        lines = b"".join(data for _, data in self.heard).splitlines()
        return [json.loads(one) for one in lines if one]

    def poll(self, milliseconds: float) -> list[object]:
        """What the kernel says of the channel."""
        self.waits.append(milliseconds)
        self.on_wait()
        assert milliseconds == math.ceil(milliseconds) >= 0, "whole milliseconds, and not less than asked for"
        until = self.now + milliseconds / 1000
        if self.reads:
            return [READER]
        if not self.arrivals or self.arrivals[0][0] > until:
            self.now = until
            return []
        self.now = max(self.now, self.arrivals[0][0])
        return [READER]

    def register(self, descriptor: int, events: int) -> None:
        """As the kernel's."""
        self.polled.append((descriptor, events))

    def read(self, descriptor: int, most: int) -> bytes:
        """What has come."""
        assert (descriptor, most) == (READER, 2**18), "a controller holds no more at once"
        found = self.reads.popleft() if self.reads else self.arrivals.popleft()[1]
        if isinstance(found, OSError):
            raise found
        assert len(found) <= most
        return found

    def write(self, descriptor: int, data: memoryview) -> int:
        """What the client writes."""
        assert descriptor == WRITER
        taken = self.writes.popleft() if self.writes else len(data)
        if isinstance(taken, OSError):
            raise taken
        self.heard.append((self.passed, bytes(data[:taken])))
        if bytes(data[:taken]).endswith(b"\n"):
            self.on_line(bytes(data[:taken]))
        return taken

    def close(self, descriptor: int) -> None:
        """As the kernel's."""
        self.closed.append(descriptor)

    def await_room(self, descriptor: int, seconds: float) -> bool:
        """Whether the channel takes a portion."""
        self.rooms.append((descriptor, seconds))
        self.on_room()
        return self.has_room

    def monotonic_ns(self) -> int:
        """The clock that goes on by waiting alone, or as a test reads it."""
        return self.read_monotonic_ns()

    def time_ns(self) -> int:
        """The time of day, likewise."""
        return self.read_time_ns()

    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Be the kernel and the clock of every client."""
        calls = SimpleNamespace(read=self.read, write=self.write, close=self.close)
        clocks = SimpleNamespace(monotonic=lambda: self.now, monotonic_ns=self.monotonic_ns, time_ns=self.time_ns)
        monkeypatch.setattr(client, "os", calls)
        monkeypatch.setattr(client, "select", SimpleNamespace(poll=lambda: self, POLLIN=1))
        monkeypatch.setattr(client, "await_room", self.await_room)
        monkeypatch.setattr(client, "time", clocks)


def session(**fields: Any) -> client.AgentClient:
    """A client of the played channel, whose agent is named ``it``."""
    return client.AgentClient(READER, WRITER, "it", **fields)
