"""Network namespaces of a test's own, each held by a process in it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator


@contextlib.contextmanager
def network_namespace() -> Iterator[int]:
    """The process that holds a new one; it ends, and the namespace with it, when the block does."""
    with subprocess.Popen(
        ["unshare", "--net", "--", "sh", "-c", "echo there; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        try:
            yield process.pid
        finally:
            process.kill()
