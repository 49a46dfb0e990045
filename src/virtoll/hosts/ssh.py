"""Hosts over SSH: keys and an agent only, never a password; how ``ssh`` is called, in one place.

Main types: ``SshHost`` (reached from outside the lab; what is copied is a temporary file there).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from virtoll.errors import GuestError
from virtoll.lab.commands import ConnectedHost, Connection


def ssh_command(*settings: str, connect_seconds: int = 10, configuration: Path | None = None) -> tuple[str, ...]:
    """``ssh`` without a terminal and without a question; ``settings`` as in ssh_config(5), ``Key=value``.

    ``configuration``: the one file that is read instead of the user's and the machine's.
    """
    file = () if configuration is None else ("-F", str(configuration))
    # Whatever ssh_config says: who holds the other host is handed neither the user's keys nor the screen.
    words = ("BatchMode=yes", f"ConnectTimeout={connect_seconds}", "ForwardAgent=no", "ForwardX11=no", *settings)
    return ("ssh", *file, "-T", *(word for setting in words for word in ("-o", setting)))


def _connection(destination: str, prefix: tuple[str, ...], descriptors: tuple[int, ...] = ()) -> Connection:
    name = f"ssh {destination}"
    remedy = f"see that '{name} true' works without a password"
    return Connection(name, (*prefix, destination, "--"), quoted=True, descriptors=descriptors, remedy=remedy)


def connection_from_lab(destination: str, outside: int, scratch: Path) -> Connection:
    """A host as a lab reaches it: from the network namespace outside (a descriptor).

    Several commands share one connection, whose socket is in the lab's folder ``scratch``.
    """
    control = scratch / f"ssh-{hashlib.sha256(destination.encode()).hexdigest()[:12]}"
    sharing = ("ControlMaster=auto", f"ControlPath={control}", "ControlPersist=no", "ServerAliveInterval=0")
    enter = ("nsenter", f"--net=/proc/self/fd/{outside}", "--")
    return _connection(destination, (*enter, *ssh_command(*sharing)), (outside,))


class SshHost(ConnectedHost):
    """``destination`` as ``ssh`` takes it: user@host, or a name of ~/.ssh/config."""

    def __init__(self, destination: str) -> None:
        """Nothing is connected yet."""
        super().__init__(_connection(destination, ssh_command()))

    def put(self, path: Path) -> Path:
        """Copied by way of ``dd`` to a name of its own in /tmp, and made executable.

        Of a copy that fails nothing is left.
        """
        there = Path(f"/tmp/virtoll-agent-{os.urandom(6).hex()}")  # noqa: S108 - there; the name cannot be foreseen
        try:
            self.run(["dd", f"of={there}", "status=none"], "copy", stdin=path.read_bytes())
            self.run(["chmod", "0700", str(there)], "copy")
        except GuestError:
            with contextlib.suppress(GuestError):
                self.run(["rm", "-f", "--", str(there)], "copy")
            raise
        return there
