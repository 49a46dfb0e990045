"""Interfaces of the lab's network namespace, by netlink: made, joined, moved, opened, removed.

Main type: ``Interfaces``. It must not know what a guest or a link is: that is ``network.py``.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from virtoll.errors import GuestError, LabError
from virtoll.lab import interrupts

TUN_DEVICE = "/dev/net/tun"
_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
_SIOCETHTOOL, _ETHTOOL_SGRO = 0x8946, 0x2C
_NODES = Path("/run/virtoll/nodes")


def receive_offload(interface: str) -> None:
    """Switch generic receive offload on: a veth then takes frames in by NAPI, and redirected XDP frames at all.

    Without it (or an XDP program) the kernel drops every frame that an XDP program of the other end redirects.
    UDP frames are not merged by it.
    """
    value = ctypes.create_string_buffer(struct.pack("=II", _ETHTOOL_SGRO, 1))
    request = struct.pack("16sP16x", interface.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as descriptor:
        fcntl.ioctl(descriptor, _SIOCETHTOOL, request)


def open_tap(interface: str) -> int:
    """An open descriptor of a tap, with the header of virtual NICs before each frame, as QEMU asks for it itself."""
    descriptor = os.open(TUN_DEVICE, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", interface.encode(), flags))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def nodes_allowed() -> bool:
    """True where the kernel lets this user make device nodes at all: in no user namespace but the host's own."""
    return Path("/proc/self/uid_map").read_text(encoding="ascii").split() == ["0", "0", "4294967295"]


def open_macvtap(interface: str) -> int:
    """An open descriptor of a macvtap's character device, by a node of the lab's own: devtmpfs is the whole host's.

    The kernel gives it the header of virtual NICs from the start. ``GuestError`` where no node may be made.
    """
    reported = sorted(Path("/sys/class/net", interface).glob("tap*/dev"))
    if not reported:
        raise GuestError(
            f"attachment: macvtap: /sys/class/net has no number of {interface}'s device (this kernel refuses the lab a "
            "/sys of its own); run as root, or choose another attachment"
        )
    major, minor = map(int, reported[0].read_text(encoding="ascii").split(":"))
    node = _NODES / interface
    try:
        _nodes_folder()
        node.unlink(missing_ok=True)
        os.mknod(node, 0o600 | 0o020000, os.makedev(major, minor))
        return os.open(node, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise GuestError(
            f"attachment: macvtap: the device node of {interface} could not be made or opened ({error.strerror}); "
            "run as root, or choose another attachment"
        ) from error


def _nodes_folder() -> None:
    """A memory file system on which device nodes work; the lab's other folders are mounted ``nodev``."""
    if not _NODES.is_mount():
        _NODES.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", "mode=0700,size=64k,nosuid,noexec", "tmpfs", str(_NODES)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise OSError(0, done.stderr.strip() or "mount failed")


def in_namespace(pid: int, batch: Sequence[str]) -> None:
    """Lines for ``ip -batch`` in the network namespace of process ``pid``; ``LabError`` says what it complained of."""
    command = ["nsenter", f"--net=/proc/{pid}/ns/net", "--", "ip", "-batch", "-"]
    done = subprocess.run(command, input="\n".join(batch) + "\n", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"'ip' in the namespace of process {pid}: {done.stderr.strip().splitlines()[0]}")


class Interfaces:
    """A netlink socket of this namespace. Every method raises ``OSError``, or ``LabError`` where the kernel refuses.

    pyroute2 works by an event loop of its own, which no exception from outside may leave: interrupts wait. It is
    imported here and not above, because most commands touch no interface and its import is a long one.
    """

    def __init__(self) -> None:
        """Open the socket."""
        from pyroute2 import IPRoute

        with interrupts.deferred():
            self._route = IPRoute()

    def close(self) -> None:
        """Close the socket; interfaces stay."""
        with interrupts.deferred():
            self._route.close()

    def there(self, name: str) -> bool:
        """Whether an interface of that name is in this namespace."""
        return bool(self._numbers(name))

    def veth(self, name: str, mac: str | None, other: str, other_mac: str | None, mtu_bytes: int) -> None:
        """A pair, its first end switched on; the kernel makes up the addresses that are not given."""
        peer: dict[str, Any] = {"ifname": other, "mtu": mtu_bytes, **({"address": other_mac} if other_mac else {})}
        first: dict[str, Any] = {"address": mac} if mac else {}
        self._link("add", ifname=name, kind="veth", peer=peer, mtu=mtu_bytes, **first)
        self._link("set", index=self.index(name), state="up")

    def tap(self, name: str, mac: str | None = None, *, several_queues: bool = False) -> None:
        """A tap that stays when nobody has it open; who opens it must want one queue, or ``several_queues``."""
        queues = {"ifr": {"multi_queue": True}} if several_queues else {}
        self._link("add", ifname=name, kind="tuntap", mode="tap", **queues)
        if mac is not None:
            self._link("set", index=self.index(name), address=mac)

    def macvlan(self, name: str, mac: str, below: str, kind: str, mtu_bytes: int) -> None:
        """A ``macvlan`` or ``macvtap`` (``kind``) on the interface ``below``, in bridge mode."""
        mode = {f"{kind}_mode": "bridge"}
        self._link("add", ifname=name, kind=kind, link=self.index(below), address=mac, mtu=mtu_bytes, **mode)

    def bridge(self, name: str, mtu_bytes: int, **settings: int) -> None:
        """A bridge that is switched on and listens to no multicast reports; more settings as ``br_...``."""
        self._link("add", ifname=name, kind="bridge", br_mcast_snooping=0, **settings)
        self._link("set", index=self.index(name), mtu=mtu_bytes, state="up")

    def enslave(self, port: str, bridge: str, mtu_bytes: int) -> None:
        """Make an interface a port of a bridge and switch it on."""
        index = self.index(port)
        self._link("set", index=index, mtu=mtu_bytes, master=self.index(bridge))
        self._link("set", index=index, state="up")

    def up(self, name: str) -> None:
        """Switch an interface on."""
        self._link("set", index=self.index(name), state="up")

    def move(self, name: str, pid: int) -> None:
        """Move an interface to the network namespace of process ``pid``; it is switched off by that."""
        self._link("set", index=self.index(name), net_ns_pid=pid)

    def remove(self, name: str) -> None:
        """Remove an interface; nothing where it is not here."""
        with contextlib.suppress(LabError):
            self._link("del", index=self.index(name))

    def index(self, name: str) -> int:
        """The kernel's number of an interface; ``LabError`` where it is not here."""
        numbers = self._numbers(name)
        if not numbers:
            raise LabError(f"interface {name} is not in the lab")
        return numbers[0]

    def _link(self, command: str, **attributes: Any) -> None:
        with _request(), self._socket() as route:
            route.link(command, **attributes)

    def _numbers(self, name: str) -> list[int]:
        with _request(), self._socket() as route:
            return [int(number) for number in route.link_lookup(ifname=name)]

    @contextlib.contextmanager
    def _socket(self) -> Iterator[Any]:
        """The socket; in another thread one of its own: pyroute2 makes one for each, and keeps it for ever."""
        if threading.current_thread() is threading.main_thread():
            yield self._route
            return
        from pyroute2 import IPRoute

        with IPRoute() as route:
            yield route


@contextlib.contextmanager
def _request() -> Iterator[None]:
    from pyroute2.netlink.exceptions import NetlinkError

    with interrupts.deferred():
        try:
            yield
        except NetlinkError as error:
            raise LabError(str(error)) from error


def taps_allowed() -> bool:
    """True where this user may open /dev/net/tun; Debian allows everybody, some hosts only root."""
    return os.access(TUN_DEVICE, os.R_OK | os.W_OK)
