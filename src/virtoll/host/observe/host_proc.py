"""The host's own /proc inside a lab: handed in as an open folder, since the lab's own shows its own processes alone.

It is read, and nothing is started or ended by it. What the lab starts gets no share of it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HOST_PROC_VARIABLE: Final = "VIRTOLL_HOST_PROC"


@contextlib.contextmanager
def handed_in() -> Iterator[tuple[dict[str, str], tuple[int, ...]]]:
    """Outside: the variable and the descriptor that a lab is to be started with."""
    descriptor = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield {HOST_PROC_VARIABLE: str(descriptor)}, (descriptor,)
    finally:
        os.close(descriptor)


def host_proc() -> Path | None:
    """Inside: where the host's /proc is; None where the lab was not given it."""
    descriptor = os.environ.get(HOST_PROC_VARIABLE)
    if descriptor is None:
        return None
    os.set_inheritable(int(descriptor), False)
    return Path(f"/proc/{os.getpid()}/fd/{descriptor}")


def host_pid(proc: Path, pid: int) -> int | None:
    """The number by which the host knows a process of this namespace; None where it has ended.

    A pidfd's entry in ``fdinfo`` has the number that the mounted /proc counts by (``pidfd_show_fdinfo``, Linux 5.4).
    """
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    try:
        text = (proc / "self/fdinfo" / str(descriptor)).read_text(encoding="ascii")
    except OSError:
        return None
    finally:
        os.close(descriptor)
    number = next((line.split()[1] for line in text.splitlines() if line.startswith("Pid:")), "-1")
    return int(number) if int(number) > 0 else None
