"""Whether somebody stopped processes (SIGSTOP) while they were measured: their work then took longer than it does.

The kernel tells only a process's parent of it, so a thread looks at their states. It looks first after half a second,
as most trials are over by then, and reads a few short files of /proc. Who stands still at two looks in a row has been
stopped; a stop of a second is always seen. Must not: look at a process that is traced, which stands still as it works.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from virtoll.lab.interrupts import SIGNALS

_LOOK_SECONDS = 0.5
_PROC = Path("/proc")


@contextlib.contextmanager
def watched(pids: Iterable[int]) -> Iterator[set[int]]:
    """Gives those of these processes that were found stopped so far; whole at the end of the context."""
    stopped: set[int] = set()
    over = threading.Event()
    chosen = tuple(dict.fromkeys(pids))

    def look() -> None:
        before: set[int] = set()
        while not over.wait(_LOOK_SECONDS):
            now = {pid for pid in chosen if is_stopped(pid)}
            stopped.update(now & before)
            before = now

    thread = threading.Thread(target=look, daemon=True)
    # A signal that the kernel gave to this thread would not interrupt the main one, which waits for the guest.
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
    try:
        yield stopped
    finally:
        over.set()
        thread.join()


def is_stopped(pid: int, proc: Path = _PROC) -> bool:
    """Whether a signal has stopped a process that nobody traces; False where it is gone."""
    try:
        text = (proc / str(pid) / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "\nState:\tT (stopped)" in text and "\nTracerPid:\t0\n" in text
