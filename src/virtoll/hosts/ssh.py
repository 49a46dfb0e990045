"""A host over SSH: keys and an agent only, never a password; the agent's binary is a temporary file there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from virtoll.hosts.base import execute

_OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10")


class SshHost:
    """``destination`` as ``ssh`` takes it: user@host, or a name of ~/.ssh/config."""

    def __init__(self, destination: str) -> None:
        """Nothing is connected yet."""
        self.name = f"ssh {destination}"
        self._destination = destination

    def command(self, argv: Sequence[str]) -> list[str]:
        """``ssh`` without a terminal. Its far end is a shell, so the argument list is quoted for it as one argument."""
        return ["ssh", "-T", *_OPTIONS, self._destination, "--", shlex.join(argv)]

    def put(self, path: Path) -> str:
        """Copied by ``scp`` to a name of its own in /tmp, and made executable."""
        there = f"/tmp/virtoll-agent-{os.urandom(6).hex()}"  # noqa: S108 - on the other host; the name cannot be foreseen
        execute(self.name, ["scp", "-q", "-B", *_OPTIONS, str(path), f"{self._destination}:{there}"])
        execute(self.name, self.command(["chmod", "0700", there]))
        return there

    def drop(self, path: str) -> None:
        """Remove the copy."""
        execute(self.name, self.command(["rm", "-f", "--", path]))
