"""OCI runtimes that take a guest's links once, at its start: gVisor and Kata Containers.

Such a runtime reads interfaces, addresses, routes and permanent neighbours from the network namespace that it is given.
So the links are moved into a namespace and set up before the container is started. It is parked by the runtime's own
``pause``: its processes are not the guest's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from virtoll.errors import GuestError
from virtoll.hosts.base import LocalHost
from virtoll.lab.network import GuestNetwork
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.containers.guest import AGENT, NamespacedGuest, held_namespace
from virtoll.platforms.containers.oci import AttachedP, OciPlatform, oci_configuration
from virtoll.platforms.host import Site


class PreparedNetworkPlatform(OciPlatform[AttachedP]):
    """The driver of such a runtime."""

    def start(self, request: GuestRequest, site: Site) -> NamespacedGuest:
        """Set the links up in a namespace that is held, then run the container in it."""
        network = site.network
        with contextlib.ExitStack() as held:
            # A runtime takes a group that is there as it is, and counts the guest's CPUs and memory by its limits.
            # One that it makes itself it cannot give CPUs to while the lab's own has none.
            if (group := site.this_machine.group(request.name, request.limits(memory=True))) is not None:
                held.callback(group.remove)
            held.callback(network.remove, request.network)
            holder = held.enter_context(held_namespace(site, f"guest {request.name}"))
            for link in request.network.links:
                site.local_ports.namespace_port(link, holder)
            folder = site.this_machine.guest_folder(f"{request.name}-network")
            _set_up(site.this_machine, folder, holder, request.network, request.name)
            configuration = oci_configuration(
                site,
                self.agent_command(site, request),
                request,
                namespace=f"/proc/{holder}/ns/net",
                strict=self._strict,
            )
            guest, _ = self._run(request, site, configuration, [held.pop_all().close])
        runtime, container = self._command(site), request.file_name

        def pause(paused: bool) -> None:
            site.host.run([*runtime, "pause" if paused else "resume", container], f"guest {request.name}")

        guest.paused = pause
        return guest

    def agent_command(self, site: Site, request: GuestRequest) -> Sequence[str]:
        """The agent alone: the guest's kernel, which is not the host's, numbers its CPUs from 0."""
        del site, request
        return AGENT

    def _try(self, site: Site) -> None:
        """With a network of its own, because that is what versions differ in."""
        try:
            with held_namespace(site, "probe") as holder:
                self._run_agent_once(site, f"/proc/{holder}/ns/net")
        except GuestError as error:
            raise GuestError(f"{error}; {self.how_to_get()}") from error


def _set_up(lab: LocalHost, folder: Path, holder: int, network: GuestNetwork, name: str) -> None:
    """Addresses and neighbours of the guest's links, in the namespace that process ``holder`` is in."""
    lines = ["link set dev lo up"]
    for link in network.links:
        # Passed through is the lab's own end; what the guest writes as the next hop may be its router's address.
        port = link.lab_interface if link.attachment == "passthrough" else link.port_interface
        lines += [
            f"link set dev {port} up",
            f"address add {link.guest_address}/24 dev {port}",
            f"neighbour replace {link.peer_address} lladdr {link.guest_next_hop_mac} nud permanent dev {port}",
        ]
    batch = folder / "network.txt"
    batch.write_text("\n".join(lines) + "\n", encoding="utf-8")
    lab.run(["nsenter", f"--net=/proc/{holder}/ns/net", "--", "ip", "-batch", str(batch)], f"guest {name}")
