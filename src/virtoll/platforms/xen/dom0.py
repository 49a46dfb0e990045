"""What Xen's driver asks of dom0: which domains there are, their end, dom0's own CPUs, and links that it routes.

All through ``GuestHost``; whatever outlives a command is guarded before it is made. Must not know the guest's agent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from virtoll.errors import GuestError
from virtoll.hosts.base import CommandRunner, GuestHost
from virtoll.lab.network import Link
from virtoll.lab.residue import lab_named_in
from virtoll.platforms.host import SharedResources
from virtoll.platforms.process_guest import GuestRemains
from virtoll.platforms.promises import until_gone

_END_SECONDS = 30.0
_DESTROY_SECONDS = 60.0
_DEVICE_SECONDS = 60.0
_FIRST_TABLE = 27_600  # routing tables of routed links: two a link from here on


def domains(host: CommandRunner) -> list[str]:
    """Names of the host's domains, without dom0."""
    rows = [line.split() for line in host.run(["xl", "list"], "domains").splitlines()[1:]]
    return [row[0] for row in rows if row and row[0] != "Domain-0"]


def destroy(host: CommandRunner, name: str, patience_seconds: float = _END_SECONDS, devices: int = 0) -> None:
    """Until it is gone: a domain that dies by itself is there for a while. ``GuestRemains`` when it does not go.

    ``devices``: how many PCI devices it has. xl waits some ten seconds for a dead guest to let go of each.
    """
    patience_seconds += devices * _DEVICE_SECONDS
    until_gone(
        host,
        lambda: f"domain {name}" if name in domains(host) else "",
        patience_seconds,
        lambda: host.run(["xl", "destroy", name], "end", _DESTROY_SECONDS + devices * _DEVICE_SECONDS),
    )


def wait_for_removal(host: GuestHost, interfaces: Iterable[str], patience_seconds: float = _END_SECONDS) -> None:
    """Until a destroyed domain's ``interfaces`` are gone; ``GuestRemains`` when they stay.

    dom0's kernel removes a vif by itself, and on a busy host some time after ``xl list`` has lost the domain.
    """
    awaited = set(interfaces)

    def left() -> str:
        names = sorted(awaited & _interfaces(host))
        return f"the guest's {', '.join(names)}" if names else ""

    until_gone(host, left, patience_seconds)


def _interfaces(host: GuestHost) -> set[str]:
    return {line.split()[0].partition("@")[0] for line in host.run(["ip", "-brief", "link"], "network").splitlines()}


def remove_leftovers(host: CommandRunner, alive: frozenset[str] = frozenset()) -> list[str]:
    """Destroy domains that a run made which is not among ``alive`` (labs' ids); what was destroyed. Nothing else."""
    removed = []
    for name in domains(host):
        lab = lab_named_in(name)
        if lab is not None and lab not in alive:
            destroy(host, name)
            removed.append(f"Xen domain {name}")
    return removed


@dataclass
class _Before:
    """How to put dom0's vCPUs back, for how many guests they are elsewhere, and what withdraws the guards."""

    commands: list[list[str]]
    withdraw: list[Callable[[], None]]
    guests: int = 0


@dataclass
class Dom0Pin:
    """One guest's wish that dom0's vCPUs be on ``cpus`` while it runs; none given: they stay where they are.

    What the first guest found is put back when the last one ends or is parked, also should the controller die.
    """

    host: GuestHost
    cpus: tuple[int, ...]
    shared: SharedResources
    _taken: bool = False

    def take(self) -> None:
        """Pin them; another guest that runs at the same time and wants other CPUs gets these from now on."""
        if not self.cpus or self._taken:
            return
        before = self.shared.find(_Before)
        if before is None:
            commands = _as_they_are(self.host.run(["xl", "vcpu-list", "Domain-0"], "dom0"))
            before = _Before(commands, [self.host.guard(argv) for argv in commands])
            self.shared.keep(before)
        before.guests += 1
        self._taken = True
        self.host.run(["xl", "vcpu-pin", "Domain-0", "all", ",".join(map(str, self.cpus))], "dom0")

    def give_back(self) -> None:
        """Put them back, if no other guest wants them; ``GuestRemains`` when Xen does not."""
        before = self.shared.find(_Before) if self._taken else None
        if before is None:
            return
        self._taken = False
        before.guests -= 1
        if before.guests:
            return
        self.shared.drop(_Before)
        try:
            for argv in before.commands:
                self.host.run(argv, "dom0")
        except GuestError as error:  # the guards stay: they try it once more when the run ends
            raise GuestRemains(f"dom0's vCPUs on {self.host.name} are not back where they were: {error}") from error
        for forget in before.withdraw:
            forget()


def _as_they_are(listed: str) -> list[list[str]]:
    """The commands that put dom0's vCPUs where ``xl vcpu-list`` says that they are: hard and soft affinity of each."""
    affinities: dict[str, tuple[str, str]] = {}
    for line in listed.splitlines()[1:]:
        columns = line.split(maxsplit=6)  # name, domain, vCPU, CPU, state, time, 'hard / soft'
        hard, slash, soft = columns[6].partition("/") if len(columns) == 7 else ("", "", "")
        if not slash:
            raise GuestError(f"'xl vcpu-list' says where dom0's vCPUs may run in a way that is not known: {line!r}")
        affinities[columns[2]] = (hard.strip(), soft.strip())
    if not affinities:
        raise GuestError("'xl vcpu-list' names no vCPU of dom0: leave dom0_cpus out")
    if len(set(affinities.values())) == 1:
        affinities = {"all": next(iter(affinities.values()))}
    return [["xl", "vcpu-pin", "Domain-0", number, *where] for number, where in affinities.items()]


@contextlib.contextmanager
def routed_link(host: GuestHost, link: Link, vif: str) -> Iterator[None]:
    """Have dom0's kernel route between a traffic link's bridge and the guest's interface ``vif`` in dom0.

    The bridge gets a veth whose end has the router's MAC address. What comes in there goes to the guest, and what comes
    in from the guest goes there, by a table for each incoming interface. Neighbours are permanent.
    """
    _refuse_strict_filter(host)
    inner, outer = f"vtr{link.owner}{link.name}", f"vto{link.owner}{link.name}"
    tables = (_FIRST_TABLE + 512 * link.owner + 2 * link.number, _FIRST_TABLE + 512 * link.owner + 2 * link.number + 1)
    undo = [["ip", "link", "del", inner], *(["ip", "rule", "del", "lookup", str(table)] for table in tables)]
    withdraw = [host.guard(argv) for argv in undo]
    try:
        host.run(
            ["ip", "-batch", "-"],
            "router",
            stdin="".join(
                f"{line}\n"
                for line in (
                    f"link set {vif} nomaster down",
                    f"link set {vif} address {link.router_macs[1]}",
                    f"link add {inner} address {link.router_macs[0]} type veth peer name {outer}",
                    f"link set {outer} mtu {link.mtu_bytes} master {link.bridge} up",
                    f"link set {inner} mtu {link.mtu_bytes} up",
                    f"link set {vif} mtu {link.mtu_bytes} up",
                    f"rule add iif {inner} lookup {tables[0]}",
                    f"rule add iif {vif} lookup {tables[1]}",
                    f"route add default via {link.guest_address} dev {vif} onlink table {tables[0]}",
                    f"route add default via {link.peer_address} dev {inner} onlink table {tables[1]}",
                    f"neigh add {link.guest_address} lladdr {link.guest_mac} nud permanent dev {vif}",
                    f"neigh add {link.peer_address} lladdr {link.peer_mac} nud permanent dev {inner}",
                )
            ).encode(),
        )
        for interface in (inner, vif):
            for setting, value in (("forwarding", "1"), ("rp_filter", "0")):
                host.write(Path(f"/proc/sys/net/ipv4/conf/{interface}/{setting}"), value.encode())
        yield
    finally:
        for argv, forget in zip(undo, withdraw, strict=True):
            with contextlib.suppress(GuestError):
                host.run(argv, "router")
            with contextlib.suppress(GuestError):
                forget()


def _refuse_strict_filter(host: GuestHost) -> None:
    """The kernel takes the stricter of 'all' and the interface's own; 'all' is the host's and is left as it is."""
    rp_filter = host.read(Path("/proc/sys/net/ipv4/conf/all/rp_filter")).decode().strip()
    if rp_filter != "0":
        raise GuestError(
            f"attachment: routed: {host.name} drops what comes back by another way (net.ipv4.conf.all.rp_filter is "
            f"{rp_filter}): set it to 0 there, or use 'attachment: bridge'"
        )
