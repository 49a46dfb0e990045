"""Links of guests on a host that is reached by its product's own API: cables, and what the product makes behind them.

Main type: ``CabledNetwork``. This machine's NICs, which are the network peer's, face NICs there; nothing is made by it.
"""

from __future__ import annotations

from dataclasses import replace

from virtoll.errors import GuestError
from virtoll.hosts.remote_network import RemoteNic
from virtoll.lab.attachments import EndpointInterfaces, Port
from virtoll.lab.network import GuestNetwork, Link


class CabledNetwork:
    """The ``Links`` of such a host; ``nics`` by link's name (``in0``, ``out``, ``marks``, ...)."""

    def __init__(self, name: str, nics: dict[str, RemoteNic]) -> None:
        """``name``: the host's, as messages have it."""
        self._name = name
        self._nics = nics

    @property
    def local(self) -> None:
        """They end on another host."""
        return

    @property
    def shapable(self) -> None:
        """The other end of each cable is the product's."""
        return

    def reach(self, network: GuestNetwork, *, beside: int = 0) -> GuestNetwork:
        """The links by way of the cables; one that has none is refused, and a guest ``beside`` has none."""
        if beside:
            return GuestNetwork(())
        missing = [link.name for link in network.links if link.name not in self._nics]
        if missing:
            raise GuestError(f"{self._name} has no NIC for {', '.join(missing)}; it has: {', '.join(self._nics)}")
        return GuestNetwork(tuple(self._through(link, self._nics[link.name]) for link in network.links))

    def _through(self, link: Link, nic: RemoteNic) -> Link:
        return replace(link, peer_mac=nic.peer_mac, peer_interface=nic.peer_interface, trunk=nic.name)

    def bridge_port(self, link: Link, port: str | None = None) -> str:
        """The NIC there: the product attaches the guest to it."""
        del port
        if link.trunk is None:
            raise GuestError(f"its link {link.name} does not lead to {self._name}")
        return link.trunk

    def tap_port(self, link: Link, device: str | None = None, *, several_queues: bool = False) -> Port:
        """Refused: what takes a tap is no guest of the product's."""
        del device, several_queues
        raise GuestError(f"its link {link.name} ends on {self._name}, which holds the guests of its own product alone")

    def endpoint_interfaces(self, network: GuestNetwork) -> dict[str, EndpointInterfaces]:
        """None of its interfaces is seen from here."""
        del network
        return {}

    def remove(self, network: GuestNetwork) -> None:
        """Nothing was made."""
