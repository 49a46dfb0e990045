"""The lab's network: for each guest its own links, each a veth pair from the peer's namespace to one port of the guest.

A guest has one link a traffic source (``in0``..``in2``), one to three towards the sink (``out``, ``out1``, ``out2``)
and one that carries the timekeeper's marks and nothing else (``marks``). Each is a network of its own (10.64+g.n.0/24:
the guest is .1, the peer .2; where it is asked for also of IPv6, and in a VLAN: ``Link.ends``). It reaches the guest by
the link's ``attachment`` through a bridge, a router or a macvlan of its own, or through nothing: no guest ever sees
another's frames.

Where a workload asks for it, each guest has one more (``shared``), to a NIC that all share: one veth pair to the peer,
and a bridge on this side. These links are one network (10.254.5.0/24: guest g is .g+1, the peer .254).

Main types: ``Link``, its ``LinkAddresses`` and ``GuestNetwork`` (plain data, handed to the platforms), ``Network``
(makes and removes them, by ``attachments.py``). It must not know platforms: they choose one of ``host_port``,
``tap_port`` and ``namespace_port`` for each link.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from virtoll.errors import GuestCannot, GuestError, LabError
from virtoll.lab.attachments import Attachment, Attachments, EndpointInterfaces, Port, Router
from virtoll.lab.commands import ConnectedHost, Connection
from virtoll.lab.interfaces import TUN_DEVICE, Interfaces, receive_offload
from virtoll.lab.receiving import ReceivingCpus, ReceivingInterface, receive_on, steered
from virtoll.lab.shaping import End, Shape, end_here, shaped

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


def taps_allowed() -> bool:
    """True where this user may open /dev/net/tun; Debian allows everybody, some hosts only root."""
    return os.access(TUN_DEVICE, os.R_OK | os.W_OK)


@contextlib.contextmanager
def _refused(link: Link) -> Iterator[None]:
    """A link that the kernel refuses costs the guest that wanted it, not the campaign."""
    try:
        yield
    except (LabError, OSError) as error:
        raise GuestError(f"its link {link.name} could not be made: {error}") from error


class Network:
    """Makes links in the lab's network namespace; ``peer_pid`` is a process in the peer's.

    ``routers`` starts an agent in a network namespace of its own, for links that are routed.
    """

    def __init__(self, peer_pid: int, routers: Callable[[str], Router] | None = None) -> None:
        """Open a netlink socket in this (the lab's) namespace."""
        self._interfaces = Interfaces()
        self._attachments = Attachments(self._interfaces, peer_pid, routers)
        self._peer_pid = peer_pid
        self._receiving: dict[str, tuple[int, ...]] = {}  # the CPUs of its threads, by the lab's interface
        self._faced: dict[str, End] = {}  # the other end of the cable, by this machine's NIC

    @property
    def local(self) -> Network:
        """The links end on this machine."""
        return self

    @property
    def shapable(self) -> Network:
        """The links have an end in the lab."""
        return self

    @property
    def peer_pid(self) -> int:
        """A process in the peer's namespace."""
        return self._peer_pid

    def close(self) -> None:
        """End the routers and close the netlink socket; other interfaces stay until their namespace ends."""
        for endpoint in self._attachments.endpoints.values():
            if endpoint.router is not None:
                endpoint.router.close()
        self._interfaces.close()

    def host_port(self, link: Link) -> None:
        """The link ends at the lab's own namespace: the guest is the host itself."""
        with _refused(link):
            self._attachments.host(link)

    def tap_port(self, link: Link, device: str | None = None, *, several_queues: bool = False) -> Port:
        """The link ends at a machine's monitor: what to give it. A descriptor is the caller's to close.

        ``device``: the PCI address of a NIC that the machine is given instead; it goes back with ``remove``.
        ``several_queues``: the monitor opens the tap once for each of several queues.
        """
        with _refused(link):
            return self._attachments.tap(link, device, several_queues=several_queues)

    def raw_port(self, link: Link) -> str:
        """The link ends at a veth that stays here, for a program that opens it by a packet socket; returns its name.

        Its own MAC is not the guest's: the lab's kernel drops the guest's frames as somebody else's.
        """
        with _refused(link):
            return self._attachments.raw(link)

    def namespace_port(self, link: Link, pid: int) -> None:
        """The link ends at an interface that is moved into the network namespace of process ``pid``."""
        with _refused(link):
            self._attachments.namespace(link, pid)

    def bridge_port(self, link: Link, port: str | None = None) -> str:
        """The link ends at a bridge, to which a product attaches its own interface ``port``; the bridge's name."""
        with _refused(link):
            return self._attachments.bridge(link, port)

    def reach(self, network: GuestNetwork, *, beside: int = 0) -> GuestNetwork:
        """The links as they are: they end on this machine."""
        del beside
        return network

    def endpoint_interfaces(self, network: GuestNetwork) -> dict[str, EndpointInterfaces]:
        """By link's name, the lab's interfaces on it; nothing for links that have none."""
        made = self._attachments.endpoints
        return {link.name: made[link.port_interface] for link in network.links if link.port_interface in made}

    def receive_on(self, network: GuestNetwork, cpus: Sequence[int]) -> ReceivingCpus:
        """Have what arrives by the guest's traffic links worked off on these CPUs, as far as the lab's kernel does it.

        The links must be there and switched on; never raises.
        """
        links = network.traffic
        if any(link.trunk is not None for link in links):
            return ReceivingCpus(None, reason="its traffic enters by NICs, whose interrupts choose the CPU")
        receiving = receive_on([self._attachments.receiving(link) for link in links], cpus)
        if receiving.cpus is not None:
            self._receiving |= dict.fromkeys((link.lab_interface for link in links), receiving.cpus)
        return receiving

    @contextlib.contextmanager
    def steered(self, links: Sequence[Link]) -> Iterator[None]:
        """What sockets of servers and clients send over these links is received on their guests' CPUs meanwhile.

        Only where ``receive_on`` could have frames received there.
        """
        with contextlib.ExitStack() as stack:
            for link in links:
                if cpus := self._receiving.get(link.lab_interface):
                    stack.enter_context(steered(self._attachments.receiving(link), cpus))
            yield

    def receive_at_peer(self, interface: str, cpus: Sequence[int]) -> ReceivingCpus:
        """The same for one interface in the peer's namespace."""
        return receive_on([ReceivingInterface(interface, self._peer_pid)], cpus)

    def shaped(self, link: Link, shape: Shape) -> contextlib.AbstractContextManager[str | None]:
        """The link with this rate, delay and loss in each direction, within the context; yields what shapes it.

        ``GuestCannot`` where the kernel, or the way the link is attached, does not let it be.
        """
        endpoint = self._attachments.endpoints.get(link.port_interface, EndpointInterfaces(link.lab_interface))
        if not shape.plain and link.attachment == "passthrough":
            raise GuestCannot(
                f"link {link.name} has no end in the lab that could be shaped (passthrough); "
                "leave the parameters link_... out",
            )
        lab = endpoint.router.pid if endpoint.router is not None else os.getpid()
        return shaped((self._peers_end(link), end_here(lab, link.lab_interface)), shape)

    def _peers_end(self, link: Link) -> End:
        """In the peer's namespace, or at the other end of the NIC's cable."""
        if link.trunk in self._faced:
            return self._faced[link.trunk]
        return end_here(self._peer_pid, link.peer_interface)

    def back_to_back(self, names: tuple[str, str], macs: tuple[str, str], mtu_bytes: int) -> None:
        """A veth pair inside the peer's namespace: generator and sink with nothing between."""
        try:
            self._interfaces.veth(names[0], macs[0], names[1], macs[1], mtu_bytes)
            for name in names:
                receive_offload(name)
            for name in names:
                self._interfaces.move(name, self._peer_pid)
        except (LabError, OSError) as error:
            raise GuestError(f"the pair for the calibration could not be made: {error}") from error

    def remove(self, network: GuestNetwork) -> None:
        """Remove the links of a guest that has ended; what its namespace took along is gone already."""
        for link in network.links:
            self._receiving.pop(link.lab_interface, None)
            self._attachments.remove(link)

    def face(self, ends: Mapping[str, End]) -> None:
        """Which end of a cable on another host each of this machine's NICs leads to, by the NIC's name."""
        self._faced |= ends

    def adopt(self, nics: Sequence[str], outside: int, *, peer: bool = False) -> None:
        """Take NICs into the lab, or its ``peer``, from the namespace outside (a descriptor).

        Physical ones go back when the lab ends.
        """
        enter = ("nsenter", f"--net=/proc/self/fd/{outside}", "--")
        host = ConnectedHost(Connection("this machine outside the lab", enter, descriptors=(outside,)))
        pid = self._peer_pid if peer else os.getpid()
        for nic in nics:
            try:
                host.run(["ip", "link", "set", "dev", nic, "netns", str(pid)], "NICs")
            except GuestError as error:
                raise LabError(f"testbed: interface {nic} could not be taken into the lab: {error}") from error
