"""The lab's network: for each guest its own links, each a veth pair from the peer's namespace to one port of the guest.

A guest has one link a traffic source (``in0``..``in2``), one towards the sink (``out``) and one that carries the
timekeeper's marks and nothing else (``marks``). Each link is a network of its own (10.64+g.n.0/24: the guest is .1,
the peer .2), and has its own bridge where the guest's port is a tap or a veth: no guest ever sees another's frames.

Main types: ``Link`` and ``GuestNetwork`` (plain data, handed to the platforms), ``Network`` (makes and removes them).
It must not know platforms: they choose one of ``host_port``, ``tap_port`` and
``namespace_port`` for each link.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from virtoll.errors import GuestError, LabError

MAXIMUM_SOURCES = 3
TUN_DEVICE = "/dev/net/tun"
_MAXIMUM_GUESTS = 190
_NEVER = 1_000_000_000  # hundredths of a second
_SIOCETHTOOL, _ETHTOOL_SGRO = 0x8946, 0x2C


@dataclass(frozen=True)
class Link:
    """One link of a guest; ``role`` is ``source``, ``sink`` or ``marks``. MAC addresses as text, MTU in bytes.

    ``trunk``: the NIC that leads to the peer on another host; its bridge is shared by all guests. None: a veth pair.
    """

    name: str
    role: str
    mtu_bytes: int
    guest_mac: str
    guest_address: str
    peer_mac: str
    peer_address: str
    peer_interface: str
    lab_interface: str
    port_interface: str
    bridge: str
    trunk: str | None = None

    @property
    def outer_interface(self) -> str:
        """The bridge's port where the guest's own end is a veth that was moved away."""
        return f"v{self.port_interface[1:]}"


@dataclass(frozen=True)
class GuestNetwork:
    """All links of one guest: first the sources in order, then the sink's, then the timekeeper's."""

    links: tuple[Link, ...]

    @property
    def sources(self) -> tuple[Link, ...]:
        """The links that traffic enters the guest by."""
        return tuple(link for link in self.links if link.role == "source")

    @property
    def sink(self) -> Link:
        """The link that traffic leaves the guest by."""
        return next(link for link in self.links if link.role == "sink")

    @property
    def marks(self) -> Link | None:
        """The timekeeper's link, or None where marks come over the agent's channel."""
        return next((link for link in self.links if link.role == "marks"), None)


def plan_links(index: int, sources: int = 1, mtu_bytes: int = 1500, *, marks: bool = True) -> GuestNetwork:
    """Names and addresses of guest ``index``'s links (0 to 189); pure."""
    if not 0 <= index < _MAXIMUM_GUESTS or not 1 <= sources <= MAXIMUM_SOURCES:
        raise LabError(
            f"no network plan for guest {index} with {sources} sources; at most {_MAXIMUM_GUESTS} guests and 3 sources"
        )
    roles = [(f"in{n}", "source", n) for n in range(sources)] + [("out", "sink", 3)]
    roles += [("marks", "marks", 4)] if marks else []
    return GuestNetwork(tuple(_plan_link(index, name, role, place, mtu_bytes) for name, role, place in roles))


def _plan_link(index: int, name: str, role: str, place: int, mtu_bytes: int) -> Link:
    tag = f"{index}{name}"
    return Link(
        name=name,
        role=role,
        mtu_bytes=mtu_bytes,
        guest_mac=f"02:76:74:01:{index:02x}:{place:02x}",
        guest_address=f"10.{64 + index}.{place}.1",
        peer_mac=f"02:76:74:02:{index:02x}:{place:02x}",
        peer_address=f"10.{64 + index}.{place}.2",
        peer_interface=f"p{tag}",
        lab_interface=f"l{tag}",
        port_interface=f"g{tag}",
        bridge=f"b{tag}",
    )


def over_trunks(network: GuestNetwork, near: Sequence[str], far: Sequence[tuple[str, str]]) -> GuestNetwork:
    """The same links, sources and sink by way of this machine's NICs ``near`` to ``far`` ones (name, MAC), sink's last.

    Links of more sources than there are NICs stay as they were; the link for marks always does.
    """
    ways = {**{f"in{place}": place for place in range(len(near) - 1)}, "out": len(near) - 1}

    def through(link: Link, place: int) -> Link:
        nic, (interface, mac) = near[place], far[place]
        return replace(
            link, peer_mac=mac, peer_interface=interface, lab_interface=nic, bridge=f"t{link.name}", trunk=nic
        )

    return GuestNetwork(tuple(through(one, ways[one.name]) if one.name in ways else one for one in network.links))


def taps_allowed() -> bool:
    """True where this user may open /dev/net/tun; Debian allows everybody, some hosts only root."""
    return os.access(TUN_DEVICE, os.R_OK | os.W_OK)


def receive_offload(interface: str) -> None:
    """Switch generic receive offload on: a veth then takes frames in by NAPI, and redirected XDP frames at all.

    Without it (or an XDP program) the kernel lets fall every frame that an XDP program of the other end redirects.
    UDP frames are not merged by it.
    """
    value = ctypes.create_string_buffer(struct.pack("=II", _ETHTOOL_SGRO, 1))
    request = struct.pack("16sP16x", interface.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as descriptor:
        fcntl.ioctl(descriptor, _SIOCETHTOOL, request)


@contextlib.contextmanager
def _refused(link: Link) -> Iterator[None]:
    """A link that the kernel refuses costs the guest that wanted it, not the campaign."""
    try:
        yield
    except (NetlinkError, OSError) as error:
        raise GuestError(f"its link {link.name} could not be made: {error}") from error


class Network:
    """Makes links in the lab's network namespace; ``peer_pid`` is a process in the peer's."""

    def __init__(self, peer_pid: int) -> None:
        """Open a netlink socket in this (the lab's) namespace."""
        self._route = IPRoute()
        self._peer_pid = peer_pid
        self._ports: dict[str, str] = {}

    def close(self) -> None:
        """Close the netlink socket; the interfaces stay until their namespace ends."""
        self._route.close()

    def host_port(self, link: Link) -> None:
        """The link ends at the lab's own namespace: the guest is the host itself."""
        with _refused(link):
            if link.trunk is None:
                self._veth(link.lab_interface, link.guest_mac, link.peer_interface, link.peer_mac, link.mtu_bytes)
                self._to_peer(link)
            else:
                self._bridged(link)
                self._outer_port(link)

    def tap_port(self, link: Link) -> str:
        """The link ends at a tap in a bridge of its own; returns the tap's name."""
        with _refused(link):
            self._bridged(link)
            self._ports[link.port_interface] = link.port_interface
            self._route.link("add", ifname=link.port_interface, kind="tuntap", mode="tap")
            self._enslave(link, link.port_interface)
        return link.port_interface

    def raw_port(self, link: Link) -> str:
        """The link ends at a veth that stays here, for a program that opens it by a packet socket; returns its name.

        Its own MAC is not the guest's: the lab's kernel drops the guest's frames as somebody else's.
        """
        with _refused(link):
            self._bridged(link)
            self._outer_port(link, own=False)
        return link.port_interface

    def namespace_port(self, link: Link, pid: int) -> None:
        """The link ends at a veth that is moved into the namespace of process ``pid``, through a bridge of its own."""
        with _refused(link):
            self._bridged(link)
            self._outer_port(link)
            self._route.link("set", index=self._index(link.port_interface), net_ns_pid=pid)

    def ports(self, network: GuestNetwork) -> dict[str, str]:
        """By link's name, the port of its bridge that faces the guest; none for links that end in the lab itself."""
        made = [link for link in network.links if link.port_interface in self._ports]
        return {link.name: self._ports[link.port_interface] for link in made}

    def back_to_back(self, names: tuple[str, str], macs: tuple[str, str], mtu_bytes: int) -> None:
        """A veth pair inside the peer's namespace: generator and sink with nothing between."""
        try:
            self._veth(names[0], macs[0], names[1], macs[1], mtu_bytes)
            for name in names:
                receive_offload(name)
            for index in [self._index(name) for name in names]:
                self._route.link("set", index=index, net_ns_pid=self._peer_pid)
        except (NetlinkError, OSError) as error:
            raise GuestError(f"the pair for the calibration could not be made: {error}") from error

    def remove(self, network: GuestNetwork) -> None:
        """Remove the links of a guest that has ended; what its namespace took along is gone already."""
        for link in network.links:
            self._ports.pop(link.port_interface, None)
            own = (link.lab_interface, link.bridge) if link.trunk is None else ()
            for name in (link.outer_interface, link.port_interface, *own):
                with contextlib.suppress(NetlinkError, LabError):
                    self._route.link("del", index=self._index(name))

    def adopt(self, nics: Sequence[str], outside: int) -> None:
        """Take NICs into the lab from the namespace outside (a descriptor); physical ones go back when the lab ends."""
        for nic in nics:
            enter = ["nsenter", f"--net=/proc/self/fd/{outside}", "--"]
            command = [*enter, "ip", "link", "set", "dev", nic, "netns", str(os.getpid())]
            done = subprocess.run(command, pass_fds=(outside,), capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise LabError(f"testbed: interface {nic} could not be taken into the lab: {done.stderr.strip()}")

    def _outer_port(self, link: Link, *, own: bool = True) -> None:
        """A veth pair from the link's bridge to an interface that is the guest's ``own``, or will be."""
        self._ports[link.port_interface] = outside = link.outer_interface
        if own:
            self._veth(outside, None, link.port_interface, link.guest_mac, link.mtu_bytes)
        else:
            self._veth(outside, None, link.port_interface, None, link.mtu_bytes)
            self._route.link("set", index=self._index(link.port_interface), state="up")
        self._enslave(link, outside)

    def _trunked(self, link: Link, nic: str) -> None:
        """The shared bridge of a NIC, made at its first use; it never forgets where a guest is."""
        if not self._route.link_lookup(ifname=link.bridge):
            self._route.link("add", ifname=link.bridge, kind="bridge", br_mcast_snooping=0, br_ageing_time=_NEVER)
            self._route.link("set", index=self._index(link.bridge), mtu=link.mtu_bytes, state="up")
            self._enslave(link, nic)
            with contextlib.suppress(OSError):  # a NIC that cannot is used as it is
                receive_offload(nic)

    def _bridged(self, link: Link) -> None:
        if link.trunk is not None:
            self._trunked(link, link.trunk)
            return
        self._veth(link.lab_interface, None, link.peer_interface, link.peer_mac, link.mtu_bytes)
        self._route.link("add", ifname=link.bridge, kind="bridge", br_mcast_snooping=0)
        self._route.link("set", index=self._index(link.bridge), mtu=link.mtu_bytes, state="up")
        self._enslave(link, link.lab_interface)
        self._to_peer(link)

    def _enslave(self, link: Link, port: str) -> None:
        index = self._index(port)
        self._route.link("set", index=index, mtu=link.mtu_bytes, master=self._index(link.bridge))
        self._route.link("set", index=index, state="up")

    def _veth(self, one: str, one_mac: str | None, other: str, other_mac: str | None, mtu_bytes: int) -> None:
        peer: dict[str, Any] = {"ifname": other, "mtu": mtu_bytes, **({"address": other_mac} if other_mac else {})}
        first: dict[str, Any] = {"address": one_mac} if one_mac else {}
        self._route.link("add", ifname=one, kind="veth", peer=peer, mtu=mtu_bytes, **first)
        self._route.link("set", index=self._index(one), state="up")

    def _to_peer(self, link: Link) -> None:
        if link.role == "source":
            receive_offload(link.lab_interface)
        self._route.link("set", index=self._index(link.peer_interface), net_ns_pid=self._peer_pid)

    def _index(self, name: str) -> int:
        found = self._route.link_lookup(ifname=name)
        if not found:
            raise LabError(f"interface {name} is not in the lab")
        return int(found[0])
