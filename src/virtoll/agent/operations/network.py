"""``network``: how the interfaces of an agent's namespace, their addresses and forwarding shall be."""

from __future__ import annotations

from virtoll.agent.request import Message, Request
from virtoll.runfolder.record import Record


class Neighbour(Message):
    """A permanent neighbour."""

    address: str
    mac: str


class Vlan(Message):
    """One 802.1Q sub-interface with addresses of its own, prefix included."""

    vlan: int
    address: str | None = None
    ipv6_address: str | None = None
    neighbours: tuple[Neighbour, ...] = ()


class Interface(Message):
    """One interface, found by its MAC address; addresses with their prefix. ``vlans`` None leaves those it has."""

    mac: str
    name: str | None = None
    mtu: int | None = None
    address: str | None = None
    ipv6_address: str | None = None
    without_address: bool = False
    neighbours: tuple[Neighbour, ...] = ()
    vlans: tuple[Vlan, ...] | None = None


class Route(Message):
    """A route by gateway; ``destination`` is a prefix."""

    destination: str
    via: str


class InterfaceState(Record):
    """An interface once it is configured."""

    name: str
    mac: str | None
    mtu: int | None = None
    operstate: str | None = None


class NetworkReply(Record):
    """The interfaces of the request, in its order."""

    interfaces: tuple[InterfaceState, ...]


class NetworkRequest(Request[NetworkReply], tag="network"):
    """Interfaces, routes and forwarding; None leaves forwarding as it is."""

    interfaces: tuple[Interface, ...] = ()
    routes: tuple[Route, ...] = ()
    ip_forward: bool | None = None
    ipv6_forward: bool | None = None
