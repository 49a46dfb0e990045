"""What a host can do: run an argument list, start one and give its byte stream, take a file."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from virtoll.errors import UsageError

_DEADLINE_SECONDS = 60.0
_SSH_FAILED = 255  # what ssh itself ends with when there is no connection


class Host(Protocol):
    """One host. Errors are a ``UsageError`` that names it: a host is used before the first guest starts."""

    name: str
    copies: bool
    """Whether ``put`` makes a file there, which is then nobody's but ours."""

    def command(self, argv: Sequence[str]) -> list[str]:
        """The argument list to execute here so that ``argv`` runs there."""
        ...

    def put(self, path: Path) -> str:
        """Make a program of this machine available there; returns its path there."""
        ...

    def drop(self, path: str) -> None:
        """Remove what ``put`` made."""
        ...


def run(host: Host, argv: Sequence[str], given: bytes = b"", deadline_seconds: float = _DEADLINE_SECONDS) -> str:
    """Run a program there to its end, ``given`` on its standard input; ``UsageError`` with the end of its complaint."""
    command = host.command(argv)
    try:
        finished = subprocess.run(command, capture_output=True, input=given, check=False, timeout=deadline_seconds)
    except FileNotFoundError as error:
        raise UsageError(f"{command[0]}: not found on this machine; install it to reach {host.name}") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{host.name} did not answer within {deadline_seconds:g} s; look whether it is up") from error
    if finished.returncode != 0:
        complaint = (finished.stderr.strip() or finished.stdout.strip() or b"no message").decode(errors="replace")
        said = complaint.splitlines()[-1].strip().rstrip(".")
        if (finished.returncode, command[0]) == (_SSH_FAILED, "ssh"):
            raise UsageError(
                f"testbed: {host.name} cannot be reached: {said}; see that '{host.name} true' works without a password"
            )
        raise UsageError(f"{host.name}: '{' '.join(argv[:2])}' ended with {finished.returncode}: {said}")
    return finished.stdout.decode(errors="replace")


def start(host: Host, argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a program there, its standard input and output as pipes."""
    command = host.command(argv)
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    except FileNotFoundError as error:
        raise UsageError(f"{command[0]}: not found on this machine; install it to reach {host.name}") from error
