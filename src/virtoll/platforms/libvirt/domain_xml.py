"""libvirt's parameters, and the domain in libvirt's XML that follows from them and a guest's request.

Main types: ``LibvirtParameters`` and ``GuestFiles`` (files of the guest, as its host finds them).
Pure: nothing is asked or started. The format is that of https://libvirt.org/formatdomain.html.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree as ET

from pydantic import Field, field_validator, model_validator

from virtoll.experiment.model import refuse
from virtoll.experiment.topology import Testbed
from virtoll.lab.network import Link
from virtoll.platforms.attachment import Attached
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.kernel_settings import ClockSetting, kernel_words

EMBEDDED = "qemu:///embed"
SYSTEM = "qemu:///system"
CONTAINERS = "lxc:///system"
XEN = "xen:///system"
TEST = "test:///default"
TAG = "made by Virtoll"
_NIC_MODELS = {"virtio-net": "virtio", "e1000": "e1000", "e1000e": "e1000e", "rtl8139": "rtl8139", "vmxnet3": "vmxnet3"}
_XEN_KINDS = {"xenpv": "linux", "xenpvh": "xenpvh"}
_MACHINES = {"x86_64": "q35", "aarch64": "virt"}
_CONSOLES = {"x86_64": "ttyS0", "aarch64": "ttyAMA0"}
_QUOTA_PERIOD_MICROSECONDS = 100_000
_RAM_KIB = 65536  # at most; what is used of it is charged to the container
_KERNEL_WORDS = ("quiet", "panic=-1", "reboot=t", "net.ifnames=0", "cryptomgr.notests", "no_timer_check")


class LibvirtParameters(ClockSetting, Attached):
    """``uri``: which of libvirt's drivers; ``domain_type``: ``qemu`` emulates, ``kvm`` is never assumed.

    ``machine``: the machine type by QEMU's name, None the architecture's; of Xen ``xenpv`` (None) or ``xenpvh``.
    ``nic``: the model of every NIC. ``channel``: the way to the agent of a machine under QEMU.
    """

    uri: str = Field(default=EMBEDDED, description="which of libvirt's drivers, as virsh's --connect takes it")
    domain_type: Literal["qemu", "kvm"] = Field(
        default="qemu", description="qemu emulates the CPU; kvm is never assumed"
    )
    machine: Literal["q35", "pc", "virt", "xenpv", "xenpvh"] | None = Field(
        default=None, description="machine type by QEMU's name, else the architecture's; of Xen xenpv (else) or xenpvh"
    )
    nic: Literal["virtio-net", "e1000", "e1000e", "rtl8139", "vmxnet3"] = Field(
        default="virtio-net", description="model of every link's NIC"
    )
    channel: Literal["virtio-serial", "serial"] = Field(
        default="virtio-serial", description="the device by which the agent of a machine under QEMU is reached"
    )

    @field_validator("uri")
    @classmethod
    def _is_driven(cls, value: str) -> str:
        if value not in (EMBEDDED, SYSTEM, CONTAINERS, XEN, TEST):
            refuse(
                f"{value} is not driven; allowed: {EMBEDDED} (this machine, no daemon), {SYSTEM} (a daemon of the "
                f"lab's own, or that of the platform's 'host'), {CONTAINERS} (a daemon of the lab's own), {XEN} (that "
                f"of the platform's 'host') and {TEST} (no guests); VirtualBox and ESXi have their own platforms"
            )
        return value

    @model_validator(mode="after")
    def _goes_together(self) -> LibvirtParameters:
        qemus = {"domain_type", "nic", "channel"} & self.model_fields_set
        if not self.emulated and qemus:
            refuse(f"'{min(qemus)}' is of machines under QEMU, and {self.uri} has none; leave it out")
        kinds = {CONTAINERS: (), XEN: tuple(_XEN_KINDS), TEST: ()}.get(self.uri, ("q35", "pc", "virt"))
        if self.machine is not None and self.machine not in kinds:
            refuse(f"machine {self.machine} is not one of {self.uri}'s: {', '.join(kinds) or 'leave it out'}")
        if self.channel == "serial" and (self.machine or _MACHINES.get(platform.machine())) == "virt":
            refuse("machine virt has one serial port, which is the console; leave 'channel' out")
        if self.container and self.clocksource is not None:
            refuse("clocksource is of guests with a kernel of their own, and a container has the host's; leave it out")
        return self

    @property
    def emulated(self) -> bool:
        """Whether its driver is that for QEMU and KVM."""
        return self.uri in (EMBEDDED, SYSTEM)

    @property
    def container(self) -> bool:
        """Whether its guests are containers."""
        return self.uri == CONTAINERS

    @property
    def kind(self) -> str:
        """The domain's type, by libvirt's name."""
        return {CONTAINERS: "lxc", XEN: "xen", TEST: "test"}.get(self.uri, self.domain_type)

    @property
    def embedded(self) -> bool:
        """Whether the driver runs in ``virsh`` itself, without a daemon."""
        return self.uri == EMBEDDED

    def conflict(self, testbed: Testbed | None) -> tuple[str, str] | None:
        """A domain's interfaces are ports of bridges."""
        if self.attachment != "bridge":
            return "attachment", f"{self.attachment} is not how libvirt makes its interfaces here; allowed: bridge"
        return super().conflict(testbed)


@dataclass(frozen=True)
class GuestFiles:
    """The guest's files there: kernel and initramfs, the socket of its agent's channel, the log of its console.

    ``root``: a container's, and ``root_folders`` what is shown in it, by its place there. ``disk``: what a machine has
    as its root, read-only, in the place of the initramfs.
    """

    agent: Path
    console: Path
    kernel: Path
    initramfs: Path
    root: Path | None = None
    root_folders: Mapping[str, Path] = field(default_factory=dict)
    disk: Path | None = None


def domain(
    name: str, request: GuestRequest, parameters: LibvirtParameters, files: GuestFiles, bridges: Mapping[str, str]
) -> str:
    """The domain's XML; ``bridges`` by link's name."""
    top = ET.Element("domain", type=parameters.kind)
    _add(top, "name", name)
    _add(top, "description", f"{TAG}; 'virtoll clean --host' removes it when its lab has ended.")
    _add(top, "memory", str(request.memory_bytes), unit="bytes")
    vcpu = _add(top, "vcpu", str(request.vcpus), placement="static")
    if parameters.container and request.cpus:
        vcpu.set("cpuset", ",".join(map(str, request.cpus)))
    _tune(top, request, parameters)
    _SYSTEMS.get(parameters.kind, _machine)(top, parameters, files)
    for event in ("poweroff", "reboot", "crash"):
        _add(top, f"on_{event}", "destroy")
    devices = _add(top, "devices")
    if parameters.emulated:
        _machine_devices(devices, parameters, files)
    elif parameters.container:
        _container_devices(devices, files)
    else:
        _add(devices, "console", type="pty")
        if files.disk is not None:
            _disk(devices, files.disk, "xvda", block=True)
    for link in request.network.links:
        _interface(devices, link, bridges[link.name], parameters)
    ET.indent(top)
    return ET.tostring(top, encoding="unicode")


def _add(parent: ET.Element, tag: str, text: str | None = None, **attributes: str) -> ET.Element:
    made = ET.SubElement(parent, tag, attributes)
    made.text = text
    return made


def _tune(top: ET.Element, request: GuestRequest, parameters: LibvirtParameters) -> None:
    """Pinning, and the quota for the whole domain; in a driver without a daemon the quota is a cgroup of the lab's.

    A container is pinned by its ``<vcpu>``; Xen's driver knows no quota.
    """
    quota = None if parameters.embedded or parameters.uri == XEN else request.cpu_quota
    pinned = () if parameters.container else request.cpus
    if not pinned and quota is None:
        return
    tune = _add(top, "cputune")
    cpus = ",".join(map(str, pinned))
    if pinned:
        for number in range(request.vcpus):
            _add(tune, "vcpupin", vcpu=str(number), cpuset=cpus)
        if parameters.emulated:
            _add(tune, "emulatorpin", cpuset=cpus)
    if quota is not None:
        whole = "" if parameters.container else "global_"
        _add(tune, f"{whole}period", str(_QUOTA_PERIOD_MICROSECONDS))
        _add(tune, f"{whole}quota", str(round(quota * _QUOTA_PERIOD_MICROSECONDS)))


def _container(top: ET.Element, _parameters: LibvirtParameters, _files: GuestFiles) -> None:
    """The agent is the container's first process, its console the agent's channel."""
    system = _add(top, "os")
    _add(system, "type", "exe")
    _add(system, "init", "/init")
    for word in ("--role", "guest", "--channel", "/dev/console"):
        _add(system, "initarg", word)


def _container_devices(devices: ET.Element, files: GuestFiles) -> None:
    """The root, read-only, with memory where programs want to write."""
    for place, shown in {"/": files.root, **files.root_folders}.items():
        mount = _add(devices, "filesystem", type="mount")
        _add(mount, "source", dir=str(shown))
        _add(mount, "target", dir=place)
        _add(mount, "readonly")
    for folder in ("/run", "/tmp"):  # noqa: S108 - the container's
        memory = _add(devices, "filesystem", type="ram")
        _add(memory, "source", usage=str(_RAM_KIB), units="KiB")
        _add(memory, "target", dir=folder)
    _add(devices, "console", type="pty")


def _xen(top: ET.Element, parameters: LibvirtParameters, files: GuestFiles) -> None:
    """Direct kernel boot; console and channel are one, as under ``xl``."""
    system = _add(top, "os")
    machine = parameters.machine or "xenpv"
    _add(system, "type", _XEN_KINDS[machine], arch=platform.machine(), machine=machine)
    _add(system, "kernel", str(files.kernel))
    _add(system, "initrd", str(files.initramfs))
    words = ["console=hvc0", *_KERNEL_WORDS, "virtoll.channel=/dev/hvc0", *kernel_words(parameters)]
    if files.disk is None:
        words.append("virtoll.modules=xen_netfront")
    else:
        words += ["virtoll.modules=xen_netfront,xen_blkfront,erofs", "virtoll.root=/dev/xvda", "virtoll.disktype=erofs"]
    _add(system, "cmdline", " ".join(words))


def _machine(top: ET.Element, parameters: LibvirtParameters, files: GuestFiles) -> None:
    """Direct kernel boot."""
    system = _add(top, "os")
    machine = parameters.machine or _MACHINES.get(platform.machine(), "q35")
    _add(system, "type", "hvm", arch=platform.machine(), machine=machine)
    _add(system, "kernel", str(files.kernel))
    _add(system, "initrd", str(files.initramfs))
    _add(system, "cmdline", kernel_arguments(parameters, on_disk=files.disk is not None))
    if platform.machine() == "x86_64":
        _add(_add(top, "features"), "acpi")
    elif platform.machine() == "aarch64" and parameters.domain_type != "kvm":
        _add(_add(top, "features"), "gic", version="3")  # the default of the emulated one serves 8 CPUs
    _add(top, "cpu", mode="host-passthrough" if parameters.domain_type == "kvm" else "maximum")


def kernel_arguments(parameters: LibvirtParameters, *, on_disk: bool = False) -> str:
    """The kernel's command line; ``crates/agent/src/init.rs`` says what its ``virtoll`` words mean."""
    console = _CONSOLES.get(platform.machine(), "ttyS0")
    channel = "virtio-serial" if parameters.channel == "virtio-serial" else f"/dev/{console[:-1]}1"
    root = ["virtoll.modules=erofs", "virtoll.root=/dev/vda", "virtoll.disktype=erofs"] if on_disk else []
    words = [f"console={console}", *_KERNEL_WORDS, f"virtoll.channel={channel}", *kernel_words(parameters), *root]
    return " ".join(words)


def _machine_devices(devices: ET.Element, parameters: LibvirtParameters, files: GuestFiles) -> None:
    """Nothing but NICs, console, channel and, for what no memory holds, a disk: no USB, no balloon, no graphics."""
    _add(devices, "controller", type="usb", model="none")
    log = _add(devices, "serial", type="file")
    _add(log, "source", path=str(files.console))
    _add(log, "target", port="0")
    virtio = parameters.channel == "virtio-serial"
    agent = _add(devices, "channel" if virtio else "serial", type="unix")
    _add(agent, "source", mode="bind", path=str(files.agent))
    _add(agent, "target", **({"type": "virtio", "name": "virtoll"} if virtio else {"port": "1"}))
    _add(devices, "memballoon", model="none")
    if files.disk is not None:
        _disk(devices, files.disk, "vda", block=False)


def _disk(devices: ET.Element, place: Path, target: str, *, block: bool) -> None:
    """What no memory holds, to be read alone: a block device of dom0's for a guest of Xen, or a file for QEMU."""
    kind, source, driver, bus = ("block", "dev", "phy", "xen") if block else ("file", "file", "qemu", "virtio")
    disk = _add(devices, "disk", type=kind, device="disk")
    _add(disk, "driver", name=driver, type="raw")
    _add(disk, "source", **{source: str(place)})
    _add(disk, "target", dev=target, bus=bus)
    _add(disk, "readonly")


def _interface(devices: ET.Element, link: Link, bridge: str, parameters: LibvirtParameters) -> None:
    """A port of the link's bridge; a container's is one end of a pair, Xen's its own device: neither has a model."""
    nic = _add(devices, "interface", type="bridge")
    _add(nic, "mac", address=link.guest_mac)
    _add(nic, "source", bridge=bridge)
    _add(nic, "target", dev=link.port_interface)
    if parameters.emulated:
        _add(nic, "model", type=_NIC_MODELS[parameters.nic])
        if parameters.nic == "virtio-net":
            _add(nic, "driver", name="qemu")  # else libvirt takes vhost where the host has it
    _add(nic, "mtu", size=str(link.mtu_bytes))
    if parameters.emulated:
        _add(nic, "rom", enabled="no")


_SYSTEMS = {"lxc": _container, "xen": _xen}
