"""A machine that a product holds, on any host: no process of ours is it, so it is parked and ended by commands.

Main type: ``ManagedMachine``. Xen's domains, VirtualBox's and ESXi's machines, libvirt's domains are such.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from virtoll.agent.operations.session import ShutdownRequest
from virtoll.errors import GuestError
from virtoll.hosts.base import GuestHost
from virtoll.platforms.process_guest import StartedGuest, undo_all


@dataclass(kw_only=True)
class ManagedMachine(StartedGuest):
    """``pause``, ``unpause`` and ``destroy`` are the product's; ``cleanup`` runs after them.

    ``consoles``: files on the host that are kept as evidence, by the name they get.
    """

    host: GuestHost
    pause: Callable[[], object]
    unpause: Callable[[], object]
    destroy: Callable[[], object]
    consoles: dict[str, Path] = field(default_factory=dict)
    _paused: bool = False
    _destroyed: bool = False

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
                    self.agent.ask(ShutdownRequest(), deadline_seconds=2.0)
            self.agent.close()
            self._destroyed = True
            with contextlib.suppress(GuestError):  # it may have gone by itself
                self.destroy()
        undo_all(self.cleanup)

    def evidence(self) -> dict[str, bytes]:
        """The consoles, and what came over the agent's channel that was not the protocol."""
        evidence = {"console.txt": bytes(self.agent.console)}
        for name, path in self.consoles.items():
            with contextlib.suppress(GuestError):
                evidence[name] = self.host.read(path) + evidence.get(name, b"")
        return evidence
