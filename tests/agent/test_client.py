"""The client where the test plays channel and clock: requests and answers, events, and the clocks that stamp them."""

from __future__ import annotations

import itertools
import logging
import signal
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.facts import Command, assert_facts, refused
from tests.support.played_channel import AHEAD_NS, READER, READY, WRITER, Played, answer, line, session

from virtoll.agent import client
from virtoll.agent.client import PROTOCOL, AgentModel, Caller, ChannelMark, TrafficAgents
from virtoll.agent.operations.session import (
    ClocksReply,
    ClocksRequest,
    Done,
    HelloReply,
    ShutdownRequest,
    TerminalExit,
    TerminalOutput,
)
from virtoll.agent.request import REBUILD, Request
from virtoll.agent.turns import LOOK_SECONDS
from virtoll.errors import AgentError, GuestDied, GuestNotReady, ProtocolError
from virtoll.lab import interrupts
from virtoll.runfolder.record import Record


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
    with refused("it", "'clocks'", "realtime_ns", "int", "str", error=ProtocolError):
        agent.ask(ClocksRequest())
    with refused("it", "'clocks'", "7 s", error=GuestDied):
        agent.ask(ClocksRequest(), 7.0)
    assert played.waits == [60_000, 60_000, 7000]
    assert played.requests[0] == {"id": 1, "op": "clocks"}
    with refused("60 s", error=GuestDied):
        agent.ask(ClocksRequest())


@pytest.mark.parametrize(("patience", "seconds"), [(1.0, 60), (2.5, 150)])
def test_an_answer_is_awaited_for_its_time_and_no_longer(played: Played, patience: float, seconds: float) -> None:
    agent = session(patience=patience)
    with refused("it", "'clocks'", f"{seconds} s", error=GuestDied):
        agent.call("clocks")
    assert (played.passed, agent.busy, agent.ended) == (seconds, True, False)
    assert played.waits == [seconds * 1000]


def test_waits_are_of_whole_milliseconds_and_never_too_short(played: Played) -> None:
    with refused("0.0012 s", error=GuestDied):
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
    with refused("it", "'clocks'", "10 s", error=GuestDied):
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
    assert played.requests == [{"id": 1, "op": "hello", "protocol": PROTOCOL}]
    assert played.waits == [10_000, 9000, 9000, 6000]
    assert [mark.edge for mark in agent.channel_marks] == ["end"]


@pytest.mark.parametrize(("ready", "remaining"), [(4.0, 6), (9.5, 1), (10.0, 1)])
def test_a_reply_to_the_greeting_has_what_remains(played: Played, ready: float, remaining: float) -> None:
    agent = session()
    played.say(line(READY), after=ready)
    with refused("it", "'hello'", f"{remaining} s", error=GuestDied):
        agent.wait_ready(10.0)
    assert agent.ready is None


def test_who_is_not_ready_in_time(played: Played) -> None:
    with refused("it", "2.5 s", error=GuestNotReady):
        session().wait_ready(2.5)
    assert played.waits == [2500]
    assert played.heard == []


@pytest.mark.parametrize(
    ("theirs", "words"), [(PROTOCOL + 1, f"{PROTOCOL + 1}"), (None, "None"), (f"{PROTOCOL}", f"{PROTOCOL}")]
)
def test_another_protocol_is_refused(played: Played, theirs: object, words: str) -> None:
    played.say(line({"event": "ready", "protocol": theirs}))
    with refused("it", f"protocol {words}", PROTOCOL, Command(REBUILD), error=ProtocolError):
        session().wait_ready(1.0)


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
    with refused("it", "terminal", "data", "bytes", "int", error=ProtocolError):
        agent.pump(1)
    with refused("it", "terminal", "signal", error=ProtocolError):
        agent.pump(1)


@pytest.mark.parametrize(
    ("reported", "error", "facts"),
    [
        ({"error": {"kind": "busy", "message": "not now"}}, AgentError, ("'clocks'", "not now")),
        ({"ok": [], "error": {"kind": 7, "message": None}}, AgentError, ("'clocks'", "None")),
        ({"error": {"kind": "protocol-mismatch", "message": "other"}}, ProtocolError, ("other",)),
        ({"ok": None}, ProtocolError, ("'clocks'", Command(REBUILD))),
        ({"error": "no"}, ProtocolError, ("'clocks'", Command(REBUILD))),
        ({}, ProtocolError, ("'clocks'", Command(REBUILD))),
    ],
)
def test_what_is_not_ok_is_an_error(
    played: Played, reported: dict[str, Any], error: type[Exception], facts: tuple[str, ...]
) -> None:
    played.say(line({"id": 1, **reported}))
    agent = session()
    with refused("it", *facts, error=error) as raised:
        agent.call("clocks")
    assert agent.busy is False, "it has answered"
    if isinstance(raised.value, AgentError):
        assert raised.value.kind == str(reported["error"]["kind"])


def test_what_is_no_message_is_the_consoles(played: Played) -> None:
    """Its last bytes are kept. A message may follow text on its line."""
    agent = session()
    played.say(b"\n\nprompt# " + answer(1, n=1) + b'{"neither": 1}\n{broken\n\xff\n' + answer(2, n=2))
    assert agent.call("clocks") == {"n": 1}
    assert agent.call("clocks") == {"n": 2}
    assert agent.console == b'\n\n{"neither": 1}\n{broken\n\xff\n'
    most = 64 * 1024
    played.say(b"x" * (most - 3) + b"\n" + answer(3))
    agent.call("clocks")
    assert agent.console == b"\xff\n"[-2:] + b"x" * (most - 3) + b"\n"


def test_a_thread_looks_now_and_then_whether_the_run_is_interrupted(played: Played) -> None:
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
    with interrupts.interruptible():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
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
    ready, hello = caplog.messages
    assert_facts(ready, "2.5 s", "it")
    assert_facts(hello, "2.5 s", "it", "hello")


def stamped(played: Played) -> tuple[int, int]:
    """When something came, by both clocks of the host."""
    played.say(line({"event": "mark", "edge": "start"}))
    agent = session()
    agent.pump(1.0)
    return agent.arrived


@pytest.mark.parametrize("reading", range(22))
def test_a_pause_between_two_clocks_is_no_step(played: Played, reading: int) -> None:
    """A reading takes 1 us; before one of them the controller is off its CPU for 5 ms."""
    taken = itertools.count()

    def elapsed_ns() -> int:
        done = next(taken)
        return 1_000 * done + (5_000_000 if done >= reading else 0)

    played.read_monotonic_ns = elapsed_ns
    played.read_time_ns = lambda: 100_000_000 + elapsed_ns()
    realtime, monotonic = stamped(played)
    assert (realtime, monotonic) == (100_000_000 + monotonic, 5_000_000 if reading == 0 else 0)


def test_of_seven_readings_of_both_clocks_the_tightest_counts(played: Played) -> None:
    """The third try takes 3 ns and counts to the nanosecond; the others take longer and say more or less."""
    lengths, besides = [51, 41, 3, 61, 31, 21, 11], [7, 5000, 0, 8, 9, -10, -11]
    since, ahead = 3_600_000_000_000, 1_790_000_000_123_456_789
    monotonic = [since]
    realtime: list[int] = []
    for number, (length, beside) in enumerate(zip(lengths, besides, strict=True)):
        began = since + 1000 * number
        monotonic += [began, began + length]
        realtime.append(began + length // 2 + ahead + beside)
    readings, times = iter(monotonic), iter(realtime)
    played.read_monotonic_ns = lambda: next(readings)
    played.read_time_ns = lambda: next(times)
    assert stamped(played) == (since + ahead, since)
    assert (list(readings), list(times)) == ([], [])


def test_a_client_is_closed_once(played: Played) -> None:
    agent = session()
    before = agent.ended
    agent.close()
    agent.close()
    assert (before, agent.ended) == (False, True)
    assert sorted(played.closed) == [READER, WRITER]
    with refused("it", "closed", error=GuestDied):
        agent.pump(1)
    client.AgentClient(9, 9, "one end").close()
    assert played.closed[2:] == [9]


class Model(AgentModel):
    """It shuts down, and has nothing else."""

    def __init__(self) -> None:
        self.channel_marks = deque()
        self.ended = False

    def answer(self, request: Request[Record]) -> Record:
        if isinstance(request, ShutdownRequest):
            return Done()
        return HelloReply(protocol=3)


def test_a_models_answer_is_checked_as_a_real_agents() -> None:
    model = Model()
    assert model.ask(ShutdownRequest()) == Done()
    with refused("model", "'clocks'", "protocol", error=ProtocolError):
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
