"""A machine's monitor that takes each command: QMP without a machine."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress

_VERSION = {"qemu": {"major": 9, "minor": 0, "micro": 0}, "package": ""}
_GREETING = {"QMP": {"version": _VERSION, "capabilities": []}}


class MonitorStub:
    """Answers each command at the other end of ``connection`` with its name; ``commands``: those so far, in order."""

    def __init__(self, connection: socket.socket) -> None:
        """Answers in a thread of its own, until the other end is closed."""
        self.commands: list[str] = []
        self._thread = threading.Thread(target=self._answer_each, args=(connection,))
        self._thread.start()

    def join(self) -> None:
        """Wait until the other end is closed."""
        self._thread.join()

    def _answer_each(self, connection: socket.socket) -> None:
        """The client sends no ends of lines, so a command ends where its JSON does."""
        unread, decoder = "", json.JSONDecoder()
        with suppress(ConnectionError), connection, connection.makefile("w") as answers:
            print(json.dumps(_GREETING), file=answers, flush=True)
            while portion := connection.recv(4096):
                unread += portion.decode()
                while unread:
                    try:
                        command, end = decoder.raw_decode(unread)
                    except ValueError:
                        break
                    unread = unread[end:].lstrip()
                    name = command["execute"]
                    self.commands.append(name)
                    print(json.dumps({"return": name, "id": command.get("id")}), file=answers, flush=True)
