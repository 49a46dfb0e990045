"""Lines of the agent's channel: what one holds, and how bytes are written to who may not read them.

Main functions: ``read_object``, ``told`` and ``await_room``. Who is at the other end may be hostile. Nothing here keeps
what it is given, and every wait ends.
"""

from __future__ import annotations

import json
import math
import os
import select
import time
from typing import Any

from virtoll.agent import turns
from virtoll.lab import interrupts

PORTION_BYTES = select.PIPE_BUF
"""What a channel with room takes at once: more could block."""
_DEEPEST = 32
_TOLD_CHARACTERS = 400


def _no_number(word: str) -> object:
    raise ValueError(word)


# NaN and Infinity are no JSON (RFC 8259), although Python reads them.
_DECODER = json.JSONDecoder(parse_constant=_no_number)


def read_object(line: bytes) -> dict[str, Any] | None:
    """The JSON object that a line is; None for anything else, and for what could not be written or shown again.

    That is one that is nested deeper than any message, and one with halves of surrogate pairs.
    """
    try:
        message = _DECODER.decode(line.decode())
        if isinstance(message, dict) and not _is_deep(message):
            if b"\\u" in line:
                json.dumps(message, ensure_ascii=False).encode()
            return message
    except (ValueError, RecursionError):
        pass
    return None


def _is_deep(message: dict[str, Any]) -> bool:
    level: list[Any] = [message]
    for _ in range(_DEEPEST):
        parts: list[Any] = []
        for node in level:
            parts += node.values() if isinstance(node, dict) else node
        level = [part for part in parts if isinstance(part, dict | list)]
        if not level:
            return False
    return True


def told(text: object) -> str:
    """What an agent says, for a sentence: one line that a terminal can show, no longer than a sentence may be."""
    shown = "".join(letter if letter.isprintable() else " " for letter in str(text)[: 2 * _TOLD_CHARACTERS])
    return shown if len(shown) <= _TOLD_CHARACTERS else f"{shown[:_TOLD_CHARACTERS]}..."


def await_room(descriptor: int, seconds: float) -> bool:
    """Wait until a channel takes ``PORTION_BYTES``, or some of them, without blocking; False where it never does."""
    if os.isatty(descriptor):
        os.set_blocking(descriptor, False)  # its room may be smaller than a portion
    room = select.poll()
    room.register(descriptor, select.POLLOUT)
    deadline = time.monotonic() + seconds
    while (remaining := deadline - time.monotonic()) > 0:
        if room.poll(math.ceil(min(remaining, turns.LOOK_SECONDS) * 1000)):
            return True
        interrupts.check()
    return False
