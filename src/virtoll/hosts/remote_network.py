"""Links of guests on another host: from the network peer here over a NIC there, whose bridge all its guests share.

Main types: ``RemoteNic`` (one NIC there and what it faces here) and ``RemoteNetwork``. Bridges and taps are made there
by ``ip``, named ``virtoll-...``, and guarded: they go when the connection does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from virtoll.errors import GuestError
from virtoll.hosts.remote_host import RemoteHost
from virtoll.lab.attachments import EndpointInterfaces, Port
from virtoll.lab.network import GuestNetwork, Link

_NEVER = 1_000_000_000  # hundredths of a second


@dataclass(frozen=True)
class RemoteNic:
    """``name`` is the host's NIC; ``peer_interface`` and ``peer_mac`` what it faces in the network peer's namespace."""

    name: str
    peer_interface: str
    peer_mac: str


class RemoteNetwork:
    """The ``Links`` of another host; ``nics`` by link's name (``in0``, ``out``, ``marks``, ...)."""

    def __init__(self, host: RemoteHost, nics: dict[str, RemoteNic]) -> None:
        """Nothing is made before the first link."""
        self._host = host
        self._nics = nics
        self._bridges: set[str] = set()
        self._made: dict[str, tuple[EndpointInterfaces, Callable[[], None] | None]] = {}

    @property
    def local(self) -> None:
        """They end on another host."""
        return

    def reach(self, network: GuestNetwork) -> GuestNetwork:
        """The links by way of the host's NICs; one that has none there is refused."""
        missing = [link.name for link in network.links if link.name not in self._nics]
        if missing:
            raise GuestError(f"{self._host.name} has no NIC for {', '.join(missing)}; it has: {', '.join(self._nics)}")
        return GuestNetwork(tuple(self._through(link, self._nics[link.name]) for link in network.links))

    def _through(self, link: Link, nic: RemoteNic) -> Link:
        return replace(
            link,
            peer_mac=nic.peer_mac,
            peer_interface=nic.peer_interface,
            lab_interface=nic.name,
            trunk=nic.name,
            bridge=f"virtoll-{link.name}",
            port_interface=f"virtoll{link.owner}{link.name}",
        )

    def bridge_port(self, link: Link, port: str | None = None) -> str:
        """The NIC's bridge, made at its first use."""
        if link.attachment != "bridge":
            raise GuestError(f"attachment: {link.attachment}: not on {self._host.name}; leave it out")
        nic = self._nics[link.name].name
        if link.bridge not in self._bridges:
            withdraw = self._host.guard(["ip", "link", "del", link.bridge])
            try:
                self._ip(
                    f"link add {link.bridge} type bridge ageing_time {_NEVER}",
                    f"link set {nic} mtu {link.mtu_bytes} up",
                    f"link set {nic} master {link.bridge}",
                    f"link set {link.bridge} mtu {link.mtu_bytes} up",
                )
            except GuestError:
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
        self._made[tap] = (EndpointInterfaces(self._nics[link.name].name, tap), withdraw)
        self._ip(
            f"tuntap add dev {tap} mode tap{' multi_queue' if several_queues else ''}",
            f"link set {tap} mtu {link.mtu_bytes} up",
            f"link set {tap} master {bridge}",
        )
        return Port(interface=tap)

    def endpoint_interfaces(self, network: GuestNetwork) -> dict[str, EndpointInterfaces]:
        """The host's interfaces on each link."""
        return {
            one.name: self._made[one.port_interface][0] for one in network.links if one.port_interface in self._made
        }

    def remove(self, network: GuestNetwork) -> None:
        """Remove a guest's taps; the bridges stay for the next."""
        made = {one.port_interface: self._made.pop(one.port_interface, (None, None))[1] for one in network.links}
        guarded = {tap: withdraw for tap, withdraw in made.items() if withdraw is not None}
        if guarded:
            with contextlib.suppress(GuestError):
                self._ip(*(f"link del {tap}" for tap in guarded), force=True)
            with contextlib.suppress(GuestError):
                for withdraw in guarded.values():
                    withdraw()

    def _ip(self, *lines: str, force: bool = False) -> None:
        """``force``: a line that fails does not end it."""
        words = ["ip", "-force", "-batch", "-"] if force else ["ip", "-batch", "-"]
        self._host.run(words, "network", stdin="".join(f"{line}\n" for line in lines).encode())
