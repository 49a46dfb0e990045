"""Lines of the agent's channel: what one holds, whoever wrote it, and how long a write may wait."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import socket
import time

import pytest

from virtoll.agent.lines import PORTION_BYTES, await_room, read_object, told


@pytest.mark.parametrize(
    ("line", "held"),
    [
        (b'{"op": "hello", "n": 1.5}', {"op": "hello", "n": 1.5}),
        (b'{"word": "\\u00e9\\ud83d\\ude00"}', {"word": "é😀"}),
        ('{"word": "é"}'.encode(), {"word": "é"}),
        (b"{}", {}),
    ],
)
def test_a_line_is_the_object_that_it_holds(line: bytes, held: dict[str, object]) -> None:
    assert read_object(line) == held


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"7",
        b'"text"',
        b"null",
        b'{"open": ',
        b'{"bad": "\xff"}',
        b'{"number": NaN}',
        b'{"number": -Infinity}',
        b'{"half": "\\ud83d"}',
        b'{"\\ud83d": 1}',
        b'{"twice": 1} {}',
    ],
)
def test_anything_else_is_nothing(line: bytes) -> None:
    assert read_object(line) is None


def test_what_is_deeper_than_any_stack_is_nothing_either() -> None:
    assert read_object(b"[" * 100_000) is None
    assert read_object(b'{"a":' * 100_000) is None


@pytest.mark.parametrize("open_and_close", ["[]", "{}"])
def test_no_message_is_nested_deeper_than_32(open_and_close: str) -> None:
    """The object itself and 31 more are taken, one more is not."""

    def nested(levels: int) -> bytes:
        held: object = 1
        for _ in range(levels - 1):
            held = [held] if open_and_close == "[]" else {"in": held}
        return json.dumps({"shallow": [1, {}], "deep": held, "after": 1}).encode()

    assert read_object(nested(32)) is not None
    assert read_object(nested(33)) is None


def test_what_an_agent_says_is_one_short_line() -> None:
    assert told("plain words") == "plain words"
    assert told(17) == "17"
    assert told("two\nlines\x1b[31m and \u202e") == "two lines [31m and  "
    assert told("a" * 400) == "a" * 400
    assert told("a" * 401) == "a" * 400 + "..."
    assert told("é" * 10_000) == "é" * 400 + "..."


def filled() -> tuple[int, int]:
    """Both ends of a pipe that has no room."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, bytes(PORTION_BYTES))
    except BlockingIOError:
        os.set_blocking(writer, True)
    return reader, writer


def test_a_channel_with_room_is_written_at_once() -> None:
    reader, writer = os.pipe()
    assert await_room(writer, 60.0) is True
    assert os.get_blocking(writer), "a pipe takes a whole portion: it may block"
    os.close(reader)
    os.close(writer)


def test_a_channel_that_nobody_reads_has_no_room_and_the_wait_ends() -> None:
    reader, writer = filled()
    begun = time.monotonic()
    assert await_room(writer, 0.01) is False
    assert time.monotonic() - begun >= 0.01
    assert await_room(writer, 0.0) is False
    os.read(reader, 2 * PORTION_BYTES)
    assert await_room(writer, 60.0) is True
    os.close(reader)
    os.close(writer)


def test_what_the_other_end_sends_is_no_room() -> None:
    """A guest that writes and never reads: its socket is ready to be read, and takes nothing."""
    own, guest = socket.socketpair()
    own.setblocking(False)
    with own, guest:
        with contextlib.suppress(BlockingIOError):
            while True:
                own.send(bytes(PORTION_BYTES))
        own.setblocking(True)
        guest.send(b"{}")
        assert await_room(own.fileno(), 0.01) is False


def test_a_terminal_is_never_waited_for_in_a_write() -> None:
    """Its room may be smaller than a portion: it takes what it can."""
    leader, follower = pty.openpty()
    assert await_room(follower, 60.0) is True
    assert not os.get_blocking(follower)
    os.close(leader)
    os.close(follower)


def test_a_portion_is_what_a_pipe_takes_at_once() -> None:
    assert PORTION_BYTES == select.PIPE_BUF
