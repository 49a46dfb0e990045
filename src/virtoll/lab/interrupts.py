"""The signals that end a run in order, and how code that an exception would leave half done is kept whole.

``interruptible`` turns these signals into ``KeyboardInterrupt``, which Python raises wherever the main thread is. There
it can be lost: Python only prints what is raised in a finalizer, and an error of the clearing up takes its place. Who
goes on after an error calls ``check`` first.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_come: list[int] = []


@contextmanager
def handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """``handler`` is called for each of these signals that comes inside; afterwards they are handled as before."""
    previous = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP end what runs inside in order, as Ctrl-C does.

    A second signal does not disturb the first one's clearing up.
    """

    def interrupt(number: int, _frame: FrameType | None) -> None:
        disregard()
        _come.append(number)
        raise KeyboardInterrupt

    try:
        with handled_by(interrupt):
            yield
    finally:
        _come.clear()


def disregard() -> None:
    """Signals that come from now on change nothing: what they ask for is under way."""
    for number in SIGNALS:
        # Not SIG_IGN: of one that has come already Python would print that it was lost.
        signal.signal(number, lambda _number, _frame: None)


def check() -> None:
    """Raise ``KeyboardInterrupt`` once more where one has come and was lost."""
    if _come:
        raise KeyboardInterrupt


@contextmanager
def deferred() -> Iterator[None]:
    """What runs inside is not interrupted: a signal that comes meanwhile is handled at its end.

    For short work only, such as one request to the kernel. Python handles signals in the main thread; in another one
    there is nothing to defer.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        pending.append(number)

    try:
        with handled_by(remember):
            yield
    finally:
        for waiting in pending:
            signal.raise_signal(waiting)
