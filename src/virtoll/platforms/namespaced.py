"""What guests made of namespaces share: the agent on standard input and output, its links moved in once it is ready."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence

from virtoll.errors import GuestError
from virtoll.lab.cgroups import Group
from virtoll.platforms.base import AgentGuest, GuestRequest, GuestStartError, Site, connect_stdio

NamespacedGuest = AgentGuest


def move_links_in(guest: AgentGuest, request: GuestRequest, site: Site, pid: int) -> None:
    """Attach the guest's links to the network namespace of process ``pid``; a guest that cannot have them is ended."""
    network = site.require_network()
    try:
        for link in request.network.links:
            network.namespace_port(link, pid)
    except GuestError:
        guest.stop()
        raise


def start_namespaced(
    request: GuestRequest,
    site: Site,
    command: Sequence[str],
    attachment: str,
    cleanup: Sequence[Callable[[], object]] = (),
    group: Group | None = None,
) -> AgentGuest:
    """Start ``command``, whose standard input and output become the agent's channel, and wait until it is ready.

    ``group`` is removed after everything else.
    """
    folder = site.lab.guest_folder(request.name)
    console = folder / "console.txt"
    spawned = time.monotonic_ns()
    with console.open("wb") as stderr:
        process = site.lab.spawn(
            command,
            f"guest {request.name}",
            cpus=request.cpus,
            group=group,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr.fileno(),
        )
    guest = AgentGuest(
        agent=connect_stdio(process, request.name),
        peer=site.require_peer(),
        process=process,
        attachment=attachment,
        console_file=console,
        spawned_monotonic_ns=spawned,
        cleanup=[*([group.remove] if group is not None else []), *cleanup],
    )
    try:
        guest.wait_ready(request.deadline_seconds)
    except GuestStartError as error:
        raise GuestStartError(f"{error}{_last_words(error.evidence)}", error.evidence) from error
    return guest


def _last_words(evidence: dict[str, bytes]) -> str:
    """What the engine complained of last: that is why its guest did not start."""
    lines = [line for line in evidence["console.txt"].decode(errors="replace").splitlines() if line.strip()]
    return f" (it said: {lines[-1].strip()[-300:]})" if lines else ""
