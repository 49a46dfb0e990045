"""A machine monitor's HTTP API over a UNIX socket: one request, one answer, JSON both ways.

Main type: ``SocketApi``. It must not know a product.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from virtoll.errors import GuestDied, GuestError

_LONGEST_REASON = 300


@dataclass(frozen=True)
class SocketApi:
    """The API of the process that listens on ``path``; ``who`` is named in errors. Paths begin with ``prefix``."""

    path: Path
    who: str
    prefix: str = ""

    def request(self, method: str, path: str, body: object = None, deadline_seconds: float = 10.0) -> Any:
        """The answer's JSON, None where it has none.

        ``GuestError`` with the product's own reason when it refuses, ``GuestDied`` when nobody answers.
        """
        import http.client

        connection = http.client.HTTPConnection("localhost")
        content = None if body is None else json.dumps(body)
        headers = {"Accept": "application/json"} | ({} if content is None else {"Content-Type": "application/json"})
        try:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(deadline_seconds)
            connection.sock.connect(str(self.path))
            connection.request(method, f"{self.prefix}{path}", content, headers)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            sentence = f"{self.who}: its API did not answer {method} {path} ({type(error).__name__})"
            raise GuestDied(sentence) from error
        finally:
            connection.close()
        if answer.status >= http.client.BAD_REQUEST:
            raise GuestError(f"{self.who}: {method} {path} was refused with {answer.status}: {_reason(text)}")
        return json.loads(text) if text.strip() else None


def _reason(text: str) -> str:
    """Firecracker's ``fault_message``, Cloud Hypervisor's list of causes, or the text as it is, in one line."""
    try:
        reported = json.loads(text)
    except ValueError:
        reported = text
    if isinstance(reported, dict):
        reported = reported.get("fault_message", reported)
    if isinstance(reported, list):
        reported = ": ".join(map(str, reported))
    return " ".join(str(reported).split())[:_LONGEST_REASON] or "no reason given"
