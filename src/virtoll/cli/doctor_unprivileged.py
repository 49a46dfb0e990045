"""What works here for an ordinary user, found out by being one: ``virtoll doctor`` again, as nobody.

``asked`` starts it beside root's own, ``answer`` reads what it said. Root's image cache is only read; nothing is made
that outlives the process, which the kernel ends with this one.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from virtoll.image import default_cache

_NOBODY = 65534
_KEPT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL")
_DEADLINE_SECONDS = 400.0


def is_host_root() -> bool:
    """Whether this process is the host's own root: only it can become somebody else."""
    whole = Path("/proc/self/uid_map").read_text(encoding="ascii").split() == ["0", "0", "4294967295"]
    return whole and os.geteuid() == 0


@contextlib.contextmanager
def asked() -> Iterator[int | None]:
    """A file descriptor from which ``answer`` can be read, while it lasts; None where this is no root."""
    if not is_host_root():
        yield None
        return
    with subprocess.Popen(
        command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/"
    ) as process:
        try:
            yield process.stdout.fileno() if process.stdout else None
        finally:
            process.kill()


def command(user: int = _NOBODY) -> list[str]:
    """``virtoll doctor --json`` as this user, with no rights, no groups and no home."""
    kept = [f"{key}={value}" for key in _KEPT if (value := os.environ.get(key)) is not None]
    cache = f"VIRTOLL_CACHE={default_cache().home}"
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--pdeathsig", "KILL", "--"]
    clean = ["env", "--ignore-environment", *kept, cache, "HOME=/nonexistent", "NO_COLOR=1"]
    return [*become, *clean, sys.executable, "-m", "virtoll", "doctor", "--json"]


def answer(descriptor: int) -> dict[str, str] | str:
    """For each platform ``yes`` or ``no: REASON``; a sentence where an ordinary user could not even ask."""
    said, deadline = b"", time.monotonic() + _DEADLINE_SECONDS
    while True:
        readable, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            return f"it did not answer within {_DEADLINE_SECONDS:g} s"
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            return parse(said.decode(errors="replace"))
        said += chunk


def parse(said: str) -> dict[str, str] | str:
    """As ``answer``, from all that was said."""
    with contextlib.suppress(ValueError):
        document: dict[str, Any] = json.loads(said[said.index("{") :])
        rows = document["platforms"]
        if rows:
            return {row["platform"]: row["without_root"] for row in rows}
        bad = [check["remedy"] for check in document["host"] if not check["good"]]
        return "; ".join(bad) or "it found no platform to try"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "it could not be started"
