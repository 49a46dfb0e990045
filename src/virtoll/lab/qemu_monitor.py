"""QEMU's monitor: QMP over a socket that is made before the machine is started, so that no path is waited for.

Its libraries are imported where a monitor is opened: they take long to import.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from virtoll.errors import GuestDied
from virtoll.lab.interrupts import deferred

if TYPE_CHECKING:
    import asyncio

    from qemu.qmp import QMPClient


_ANSWER_SECONDS = 60.0
_LEAVE_SECONDS = 2.0
_LOOK_SECONDS = 0.1  # so long an interrupt waits at most


def _new_runner() -> asyncio.Runner:
    import asyncio

    return asyncio.Runner()


@dataclass
class Monitor:
    """The machine's QMP monitor over a socket that was made before it started."""

    connection: socket.socket
    who: str
    _runner: asyncio.Runner = field(default_factory=_new_runner)
    _client: QMPClient | None = None

    def execute(self, command: str, **arguments: object) -> object:
        """One QMP command with its arguments; ``GuestDied`` when the monitor does not answer it in time.

        ``stop`` answers once the machine's disks are written back, which a busy disk takes long for. A machine that
        has ended closes its monitor, so that nobody waits for it.
        """
        from qemu.qmp import QMPError

        try:
            return self._wait(lambda: self._execute(command, arguments), _ANSWER_SECONDS)
        except (QMPError, OSError, TimeoutError, EOFError) as error:
            raise GuestDied(f"{self.who}: its monitor did not take '{command}' ({type(error).__name__})") from error

    async def _execute(self, command: str, arguments: dict[str, object]) -> object:
        from qemu.qmp import QMPClient

        if self._client is None:
            self._client = QMPClient(self.who)
            await self._client.connect(self.connection)
        return await self._client.execute(command, arguments or None)

    def close(self) -> None:
        """Leave the monitor; the machine is not touched."""
        with contextlib.suppress(Exception):  # a monitor that died cannot be left in order
            if self._client is not None:
                self._wait(self._client.disconnect, _LEAVE_SECONDS)
        with deferred():
            self._runner.close()
        self.connection.close()

    def _wait(self, work: Callable[[], Coroutine[object, object, object]], seconds: float) -> object:
        """What the work returns; ``TimeoutError`` after so many seconds.

        An interrupt comes between two looks: one within the event loop would end whichever task of the client's runs,
        whose error would then come up in place of the next command's answer.
        """
        import asyncio

        deadline = time.monotonic() + seconds
        task: asyncio.Task[object] | None = None
        try:
            with deferred():
                task = self._runner.get_loop().create_task(work())
            while not task.done():
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise TimeoutError
                with deferred():
                    self._runner.run(asyncio.wait({task}, timeout=min(remaining, _LOOK_SECONDS)))
            return task.result()
        finally:
            if task is not None:
                task.cancel()  # nobody waits for it any more
