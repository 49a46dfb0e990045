"""How a guest's links are made on its host.

Main types: ``Links`` (on any host: ``virtoll.hosts.remote_network``, ``virtoll.hosts.cabled_network``) and
``LocalPorts`` (on this machine: ``virtoll.lab.local_network.Network``). Every ``GuestError`` names the link.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Protocol

from virtoll.lab.attachments import EndpointInterfaces, Port
from virtoll.lab.network import GuestNetwork, Link
from virtoll.lab.receiving import ReceivingCpus
from virtoll.lab.shaping import Shape


class ShapedLinks(Protocol):
    """What the links need at both of whose ends a queueing discipline can be set."""

    def steered(self, links: Sequence[Link]) -> contextlib.AbstractContextManager[None]:
        """What the peer's servers and clients send over these links is received on their guests' CPUs meanwhile."""
        ...

    def shaped(self, link: Link, shape: Shape) -> contextlib.AbstractContextManager[str | None]:
        """The link with this rate, delay and loss in each direction, within the context; yields what shapes it."""
        ...


class Links(Protocol):
    """What the links of a guest need on any host."""

    @property
    def local(self) -> LocalPorts | None:
        """These links themselves where the lab makes them on this machine; None where another host holds their ends."""
        ...

    @property
    def shapable(self) -> ShapedLinks | None:
        """These links themselves where their rate, delay and loss can be set; None where they cannot."""
        ...

    def reach(self, network: GuestNetwork, *, neighbour: int = 0) -> GuestNetwork:
        """A guest's links as they lead to this host; ``neighbour``: its number among neighbours, from 1.

        On another host a guest beside has only those links for which there is a NIC of its own.
        """
        ...

    def tap_port(self, link: Link, device: str | None = None, *, several_queues: bool = False) -> Port:
        """The link ends at a tap, which may be one of ``several_queues``, or is a PCI device."""
        ...

    def bridge_port(self, link: Link, port: str | None = None) -> str:
        """The link ends at a bridge, to which the product attaches its interface ``port``; the bridge's name."""
        ...

    def endpoint_interfaces(self, network: GuestNetwork) -> dict[str, EndpointInterfaces]:
        """The host's interfaces on each link, by the link's name."""
        ...

    def remove(self, network: GuestNetwork) -> None:
        """Remove a guest's links, whatever of them is there."""
        ...


class LocalPorts(Links, ShapedLinks, Protocol):
    """What only this machine's own network has: ends in its namespaces, and the lab's ends of the links."""

    @property
    def peer_pid(self) -> int:
        """The process whose network namespace is the peer's."""
        ...

    def host_port(self, link: Link) -> None:
        """The link ends at the host itself."""
        ...

    def raw_port(self, link: Link) -> str:
        """The link ends at an interface for a program that opens it by a packet socket; its name."""
        ...

    def namespace_port(self, link: Link, pid: int) -> None:
        """The link ends in the network namespace of a process of this machine."""
        ...

    def back_to_back(self, names: tuple[str, str], macs: tuple[str, str], mtu_bytes: int) -> None:
        """A pair of interfaces at the peer with nothing between."""
        ...

    def receive_on(self, network: GuestNetwork, cpus: Sequence[int]) -> ReceivingCpus:
        """Have what arrives by the guest's source links worked off on these CPUs."""
        ...

    def receive_at_peer(self, interface: str, cpus: Sequence[int]) -> ReceivingCpus:
        """The same for one interface at the peer."""
        ...
