"""The bare host at the other end of an SSH connection: its agent has the NICs themselves while it is measured.

Main type: ``BareHost``. The agent is in a network namespace of its own there, so that no route and no setting of that
host is touched. Parked, it gives the NICs back to the host, where other platforms' guests have them in bridges. Should
this controller die, the host's ``undo`` does so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from virtoll.agent.links import network_request
from virtoll.agent.operations.session import FactsRequest
from virtoll.agent.timekeeper import await_path
from virtoll.errors import GuestError
from virtoll.host.guest_usage import HostView
from virtoll.hosts.remote_host import RemoteHost
from virtoll.hosts.remote_network import RemoteNetwork
from virtoll.lab.commands import PIPED
from virtoll.lab.enter import Enter
from virtoll.lab.inside import end_process
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.host import Site
from virtoll.platforms.managed_guest import ManagedMachine
from virtoll.platforms.process_guest import connect_stdio

_NAMESPACES = Path("/run/netns")
_FACTS_SECONDS = 60.0


@dataclass(kw_only=True)
class BareHost(ManagedMachine):
    """``view``: the boot and memory of its host, which are its own."""

    view: HostView = field(default_factory=HostView)

    def stop(self) -> None:
        """As any: parked, its NICs are the host's already."""
        self._paused = False
        super().stop()

    def host_view(self) -> HostView:
        """What the other host says."""
        return self.view


def start_bare_host(request: GuestRequest, site: Site, enter: Enter, command: Sequence[str]) -> BareHost:
    """Start ``command`` (an agent) on the site's host, after ``enter`` and in a network namespace with the NICs."""
    host, links = site.host, site.network
    if not isinstance(host, RemoteHost) or not isinstance(links, RemoteNetwork):
        raise GuestError(f"{host.name} starts no programs of ours, so that it cannot be measured itself")
    if request.instance > 0 and not links.are_of_neighbour(request.network):
        raise GuestError(f"{host.name} has each of its NICs once, and itself a second time would need them too")
    namespace = f"{host.lab_id}-{host.guest_folder('native').name}"
    network = links.as_nics(request.network)
    cleanup: list[Callable[[], object]] = []
    withdraw = [host.guard(["ip", "netns", "del", namespace])]
    host.run(["ip", "netns", "add", namespace], "native")
    withdraw += [host.guard(words) for words in links.giving_back(network, namespace)]
    cleanup += [*withdraw, lambda: host.run(["ip", "netns", "del", namespace], "native")]

    def take() -> None:
        links.lend(network, namespace)
        agent.ask(network_request(network))
        for link in network.links:
            await_path(site.peer, link)

    spawned = time.monotonic_ns()
    words = [*replace(enter, network=_NAMESPACES / namespace).prefix(host.agent), *command]
    process = host.spawn(words, f"guest {request.name}", replace(PIPED, cpus=request.cpus))
    agent = connect_stdio(process, request.name)
    guest = BareHost(
        agent=agent,
        peer=site.peer,
        host=host,
        attachment="nic",
        spawned_monotonic_ns=spawned,
        pause=lambda: links.take_back(network, namespace),
        unpause=take,
        destroy=lambda: links.take_back(network, namespace),
        cleanup=[*cleanup, lambda: end_process(process)],
    )
    guest.network = network
    guest.wait_ready(request.deadline_seconds)
    with guest.ending_on_error():
        links.lend(network, namespace)
        if site.counters is not None:
            facts = site.counters.ask(FactsRequest(), _FACTS_SECONDS)
            guest.view = HostView(facts.boot_id, facts.memory_total_bytes)
    return guest
