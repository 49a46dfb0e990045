"""Makes the guest a router of IPv6, or within a VLAN, for as long as it is measured as one.

A guest routes untagged IPv4 from its start and is not asked for anything then. IPv6 is configured when it is first
needed and stays: once set up it sends nothing by itself. VLANs are taken away again, so that the next trial finds the
interfaces as this one did. It knows no platform: a guest whose kernel has no IPv6 or no VLANs answers ``unsupported``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from virtoll.agent.operations.network import Interface, Neighbour, NetworkRequest, Vlan
from virtoll.agent.timekeeper import await_path
from virtoll.errors import AgentError, GuestCannot
from virtoll.lab.network import GuestNetwork, Link
from virtoll.runfolder.frame_shape import FrameShape
from virtoll.workloads.base import Bench


@contextlib.contextmanager
def routing(bench: Bench, shape: FrameShape) -> Iterator[None]:
    """The guest forwards such frames within the context; raises an ``AgentError``, its own or this, where it cannot.

    A guest that does not answer within is lost and started anew, so nothing is undone then.
    """
    bench.require_sources()
    request = router_request(bench.network, shape)
    if request is not None:
        if bench.network.attachment == "routed":
            raise GuestCannot(
                "its links are routed, by IPv4 without tags: use ip_version 4 and vlan 0, or attachment bridge"
            )
        _set(bench, request)
    try:
        yield
    except AgentError as error:
        if error.kind == "unsupported":  # it is well, and goes on with other trials
            _untag(bench, shape)
        raise
    _untag(bench, shape)


def _untag(bench: Bench, shape: FrameShape) -> None:
    if shape.tagged:
        _set(bench, without_vlans(bench.network))


def _set(bench: Bench, request: NetworkRequest) -> None:
    """Carry it out, and wait until frames pass again: a NIC may be deaf for a while when its filters were changed."""
    bench.guest.ask(request)
    for link in bench.network.traffic:
        await_path(bench.peer.at(link.role), link)


def router_request(network: GuestNetwork, shape: FrameShape) -> NetworkRequest | None:
    """What adds addresses and permanent neighbours; None where all is there."""
    if shape.ip_version == 4 and not shape.tagged:
        return None
    request = NetworkRequest(interfaces=tuple(_router_interface(link, shape) for link in network.traffic))
    return request.replace(ipv6_forward=True) if shape.ip_version == 6 else request


def _router_interface(link: Link, shape: FrameShape) -> Interface:
    ends = link.ends(shape.ip_version, tagged=shape.tagged)
    address = f"{ends.guest}/{ends.prefix_bits}"
    neighbours = (Neighbour(address=ends.peer, mac=link.guest_next_hop_mac),)
    plain = Interface(mac=link.guest_mac)
    if shape.tagged:
        tagged = Vlan(vlan=shape.vlan, neighbours=neighbours)
        vlan = tagged.replace(address=address) if shape.ip_version == 4 else tagged.replace(ipv6_address=address)
        return plain.replace(vlans=(vlan,))
    return plain.replace(ipv6_address=address, neighbours=neighbours)


def without_vlans(network: GuestNetwork) -> NetworkRequest:
    """The request that takes every VLAN away from the links that carry traffic."""
    return NetworkRequest(interfaces=tuple(Interface(mac=link.guest_mac, vlans=()) for link in network.traffic))
