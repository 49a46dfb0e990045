"""Links of guests on a host that is reached by its product's own API: cables, and what the product makes behind them.

Main type: ``CabledNetwork``. This machine's NICs, which are the network peer's, face NICs there; nothing is made by it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from virtoll.errors import GuestCannot, GuestError
from virtoll.hosts.remote_network import RemoteNic
from virtoll.lab.attachments import EndpointInterfaces, Port
from virtoll.lab.network import GuestNetwork, Link
from virtoll.lab.shaping import Shape, arriving_here, end_here, shaped


class CabledNetwork:
    """The ``Links`` of such a host; ``nics`` by link's name (``in0``, ``out``, ``marks``, ...)."""

    def __init__(self, name: str, nics: dict[str, RemoteNic], peer_pid: int) -> None:
        """``name``: the host's, as messages have it; ``peer_pid``: a process in the network peer's namespace."""
        self._name = name
        self._nics = nics
        self._peer_pid = peer_pid

    @property
    def local(self) -> None:
        """They end on another host."""
        return

    @property
    def shapable(self) -> CabledNetwork:
        """Each cable has an end here."""
        return self

    def shaped(self, link: Link, shape: Shape) -> contextlib.AbstractContextManager[str | None]:
        """The cable with this rate, delay and loss in each direction, both at this end: the other is the product's.

        ``GuestCannot`` for a sink's, whose frames are counted before what arrives can be held back.
        """
        if not shape.plain and link.role == "sink":
            raise GuestCannot(
                f"nothing can be set at its end on {self._name}, and test frames are counted here before they can be "
                "held back; leave the parameters link_... out"
            )
        ends = (end_here(self._peer_pid, link.peer_interface), arriving_here(self._peer_pid, link.peer_interface))
        return shaped(ends, shape)

    def steered(self, links: Sequence[Link]) -> contextlib.AbstractContextManager[None]:
        """The guests' CPUs are another host's."""
        del links
        return contextlib.nullcontext()

    def reach(self, network: GuestNetwork, *, neighbour: int = 0) -> GuestNetwork:
        """The links by way of the cables; one that has none is refused, and a ``neighbour`` has none."""
        if neighbour:
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
