"""A program that stands where the agent should and misbehaves as it is reported; standard library only.

``stub_agent.py BEHAVIOUR``: a test's way to see how the client takes what a real agent never does.
"""

from __future__ import annotations

import json
import sys
from typing import Any

READY = {"event": "ready", "protocol": 3, "version": "0.1.0", "build": "stub", "role": "guest", "pid": 1}


def say(message: dict[str, Any]) -> None:
    """One protocol line."""
    say_raw(json.dumps(message).encode() + b"\n")


def say_raw(data: bytes) -> None:
    """Bytes as they are."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def hear() -> dict[str, Any]:
    """The next request; empty lines, which wake a channel, are none."""
    while not (line := hear_line()).strip():
        continue
    request: dict[str, Any] = json.loads(line)
    return request


def hear_line() -> bytes:
    """The next line; the program ends when there is none."""
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    return line


def serve() -> dict[str, Any]:
    """Say ready, agree, and hand out the first request after that."""
    say(READY)
    say({"id": hear()["id"], "ok": {"protocol": 3}})
    return hear()


def main(behaviour: str) -> None:
    """Misbehave."""
    if behaviour == "other-protocol":
        say({**READY, "protocol": 4, "version": "9.9.9"})
    elif behaviour == "refuses-hello":
        say(READY)
        number = hear()["id"]
        text = "the agent speaks protocol 1, the controller protocol 1; rebuild"
        say({"id": number, "error": {"kind": "protocol-mismatch", "message": text}})
    elif behaviour == "noisy":
        say_raw(b"[    0.000000] Linux version 6.1\r\n\x1b[0m\xff\xfe\n\n{not json}\nprompt# ")
        say(READY)
        say_raw(b'{"neither": "event nor id"}\n12345\n"text"\n')
        say({"id": hear()["id"], "ok": {"protocol": 3}})
        number = hear()["id"]
        say_raw(b"[    1.5] a line between request and answer\n[    1.6] and a torn one: ")
        say({"id": number, "ok": {"monotonic_ns": 7}})
    elif behaviour != "never":
        answer(behaviour, serve()["id"])
    while True:
        hear()


def answer(behaviour: str, number: int) -> None:
    """To the first request after all was agreed on."""
    if behaviour == "late-answer":
        following = hear()
        say({"id": number, "ok": {"which": "late"}})
        say({"id": following["id"], "ok": {"which": "right"}})
    elif behaviour in ("asleep", "fast asleep"):
        for _ in range(1 if behaviour == "asleep" else 30):
            while hear_line() != b"\n":
                pass
        say({"id": number, "ok": {"woken": True}})
    elif behaviour == "dies":
        sys.exit(3)
    elif behaviour == "long-line":
        for _ in range(9):
            say_raw(b"x" * 2**20)
    elif behaviour == "neither":
        say({"id": number})
    elif behaviour != "silent":
        raise ValueError(behaviour)


if __name__ == "__main__":
    main(sys.argv[1])
