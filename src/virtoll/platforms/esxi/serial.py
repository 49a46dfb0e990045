"""The agent's channel: a serial port of the machine that the ESXi host joins to a TCP connection.

Main type: ``SerialLine``. The host ends the connection when it suspends the machine and makes it anew when it goes on.
The session with the agent keeps its descriptor meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from dataclasses import dataclass

from virtoll.errors import GuestError
from virtoll.lab.outside import outside_network
from virtoll.platforms.esxi.parameters import EsxiParameters
from virtoll.platforms.esxi.specs import Line

_CONNECT_SECONDS = 10.0
_RETRY_SECONDS = 0.1


@dataclass
class SerialLine:
    """``listener`` is ours where the host calls; None where it listens."""

    line: Line
    who: str
    listener: socket.socket | None = None

    def connect(self, deadline_seconds: float) -> socket.socket:
        """The byte stream, once the machine is on; a ``GuestError`` where the other end does not come."""
        with outside_network():
            if self.listener is not None:
                self.listener.settimeout(deadline_seconds)
                try:
                    connection, _ = self.listener.accept()
                except TimeoutError:
                    raise GuestError(
                        f"{self.who}: the host did not connect to {self.line.host}:{self.line.port}; "
                        "check 'callback' and that its firewall lets the rule set remoteSerialPort out"
                    ) from None
                connection.settimeout(None)
                return connection
            deadline = time.monotonic() + deadline_seconds
            while True:
                try:
                    connection = socket.create_connection((self.line.host, self.line.port), _CONNECT_SECONDS)
                    connection.settimeout(None)
                    return connection
                except OSError as error:
                    if time.monotonic() > deadline:
                        raise GuestError(
                            f"{self.who}: its serial port at {self.line.host}:{self.line.port} does not answer "
                            f"({error.strerror or error}); check that the host's firewall lets remoteSerialPort in"
                        ) from error
                    time.sleep(_RETRY_SECONDS)

    def reconnect(self, descriptor: int, deadline_seconds: float) -> None:
        """Put a new connection in the place of one that has ended, under the same number."""
        with self.connect(deadline_seconds) as fresh:
            os.dup2(fresh.fileno(), descriptor)

    def close(self) -> None:
        """No more connections."""
        if self.listener is not None:
            self.listener.close()


def open_line(parameters: EsxiParameters, who: str, taken: set[int]) -> SerialLine:
    """Choose a port that no machine has (``taken``), or open one here for the host to call."""
    if parameters.serial == "call":
        callback = parameters.callback or ""
        with outside_network():
            listener = socket.socket()
            try:
                listener.bind((callback, 0))
                listener.listen(1)
            except OSError as error:
                listener.close()
                raise GuestError(f"callback: {callback} is no address of this machine: {error.strerror}") from error
        return SerialLine(Line(callback, listener.getsockname()[1], listens=False), who, listener)
    host, _ = parameters.address
    port = next(number for number in range(parameters.serial_port, 65536) if number not in taken)
    return SerialLine(Line(host, port, listens=True), who)


def taken_ports(uris: list[str]) -> set[int]:
    """Ports of serial ports that the host listens at."""
    ports = set()
    for uri in uris:
        with contextlib.suppress(ValueError):
            ports.add(int(uri.rpartition(":")[2]))
    return ports
