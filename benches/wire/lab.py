# ruff: noqa: INP001
"""Namespaces of the bench: generator (g0) - (u0) router (u1) - (s0) sink, by veth pairs; and counters read in them."""

import contextlib
import ctypes
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from peers import FAR, GENERATOR_MAC, NEAR, ROUTER_MAC, SOURCE

GENERATOR, ROUTER, SINK = "vtbench-g", "vtbench-u", "vtbench-s"
NAMES = (GENERATOR, ROUTER, SINK)
SINK_CPU = 1
CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


def sh(command: str) -> None:
    """A command that must succeed."""
    subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL)  # noqa: S602


def inside(name: str, command: Sequence[str]) -> list[str]:
    """A command as one for a namespace."""
    return ["ip", "netns", "exec", name, *command]


@contextlib.contextmanager
def namespaces() -> Iterator[None]:
    """Makes the namespaces and removes them, whatever happens."""
    remove()
    try:
        for name in NAMES:
            sh(f"ip netns add {name}")
            sh(f"ip -n {name} link set lo up")
            sh(f"ip netns exec {name} sysctl -qw net.ipv6.conf.default.disable_ipv6=1")
        sh(
            f"ip link add g0 netns {GENERATOR} mtu 1600 address {GENERATOR_MAC} "
            f"type veth peer name u0 netns {ROUTER} mtu 1600 address {ROUTER_MAC}"
        )
        sh(
            f"ip link add s0 netns {SINK} mtu 1600 address 02:00:00:00:02:01 "
            f"type veth peer name u1 netns {ROUTER} mtu 1600 address 02:00:00:00:02:02"
        )
        for name, device, address in (
            (GENERATOR, "g0", SOURCE),
            (ROUTER, "u0", NEAR),
            (ROUTER, "u1", "10.99.2.2"),
            (SINK, "s0", FAR),
        ):
            sh(f"ip -n {name} addr add {address}/24 dev {device}")
            sh(f"ip -n {name} link set {device} up")
            sh(f"ip netns exec {name} ethtool -K {device} tx off tso off gso off gro off")
        settings = "net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.u0.rp_filter=0"
        sh(f"ip netns exec {ROUTER} sysctl -qw {settings}")
        sh(f"ip -n {ROUTER} neigh replace {FAR} lladdr 02:00:00:00:02:01 dev u1 nud permanent")
        sh(f"ip -n {ROUTER} neigh replace {SOURCE} lladdr {GENERATOR_MAC} dev u0 nud permanent")
        lead_away()
        sh(f"ip -n {SINK} neigh replace 10.99.2.2 lladdr 02:00:00:00:02:02 dev s0 nud permanent")
        sh(f"ip -n {SINK} route add default via 10.99.2.2")
        yield
    finally:
        remove()


def lead_away() -> None:
    """The generator's neighbour and route, which testpmd leaves behind deleted: it switches the interface off."""
    sh(f"ip -n {GENERATOR} link set g0 up")
    sh(f"ip -n {GENERATOR} neigh replace {NEAR} lladdr {ROUTER_MAC} dev g0 nud permanent")
    sh(f"ip -n {GENERATOR} route replace default via {NEAR}")


def add_ipv6() -> None:
    """Addresses and routes for the generator that sends IPv6 alone."""
    ends = ((GENERATOR, "g0", "fd99:1::1"), (ROUTER, "u0", "fd99:1::2"), (ROUTER, "u1", "fd99:2::2"))
    for name, device, address in (*ends, (SINK, "s0", "fd99:2::1")):
        sh(f"ip netns exec {name} sysctl -qw net.ipv6.conf.{device}.disable_ipv6=0 net.ipv6.conf.{device}.accept_dad=0")
        sh(f"ip -n {name} addr add {address}/64 dev {device} nodad")
    sh(f"ip netns exec {ROUTER} sysctl -qw net.ipv6.conf.all.forwarding=1")
    sh(f"ip -n {ROUTER} neigh replace fd99:2::1 lladdr 02:00:00:00:02:01 dev u1 nud permanent")


def remove() -> None:
    """Removes the bench's namespaces, and with them their interfaces."""
    for name in NAMES:
        if Path("/run/netns", name).exists():
            subprocess.run(["ip", "netns", "del", name], check=False)


def place(own_core: bool, gro: bool) -> None:
    """Lets the receiving side of u0 run in the sender's softirq, or in a thread on a core of its own.

    That thread, and the way for redirected frames, exist with GRO on or an XDP program attached.
    """
    lead_away()
    sh(f"ip netns exec {ROUTER} ethtool -K u0 gro {'on' if gro else 'off'}")
    threaded = f"echo {int(own_core)} > /sys/class/net/u0/threaded"
    subprocess.run(inside(ROUTER, ["sh", "-c", threaded]), check=False, stderr=subprocess.DEVNULL)
    if own_core:
        pin_receiver()


def pin_receiver() -> None:
    """Pins the thread that receives on u0, and prefers it to other work."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "comm").read_text(encoding="ascii", errors="replace").startswith("napi/u0-"):
                os.sched_setaffinity(int(process.name), {SINK_CPU})
                os.setpriority(os.PRIO_PROCESS, int(process.name), -19)


class Counters:
    """Reads received and sent packets of interfaces in several namespaces, in one process."""

    def __init__(self) -> None:
        """Opens the namespaces."""
        self._files = {name: os.open(f"/run/netns/{name}", os.O_RDONLY) for name in NAMES}
        self._own = os.open("/proc/self/ns/net", os.O_RDONLY)

    def read(self) -> tuple[float, dict[str, int]]:
        """The time, and counters by `interface.rx`, `.rx_drop`, `.tx`, `.tx_drop`."""
        now, counters = time.monotonic(), {}
        for file in self._files.values():
            _LIBC.setns(file, CLONE_NEWNET)
            for line in Path("/proc/thread-self/net/dev").read_text(encoding="ascii").splitlines()[2:]:
                name, _, numbers = line.partition(":")
                words = numbers.split()
                for key, place_ in (("rx", 1), ("rx_drop", 3), ("tx", 9), ("tx_drop", 11)):
                    counters[f"{name.strip()}.{key}"] = int(words[place_])
        _LIBC.setns(self._own, CLONE_NEWNET)
        return now, counters

    def close(self) -> None:
        """Closes the namespaces."""
        for file in (*self._files.values(), self._own):
            os.close(file)
