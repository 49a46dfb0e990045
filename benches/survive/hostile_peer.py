"""An agent that attacks whoever is at the other end of its standard input and output; standard library only.

``hostile_peer.py ATTACK [STEP]``: it says that it is ready, agrees on the protocol, and attacks when it is asked for
more. With ``greeting`` as STEP it attacks at once. An attack is a name of ``ATTACKS``.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

READY = {"event": "ready", "protocol": 4, "version": "0.1.0", "build": "hostile", "role": "guest", "pid": 1}
MOST_BYTES = 10**10
BLOCK_BYTES = 1 << 16


def say_raw(data: bytes) -> None:
    """All of it, however long that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def say(message: object) -> None:
    """One line."""
    say_raw(json.dumps(message).encode() + b"\n")


def hear() -> dict[str, Any]:
    """The next request."""
    while line := sys.stdin.buffer.readline():
        if line.strip():
            request: dict[str, Any] = json.loads(line)
            return request
    sys.exit(0)


def flood(line: bytes) -> None:
    """The same line, 10 GB of it."""
    block = line * (BLOCK_BYTES // len(line) + 1)
    for _ in range(MOST_BYTES // len(block)):
        say_raw(block)


def never_read(_number: int) -> None:
    """Takes nothing more from its channel."""
    while True:
        time.sleep(60)


def half_closed(_number: int) -> None:
    """Closes what it writes to, and goes on reading."""
    os.close(1)
    while True:
        hear()


def drip(number: int) -> None:
    """An answer of which a byte comes ten times a second."""
    for byte in json.dumps({"id": number, "ok": {"x": "y" * 10**6}}).encode():
        say_raw(bytes([byte]))
        time.sleep(0.1)


def nested(number: int) -> None:
    """A bomb, and something that is read and cannot be printed."""
    for depth in (10**6, 950):
        say_raw(b'{"id":%d,"ok":{"x":%s%s}}\n' % (number, b"[" * depth, b"]" * depth))


def twice(number: int) -> None:
    """The answer, and others to the same request."""
    for clock in (7, 8, "nine"):
        say({"id": number, "ok": {"monotonic_ns": clock}})


def wrong_ids(number: int) -> None:
    """Answers to requests that there are not."""
    for other in (number + 1, -number, 0, 2**63, 1.5, None, str(number), [number], {"id": number}):
        say({"id": other, "ok": {"monotonic_ns": 1}})


ATTACKS: dict[str, Callable[[int], None]] = {
    "events without end": lambda _: flood(b'{"event":"mark","edge":"start"}\n'),
    "terminal without end": lambda _: flood(b'{"event":"terminal","data":"eHh4","stream":"stdout"}\n'),
    "unknown events without end": lambda _: flood(b'{"event":"party"}\n'),
    "console without end": lambda _: flood(b"something that nobody reads\n"),
    "answers without end": lambda _: flood(b'{"id":99999,"ok":{}}\n'),
    "acknowledgements that are no numbers": lambda _: say({"event": "taken", "bytes": {"x": "many"}}),
    "a line without end": lambda _: flood(b'{"id":1,"ok":{"x":"'),
    "a console line without end": lambda _: flood(b"x"),
    "empty lines without end": lambda _: flood(b"\n"),
    "never reads": never_read,
    "half closed": half_closed,
    "an answer in drops": drip,
    "bad UTF-8": lambda number: say_raw(b'{"id":%d,"ok":{"x":"\xff\xfe"}}\n' % number),
    "NULs": lambda number: say_raw(b'\0{"id":%d,\0"ok":{}}\0\n' % number + b"\0" * 10**6 + b"\n"),
    "nested": nested,
    "a number of 4000 digits": lambda number: say_raw(b'{"id":%d,"ok":{"monotonic_ns":%s}}\n' % (number, b"9" * 4000)),
    "a number of a million digits": lambda number: say_raw(b'{"id":%d,"ok":{"x":%s}}\n' % (number, b"9" * 10**6)),
    "NaN": lambda number: say_raw(b'{"id":%d,"ok":{"monotonic_ns":NaN}}\n' % number),
    "1e999": lambda number: say_raw(b'{"id":%d,"ok":{"monotonic_ns":1e999}}\n' % number),
    "wrong ids": wrong_ids,
    "answers twice": twice,
    "neither": lambda number: say({"id": number}),
    "ok is a list": lambda number: say({"id": number, "ok": [1]}),
    "an error of 7 MB": lambda number: say({"id": number, "error": {"kind": "x", "message": "y" * 7_000_000}}),
    "escapes in an error": lambda number: say(
        {"id": number, "error": {"kind": "\x1b[2J", "message": "\x1b]0;mine\x07 a\nb\u202e\u2028"}}
    ),
    "half a surrogate pair": lambda number: say_raw(b'{"id":%d,"error":{"kind":"\\ud800"}}\n' % number),
    "an object as a message": lambda number: say({"id": number, "error": {"kind": [], "message": {"a": 1}}}),
    "leaves": lambda _: sys.exit(3),
}


def main(attack: str, step: str = "") -> None:
    """Attack."""
    with contextlib.suppress(BrokenPipeError, OSError):
        if step != "greeting":
            say(READY)
            say({"id": hear()["id"], "ok": {"protocol": 4}})
            number = 0 if attack == "never reads" else hear()["id"]
        else:
            number = 1
        ATTACKS[attack](number)
        while True:
            hear()


if __name__ == "__main__":
    main(*sys.argv[1:])
