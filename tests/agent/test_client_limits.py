"""The client where the test plays channel and clock: who is slow, sends too much, or takes nothing is given up."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable
from contextlib import nullcontext

import pytest
from tests.support.facts import Command, refused
from tests.support.played_channel import READY, WRITER, Played, answer, line, session

from virtoll.agent import client
from virtoll.agent.client import AgentClient
from virtoll.agent.lines import PORTION_BYTES
from virtoll.agent.request import REBUILD
from virtoll.errors import GuestDied, GuestNotReady, ProtocolError


@pytest.mark.parametrize(
    ("message", "noun"),
    [
        ({"event": "mark", "edge": "start"}, "marks"),
        ({"event": "terminal", "data": ""}, "terminal"),
        ({"event": "terminal-exit", "status": 0, "signal": None}, "terminal"),
    ],
)
def test_who_sends_more_events_than_anybody_takes_is_given_up(
    played: Played, message: dict[str, object], noun: str
) -> None:
    played.say(*[line(message) * 1000] * 10, answer(1))
    agent = session()
    assert agent.call("clocks") == {}
    before = agent.ended
    played.say(line(message))
    with refused("it", 10_000, noun, error=GuestDied):
        agent.pump(1)
    assert (before, agent.ended) == (False, True)
    assert len(agent.channel_marks) + len(agent.terminal_events) == 10_000


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
    with refused("it", f"{seconds} s", error=GuestDied):
        session(window_bytes=1, patience=patience).post("abc")
    assert played.passed == seconds
    assert [data for _, data in played.heard] == [b"{"]


def test_no_more_answers_are_kept_than_anybody_takes(played: Played) -> None:
    played.say(*[answer(5) * 1000] * 10, answer(6))
    agent = session(window_bytes=10)
    with refused("it", "10000 answers", error=GuestDied):
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
    with refused("5 s", error=GuestDied):
        session().call("clocks", 5.0)
    assert played.waits == [5000, 15_000]
    played.say(b"no message, without an end", after=30)
    with refused("12 s", error=GuestDied):
        session().call("clocks", 12.0)
    assert played.passed == 31, "what is no message is not awaited"


@pytest.mark.parametrize(("patience", "most"), [(1.0, 905), (2.0, 1810)])
def test_who_goes_on_for_ever_with_one_answer_is_given_up(played: Played, patience: float, most: float) -> None:
    """A byte each ten seconds: after a quarter of an hour it is over."""
    played.say(b'{"id":1,"ok":{"letters":"')
    for moment in range(10, 5000, 10):
        played.say(b"x", after=moment)
    with refused(f"{5 * patience:g} s", error=GuestDied):
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
    with refused("it", f"{len(whole) - 1} bytes", Command(REBUILD), error=ProtocolError):
        session().call("clocks")


def test_who_sends_too_much_while_one_answer_is_awaited_is_given_up(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mebibyte is the limit here, of each call, of each event that is awaited, and of a guest's start."""
    monkeypatch.setattr(client, "_MOST_MIB", 1)  # private: the 64 MiB that it is take seconds
    part = b"x" * (2**18 - 1) + b"\n"
    agent = session()

    def fill(last: bytes) -> None:
        """Just so much, of which the message is the last line."""
        played.say(*[part] * 3, part[len(last) + 1 :] + b"\n" + last)

    fill(line(READY))
    played.on_line = lambda _: fill(answer(1, protocol=3))
    agent.wait_ready(1.0)
    played.on_line = lambda _: None
    fill(line({"event": "mark", "edge": "start"}))
    assert agent.pump(1.0)
    fill(answer(2, n=2))
    assert agent.call("clocks") == {"n": 2}
    played.say(*[part] * 4, b"\n" + answer(3))
    with refused("it", "1 MiB", error=GuestDied):
        agent.call("clocks")
    assert agent.ended


@pytest.mark.parametrize("end", [b"", OSError(errno.EIO, "broken")])
def test_a_channel_that_ends_is_the_end_of_its_guest(played: Played, end: bytes | OSError) -> None:
    played.reads.append(end)
    agent = session()
    with refused("it", error=GuestDied):
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
    with refused("it", "60 s", error=GuestDied):
        session().post("x")
    assert played.heard == []
    played.has_room = True
    played.writes.append(OSError(errno.EPIPE, "Broken pipe"))
    agent = session()
    with refused("it", "Broken pipe", error=GuestDied):
        agent.post("x")
    assert agent.ended
