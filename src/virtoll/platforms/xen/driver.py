"""Xen by ``xl``: guests of type PV, PVH and HVM on a host that runs as dom0, whichever host that is.

The agent's channel is the guest's PV console hvc0, which HVM guests have as well. A guest is made paused, so that its
console is held before its first word. Its NICs are ports of the network's bridges or, routed, interfaces between which
dom0's kernel routes (``dom0``), or dom0's own PCI devices (``passthrough``).
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from virtoll.agent.client import AgentClient
from virtoll.errors import CommandFailed, GuestError, ProgramMissing
from virtoll.experiment.topology import Testbed
from virtoll.hosts.base import CommandRunner, GuestHost
from virtoll.hosts.links import Links
from virtoll.image.kernel import HANDED_IN_NICS
from virtoll.lab.data import DataBy
from virtoll.lab.network import GuestNetwork, Link
from virtoll.platforms.attachment import AttachedMachine
from virtoll.platforms.base import GuestRequest, Platform, Probe, Validation
from virtoll.platforms.host import Site
from virtoll.platforms.kernel_settings import KernelSettings, kernel_words
from virtoll.platforms.managed_guest import ManagedMachine
from virtoll.platforms.process_guest import root_disk
from virtoll.platforms.promises import promised
from virtoll.platforms.xen.disks import block_device
from virtoll.platforms.xen.dom0 import Dom0Pin, destroy, domains, remove_leftovers, routed_link, wait_for_removal
from virtoll.platforms.xen.passthrough import assignable, refusal

_MIB = 2**20
_CREATE_SECONDS = 600.0
_PROBE_SECONDS = 600.0
_NEEDS = {"pvh": "hvm", "hvm": "hvm", "pv": "pv"}
_LOGS = Path("/var/log/xen")
_EMULATED = "-emu"
_PCI_FRONTEND = "xen_pcifront"
_ROOT, _DATA, _EMULATED_DATA = "xvda", "xvdb", "hda"
# Of each of these disks: the guest's drivers, the words for its kernel, and whether it may be written to.
_DISKS: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    _ROOT: (("xen_blkfront", "erofs"), f"virtoll.root=/dev/{_ROOT} virtoll.disktype=erofs", "ro"),
    _DATA: (("xen_blkfront", "ext4"), f"virtoll.data=/dev/{_DATA}", "rw"),
    _EMULATED_DATA: (("ata_piix", "ext4"), "virtoll.data=/dev/sda", "rw"),
}


class XenParameters(KernelSettings, AttachedMachine):
    """``type`` of the guest; ``attachment``: Mattos's three modes, ``bridge``, ``routed`` (dom0 routes), or
    ``passthrough`` (SR-IOV: ``vfio`` has the addresses of virtual functions, or of whole NICs).

    ``nic``: the PV one (``netfront``), or for HVM one that its device model emulates. ``root``: in memory, or the
    image's disk form, by the PV block device and read-only (an image with tools always is). A data directory is a PV
    block device too, or an IDE disk beside an emulated NIC.
    ``weight`` and ``cap`` are the credit scheduler's (cap in percent of a CPU, 0: none; a CPU quota sets it too);
    ``dom0_cpus``: the CPUs that dom0 is pinned to while the guest runs; then it is put back where it was.
    """

    type: Literal["pv", "pvh", "hvm"] = Field(default="pv", description="type of the guest")
    nic: Literal["netfront", "e1000", "rtl8139"] = Field(
        default="netfront",
        description="the paravirtualised NIC (netfront), or for HVM one that its device model emulates",
    )
    root: Literal["initramfs", "disk"] = Field(
        default="initramfs", description="the guest's root: in memory, or the image's disk form, read-only"
    )
    weight: int = Field(default=256, ge=1, le=65535, description="weight of the credit scheduler")
    cap: int = Field(
        default=0,
        ge=0,
        le=100_000,
        description="cap of the credit scheduler, in percent of a CPU; 0: none; a CPU quota sets it too",
    )
    dom0_cpus: tuple[int, ...] = Field(
        default=(), description="CPUs that dom0 is pinned to while the guest runs; without it, it stays where it is"
    )

    def conflict(self, testbed: Testbed | None) -> tuple[str, str] | None:
        """Xen's own three ways, and the NIC that goes with the type."""
        if self.nic != "netfront" and self.type != "hvm":
            return "nic", f"{self.nic} is emulated, which only 'type: hvm' has; allowed here: netfront"
        if self.nic != "netfront" and self.root == "disk":
            return "root", f"with nic: {self.nic} there is no PV block device; allowed: initramfs"
        if self.attachment == "macvtap":
            return "attachment", "macvtap is not a way of Xen's vifs; allowed: bridge, routed, passthrough"
        if self.attachment == "passthrough" and self.type == "pvh":
            return "type", "a PVH guest has no PCI bus; with passthrough allowed: pv, hvm"
        return None if self.attachment == "routed" and not self.vfio else super().conflict(testbed)


class Xen(Platform[XenParameters]):
    """The driver, through ``GuestHost`` alone."""

    name: ClassVar[str] = "xen"
    packages: ClassVar[tuple[str, ...]] = ("xen-utils-common",)
    remedy: ClassVar[str] = "install Xen (Debian: xen-system-amd64), then boot into it"
    without_root: ClassVar[str] = "no"
    family: ClassVar[str] = "paravirtualised"
    remote_hosts: ClassVar[bool] = True
    data_by: ClassVar[DataBy] = "disk"
    validation: ClassVar[Validation] = "nested: functional only"
    title: ClassVar[str] = "Xen (xl): PV, PVH, HVM"
    parameter_model = XenParameters
    boot_seconds: ClassVar[float] = 12.0
    slowdown: ClassVar[float] = 1.2

    def depends_on(self) -> None:
        """Always tried: dom0's state is not this kernel's."""
        return

    @classmethod
    def remove_leftovers(cls, host: CommandRunner, alive: frozenset[str]) -> list[str]:
        """By the product's own commands."""
        return remove_leftovers(host, alive)

    @property
    def needs_kernel(self) -> bool:
        """Its domains boot it."""
        return True

    def probe(self, site: Site) -> Probe:
        """Ask the hypervisor what it can do, then boot a guest without network and wait for its agent."""
        try:
            output = site.host.run(["xl", "info"], "probe")
        except GuestError as error:
            return self.without(error, site.host) if isinstance(error, ProgramMissing) else _no_dom0(error, site.host)
        facts = dict(line.partition(":")[::2] for line in output.splitlines())
        known = {key.strip(): value.strip() for key, value in facts.items()}
        version = f"Xen {known.get('xen_version', '?')}, scheduler {known.get('xen_scheduler', '?')}"
        needed, capabilities = _NEEDS[self.parameters.type], known.get("virt_caps", "").split()
        if needed not in capabilities:
            switch = "switch VT-x or AMD-V on in the firmware" if needed == "hvm" else "boot a hypervisor built with PV"
            return Probe(
                False, version, f"guests of type {self.parameters.type} need {needed}, which it has not: {switch}"
            )
        if (unfit := refusal(site.host, self.parameters.vfio, self.parameters.type, capabilities)) is not None:
            return Probe(False, version, unfit)
        request = GuestRequest("probe-xen", 1, 128 * _MIB, (), GuestNetwork(()), _PROBE_SECONDS)
        try:
            self._start(request, site).stop()
        except GuestError as error:
            hint = "; its device model is qemu-system-xen" if self.parameters.type == "hvm" else ""
            return Probe(False, version, f"no guest of type {self.parameters.type} boots: {error}{hint}")
        return Probe(True, version, None)

    def start(self, request: GuestRequest, site: Site) -> ManagedMachine:
        """Make a guest with one vif a link, hold its console, let it run, wait for its agent."""
        return self._start(request, site)

    def _start(self, request: GuestRequest, site: Site) -> ManagedMachine:
        host, name = site.host, f"{site.host.lab_id}-{request.file_name}"
        _refuse_taken(host, name)
        folder = host.guest_folder(request.file_name)
        network = site.network if request.network.links else None
        devices = self.parameters.devices(request.network) if request.network.links else {}
        pin = Dom0Pin(host, self.parameters.dom0_cpus, site.shared)
        logs = {"device-model.txt": _LOGS / f"qemu-dm-{name}.log", "xl.txt": _LOGS / f"xl-{name}.log"}
        with contextlib.ExitStack() as undo:
            if network is not None:
                undo.callback(network.remove, request.network)
            disks = self._disks(request, site, undo)
            for address in devices.values():
                undo.enter_context(assignable(host, address))
            settings = self._configuration(name, request, site, disks) | self._nics(request, network, devices)
            host.write(folder / "domain.cfg", _in_syntax(settings).encode())
            remove_logs = ["rm", "-f", *map(str, logs.values())]
            undo.callback(promised(host, remove_logs, lambda: host.run(remove_logs, "logs")))
            ports = [self._port(link) for link in request.network.links if link.name not in devices]
            undo.callback(wait_for_removal, host, [*ports, *(port.removesuffix(_EMULATED) for port in ports)])
            undo.callback(promised(host, ["xl", "destroy", name], lambda: destroy(host, name, devices=len(devices))))
            spawned = time.monotonic_ns()
            host.run(["xl", "create", "-p", str(folder / "domain.cfg")], f"guest {request.name}", _CREATE_SECONDS)
            for link in request.network.links:
                if link.attachment == "routed":
                    undo.enter_context(routed_link(host, link, self._port(link)))
            number = host.run(["xl", "domid", name], "domain").strip()
            console = host.run(["xenstore-read", f"/local/domain/{number}/console/tty"], "console").strip()
            channel = host.connect(Path(console), request.name).detach()
            agent = AgentClient(channel, channel, request.name)
            kept = undo.pop_all()

        def pause() -> None:
            host.run(["xl", "pause", name], "park")
            pin.give_back()

        def unpause() -> None:
            pin.take()
            host.run(["xl", "unpause", name], "resume")

        guest = ManagedMachine(
            agent=agent,
            peer=site.peer,
            host=host,
            attachment=request.network.attachment,
            spawned_monotonic_ns=spawned,
            pause=pause,
            unpause=unpause,
            destroy=lambda: None,
            consoles=logs,
            cleanup=[kept.close, pin.give_back],
        )
        with guest.ending_on_error():
            unpause()
        guest.wait_ready(request.deadline_seconds)
        return guest

    def _disks(self, request: GuestRequest, site: Site, undo: contextlib.ExitStack) -> dict[str, str]:
        """The block devices in dom0 that the guest is given, by its own names of them.

        The image's disk form, unless the root is in memory, and the data directory's disk.
        """
        devices: dict[str, str] = {}
        paravirtual = self.parameters.nic == "netfront"
        if self.parameters.root == "disk" or site.image.needs_disk:
            if not paravirtual:
                raise GuestError(f"the image {site.image.name} is on a PV disk, which goes with nic: netfront alone")
            devices[_ROOT] = block_device(site.host, site.host.put(root_disk(site.image)), undo, "--read-only")
        if request.data_disk_path is not None:
            devices[_DATA if paravirtual else _EMULATED_DATA] = block_device(site.host, request.data_disk_path, undo)
        return devices

    def _configuration(
        self, name: str, request: GuestRequest, site: Site, disks: Mapping[str, str]
    ) -> dict[str, object]:
        """The domain's configuration, without its NICs."""
        parameters, image = self.parameters, site.image
        kernel = image.kernel.vmlinuz if parameters.type == "hvm" else image.kernel.vmlinux or image.kernel.vmlinuz
        modules = self._modules(disks)
        arguments = [] if parameters.nic == "netfront" else ["xen_emul_unplug=never"]
        arguments += (_DISKS[disk][1] for disk in disks)
        arguments += kernel_words(parameters, data=request.data_disk_path is not None)
        if modules:
            arguments.append(f"virtoll.modules={','.join(modules)}")
        words = "console=hvc0 quiet panic=-1 reboot=t net.ifnames=0 cryptomgr.notests virtoll.channel=/dev/hvc0"
        # A cap of 0 is none, so that the smallest share is 1 %.
        cap = parameters.cap if request.cpu_quota is None else max(1, round(100 * request.cpu_quota))
        settings: dict[str, object] = {
            "name": name,
            "type": parameters.type,
            "kernel": str(site.host.put(kernel)),
            "ramdisk": str(site.host.put(image.disk_initramfs if modules else image.initramfs)),
            "extra": " ".join([words, *arguments]),
            "memory": request.memory_bytes // _MIB,
            "vcpus": request.vcpus,
            "cpu_weight": parameters.weight,
            "cap": cap,
            **dict.fromkeys(("on_poweroff", "on_reboot", "on_crash", "on_watchdog"), "destroy"),
        }
        if disks:
            settings["disk"] = [
                f"format=raw, vdev={disk}, access={_DISKS[disk][2]}, target={target}" for disk, target in disks.items()
            ]
        if request.cpus:
            settings["cpus"] = ",".join(map(str, request.cpus))
        if parameters.type == "hvm":
            settings |= {"vnc": 0, "vga": "none"}
        return settings

    def _modules(self, disks: Mapping[str, str]) -> list[str]:
        """The kernel's modules that the guest loads.

        The driver of the PV NIC is in the larger image only; an emulated one must not be unplugged for it.
        """
        modules = ["xen_netfront"] if self.parameters.nic == "netfront" else []
        modules += dict.fromkeys(driver for disk in disks for driver in _DISKS[disk][0])
        if self.parameters.vfio:
            modules += [*([_PCI_FRONTEND] if self.parameters.type == "pv" else []), HANDED_IN_NICS]
        return modules

    def _nics(self, request: GuestRequest, network: Links | None, devices: Mapping[str, str]) -> dict[str, object]:
        """A vif a link, and the PCI devices in the order of theirs."""
        links = request.network.links if network is not None else ()
        settings: dict[str, object] = {
            "vif": [self._vif(link, network) for link in links if network is not None and link.name not in devices]
        }
        if devices:
            settings["pci"] = [f"{address},permissive=0" for address in devices.values()]
        return settings

    def _vif(self, link: Link, network: Links) -> str:
        """A NIC in the link's bridge; a routed one is taken out of it again, because it has to be in one to be made."""
        port = self._port(link)
        bridge = network.bridge_port(replace(link, attachment="bridge"), port)
        kind = "type=vif" if self.parameters.nic == "netfront" else f"type=ioemu,model={self.parameters.nic}"
        return f"mac={link.guest_mac},bridge={bridge},vifname={port.removesuffix(_EMULATED)},{kind}"

    def _port(self, link: Link) -> str:
        """The guest's interface in dom0; an emulated one's is named by xl after the vif, in at most 15 characters."""
        return link.port_interface if self.parameters.nic == "netfront" else f"vte{link.owner}{link.name}{_EMULATED}"


def _in_syntax(settings: Mapping[str, object]) -> str:
    """A configuration in xl.cfg(5)'s syntax, whose strings and lists are JSON's."""
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())


def _refuse_taken(host: GuestHost, name: str) -> None:
    if name in domains(host):
        raise GuestError(f"{host.name} has a domain {name} already, which this run did not make: 'xl destroy {name}'")


def _no_dom0(error: GuestError, host: GuestHost) -> Probe:
    """What ``xl info`` said, as what is to be done."""
    if isinstance(error, CommandFailed) and "ermission" in error.complaint:
        return Probe.unusable(None, f"{host.name}: xl needs root in dom0", "log in as root")
    remedy = "boot the hypervisor, then start xenstored and xenconsoled"
    return Probe.unusable(None, f"{host.name} does not run under Xen ({error})", remedy)
