"""One thread at a time: where several guests are started or measured at once, each by a thread of its own.

Hardly anything here is made for threads. So each of them works only while it has the turn (``taken``), and gives it up
where it waits for its guest (``given_up``). Then the threads do nothing at the same time but wait. A thread that has no
turn, as everywhere else, waits as ever.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

LOOK_SECONDS = 0.5
"""How long a thread waits at most before it looks whether the run is interrupted: no signal comes to it."""


@dataclass
class _Turn:
    lock: threading.Lock = field(default_factory=threading.Lock)
    holder: int | None = None


_TURN = _Turn()


@contextlib.contextmanager
def taken() -> Iterator[None]:
    """This thread has the turn within the context, as soon as it is free."""
    with _TURN.lock:
        _TURN.holder = threading.get_ident()
        try:
            yield
        finally:
            _TURN.holder = None


@contextlib.contextmanager
def given_up() -> Iterator[None]:
    """Others may have the turn within the context; for a thread that has none, nothing changes."""
    if _TURN.holder != threading.get_ident():
        yield
        return
    _TURN.holder = None
    _TURN.lock.release()
    try:
        yield
    finally:
        _TURN.lock.acquire()
        _TURN.holder = threading.get_ident()


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """This thread keeps the turn within the context also while it waits: for what guests can only use one by one."""
    if _TURN.holder != threading.get_ident():
        yield
        return
    _TURN.holder = None
    try:
        yield
    finally:
        _TURN.holder = threading.get_ident()
