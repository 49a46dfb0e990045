"""A host over SSH: keys and an agent only, never a password; the agent's binary is a temporary file there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from virtoll.hosts.base import run

_OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10")


class SshHost:
    """``destination`` as ``ssh`` takes it: user@host, or a name of ~/.ssh/config."""

    copies = True

    def __init__(self, destination: str) -> None:
        """Nothing is connected yet."""
        self.name = f"ssh {destination}"
        self._destination = destination

    def command(self, argv: Sequence[str]) -> list[str]:
        """``ssh`` without a terminal. Its far end is a shell, so the argument list is quoted for it as one argument."""
        return ["ssh", "-T", *_OPTIONS, self._destination, "--", shlex.join(argv)]

    def put(self, path: Path) -> str:
        """Copied by way of ``dd`` to a name of its own in /tmp, and made executable."""
        there = f"/tmp/virtoll-agent-{os.urandom(6).hex()}"  # noqa: S108 - on the other host; the name cannot be foreseen
        run(self, ["dd", f"of={there}", "status=none"], path.read_bytes())
        run(self, ["chmod", "0700", there])
        return there

    def drop(self, path: str) -> None:
        """Remove the copy."""
        run(self, ["rm", "-f", "--", path])
