"""The lab's network: for each guest its own links, each a veth pair from the peer's namespace to one port of the guest.

A guest has one link a traffic source (``in0``..``in2``), one to three towards the sink (``out``, ``out1``, ``out2``)
and one that carries the timekeeper's marks and nothing else (``marks``). Each is a network of its own (10.64+g.n.0/24:
the guest is .1, the peer .2; where it is asked for also of IPv6, and in a VLAN: ``Link.ends``). It reaches the guest by
the link's ``attachment`` through a bridge, a router or a macvlan of its own, or through nothing: no guest ever sees
another's frames.

Where a workload asks for it, each guest has one more (``shared``), to a NIC that all share: one veth pair to the peer,
and a bridge on this side. These links are one network (10.254.5.0/24: guest g is .g+1, the peer .254).

Main types: ``Link``, its ``LinkAddresses`` and ``GuestNetwork``: plain data, handed to the platforms. ``Network`` in
``local_network.py`` makes the links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from virtoll.errors import LabError

Attachment = Literal["bridge", "routed", "macvtap", "passthrough"]
MAXIMUM_SOURCES = 3
_SINKS = (("out", 3), ("out1", 6), ("out2", 7))  # name and number; a sink for each source at most
_MAXIMUM_GUESTS = 190
_VLAN_NUMBER = 128  # links in a VLAN are networks of their own, so much further up
_LOOPBACK_MAC = "00:00:00:00:00:00"
_SHARED_NUMBER = 5
_SHARED_NETWORK = _MAXIMUM_GUESTS  # in the place of a guest's number: behind the last one's links


@dataclass(frozen=True)
class LinkAddresses:
    """The IP addresses of a link's two ends, as text, and the length of their network's prefix in bits."""

    guest: str
    peer: str
    prefix_bits: int


@dataclass(frozen=True)
class Link:
    """One link of a guest; ``role`` is ``source``, ``sink``, ``marks`` or ``shared``. MAC addresses as text, MTU in
    bytes.

    ``owner`` is the guest's number and ``number`` the link's in it: both are in its addresses.
    ``trunk``: the NIC that leads to the peer, on another host or as ``shared`` on this one; its bridge is shared by all
    guests. None: a veth pair of the link's own.
    ``attachment``: how it reaches the guest.
    """

    name: str
    role: str
    mtu_bytes: int
    owner: int
    number: int
    guest_mac: str
    peer_mac: str
    peer_interface: str
    lab_interface: str
    port_interface: str
    bridge: str
    trunk: str | None = None
    attachment: Attachment = "bridge"

    def ends(self, ip_version: int = 4, *, tagged: bool = False) -> LinkAddresses:
        """The addresses of both ends, of IPv4 or IPv6 (RFC 5180: 2001:2::/48 for benchmarks), in a VLAN or outside."""
        number = self.number + (_VLAN_NUMBER if tagged else 0)
        place, guest, peer = self.owner, 1, 2
        if self.role == "shared":
            place, guest, peer = _SHARED_NETWORK, self.owner + 1, 254
        if ip_version == 6:
            network = f"2001:2:0:{place << 8 | number:x}::"
            return LinkAddresses(f"{network}{guest:x}", f"{network}{peer:x}", 64)
        network = f"10.{64 + place}.{number}."
        return LinkAddresses(f"{network}{guest}", f"{network}{peer}", 24)

    @property
    def guest_address(self) -> str:
        """The guest's IPv4 address outside any VLAN."""
        return self.ends().guest

    @property
    def peer_address(self) -> str:
        """The peer's IPv4 address outside any VLAN."""
        return self.ends().peer

    @property
    def place(self) -> int:
        """Which of its role it is, from 0: source 1's is 1, as the second sink's."""
        return [number for _, number in _SINKS].index(self.number) if self.role == "sink" else self.number

    @property
    def outer_interface(self) -> str:
        """The lab's end (a bridge's port, a router's interface) of a veth whose other end is the guest's."""
        return f"v{self.port_interface[1:]}"

    @property
    def router_macs(self) -> tuple[str, str]:
        """MAC addresses of a routed link's router: of its interface to the peer, and of that to the guest."""
        suffix = self.guest_mac.split(":", 4)[-1]
        return f"02:76:74:04:{suffix}", f"02:76:74:05:{suffix}"

    @property
    def peer_next_hop_mac(self) -> str:
        """What the peer writes into a frame for the guest: the guest's own MAC address, or its router's."""
        return self.router_macs[0] if self.attachment == "routed" else self.guest_mac

    @property
    def guest_next_hop_mac(self) -> str:
        """What the guest writes into a frame for the peer: the peer's own MAC address, or its router's."""
        return self.router_macs[1] if self.attachment == "routed" else self.peer_mac


@dataclass(frozen=True)
class GuestNetwork:
    """All links of one guest: the sources in order, the sinks, the timekeeper's, and the one to the shared NIC."""

    links: tuple[Link, ...]

    @property
    def sources(self) -> tuple[Link, ...]:
        """The links that traffic enters the guest by."""
        return tuple(link for link in self.links if link.role == "source")

    @property
    def sinks(self) -> tuple[Link, ...]:
        """The links that traffic leaves the guest by: one for all sources, or source k's at place k."""
        return tuple(link for link in self.links if link.role == "sink")

    @property
    def sink(self) -> Link:
        """The first of them."""
        return self.sinks[0]

    @property
    def traffic(self) -> tuple[Link, ...]:
        """All links that test frames enter or leave the guest by."""
        return (*self.sources, *self.sinks)

    @property
    def shared(self) -> Link | None:
        """The link to the NIC that all guests share; in a testbed that is the sink's; None where there is none."""
        shared = next((link for link in self.links if link.role == "shared"), None)
        return shared or next((link for link in self.sinks if link.trunk is not None), None)

    @property
    def attachment(self) -> Attachment:
        """How the links that carry traffic reach the guest; ``bridge`` where there is none."""
        return next((link.attachment for link in self.traffic), "bridge")

    @property
    def marks(self) -> Link | None:
        """The timekeeper's link, or None where marks come over the agent's channel."""
        return next((link for link in self.links if link.role == "marks"), None)


def plan_links(
    index: int,
    sources: int = 1,
    mtu_bytes: int = 1500,
    *,
    sinks: int = 1,
    marks: bool = True,
    shared: bool = False,
) -> GuestNetwork:
    """Names and addresses of guest ``index``'s links (0 to 189), with ``sinks`` towards the sink; pure.

    ``shared``: with one to the NIC that all guests share.
    """
    if not 0 <= index < _MAXIMUM_GUESTS or not 1 <= sources <= MAXIMUM_SOURCES or not 1 <= sinks <= len(_SINKS):
        raise LabError(
            f"no network plan for guest {index} with {sources} sources and {sinks} sinks; "
            f"at most {_MAXIMUM_GUESTS} guests, {MAXIMUM_SOURCES} sources and {len(_SINKS)} sinks"
        )
    roles = [(f"in{n}", "source", n) for n in range(sources)]
    roles += [(name, "sink", number) for name, number in _SINKS[:sinks]]
    roles += [("marks", "marks", 4)] if marks else []
    links = tuple(_plan_link(index, name, role, number, mtu_bytes) for name, role, number in roles)
    return GuestNetwork((*links, _to_shared(index, mtu_bytes)) if shared else links)


def _to_shared(index: int, mtu_bytes: int) -> Link:
    link = _plan_link(index, "shared", "shared", _SHARED_NUMBER, mtu_bytes)
    return replace(
        link,
        peer_mac=f"02:76:74:02:ff:{_SHARED_NUMBER:02x}",
        peer_interface="pshared",
        lab_interface="lshared",
        bridge="bshared",
        trunk="lshared",
    )


def _plan_link(index: int, name: str, role: str, number: int, mtu_bytes: int) -> Link:
    tag = f"{index}{name}"
    return Link(
        name=name,
        role=role,
        mtu_bytes=mtu_bytes,
        owner=index,
        number=number,
        guest_mac=f"02:76:74:01:{index:02x}:{number:02x}",
        peer_mac=f"02:76:74:02:{index:02x}:{number:02x}",
        peer_interface=f"p{tag}",
        lab_interface=f"l{tag}",
        port_interface=f"g{tag}",
        bridge=f"b{tag}",
    )


def over_trunks(
    network: GuestNetwork,
    near: Sequence[str],
    far: Sequence[tuple[str, str]],
    sinks: int = 1,
    *,
    bridges: str = "t",
) -> GuestNetwork:
    """The same links, those of traffic by way of this machine's NICs ``near`` to ``far`` ones (name, MAC).

    The last ``sinks`` of them are the sink's. Links of more sources or sinks than there are NICs stay as they were; the
    link for marks always does. ``bridges``: how the names of the NICs' bridges begin.
    """
    facing = plan_links(0, len(near) - sinks, sinks=sinks, marks=False)
    ways = {link.name: number for number, link in enumerate(facing.links)}

    def through(link: Link, number: int) -> Link:
        nic, (interface, mac) = near[number], far[number]
        return replace(
            link, peer_mac=mac, peer_interface=interface, lab_interface=nic, bridge=f"{bridges}{link.name}", trunk=nic
        )

    return GuestNetwork(tuple(through(link, ways[link.name]) if link.name in ways else link for link in network.links))


def with_found_macs(network: GuestNetwork, macs: Sequence[str]) -> GuestNetwork:
    """The same links with the MAC addresses of devices that were handed in whole, as the guest found them, in order.

    A link keeps its planned address where the guest has it: only NICs that are not the lab's own come with another.
    """
    planned = {link.guest_mac for link in network.links}
    others = iter([mac for mac in macs if mac not in {*planned, _LOOPBACK_MAC}])

    def found_there(link: Link) -> Link:
        known = link.guest_mac in macs or link.attachment != "passthrough"
        return link if known else replace(link, guest_mac=next(others, link.guest_mac))

    return GuestNetwork(tuple(found_there(link) for link in network.links))


def attached(network: GuestNetwork, attachment: Attachment) -> GuestNetwork:
    """The same links, those that carry traffic attached in that way; those for marks and the shared NIC keep theirs."""
    traffic = network.traffic
    links = (replace(link, attachment=attachment) if link in traffic else link for link in network.links)
    return GuestNetwork(tuple(links))
