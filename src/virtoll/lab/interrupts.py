"""The signals that end a run in order, and how code that an exception would leave half done is kept whole.

The command line turns these signals into ``KeyboardInterrupt``, which Python raises wherever the main thread is.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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

    previous = {number: signal.signal(number, remember) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for waiting in pending:
            signal.raise_signal(waiting)
