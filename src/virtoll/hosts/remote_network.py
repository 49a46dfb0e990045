"""Links of guests on another host: from the network peer here over a NIC there, whose bridge all its guests share.

Main types: ``RemoteNic`` (one NIC there and what it faces here) and ``RemoteNetwork``. Bridges and taps are made there
by ``ip``, named ``virtoll-...``, and guarded: they go when the connection does.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from virtoll.errors import GuestError
from virtoll.hosts.base import CommandRunner
from virtoll.hosts.remote_host import RemoteHost
from virtoll.lab.attachments import EndpointInterfaces, Port
from virtoll.lab.commands import ConnectedHost, Connection
from virtoll.lab.inside import wait_until
from virtoll.lab.network import GuestNetwork, Link
from virtoll.lab.shaping import End, Shape, end_here, end_there, shaped

_NEVER = 1_000_000_000  # hundredths of a second
_CARRIER_SECONDS = 60.0  # a NIC that is switched on anew finds out its speed first


@dataclass(frozen=True)
class RemoteNic:
    """``name`` is the host's NIC; ``peer_interface`` and ``peer_mac`` what it faces in the network peer's namespace."""

    name: str
    peer_interface: str
    peer_mac: str


class RemoteNetwork:
    """The ``Links`` of another host; ``nics`` by link's name (``in0``, ``out``, ``marks``, ...).

    ``neighbour``: the same of one guest next to the measured one, which has no other links.
    """

    def __init__(
        self,
        host: RemoteHost,
        nics: Mapping[str, RemoteNic],
        peer_pid: int,
        neighbour: Mapping[str, RemoteNic] | None = None,
    ) -> None:
        """Nothing is made before the first link. ``peer_pid``: a process in the network peer's namespace."""
        self._host = host
        self._peer_pid = peer_pid
        self._peer = ConnectedHost(Connection("the network peer", ("nsenter", f"--net=/proc/{peer_pid}/ns/net", "--")))
        self._lent_to: dict[str, str] = {}  # a network namespace there, by the NIC
        self._nics = nics
        self._neighbour_nics = neighbour or {}
        self._bridges: set[str] = set()
        self._made: dict[str, tuple[EndpointInterfaces, Callable[[], None] | None]] = {}

    @property
    def local(self) -> None:
        """They end on another host."""
        return

    @property
    def shapable(self) -> RemoteNetwork:
        """The cable has an end here and one there."""
        return self

    def shaped(self, link: Link, shape: Shape) -> contextlib.AbstractContextManager[str | None]:
        """The cable with this rate, delay and loss in each direction: at the peer's NIC and at the one it faces."""
        return shaped((end_here(self._peer_pid, link.peer_interface), self._end_there(self._nic(link))), shape)

    def _end_there(self, nic: str) -> End:
        def change(verb: str, words: Sequence[str]) -> None:
            where = ["-netns", self._lent_to[nic]] if nic in self._lent_to else []
            self._host.run(["tc", *where, "qdisc", verb, "dev", nic, "root", *words], "network")

        return end_there(change, lambda: self._host.guard(["tc", "qdisc", "del", "dev", nic, "root"]))

    def steered(self, links: Sequence[Link]) -> contextlib.AbstractContextManager[None]:
        """The guests' CPUs are another host's."""
        del links
        return contextlib.nullcontext()

    def reach(self, network: GuestNetwork, *, neighbour: int = 0) -> GuestNetwork:
        """The links by way of the host's NICs; one that has none there is refused.

        Of a guest's neighbours the first has the links that NICs are named for, and the others have none.
        """
        if neighbour:
            nics = self._neighbour_nics if neighbour == 1 else {}
            links = (self._through(link, nics[link.name], "virtoll-b-") for link in network.links if link.name in nics)
            return GuestNetwork(tuple(links))
        missing = [link.name for link in network.links if link.name not in self._nics]
        if missing:
            raise GuestError(f"{self._host.name} has no NIC for {', '.join(missing)}; it has: {', '.join(self._nics)}")
        return GuestNetwork(tuple(self._through(link, self._nics[link.name]) for link in network.links))

    def _through(self, link: Link, nic: RemoteNic, bridges: str = "virtoll-") -> Link:
        return replace(
            link,
            peer_mac=nic.peer_mac,
            peer_interface=nic.peer_interface,
            lab_interface=nic.name,
            trunk=nic.name,
            bridge=f"{bridges}{link.name}",
            port_interface=f"virtoll{link.owner}{link.name}",
        )

    def _nic(self, link: Link) -> str:
        """The host's NIC that a link leads by."""
        if link.trunk is None:
            raise GuestError(f"its link {link.name} does not lead to {self._host.name}")
        return link.trunk

    def bridge_port(self, link: Link, port: str | None = None) -> str:
        """The NIC's bridge, made at its first use."""
        if link.attachment != "bridge":
            raise GuestError(f"attachment: {link.attachment}: not on {self._host.name}; leave it out")
        nic = self._nic(link)
        if link.bridge not in self._bridges:
            remove = ["ip", "link", "del", link.bridge]
            withdraw = self._host.guard(remove)
            try:
                self._ip(f"link add {link.bridge} type bridge ageing_time {_NEVER} mcast_snooping 0")
            except GuestError:
                withdraw()  # one that was there already is somebody else's
                raise
            try:
                self._ip(
                    f"link set {nic} mtu {link.mtu_bytes} up",
                    f"link set {nic} master {link.bridge}",
                    f"link set {link.bridge} addrgenmode none",
                    f"link set {link.bridge} mtu {link.mtu_bytes} up",
                )
            except GuestError:
                with contextlib.suppress(GuestError):  # else the promise stands
                    self._host.run(remove, "network")
                    withdraw()
                raise
            self._bridges.add(link.bridge)
        self._made.setdefault(link.port_interface, (EndpointInterfaces(nic, port), None))
        if port is not None:
            self._made[link.port_interface] = (EndpointInterfaces(nic, port), None)
        return link.bridge

    def tap_port(self, link: Link, device: str | None = None, *, several_queues: bool = False) -> Port:
        """A tap in the NIC's bridge, by its name."""
        if device is not None:
            raise GuestError(f"vfio: a PCI device is handed in on this machine only, not on {self._host.name}")
        bridge, tap = self.bridge_port(link), link.port_interface
        withdraw = self._host.guard(["ip", "link", "del", tap])
        self._made[tap] = (EndpointInterfaces(self._nic(link), tap), withdraw)
        self._ip(
            f"tuntap add dev {tap} mode tap{' multi_queue' if several_queues else ''}",
            f"link set {tap} addrgenmode none",
            f"link set {tap} mtu {link.mtu_bytes} up",
            f"link set {tap} master {bridge}",
        )
        return Port(interface=tap)

    def are_of_neighbour(self, network: GuestNetwork) -> bool:
        """Whether none of these links is by a NIC of the measured guests'."""
        names = {nic.name for nic in self._neighbour_nics.values()}
        return names.issuperset(map(self._nic, network.links))

    def as_nics(self, network: GuestNetwork) -> GuestNetwork:
        """The links of the host itself, which has the NICs and no interface behind them: by the NICs' own addresses."""
        macs = {interface["ifname"]: interface["address"] for interface in _interfaces(self._host)}
        return GuestNetwork(tuple(replace(link, guest_mac=macs[self._nic(link)]) for link in network.links))

    def lend(self, network: GuestNetwork, namespace: str) -> None:
        """The NICs leave their bridges for a network namespace there (by its name), and lose what was set on them.

        They are switched on there: whoever faces them waits for a carrier before the guest is told of its network.
        """
        nics = [self._nic(link) for link in network.links]
        lines = [line for nic in nics for line in (f"link set {nic} nomaster", f"link set {nic} netns {namespace} up")]
        if lines:
            self._ip(*lines)
            self._lent_to |= dict.fromkeys(nics, namespace)

    def giving_back(self, network: GuestNetwork, namespace: str) -> list[list[str]]:
        """The commands by which the namespace loses the NICs to that of the host's first process, one a NIC."""
        words = ["ip", "-netns", namespace, "link", "set"]
        return [[*words, self._nic(link), "netns", "1"] for link in network.links]

    def take_back(self, network: GuestNetwork, namespace: str) -> None:
        """Undo ``lend``: into the bridges that there are, and until both ends of each cable pass frames again."""
        nics = {self._nic(link): link.bridge for link in network.links}
        if not nics:
            return
        for nic in nics:
            self._lent_to.pop(nic, None)
        self._ip(*(f"link set {nic} netns 1" for nic in nics), namespace=namespace)
        bridged = [f"link set {nic} master {bridge}" for nic, bridge in nics.items() if bridge in self._bridges]
        self._ip(*bridged, *(f"link set {nic} up" for nic in nics))
        faced = {link.peer_interface for link in network.links}
        wait_until(
            lambda: set(nics) <= _passing(self._host) and faced <= _passing(self._peer),
            _CARRIER_SECONDS,
            f"{', '.join(nics)} to pass frames again",
        )

    def endpoint_interfaces(self, network: GuestNetwork) -> dict[str, EndpointInterfaces]:
        """The host's interfaces on each link."""
        return {
            link.name: self._made[link.port_interface][0] for link in network.links if link.port_interface in self._made
        }

    def remove(self, network: GuestNetwork) -> None:
        """Remove a guest's taps; the bridges stay for the next."""
        made = {link.port_interface: self._made.pop(link.port_interface, (None, None))[1] for link in network.links}
        guarded = {tap: withdraw for tap, withdraw in made.items() if withdraw is not None}
        if guarded:
            with contextlib.suppress(GuestError):
                self._ip(*(f"link del {tap}" for tap in guarded), force=True)
            with contextlib.suppress(GuestError):
                for withdraw in guarded.values():
                    withdraw()

    def _ip(self, *lines: str, force: bool = False, namespace: str | None = None) -> None:
        """``force``: a line that fails does not end it. ``namespace``: in that network namespace there."""
        words = ["ip"]
        if namespace is not None:
            words += ["-netns", namespace]
        if force:
            words.append("-force")
        self._host.run([*words, "-batch", "-"], "network", stdin="".join(f"{line}\n" for line in lines).encode())


def _interfaces(host: CommandRunner) -> list[dict[str, Any]]:
    """What ``ip`` tells of each interface there."""
    interfaces: list[dict[str, Any]] = json.loads(host.run(["ip", "-json", "-details", "link"], "NICs"))
    return interfaces


def _passing(host: CommandRunner) -> set[str]:
    """Interfaces there that pass frames: the kernel says so some time after there is a carrier.

    Until then what is sent is dropped, and a bridge takes nothing from its port. One whose driver never tells of its
    carrier is in the state UNKNOWN for ever, and passes them.
    """

    def passes(link: dict[str, Any]) -> bool:
        port = link.get("linkinfo", {}).get("info_slave_data", {})
        runs = "LOWER_UP" in link["flags"] and link["operstate"] in ("UP", "UNKNOWN")
        return runs and port.get("state", "forwarding") == "forwarding"

    return {link["ifname"] for link in _interfaces(host) if passes(link)}
