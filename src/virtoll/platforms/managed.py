"""A machine that a product holds, on any host: no process of ours is it, so it is parked and ended by commands.

Main type: ``ManagedMachine``. Xen's domains, VirtualBox's and ESXi's machines, libvirt's domains are such.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from virtoll.agent import AgentClient, Caller
from virtoll.errors import GuestError
from virtoll.footprint import GuestProcesses
from virtoll.platforms.base import GuestHost, GuestStartError
from virtoll.platforms.last_words import with_last_words


class GuestRemains(GuestError):
    """Something that a guest had on its host is still there after its end: what it is, and how to remove it."""


@dataclass
class ManagedMachine:
    """``pause``, ``unpause`` and ``destroy`` are the product's; ``cleanup`` runs after them, in reverse order.

    ``consoles``: files on the host that are kept as evidence, by the name they get.
    """

    agent: AgentClient
    peer: Caller
    host: GuestHost
    attachment: str
    spawned_monotonic_ns: int
    pause: Callable[[], object]
    unpause: Callable[[], object]
    destroy: Callable[[], object]
    consoles: dict[str, Path] = field(default_factory=dict)
    cleanup: list[Callable[[], object]] = field(default_factory=list)
    ready_monotonic_ns: int = 0
    _paused: bool = False
    _destroyed: bool = False

    def wait_ready(self, deadline_seconds: float) -> None:
        """Wait for the agent; on failure everything is removed and the console is handed out with the error."""
        try:
            self.agent.wait_ready(deadline_seconds)
        except GuestError as error:
            evidence = self.evidence()
            said = with_last_words(str(error), evidence)
            try:
                self.stop()
            except GuestRemains as remains:
                said = f"{said}; {remains}"
            raise GuestStartError(said, evidence) from error
        self.ready_monotonic_ns = time.monotonic_ns()

    def park(self) -> None:
        """The product's pause."""
        if not self._paused:
            self.pause()
            self._paused = True

    def resume(self) -> None:
        """Let it run again."""
        if self._paused:
            self.unpause()
            self._paused = False

    def stop(self) -> None:
        """Ask the agent to leave, then have the product destroy the machine, then undo what the start did.

        ``GuestRemains``, when all is done, if a step of the undoing left something there.
        """
        if not self._destroyed:
            with contextlib.suppress(GuestError):
                self.resume()
            if not self.agent.ended:
                with contextlib.suppress(GuestError):
                    self.agent.call("shutdown", deadline_seconds=2.0)
            self.agent.close()
            self._destroyed = True
            with contextlib.suppress(GuestError):  # it may have gone by itself
                self.destroy()
        remains: list[str] = []
        while self.cleanup:
            try:
                self.cleanup.pop()()
            except GuestRemains as error:
                remains.append(str(error))
            except (GuestError, OSError):
                pass  # what was to be undone may have gone by itself
        if remains:
            raise GuestRemains("; ".join(remains))

    def evidence(self) -> dict[str, bytes]:
        """The consoles, and what came over the agent's channel that was not the protocol."""
        found = {"console.txt": bytes(self.agent.console)}
        for name, path in self.consoles.items():
            with contextlib.suppress(GuestError):
                found[name] = self.host.read(path) + found.get(name, b"")
        return found

    def host_processes(self) -> GuestProcesses | None:
        """None: what holds it is the product's own."""
        return None
