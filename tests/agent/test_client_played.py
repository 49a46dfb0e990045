"""The client where the test plays both channel and clock: each deadline, limit and sentence, without waiting."""

from __future__ import annotations

import errno
import itertools
import json
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from virtoll.agent import client
from virtoll.agent.client import AgentClient, AgentModel, Caller, ChannelMark, TrafficAgents
from virtoll.agent.lines import PORTION_BYTES
from virtoll.agent.messages import REBUILD, Message, Request
from virtoll.agent.operations.session import (
    ClocksReply,
    ClocksRequest,
    Done,
    HelloReply,
    ShutdownRequest,
    TerminalExit,
    TerminalOutput,
)
from virtoll.agent.turns import LOOK_SECONDS
from virtoll.errors import AgentError, GuestDied, GuestNotReady, ProtocolError
from virtoll.lab import interrupts

READER, WRITER = 7, 8
AHEAD_NS = 5_000_000_000_000
"""What the real-time clock is ahead of the monotonic one."""
READY = {"event": "ready", "protocol": 3}


def line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def answer(number: int, **fields: Any) -> bytes:
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
        self.polled.append((descriptor, events))

    def read(self, descriptor: int, most: int) -> bytes:
        assert (descriptor, most) == (READER, 2**18), "a controller holds no more at once"
        found = self.reads.popleft() if self.reads else self.arrivals.popleft()[1]
        if isinstance(found, OSError):
            raise found
        assert len(found) <= most
        return found

    def write(self, descriptor: int, data: memoryview) -> int:
        assert descriptor == WRITER
        taken = self.writes.popleft() if self.writes else len(data)
        if isinstance(taken, OSError):
            raise taken
        self.heard.append((self.passed, bytes(data[:taken])))
        if bytes(data[:taken]).endswith(b"\n"):
            self.on_line(bytes(data[:taken]))
        return taken

    def close(self, descriptor: int) -> None:
        self.closed.append(descriptor)

    def await_room(self, descriptor: int, seconds: float) -> bool:
        self.rooms.append((descriptor, seconds))
        self.on_room()
        return self.has_room

    def monotonic_ns(self) -> int:
        return round(self.now * 1e9)

    def time_ns(self) -> int:
        return self.monotonic_ns() + AHEAD_NS


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    made = Played()
    monkeypatch.setattr(client, "os", SimpleNamespace(read=made.read, write=made.write, close=made.close))
    monkeypatch.setattr(client, "select", SimpleNamespace(poll=lambda: made, POLLIN=1))
    monkeypatch.setattr(client, "await_room", made.await_room)
    clocks = SimpleNamespace(monotonic=lambda: made.now, monotonic_ns=made.monotonic_ns, time_ns=made.time_ns)
    monkeypatch.setattr(client, "time", clocks)
    return made


def session(**fields: Any) -> AgentClient:
    return AgentClient(READER, WRITER, "it", **fields)


def test_a_request_is_one_line_and_its_answer_is_what_is_ok(played: Played) -> None:
    """Each has a number of its own; nothing is outstanding before and after it."""
    agent = session()
    seen: list[bool] = []
    played.on_wait = lambda: seen.append(agent.busy)
    played.say(answer(1, monotonic_ns=7), answer(2))
    assert not agent.busy
    assert agent.call("clocks", extra=[1, 2]) == {"monotonic_ns": 7}
    assert agent.call("facts") == {}
    assert (seen, agent.busy) == ([True, True], False)
    assert b"".join(data for _, data in played.heard) == (
        b'{"id":1,"op":"clocks","extra":[1,2]}\n{"id":2,"op":"facts"}\n'
    )
    assert played.polled == [(READER, 1)] * 2
    assert agent.post("idle") == 3
    assert played.requests[2] == {"id": 3, "op": "idle"}


def test_a_typed_request_has_a_typed_reply(played: Played) -> None:
    clocks = {"realtime_ns": 1, "monotonic_ns": 2, "monotonic_raw_ns": 3, "boottime_ns": 4}
    played.say(answer(1, **clocks), answer(2, realtime_ns="late"))
    agent = session()
    assert agent.ask(ClocksRequest()) == ClocksReply(**clocks)
    with pytest.raises(ProtocolError, match=r"^it answered 'clocks' wrongly: realtime_ns is 'late'"):
        agent.ask(ClocksRequest())
    with pytest.raises(GuestDied, match=r"^it did not answer 'clocks' within 7 s$"):
        agent.ask(ClocksRequest(), 7.0)
    assert played.waits == [60_000, 60_000, 7000]
    assert played.requests[0] == {"id": 1, "op": "clocks"}
    with pytest.raises(GuestDied, match="within 60 s"):
        agent.ask(ClocksRequest())


@pytest.mark.parametrize(("patience", "seconds"), [(1.0, 60), (2.5, 150)])
def test_an_answer_is_awaited_for_its_time_and_no_longer(played: Played, patience: float, seconds: float) -> None:
    agent = session(patience=patience)
    with pytest.raises(GuestDied, match=rf"^it did not answer 'clocks' within {seconds} s$"):
        agent.call("clocks")
    assert (played.passed, agent.busy, agent.ended) == (seconds, True, False)
    assert played.waits == [seconds * 1000]


def test_waits_are_of_whole_milliseconds_and_never_too_short(played: Played) -> None:
    with pytest.raises(GuestDied, match=r"within 0\.0012 s"):
        session().call("clocks", 0.0012)
    assert played.waits == [2]


def test_what_came_meanwhile_is_no_answer(played: Played) -> None:
    """Events, an answer to another request, and text of a console; the answer is the one with its number."""
    played.say(line({"event": "mark", "edge": "start"}), after=1)
    played.say(b"[   12.3] eth0: link up\n", answer(7, which="wrong"), after=2)
    played.say(line({"event": "unheard of"}) + answer(1, which="right") + answer(9), after=3)
    agent = session()
    assert agent.call("clocks", 4.0) == {"which": "right"}
    assert played.waits == [4000, 3000, 2000, 2000]
    assert list(agent.channel_marks) == [ChannelMark("start", 1_001_000_000_000 + AHEAD_NS, 1_001_000_000_000)]
    assert agent.console == b"[   12.3] eth0: link up\n"
    assert agent.arrived == (1_003_000_000_000 + AHEAD_NS, 1_003_000_000_000)


def test_a_sleeping_channel_is_woken_ever_more_rarely(played: Played) -> None:
    """After 2 s, and then each 2 s or each fiftieth of what has passed: from the hundredth second on that is longer."""
    asked: list[float] = []
    played.on_line = lambda told: asked.append(played.passed) if told == b"\n" else None
    agent = session(wake_seconds=2.0)
    played.say(answer(1, woken=True), after=300)
    assert agent.call("clocks", 600) == {"woken": True}
    expected, moment = [], 2.0
    while moment < 300:
        expected.append(moment)
        moment += max(2.0, moment / 50)
    assert expected[49:52] == pytest.approx([100, 102, 104.04]), "no longer each 2 s"
    assert asked == pytest.approx(expected, abs=0.1), "a wait is rounded up to a millisecond"
    assert agent.busy is False


def test_a_channel_that_stays_asleep_is_given_up_at_the_deadline(played: Played) -> None:
    agent = session(wake_seconds=4.0, patience=2.0)
    with pytest.raises(GuestDied, match=r"^it did not answer 'clocks' within 10 s$"):
        agent.call("clocks", 5.0)
    assert [moment for moment, data in played.heard if data == b"\n"] == [4, 8]
    assert played.passed == 10
    assert played.waits == [4000, 4000, 2000]


def test_an_agent_that_is_ready_is_greeted(played: Played) -> None:
    """What remains of the deadline is for its reply, but at least a second."""
    agent = session()
    played.say(b"booting\n", line({"event": "mark", "edge": "end"}), after=1)
    played.say(line(READY), after=4)
    played.on_line = lambda _: played.say(answer(1, protocol=3, target="x86_64"), after=4)
    assert agent.wait_ready(10.0) == HelloReply(protocol=3, target="x86_64")
    assert agent.ready == HelloReply(protocol=3, target="x86_64")
    assert agent.greeted_monotonic_ns == 1_004_000_000_000
    assert played.requests == [{"id": 1, "op": "hello", "protocol": 3}]
    assert played.waits == [10_000, 9000, 9000, 6000]
    assert [mark.edge for mark in agent.channel_marks] == ["end"]


@pytest.mark.parametrize(("ready", "remaining"), [(4.0, 6), (9.5, 1), (10.0, 1)])
def test_a_reply_to_the_greeting_has_what_remains(played: Played, ready: float, remaining: float) -> None:
    agent = session()
    played.say(line(READY), after=ready)
    with pytest.raises(GuestDied, match=f"^it did not answer 'hello' within {remaining} s$"):
        agent.wait_ready(10.0)
    assert agent.ready is None


def test_who_is_not_ready_in_time(played: Played) -> None:
    with pytest.raises(GuestNotReady, match=r"^it was not ready within 2\.5 s$"):
        session().wait_ready(2.5)
    assert played.waits == [2500]
    assert played.heard == []


@pytest.mark.parametrize(("theirs", "words"), [(4, "4"), (None, "None"), ("3", "3")])
def test_another_protocol_is_refused(played: Played, theirs: object, words: str) -> None:
    played.say(line({"event": "ready", "protocol": theirs}))
    with pytest.raises(ProtocolError) as raised:
        session().wait_ready(1.0)
    assert str(raised.value) == f"it speaks protocol {words}, this Virtoll speaks 3; {REBUILD}"


def test_an_event_is_taken_without_an_answer(played: Played) -> None:
    agent = session()
    played.say(line({"event": "mark", "edge": "start"}), after=1)
    played.say(answer(5), after=2)
    assert agent.pump(3.0) is True
    assert agent.pump(3.0) is False, "an answer that nobody waits for"
    assert agent.pump(3.0) is False, "nothing"
    assert played.waits == [3000, 3000, 3000]
    assert (played.passed, len(agent.channel_marks)) == (5, 1)


def test_what_a_terminal_says_is_kept_as_it_came(played: Played) -> None:
    agent = session()
    played.say(
        line({"event": "terminal", "data": "aGk="}), line({"event": "terminal-exit", "status": 3, "signal": None})
    )
    assert agent.pump(1)
    assert agent.pump(1)
    output, ended = agent.terminal_events
    assert isinstance(output, TerminalOutput)
    assert isinstance(ended, TerminalExit)
    assert (output.data, ended.status, ended.signal) == (b"hi", 3, None)
    played.say(line({"event": "terminal", "data": 7}), line({"event": "terminal-exit", "status": 3}))
    with pytest.raises(ProtocolError, match=r"^it reported wrongly of its terminal: data is 7 and not base64"):
        agent.pump(1)
    with pytest.raises(ProtocolError, match=r"^it reported wrongly of its terminal's end: signal is missing"):
        agent.pump(1)


@pytest.mark.parametrize(
    ("message", "what"),
    [
        ({"event": "mark", "edge": "start"}, "marks"),
        ({"event": "terminal", "data": ""}, "events of a terminal"),
        ({"event": "terminal-exit", "status": 0, "signal": None}, "events of a terminal"),
    ],
)
def test_who_sends_more_than_anybody_takes_is_given_up(
    played: Played, monkeypatch: pytest.MonkeyPatch, message: dict[str, object], what: str
) -> None:
    monkeypatch.setattr(client, "_MOST_HELD", 3)
    played.say(*[line(message)] * 4)
    agent = session()
    assert [agent.pump(1) for _ in range(3)] == [True] * 3
    before = agent.ended
    with pytest.raises(GuestDied, match=f"^it sent more than 3 {what} that nobody asked for$"):
        agent.pump(1)
    assert (before, agent.ended) == (False, True)
    assert len(agent.channel_marks) + len(agent.terminal_events) == 3


def test_of_a_paced_request_no_more_than_a_window_is_on_the_way(played: Played) -> None:
    """Before each portion but the first all of those before it is taken."""
    taken = itertools.count(10, 10)
    agent = session(window_bytes=10)

    def take() -> None:
        count = next(taken)
        played.say(line({"event": "taken", "bytes": count - 1}), line({"event": "taken", "bytes": count}), after=count)

    played.on_room = take
    assert agent.post("abcdefghijkl") == 1
    portions = [data for _, data in played.heard]
    assert b"".join(portions) == b'{"id":1,"op":"abcdefghijkl"}\n'
    assert list(map(len, portions)) == [10, 10, 9]
    assert [moment for moment, _ in played.heard] == [0, 10, 20]
    assert len(played.waits) == 4, "all but one byte is not all"


def test_answers_that_came_while_a_request_was_sent_come_first(played: Played) -> None:
    agent = session(window_bytes=15)
    played.say(answer(2, which="early"), answer(1, which="old"), line({"event": "taken", "bytes": 15}))
    played.say(line({"event": "taken", "bytes": 30}))
    assert agent.post("a") == 1
    played.say(line({"event": "taken", "bytes": 42}))
    assert agent.call("b") == {"which": "early"}
    played.arrivals.clear()
    assert agent.pump(1) is False
    assert agent.pump(1) is False, "the answer to the first had been kept too, and was passed over"


@pytest.mark.parametrize(("patience", "seconds"), [(1.0, 60), (3.0, 180)])
@pytest.mark.parametrize("count", [None, "20", True, 9.5, 0])
def test_a_request_of_which_no_part_is_taken_is_given_up(
    played: Played, patience: float, seconds: float, count: object
) -> None:
    played.say(line({"event": "taken", "bytes": count}))
    with pytest.raises(GuestDied, match=f"^it took no part of a request within {seconds} s$"):
        session(window_bytes=1, patience=patience).post("abc")
    assert played.passed == seconds
    assert [data for _, data in played.heard] == [b"{"]


def test_no_more_answers_are_kept_than_anybody_takes(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_MOST_HELD", 2)
    played.say(answer(5), answer(6), answer(7))
    agent = session(window_bytes=10)
    with pytest.raises(GuestDied, match=r"^it sent more than 2 answers that nobody asked for$"):
        agent.post("abc")
    assert agent.ended


@pytest.mark.parametrize(("patience", "rest"), [(1.0, 15), (2.0, 30)])
def test_an_answer_that_has_begun_may_come_later(played: Played, patience: float, rest: float) -> None:
    """Each further part of it has some seconds more."""
    whole = answer(1, letters="abcdef")
    for place, moment in enumerate((4.0, 5 * patience + rest - 6, 5 * patience + 2 * rest - 20)):
        played.say(whole[5 * place : 5 * place + 5 if place < 2 else None], after=moment)
    agent = session(patience=patience)
    assert agent.call("clocks", 5.0) == {"letters": "abcdef"}
    second = 5 * patience + rest - 6
    assert played.waits == [5000 * patience, 1000 * rest, 1000 * rest] if patience == 1 else played.waits[0] == 10_000
    assert played.passed == pytest.approx(second + rest - 14)


def test_an_answer_that_stops_in_the_middle_is_given_up(played: Played) -> None:
    played.say(answer(1, letters="abc")[:-3], after=4)
    with pytest.raises(GuestDied, match="within 5 s"):
        session().call("clocks", 5.0)
    assert played.waits == [5000, 15_000]
    played.say(b"no message, without an end", after=30)
    with pytest.raises(GuestDied, match="within 12 s"):
        session().call("clocks", 12.0)
    assert played.passed == 31, "what is no message is not awaited"


@pytest.mark.parametrize(("patience", "most"), [(1.0, 905), (2.0, 1810)])
def test_who_goes_on_for_ever_with_one_answer_is_given_up(played: Played, patience: float, most: float) -> None:
    """A byte each ten seconds: after a quarter of an hour it is over."""
    played.say(b'{"id":1,"ok":{"letters":"')
    for moment in range(10, 5000, 10):
        played.say(b"x", after=moment)
    with pytest.raises(GuestDied, match=f"within {5 * patience:g} s"):
        session(patience=patience).call("clocks", 5.0)
    assert played.passed == most


NOISE = [b"noise....\n"] * 50


def test_at_its_deadline_all_that_has_come_is_in_time(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAXIMUM_LINE_BYTES", 1000)
    played.say(*NOISE, after=5.0)
    agent = session()
    assert agent.pump(5.0) is False
    assert len(agent.console) == 500
    played.say(*NOISE, after=11.0)
    assert agent.pump(5.0) is False
    assert len(agent.console) == 500, "none of it has come"


@pytest.mark.parametrize(
    ("wait", "error"),
    [
        (lambda agent: agent.pump(0.25), None),
        (lambda agent: agent.call("clocks", 0.25), GuestDied),
        (lambda agent: agent.wait_ready(0.25), GuestNotReady),
    ],
    ids=["an event", "an answer", "its start"],
)
def test_who_sends_other_things_without_end_is_read_up_to_a_longest_line(
    played: Played,
    monkeypatch: pytest.MonkeyPatch,
    wait: Callable[[AgentClient], object],
    error: type[Exception] | None,
) -> None:
    """A line is 10 bytes that are read, and 9 and 100 of a line: 8 of them are 952, and with the ninth it is over.

    So it is each time that something is awaited; the controller is half a second late in each look.
    """
    monkeypatch.setattr(client, "MAXIMUM_LINE_BYTES", 1000)
    agent = session()

    def late() -> None:
        played.now += 0.5

    played.on_wait = late
    for turn in (1, 2):
        played.say(*NOISE)
        with pytest.raises(error) if error else nullcontext():
            assert wait(agent) is False
        assert len(agent.console) == turn * 90
        played.arrivals.clear()
    monkeypatch.setattr(client, "MAXIMUM_LINE_BYTES", 1081)
    played.say(*NOISE)
    with pytest.raises(error) if error else nullcontext():
        wait(agent)
    assert len(agent.console) == 280, "as much as the limit is not more"


def test_a_line_may_have_so_many_bytes_and_no_more(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = answer(1, letters="xyz")
    monkeypatch.setattr(client, "MAXIMUM_LINE_BYTES", len(whole) - 1)
    played.say(whole[:-1], b"\n")
    assert session().call("clocks") == {"letters": "xyz"}
    played.say(b"x" * len(whole))
    with pytest.raises(ProtocolError) as raised:
        session().call("clocks")
    assert str(raised.value) == f"it sent a line longer than {len(whole) - 1} bytes; {REBUILD}"


def test_who_sends_too_much_while_one_answer_is_awaited_is_given_up(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mebibyte is the limit here, of each call, of each event that is awaited, and of a guest's start."""
    monkeypatch.setattr(client, "_MOST_MIB", 1)
    part = b"x" * (2**18 - 1) + b"\n"
    mark = line({"event": "mark", "edge": "start"})
    agent = session()

    def fill(last: bytes) -> None:
        """Just so much, of which the message is the last line."""
        played.say(part, part, part, part[len(last) + 1 :] + b"\n" + last)

    fill(mark)
    assert agent.pump(1.0)
    fill(line(READY))
    played.on_line = lambda _: fill(answer(1, protocol=3))
    agent.wait_ready(1.0)
    played.on_line = lambda _: None
    fill(answer(2, n=2))
    assert agent.call("clocks") == {"n": 2}
    fill(mark)
    assert agent.pump(1.0)
    fill(answer(3, n=3))
    assert agent.call("clocks") == {"n": 3}
    played.say(part, part, part, part, b"\n" + answer(4))
    with pytest.raises(GuestDied, match=r"^it sent more than 1 MiB while one answer was awaited$"):
        agent.call("clocks")
    assert agent.ended


def test_what_is_no_message_is_the_consoles(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last bytes are kept. A message may follow text on its line."""
    agent = session()
    played.say(b"\n\nprompt# " + answer(1, n=1) + b'{"neither": 1}\n{broken\n\xff\n' + answer(2, n=2))
    assert agent.call("clocks") == {"n": 1}
    assert agent.call("clocks") == {"n": 2}
    assert agent.console == b'\n\n{"neither": 1}\n{broken\n\xff\n'
    monkeypatch.setattr(client, "_CONSOLE_KEPT_BYTES", 10)
    played.say(b"0123456\n" + answer(3))
    agent.call("clocks")
    assert agent.console == b"\xff\n0123456\n"


@pytest.mark.parametrize("end", [b"", OSError(errno.EIO, "broken")])
def test_a_channel_that_ends_is_the_end_of_its_guest(played: Played, end: bytes | OSError) -> None:
    played.reads.append(end)
    agent = session()
    with pytest.raises(GuestDied, match=r"^it ended while it was needed$"):
        agent.call("clocks")
    assert agent.ended


def test_what_was_taken_by_somebody_else_is_awaited_further(played: Played) -> None:
    """Readable, and yet nothing to read."""
    played.reads.append(BlockingIOError())
    played.say(answer(1), after=2)
    assert session().call("clocks", 5.0) == {}
    assert played.waits == [5000, 5000]


def test_nothing_to_read_is_nothing_that_came_too_late(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAXIMUM_LINE_BYTES", 60)
    played.reads.extend([BlockingIOError()] * 70)
    played.reads.append(answer(1))

    def late() -> None:
        played.now += 0.5

    played.on_wait = late
    assert session().call("clocks", 0.25) == {}


def test_a_request_is_written_in_portions_each_when_there_is_room(played: Played) -> None:
    agent = session(patience=2.0)
    played.writes.extend([BlockingIOError(), 100])
    text = "x" * (2 * PORTION_BYTES)
    agent.post("x", text=text)
    whole = f'{{"id":1,"op":"x","text":"{text}"}}\n'.encode()
    assert [data for _, data in played.heard] == [
        whole[:100],
        whole[100 : 100 + PORTION_BYTES],
        whole[100 + PORTION_BYTES :],
    ]
    assert played.rooms == [(WRITER, 120.0)] * 4


def test_who_reads_no_request_is_given_up(played: Played) -> None:
    played.has_room = False
    with pytest.raises(GuestDied, match=r"^it took no part of a request within 60 s$"):
        session().post("x")
    assert played.heard == []
    played.has_room = True
    played.writes.append(OSError(errno.EPIPE, "Broken pipe"))
    agent = session()
    with pytest.raises(GuestDied, match=r"^it ended while it was needed \(Broken pipe\)$"):
        agent.post("x")
    assert agent.ended


def test_a_client_is_closed_once(played: Played) -> None:
    agent = session()
    before = agent.ended
    agent.close()
    agent.close()
    assert (before, agent.ended) == (False, True)
    assert sorted(played.closed) == [READER, WRITER]
    with pytest.raises(GuestDied, match=r"^it: its channel is closed$"):
        agent.pump(1)
    AgentClient(9, 9, "one end").close()
    assert played.closed[2:] == [9]


@pytest.mark.parametrize(
    ("reported", "error", "words"),
    [
        ({"error": {"kind": "busy", "message": "not now"}}, AgentError, "it refused 'clocks': not now"),
        ({"ok": [], "error": {"kind": 7, "message": None}}, AgentError, "it refused 'clocks': None"),
        ({"error": {"kind": "protocol-mismatch", "message": "other"}}, ProtocolError, "it: other"),
        ({"ok": None}, ProtocolError, f"it answered 'clocks' with neither ok nor error; {REBUILD}"),
        ({"error": "no"}, ProtocolError, f"it answered 'clocks' with neither ok nor error; {REBUILD}"),
        ({}, ProtocolError, f"it answered 'clocks' with neither ok nor error; {REBUILD}"),
    ],
)
def test_what_is_not_ok_is_an_error(
    played: Played, reported: dict[str, Any], error: type[Exception], words: str
) -> None:
    played.say(line({"id": 1, **reported}))
    agent = session()
    with pytest.raises(error) as raised:
        agent.call("clocks")
    assert str(raised.value) == words
    assert agent.busy is False, "it has answered"
    if isinstance(raised.value, AgentError):
        assert raised.value.kind == str(reported["error"]["kind"])


def test_a_thread_looks_now_and_then_whether_the_run_is_interrupted(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No signal comes to it. The main thread waits in one piece."""
    raised: list[str] = []

    def in_thread(seconds: float) -> None:
        try:
            session().call("clocks", seconds)
        except (GuestDied, KeyboardInterrupt) as error:
            raised.append(type(error).__name__)

    def run(seconds: float) -> None:
        played.waits.clear()
        thread = threading.Thread(target=in_thread, args=(seconds,))
        thread.start()
        thread.join()

    run(1.25)
    assert played.waits == [LOOK_SECONDS * 1000, LOOK_SECONDS * 1000, 250]
    run(LOOK_SECONDS)
    assert played.waits == [LOOK_SECONDS * 1000]
    monkeypatch.setattr(interrupts, "_come", [2])
    run(1.25)
    assert played.waits == [LOOK_SECONDS * 1000]
    assert raised == ["GuestDied", "GuestDied", "KeyboardInterrupt"]


def test_others_go_on_while_it_waits_where_it_says_so(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both for an answer and for room; not where several threads ask the same agent."""
    given: list[str] = []

    @contextmanager
    def given_up() -> Iterator[None]:
        given.append("away")
        yield
        given.append("back")

    monkeypatch.setattr("virtoll.agent.turns.given_up", given_up)
    played.on_wait = lambda: given.append("waits")
    played.say(answer(1))
    session().call("clocks")
    assert given == ["waits"]
    played.say(answer(1))
    session(gives_turn=True).call("clocks")
    assert given[1:] == ["away", "back", "away", "waits", "back"]


def test_what_is_asked_and_awaited_is_logged(
    played: Played, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("VIRTOLL_VERBOSE", "1")
    with caplog.at_level(logging.DEBUG, "virtoll"):
        played.say(line(READY), answer(1, protocol=3))
        session().wait_ready(2.5)
    assert caplog.messages == ["wait at most 2.5 s: it is ready", "ask it, at most 2.5 s: hello"]


@pytest.mark.parametrize("reading", range(22))
def test_a_pause_between_two_clocks_is_no_step(monkeypatch: pytest.MonkeyPatch, reading: int) -> None:
    """A reading takes 1 us; before one of them the controller is off its CPU for 5 ms."""
    taken = itertools.count()

    def elapsed_ns() -> int:
        done = next(taken)
        return 1_000 * done + (5_000_000 if done >= reading else 0)

    monkeypatch.setattr("virtoll.agent.client.time.monotonic_ns", elapsed_ns)
    monkeypatch.setattr("virtoll.agent.client.time.time_ns", lambda: 100_000_000 + elapsed_ns())
    realtime, monotonic = client._now()
    assert (realtime, monotonic) == (100_000_000 + monotonic, 5_000_000 if reading == 0 else 0)


def test_of_seven_readings_of_both_clocks_the_tightest_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third try takes 3 ns and is told to the nanosecond; the others take longer and say more or less."""
    lengths, besides = [51, 41, 3, 61, 31, 21, 11], [7, 5000, 0, 8, 9, -10, -11]
    since, ahead = 3_600_000_000_000, 1_790_000_000_123_456_789
    monotonic: list[int] = []
    realtime: list[int] = []
    for number, (length, beside) in enumerate(zip(lengths, besides, strict=True)):
        began = since + 1000 * number
        monotonic += [began, began + length]
        realtime.append(began + length // 2 + ahead + beside)
    readings, times = iter(monotonic), iter(realtime)
    monkeypatch.setattr("virtoll.agent.client.time.monotonic_ns", lambda: next(readings))
    monkeypatch.setattr("virtoll.agent.client.time.time_ns", lambda: next(times))
    assert client._realtime_minus_monotonic_ns() == ahead
    assert (list(readings), list(times)) == ([], [])


class Model(AgentModel):
    """It shuts down, and has nothing else."""

    def __init__(self) -> None:
        self.channel_marks = deque()
        self.ended = False

    def answer(self, request: Request[Message]) -> Message:
        if isinstance(request, ShutdownRequest):
            return Done()
        return HelloReply(protocol=3)


def test_a_models_answer_is_checked_as_a_real_agents() -> None:
    model = Model()
    assert model.ask(ShutdownRequest()) == Done()
    with pytest.raises(ProtocolError, match=r"^a model answered 'clocks' wrongly: realtime_ns is missing"):
        model.ask(ClocksRequest(), 1.0)
    assert not model.ended
    model.close()
    assert model.ended


def test_who_generates_and_who_counts() -> None:
    one, other, third, fourth = (Model() for _ in range(4))
    alone = TrafficAgents.of_one(one)
    assert (alone.agents, alone.generators, alone.sinks) == ((one,), (one,), (one,))
    assert [alone.at(role) for role in ("source", "sink", "router")] == [one] * 3
    two = TrafficAgents(one, other)
    assert (two.agents, two.generators, two.sinks) == ((one, other), (one,), (other,))
    assert [two.at(role, 5) for role in ("source", "sink", "router")] == [one, other, one]
    callers: tuple[Caller, ...] = (one, third, one, third)
    many = TrafficAgents(one, other, callers, (other, fourth, other))
    assert many.agents == (one, third, other, fourth)
    assert (many.generators, many.sinks) == ((one, third), (other, fourth))
    assert [many.at("source", place) for place in range(4)] == list(callers)
    assert [many.at("sink", place) for place in range(3)] == [other, fourth, other]
    assert (many.at("source"), many.at("sink"), many.at("router", 1)) == (one, other, one)
    shared = TrafficAgents(one, one, (one, third), ())
    assert shared.agents == (one, third)
