"""What is run on another host when the connection to it ends: the agent's ``undo`` there, by its byte stream.

Main type: ``Undo``. It must not know what is promised, nor how the agent was started.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO

from virtoll.errors import GuestDied
from virtoll.lab.commands import RUN_SECONDS

_MOST_ANSWER_BYTES = 4096


@dataclass
class Undo:
    """``host``: as messages name it. One that is silent is given up: a late answer would be taken for the next one's.

    ``abandon``: what else is done then.
    """

    host: str
    reader: IO[bytes]
    writer: IO[bytes]
    abandon: Callable[[], object] = lambda: None
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def guard(self, argv: Sequence[str]) -> Callable[[], None]:
        """Have a program run there when the connection ends, unless it is withdrawn by the returned function before."""
        number = next(self._numbers)
        self._tell({"id": number, "add": list(argv)})
        return lambda: self._tell({"id": number, "drop": True})

    def _tell(self, line: dict[str, object]) -> None:
        answered, how = b"", "is gone"
        with contextlib.suppress(OSError, ValueError):  # a stream that was closed is a ValueError
            self.writer.write(json.dumps(line).encode() + b"\n")
            self.writer.flush()
            answered, how = self._answer()
        if not answered:
            self.close()
            self.abandon()
            raise GuestDied(f"{self.host}: the agent there that cleans up {how}")

    def _answer(self) -> tuple[bytes, str]:
        """The line that it answers; else nothing, and how it failed to."""
        answer, deadline = b"", time.monotonic() + RUN_SECONDS
        while not answer.endswith(b"\n"):
            if not select.select([self.reader], [], [], max(deadline - time.monotonic(), 0.0))[0]:
                return b"", f"did not answer within {RUN_SECONDS:g} s"
            chunk = os.read(self.reader.fileno(), 1)  # the next line is another answer
            answer += chunk
            if not chunk:
                return b"", "is gone"
            if len(answer) > _MOST_ANSWER_BYTES:
                return b"", "says something else"
        return answer, ""

    def close(self) -> None:
        """Nothing more is promised: what was is run, once nobody else holds the stream."""
        for stream in (self.writer, self.reader):
            with contextlib.suppress(OSError):  # the connection is gone, and with it what was there
                stream.close()
