"""What a host can do: run an argument list, start one and give its byte stream, take a file."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from virtoll.errors import UsageError

_DEADLINE_SECONDS = 60.0


class Host(Protocol):
    """One host. Errors are a ``UsageError`` that names it: a host is used before the first guest starts."""

    name: str

    def command(self, argv: Sequence[str]) -> list[str]:
        """The argument list to execute here so that ``argv`` runs there."""
        ...

    def put(self, path: Path) -> str:
        """Make a program of this machine available there; returns its path there."""
        ...

    def drop(self, path: str) -> None:
        """Remove what ``put`` made."""
        ...


def run(host: Host, argv: Sequence[str], deadline_seconds: float = _DEADLINE_SECONDS) -> str:
    """Run a program there to its end; returns its output."""
    return execute(host.name, host.command(argv), deadline_seconds)


def start(host: Host, argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a program there, its standard input and output as pipes."""
    command = host.command(argv)
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    except FileNotFoundError as error:
        raise UsageError(f"{command[0]}: not found on this machine; install it to reach {host.name}") from error


def execute(name: str, command: Sequence[str], deadline_seconds: float = _DEADLINE_SECONDS) -> str:
    """Run a program of this machine on behalf of a host; ``UsageError`` with the end of its complaint."""
    try:
        finished = subprocess.run(
            list(command), capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, check=False,
            timeout=deadline_seconds,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise UsageError(f"{command[0]}: not found on this machine; install it to reach {name}") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{name} did not answer within {deadline_seconds:g} s; look whether it is up") from error
    if finished.returncode != 0:
        said = (finished.stderr.strip() or finished.stdout.strip() or "no message").splitlines()[-1]
        raise UsageError(f"{name}: '{' '.join(command[:2])}' ended with {finished.returncode}: {said}")
    return finished.stdout
