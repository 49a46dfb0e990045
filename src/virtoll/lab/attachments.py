"""How a link reaches its guest, as a factor: ``bridge``, ``routed``, ``macvtap``, ``passthrough``; native has ``veth``.

Main types: ``Attachments`` (makes one link in one of these ways), ``Port`` (what a machine's monitor is given),
``EndpointInterfaces`` (which interfaces of the lab stand on the link, for the counters) and ``Router`` (the namespace
of a routed link). It must not know platforms, nor plan names or addresses: ``network.py`` does.

A routed link has a network namespace of its own, in which the host's kernel routes between two interfaces. One faces
the peer, the other the guest. Two routes do, without policy rules: those every packet of the lab's own namespace, and
so native's, would have to pass.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from virtoll.errors import GuestError, LabError
from virtoll.lab import residue
from virtoll.lab.interfaces import Interfaces, in_namespace, open_macvtap, open_tap, receive_offload
from virtoll.lab.network import Link
from virtoll.lab.receiving import ReceivingInterface
from virtoll.lab.vfio import PciBus

Counters = Mapping[str, int]
Rest = ParamSpec("Rest")
Made = TypeVar("Made")
_NEVER = 1_000_000_000  # hundredths of a second


class Router(Protocol):
    """An agent in a network namespace that ends with it; ``pid`` is its process."""

    @property
    def pid(self) -> int:
        """The process whose namespace it is."""
        ...

    def forward(self) -> None:
        """Route IPv4 between the interfaces that are there."""
        ...

    def counters(self, interfaces: Sequence[str]) -> Mapping[str, Counters]:
        """What is counted at each of these interfaces, by name."""
        ...

    def close(self) -> None:
        """End the agent, and its namespace with all that is in it."""
        ...


@dataclass(frozen=True)
class Port:
    """A machine's end of a link: a tap by its name, or an open descriptor that its monitor inherits and we close.

    ``pci_address``: a device that is handed into the machine itself; then there is neither.
    """

    interface: str | None = None
    descriptor: int | None = None
    pci_address: str | None = None


@dataclass(frozen=True)
class EndpointInterfaces:
    """The lab's interfaces on a link: ``entry`` faces the peer, ``port`` the guest; None where there is no such one.

    ``guests_own``: the port is the guest's end and not the other side of it, so what it receives goes to the guest.
    ``router`` reads their counters where they are not in the lab's own namespace.
    """

    entry: str | None = None
    port: str | None = None
    guests_own: bool = False
    router: Router | None = None


def _for_its_guest(
    attach: Callable[Concatenate[Attachments, Link, Rest], Made],
) -> Callable[Concatenate[Attachments, Link, Rest], Made]:
    """A link that the kernel refuses costs the guest that wanted it, not the run."""

    @functools.wraps(attach)
    def attached(self: Attachments, link: Link, /, *rest: Rest.args, **named: Rest.kwargs) -> Made:
        try:
            return attach(self, link, *rest, **named)
        except (LabError, OSError) as error:
            raise GuestError(f"its link {link.name} could not be made: {error}") from error

    return attached


class Attachments:
    """Makes links; ``routers`` starts a router with a name, None where none can start."""

    def __init__(self, interfaces: Interfaces, peer_pid: int, routers: Callable[[str], Router] | None) -> None:
        """``peer_pid`` is a process in the peer's namespace."""
        self._at = interfaces
        self._peer_pid = peer_pid
        self._routers = routers
        self._pci = PciBus()
        self._devices: dict[str, tuple[str, str | None]] = {}
        self._inside: dict[str, int] = {}
        self.endpoints: dict[str, EndpointInterfaces] = {}

    @_for_its_guest
    def tap_port(self, link: Link, device: str | None = None, *, several_queues: bool = False) -> Port:
        """The link ends at a machine's monitor: what to give it. A descriptor is the caller's to close.

        ``device``: the PCI address of a NIC that the machine is given instead; it goes back with ``remove_link``.
        ``several_queues``: the monitor opens the tap, which is in a bridge, once for each of several queues.
        """
        if several_queues and device is None and link.attachment == "bridge":
            return self._tap_in_bridge(link, several_queues=True)
        made = {"bridge": self._tap_in_bridge, "routed": self._tap_routed, "macvtap": self._macvtap}
        if device is not None:
            driver = self._pci.driver(device)
            residue.note_device(device, driver)
            self._devices[link.port_interface] = (device, driver)
            self._pci.take(device)
            return Port(pci_address=device)
        if link.attachment not in made:
            raise GuestError(
                f"attachment: {link.attachment}: a machine takes PCI devices only: name them in 'vfio', or choose "
                f"another of {', '.join(made)}"
            )
        return made[link.attachment](link)

    @_for_its_guest
    def namespace_port(self, link: Link, pid: int) -> None:
        """The link ends at an interface that is moved into the network namespace of process ``pid``."""
        made = {
            "bridge": self._veth_in_bridge,
            "routed": self._veth_routed,
            "macvtap": self._macvlan,
            "passthrough": self._moved,
        }
        made[link.attachment](link, pid)

    @_for_its_guest
    def raw_port(self, link: Link) -> str:
        """The link ends at a veth that stays here, for a program that opens it by a packet socket; returns its name.

        Its own MAC is not the guest's: the lab's kernel drops the guest's frames as somebody else's.
        """
        if link.attachment != "bridge":
            raise GuestError(f"attachment: {link.attachment}: a raw socket is attached by a bridge; leave it out")
        self._bridged(link)
        self._outer_port(link, with_mac=False)
        self._at.up(link.port_interface)
        return link.port_interface

    @_for_its_guest
    def bridge_port(self, link: Link, port: str | None = None) -> str:
        """The link ends at a bridge, to which a product attaches its own interface ``port``; the bridge's name."""
        if link.attachment != "bridge":
            raise GuestError(f"attachment: {link.attachment}: this product attaches to a bridge; leave it out")
        self._bridged(link)
        self.endpoints[link.port_interface] = EndpointInterfaces(link.lab_interface, port)
        return link.bridge

    @_for_its_guest
    def host_port(self, link: Link) -> None:
        """The link ends at the lab's own namespace: the guest is the host itself."""
        if link.trunk is None:
            self._pair(link, link.guest_mac)
        else:
            self._bridged(link)
            self._outer_port(link)

    def receiving(self, link: Link) -> ReceivingInterface:
        """The first interface beyond the peer's: the lab's end, wherever the attachment has put it."""
        router = self.endpoints.get(link.port_interface, EndpointInterfaces()).router
        pid = self._inside.get(link.port_interface) if router is None else router.pid
        return ReceivingInterface(link.lab_interface, pid)

    def remove_link(self, link: Link) -> None:
        """Remove a link, whatever of it is there; its names are free when this returns."""
        self._inside.pop(link.port_interface, None)
        endpoint = self.endpoints.pop(link.port_interface, EndpointInterfaces())
        lab_ends = (link.lab_interface, link.bridge) if link.trunk is None else ()
        for name in (link.outer_interface, link.port_interface, *lab_ends):
            self._at.remove(name)
        if link.trunk is None and link.attachment in ("routed", "passthrough"):
            # Its lab's end is in another namespace, whose end the kernel works off in its own time.
            with contextlib.suppress(LabError):
                in_namespace(self._peer_pid, [f"link del {link.peer_interface}"])
        if endpoint.router is not None:
            endpoint.router.close()
        if link.port_interface in self._devices:
            self._pci.give_back(*self._devices.pop(link.port_interface))

    def _veth_in_bridge(self, link: Link, pid: int) -> None:
        self._bridged(link)
        self._outer_port(link)
        self._at.move(link.port_interface, pid)

    def _tap_in_bridge(self, link: Link, *, several_queues: bool = False) -> Port:
        self._bridged(link)
        self.endpoints[link.port_interface] = EndpointInterfaces(link.lab_interface, link.port_interface)
        self._at.tap(link.port_interface, several_queues=several_queues)
        self._at.enslave(link.port_interface, link.bridge, link.mtu_bytes)
        return Port(interface=link.port_interface)

    def _veth_routed(self, link: Link, pid: int) -> None:
        self._pair(link, link.router_macs[0])
        self._at.veth(link.outer_interface, link.router_macs[1], link.port_interface, link.guest_mac, link.mtu_bytes)
        self._route(link, link.outer_interface)
        self._at.move(link.port_interface, pid)

    def _tap_routed(self, link: Link) -> Port:
        self._pair(link, link.router_macs[0])
        self._at.tap(link.port_interface, link.router_macs[1])
        descriptor = open_tap(link.port_interface)  # while it is here: a descriptor follows it into any namespace
        try:
            self._route(link, link.port_interface)
        except BaseException:
            os.close(descriptor)
            raise
        return Port(descriptor=descriptor)

    def _macvtap(self, link: Link) -> Port:
        self._pair(link, None)
        self.endpoints[link.port_interface] = EndpointInterfaces(
            link.lab_interface, link.port_interface, guests_own=True
        )
        self._at.macvlan(link.port_interface, link.guest_mac, link.lab_interface, "macvtap", link.mtu_bytes)
        self._at.up(link.port_interface)
        return Port(descriptor=open_macvtap(link.port_interface))

    def _macvlan(self, link: Link, pid: int) -> None:
        self._pair(link, None)
        self.endpoints[link.port_interface] = EndpointInterfaces(link.lab_interface)
        self._at.macvlan(link.port_interface, link.guest_mac, link.lab_interface, "macvlan", link.mtu_bytes)
        self._at.move(link.port_interface, pid)

    def _moved(self, link: Link, pid: int) -> None:
        self._pair(link, link.guest_mac)
        self._at.move(link.lab_interface, pid)
        # The move switched it off, and until it is on again the peer's end has no carrier.
        in_namespace(pid, [f"link set {link.lab_interface} up"])
        self._inside[link.port_interface] = pid

    def _route(self, link: Link, port: str) -> None:
        """A router of the link's own, between the lab's interface and ``port``: peer on one side, all else beyond.

        Neighbours are permanent: nothing is resolved while something is measured.
        """
        if self._routers is None:
            raise GuestError("attachment: routed: no agent can be started here that routes; choose another attachment")
        router = self._routers(link.port_interface)
        near = link.lab_interface
        self.endpoints[link.port_interface] = EndpointInterfaces(near, port, router=router)
        self._at.move(near, router.pid)
        self._at.move(port, router.pid)
        in_namespace(
            router.pid,
            [
                "link set lo up",  # by its address the kernel knows one network from a gateway
                f"link set {near} mtu {link.mtu_bytes} up",
                f"link set {port} mtu {link.mtu_bytes} up",
                f"route add {link.peer_address}/32 dev {near}",
                f"neigh add {link.peer_address} lladdr {link.peer_mac} nud permanent dev {near}",
                f"route add default via {link.guest_address} dev {port} onlink",
                f"neigh add {link.guest_address} lladdr {link.guest_mac} nud permanent dev {port}",
            ],
        )
        router.forward()

    def _outer_port(self, link: Link, *, with_mac: bool = True) -> None:
        """A veth pair from the link's bridge to an interface for the guest, with its address now or later."""
        outside = link.outer_interface
        self.endpoints[link.port_interface] = EndpointInterfaces(link.lab_interface, outside)
        self._at.veth(outside, None, link.port_interface, link.guest_mac if with_mac else None, link.mtu_bytes)
        self._at.enslave(outside, link.bridge, link.mtu_bytes)

    def _bridged(self, link: Link) -> None:
        if link.trunk is not None:
            self._trunked(link, link.trunk)
            return
        self._at.veth(link.lab_interface, None, link.peer_interface, link.peer_mac, link.mtu_bytes)
        self._at.bridge(link.bridge, link.mtu_bytes)
        self._at.enslave(link.lab_interface, link.bridge, link.mtu_bytes)
        self._to_peer(link)

    def _trunked(self, link: Link, nic: str) -> None:
        """The shared bridge of a NIC, made at its first use; it never forgets where a guest is."""
        if not self._at.there(link.bridge):
            if link.role == "shared":  # that NIC is a veth pair
                self._at.remove(nic)  # left over where a guest before could not be given the bridge
                self._at.veth(nic, None, link.peer_interface, link.peer_mac, link.mtu_bytes)
                self._at.move(link.peer_interface, self._peer_pid)
            self._at.bridge(link.bridge, link.mtu_bytes, br_ageing_time=_NEVER)
            self._at.enslave(nic, link.bridge, link.mtu_bytes)
            with contextlib.suppress(OSError):  # a NIC that cannot is used as it is
                receive_offload(nic)

    def _pair(self, link: Link, lab_mac: str | None) -> None:
        """The veth pair between the peer and the lab, without a bridge."""
        self._at.veth(link.lab_interface, lab_mac, link.peer_interface, link.peer_mac, link.mtu_bytes)
        self._to_peer(link)

    def _to_peer(self, link: Link) -> None:
        if link.role != "marks":
            receive_offload(link.lab_interface)
        self._at.move(link.peer_interface, self._peer_pid)
