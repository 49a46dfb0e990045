"""``virtoll new`` on a terminal, on which a person has typed ahead."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
from pathlib import Path

from tests.support.commands import DEADLINE_SECONDS, VIRTOLL, environment


def answered(typed: str, folder: Path, *words: str) -> tuple[int, str]:
    """The exit code of ``virtoll new`` on a terminal in a folder, and all that was shown there."""
    ours, theirs = pty.openpty()
    os.write(ours, typed.encode())
    asking = subprocess.Popen(
        [*VIRTOLL, "new", *words], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment()
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: nobody has the other end any more
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    return asking.wait(DEADLINE_SECONDS), shown.decode()
