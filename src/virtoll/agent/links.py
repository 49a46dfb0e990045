"""What agents are asked for a guest's links: by its own agent, and by the peer's at their other ends."""

from __future__ import annotations

from collections.abc import Iterable

from virtoll.agent.operations.network import Interface, Neighbour, NetworkRequest
from virtoll.lab.network import GuestNetwork


def network_request(network: GuestNetwork) -> NetworkRequest:
    """For a guest with these links: addresses, permanent neighbours, forwarding."""
    interfaces = (
        Interface(
            mac=link.guest_mac,
            name=None,
            mtu=link.mtu_bytes,
            address=f"{link.guest_address}/24",
            neighbours=(Neighbour(address=link.peer_address, mac=link.guest_next_hop_mac),),
        )
        for link in network.links
    )
    return NetworkRequest(interfaces=tuple(interfaces), routes=(), ip_forward=True)


def peer_request(network: GuestNetwork) -> NetworkRequest:
    """The same for the peer's ends: up, and without an address, so that its kernel answers and forwards nothing."""
    return bare_interfaces((link.peer_mac, link.mtu_bytes) for link in network.links)


def bare_interfaces(nics: Iterable[tuple[str, int]]) -> NetworkRequest:
    """Interfaces by MAC address that are up with an MTU in bytes, and nothing else."""
    interfaces = (Interface(mac=mac, name=None, mtu=mtu_bytes, address=None, neighbours=()) for mac, mtu_bytes in nics)
    return NetworkRequest(interfaces=tuple(interfaces), routes=(), ip_forward=None)
