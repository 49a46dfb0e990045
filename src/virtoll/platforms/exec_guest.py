"""Containers that a product holds and lets one enter: its own first process waits, the agent comes in by its ``exec``.

Main types: ``EnteredMachine`` and ``enter``. OpenVZ and Linux-VServer are such.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from virtoll.agent.client import AgentClient, Caller
from virtoll.errors import GuestError, ImageError
from virtoll.hosts.base import CommandRunner, GuestHost
from virtoll.image import image_form
from virtoll.lab.commands import PIPED
from virtoll.lab.inside import end_process
from virtoll.lab.network import Link
from virtoll.platforms.base import GuestRequest, GuestStartError
from virtoll.platforms.containers.guest import AGENT, plain_name
from virtoll.platforms.host import Site
from virtoll.platforms.last_words import last_line
from virtoll.platforms.managed_guest import ManagedMachine
from virtoll.platforms.process_guest import connect_stdio


@dataclass(kw_only=True)
class EnteredMachine(ManagedMachine):
    """``process`` is the product's ``exec`` here, ``complaints`` its standard error."""

    process: subprocess.Popen[bytes] | None = None
    complaints: IO[bytes] = field(default_factory=io.BytesIO)

    def evidence(self) -> dict[str, bytes]:
        """What the product's ``exec`` complained of besides."""
        self.complaints.seek(0)
        return {**super().evidence(), "exec.txt": self.complaints.read()}


def image_file(site: Site) -> Path:
    """The image's root as a tar file on the guest's host; a ``GuestError`` where it cannot be made."""
    try:
        made = image_form(site.image, "tar").file
    except ImageError as error:
        raise GuestError(str(error)) from error
    return site.host.put(made)


def enter(
    command: Sequence[str],
    request: GuestRequest,
    host: GuestHost,
    peer: Caller,
    spawned: int,
    *,
    park: tuple[Callable[[], object], Callable[[], object]],
    cleanup: list[Callable[[], object]],
) -> EnteredMachine:
    """Start the agent by ``command`` (the product's ``exec``), whose standard input and output are its channel.

    ``park``: how the container is stopped and how it goes on. ``cleanup`` is run at the end, the last first.
    """
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 - it is the guest's, as evidence
    process = host.spawn([*command, *AGENT], f"guest {request.name}", replace(PIPED, stderr=complaints.fileno()))
    agent: AgentClient = connect_stdio(process, request.name)
    guest = EnteredMachine(
        agent=agent,
        peer=peer,
        host=host,
        attachment=request.network.attachment,
        spawned_monotonic_ns=spawned,
        pause=park[0],
        unpause=park[1],
        destroy=lambda: None,
        cleanup=[*cleanup, lambda: end_process(process)],
        process=process,
        complaints=complaints,
    )
    try:
        guest.wait_ready(request.deadline_seconds)
    except GuestStartError as error:
        complaint = last_line(error.evidence["exec.txt"])
        reported = f" (it said: {complaint[-300:]})" if complaint else ""
        raise GuestStartError(f"{error}{reported}", error.evidence) from error
    return guest


def bridged(host: GuestHost, link: Link, bridge: str) -> None:
    """The host's end of a link, which the product or ``ip`` has made, becomes a port of the link's bridge."""
    port = link.port_interface
    host.run(["ip", "link", "set", "dev", port, "addrgenmode", "none"], "link")
    host.run(["ip", "link", "set", "dev", port, "mtu", str(link.mtu_bytes), "master", bridge, "up"], "link")


def name_of(host: GuestHost, request: GuestRequest) -> str:
    """What a guest is called on its host: with the lab's id, by which leftovers are found."""
    return f"{host.lab_id}-{plain_name(request.name)}"


def quietly(host: CommandRunner, argv: Sequence[str], role: str) -> None:
    """Run what may fail because the thing is gone already."""
    with contextlib.suppress(GuestError):
        host.run(argv, role, 120.0)


def now() -> int:
    """Monotonic time in ns."""
    return time.monotonic_ns()
