"""Xen by ``xl``: guests of type PV, PVH and HVM on a host that runs as dom0, whichever host that is.

The agent's channel is the guest's console: hvc0, for HVM its serial line. A guest is made paused, so that its console
is held before its first word. Its vifs are ports of the network's bridges or, routed, interfaces between which dom0's
kernel routes: rules for each incoming interface, without addresses and without packet filters.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from virtoll.agent import AgentClient
from virtoll.errors import GuestError
from virtoll.experiment import Parameters
from virtoll.lab.network import GuestNetwork, Link
from virtoll.platforms.attaching import Attached
from virtoll.platforms.base import Evidence, GuestHost, GuestRequest, HostNetwork, Probe, Site, require_site
from virtoll.platforms.managed import ManagedMachine

_MIB = 2**20
_CREATE_SECONDS = 180.0
_PROBE_SECONDS = 120.0
_FIRST_TABLE = 27_600  # routing tables of routed links: two a link from here on
_NEEDS = {"pvh": "hvm", "hvm": "hvm", "pv": "pv"}
_OURS = re.compile(r"^(virtoll-[0-9a-f]{12})-")


class XenParameters(Attached):
    """``type`` of the guest; ``attachment``: ``bridge``, or ``routed`` (dom0 routes), as in Mattos's two modes.

    ``weight`` and ``cap`` are the credit scheduler's (cap in percent of a CPU, 0: none; a CPU quota sets it too);
    ``dom0_cpus``: the CPUs that dom0 is pinned to while the guest is there, all of them again afterwards.
    """

    type: Literal["pv", "pvh", "hvm"] = "pv"
    weight: int = Field(default=256, ge=1, le=65535)
    cap: int = Field(default=0, ge=0, le=100_000)
    dom0_cpus: tuple[int, ...] = ()

    def unfit(self, *, testbed: bool) -> tuple[str, str] | None:
        """Xen's own two ways."""
        if self.attachment not in ("bridge", "routed"):
            return "attachment", f"{self.attachment} is not a way of Xen's vifs; allowed: bridge, routed"
        return None if self.attachment == "routed" else super().unfit(testbed=testbed)


class Xen:
    """The driver, through ``GuestHost`` alone."""

    name: ClassVar[str] = "xen"
    family: ClassVar[str] = "paravirtualised"
    on_other_hosts: ClassVar[bool] = True
    evidence: ClassVar[Evidence] = "nested: functional only"
    title: ClassVar[str] = "Xen (xl): PV, PVH, HVM"
    parameter_model: ClassVar[type[Parameters]] = XenParameters
    boot_seconds: ClassVar[float] = 12.0
    slowdown: ClassVar[float] = 1.2
    control_of: ClassVar[str | None] = None
    needs_lab: ClassVar[bool] = True
    small_images_only: ClassVar[bool] = True

    def __init__(self, parameters: Parameters) -> None:
        """``parameters`` is a ``XenParameters``."""
        if not isinstance(parameters, XenParameters):
            raise TypeError("XenParameters expected")
        self.parameters = parameters

    def depends_on(self) -> None:
        """Always tried: dom0's state is not this kernel's."""
        return

    def probe(self, site: Site | None) -> Probe:
        """Ask the hypervisor what it can do, then boot a guest without network and wait for its agent."""
        place = require_site(site)
        try:
            said = place.lab.run(["xl", "info"], "probe")
        except GuestError as error:
            return Probe(False, None, _why_no_dom0(str(error), place.lab))
        facts = dict(line.partition(":")[::2] for line in said.splitlines())
        known = {key.strip(): value.strip() for key, value in facts.items()}
        version = f"Xen {known.get('xen_version', '?')}, scheduler {known.get('xen_scheduler', '?')}"
        needed = _NEEDS[self.parameters.type]
        if needed not in known.get("virt_caps", "").split():
            switch = "switch VT-x or AMD-V on in the firmware" if needed == "hvm" else "boot a hypervisor built with PV"
            return Probe(
                False, version, f"guests of type {self.parameters.type} need {needed}, which it has not: {switch}"
            )
        request = GuestRequest("probe-xen", 1, 128 * _MIB, (), GuestNetwork(()), _PROBE_SECONDS)
        try:
            self._start(request, place).stop()
        except GuestError as error:
            return Probe(False, version, f"no guest of type {self.parameters.type} boots: {error}")
        return Probe(True, version, None)

    def start(self, request: GuestRequest, site: Site | None) -> ManagedMachine:
        """Make a guest with one vif a link, hold its console, let it run, wait for its agent."""
        return self._start(request, require_site(site))

    def _start(self, request: GuestRequest, site: Site) -> ManagedMachine:
        host, name = site.lab, f"{site.lab.lab_id}-{request.name.replace('/', '-')}"
        _refuse_taken(host, name)
        folder = host.guest_folder(request.name.replace("/", "-"))
        network = site.require_network() if request.network.links else None
        with contextlib.ExitStack() as undo:
            if network is not None:
                undo.callback(network.remove, request.network)
            host.write(folder / "domain.cfg", self._configuration(name, request, site, network).encode())
            undo.callback(host.guard(["xl", "destroy", name]))
            undo.callback(_destroy, host, name)
            spawned = time.monotonic_ns()
            host.run(["xl", "create", "-p", str(folder / "domain.cfg")], f"guest {request.name}", _CREATE_SECONDS)
            number = host.run(["xl", "domid", name], "domain").strip()
            if network is not None and request.network.attachment == "routed":
                undo.enter_context(_routed(host, request.network))
            if self.parameters.dom0_cpus:
                undo.enter_context(_dom0_pinned(host, self.parameters.dom0_cpus))
            console = host.connect(_console(host, number, self.parameters.type), request.name).detach()
            agent = AgentClient(console, console, request.name)
            kept = undo.pop_all()
        guest = ManagedMachine(
            agent=agent, peer=site.peer or agent, host=host, attachment=request.network.attachment,
            spawned_monotonic_ns=spawned,
            pause=lambda: host.run(["xl", "pause", name], "park"),
            unpause=lambda: host.run(["xl", "unpause", name], "resume"),
            destroy=lambda: None, cleanup=[kept.close],
        )  # fmt: skip
        try:
            host.run(["xl", "unpause", name], f"guest {request.name}")
        except GuestError:
            guest.stop()
            raise
        guest.wait_ready(request.deadline_seconds)
        return guest

    def _configuration(self, name: str, request: GuestRequest, site: Site, network: HostNetwork | None) -> str:
        """The domain's configuration, in xl.cfg(5)'s syntax, whose strings and lists are JSON's."""
        wanted, image, kind = self.parameters, site.image, self.parameters.type
        console = "ttyS0" if kind == "hvm" else "hvc0"
        words = f"console={console} quiet panic=-1 reboot=t net.ifnames=0 cryptomgr.notests"
        cap = wanted.cap if request.cpu_quota is None else round(100 * request.cpu_quota)
        settings: dict[str, object] = {
            "name": name, "type": kind, "kernel": str(site.lab.put(image.kernel.vmlinuz)),
            "ramdisk": str(site.lab.put(image.disk_initramfs)),
            "extra": f"{words} virtoll.channel=/dev/{console} virtoll.modules=xen_netfront",
            "memory": request.memory_bytes // _MIB, "vcpus": request.vcpus, "cpu_weight": wanted.weight, "cap": cap,
            "vif": [_vif(link, network) for link in request.network.links if network is not None],
            **dict.fromkeys(("on_poweroff", "on_reboot", "on_crash", "on_watchdog"), "destroy"),
        }  # fmt: skip
        if request.cpus:
            settings["cpus"] = ",".join(map(str, request.cpus))
        if kind == "hvm":
            settings |= {"serial": "pty", "nographic": 1, "acpi": 1}
        return "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())


def _vif(link: Link, network: HostNetwork) -> str:
    """A vif in the link's bridge; a routed one is taken out of it again, because it has to be in one to be made."""
    bridge = network.bridge_port(replace(link, attachment="bridge"), link.port_interface)
    return f"mac={link.guest_mac},bridge={bridge},vifname={link.port_interface},type=vif"


def _console(host: GuestHost, number: str, kind: str) -> Path:
    place = "serial/0/tty" if kind == "hvm" else "console/tty"
    return Path(host.run(["xenstore-read", f"/local/domain/{number}/{place}"], "console").strip())


def _refuse_taken(host: GuestHost, name: str) -> None:
    if name in domains(host):
        raise GuestError(f"{host.name} has a domain {name} already, which this run did not make: 'xl destroy {name}'")


def domains(host: GuestHost) -> list[str]:
    """Names of the host's domains, without dom0."""
    rows = [line.split() for line in host.run(["xl", "list"], "domains").splitlines()[1:]]
    return [row[0] for row in rows if row and row[0] != "Domain-0"]


def _destroy(host: GuestHost, name: str) -> None:
    """Until it is gone: a domain that dies by itself is there for a while."""
    deadline = time.monotonic() + 30.0
    while name in domains(host) and time.monotonic() < deadline:
        with contextlib.suppress(GuestError):
            host.run(["xl", "destroy", name], "end", 60.0)


def remove_leftovers(host: GuestHost, alive: frozenset[str] = frozenset()) -> list[str]:
    """Destroy domains that a run made which is not among ``alive`` (labs' ids); what was destroyed. Nothing else."""
    removed = []
    for name in domains(host):
        made = _OURS.match(name)
        if made is not None and made[1] not in alive:
            _destroy(host, name)
            removed.append(f"Xen domain {name}")
    return removed


@contextlib.contextmanager
def _dom0_pinned(host: GuestHost, cpus: tuple[int, ...]) -> Iterator[None]:
    free = ["xl", "vcpu-pin", "Domain-0", "all", "all"]
    withdraw = host.guard(free)
    host.run(["xl", "vcpu-pin", "Domain-0", "all", ",".join(map(str, cpus))], "dom0")
    try:
        yield
    finally:
        host.run(free, "dom0")
        withdraw()


@contextlib.contextmanager
def _routed(host: GuestHost, network: GuestNetwork) -> Iterator[None]:
    """Have dom0's kernel route between each traffic link's bridge and its vif.

    The bridge gets a veth whose end has the router's MAC address; what comes in there goes to the guest, what comes in
    from the guest goes there, by a table for each incoming interface. Neighbours are permanent.
    """
    with contextlib.ExitStack() as undo:
        for link in network.links:
            if link.attachment == "routed":
                undo.enter_context(_routed_link(host, link))
        yield


@contextlib.contextmanager
def _routed_link(host: GuestHost, link: Link) -> Iterator[None]:
    vif, inner, outer = link.port_interface, f"vtr{link.owner}{link.name}", f"vto{link.owner}{link.name}"
    tables = (_FIRST_TABLE + 512 * link.owner + 2 * link.place, _FIRST_TABLE + 512 * link.owner + 2 * link.place + 1)
    undo = [["ip", "link", "del", inner], *(["ip", "rule", "del", "lookup", str(table)] for table in tables)]
    withdraw = [host.guard(argv) for argv in undo]
    try:
        host.run(["ip", "-batch", "-"], "router", stdin="".join(f"{line}\n" for line in (
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
        )).encode())  # fmt: skip
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


def _why_no_dom0(complaint: str, host: GuestHost) -> str:
    """What ``xl info`` said, as what is to be done."""
    if "not found" in complaint:
        return f"{complaint}: apt-get install xen-utils and xen-hypervisor, then boot into Xen"
    if "ermission" in complaint:
        return f"{host.name}: xl needs root in dom0; log in as root"
    return (
        f"{host.name} does not run under Xen ({complaint}): boot the hypervisor, then start xenstored and xenconsoled"
    )
