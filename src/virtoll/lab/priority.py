"""The CPU's preference for a guest while it boots, taken back before anything is measured.

A machine's kernel compares its timers with each other as it boots, by clocks that go on while the emulator waits for a
CPU. On a busy host it then finds that "IO-APIC + timer doesn't work!" and panics, or waits for an interrupt for ever.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

HIGHEST = -20


@contextlib.contextmanager
def preferred(pids: Sequence[int], niceness: int = HIGHEST) -> Iterator[None]:
    """All threads of these processes, and those that they start, come first for the length of the context.

    Then they have this process's own priority. As an ordinary user, who may not raise a priority, it does nothing.
    """
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        _set(pids, niceness)
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        _set(pids, priority)


def _set(pids: Sequence[int], niceness: int) -> None:
    """Look again until no thread is otherwise: one that was not reached yet may have started another."""
    unset = True
    while unset:
        unset = False
        for thread in _threads(pids):
            with contextlib.suppress(ProcessLookupError):
                if os.getpriority(os.PRIO_PROCESS, thread) != niceness:
                    os.setpriority(os.PRIO_PROCESS, thread, niceness)
                    unset = True


def _threads(pids: Sequence[int]) -> Iterator[int]:
    for pid in pids:
        with contextlib.suppress(OSError):
            yield from [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
