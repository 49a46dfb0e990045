"""libvirt's parameters, and the domain in libvirt's XML that follows from them and a guest's request.

Main types: ``LibvirtParameters`` and ``Places`` (files of the guest, as its host finds them).
Pure: nothing is asked or started. The format is that of https://libvirt.org/formatdomain.html.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn
from xml.etree import ElementTree as ET

from pydantic import field_validator
from pydantic_core import PydanticCustomError

from virtoll.lab.network import Link
from virtoll.platforms.attaching import Attached
from virtoll.platforms.base import GuestRequest

EMBEDDED = "qemu:///embed"
SYSTEM = "qemu:///system"
_NIC_MODELS = {"virtio-net": "virtio", "e1000": "e1000", "e1000e": "e1000e", "rtl8139": "rtl8139", "vmxnet3": "vmxnet3"}
_MACHINES = {"x86_64": "q35", "aarch64": "virt"}
_CONSOLES = {"x86_64": "ttyS0", "aarch64": "ttyAMA0"}
_QUOTA_PERIOD_MICROSECONDS = 100_000


class LibvirtParameters(Attached):
    """``uri``: which of libvirt's drivers for QEMU; ``domain_type``: ``qemu`` emulates, ``kvm`` is never assumed.

    ``machine``: the machine type by QEMU's name; None: the architecture's. ``nic``: the model of every NIC.
    ``channel``: the way to the agent of a machine under QEMU.
    """

    uri: str = EMBEDDED
    domain_type: Literal["qemu", "kvm"] = "qemu"
    machine: Literal["q35", "pc", "virt"] | None = None
    nic: Literal["virtio-net", "e1000", "e1000e", "rtl8139", "vmxnet3"] = "virtio-net"
    channel: Literal["virtio-serial", "serial"] = "virtio-serial"

    @field_validator("uri")
    @classmethod
    def _is_driven(cls, value: str) -> str:
        if value not in (EMBEDDED, SYSTEM):
            _refuse(
                f"{value} is not driven; allowed: {EMBEDDED} (this machine, no daemon) and {SYSTEM} (a host that is "
                "named as the platform's 'host', whose daemon it is); Xen, VirtualBox and ESXi have their own platforms"
            )
        return value

    @property
    def embedded(self) -> bool:
        """Whether the driver runs in ``virsh`` itself, without a daemon."""
        return self.uri == EMBEDDED

    def unfit(self, *, testbed: bool) -> tuple[str, str] | None:
        """A domain's interfaces are ports of bridges."""
        if self.attachment != "bridge":
            return "attachment", f"{self.attachment} is not how libvirt makes its interfaces here; allowed: bridge"
        return super().unfit(testbed=testbed)


def _refuse(sentence: str) -> NoReturn:
    kind = "combination"
    raise PydanticCustomError(kind, "{sentence}", {"sentence": sentence})


@dataclass(frozen=True)
class Places:
    """The guest's files there: kernel and initramfs, the socket of its agent's channel, the log of its console."""

    agent: Path
    console: Path
    kernel: Path
    initramfs: Path


def domain(
    name: str, request: GuestRequest, parameters: LibvirtParameters, places: Places, bridges: Mapping[str, str]
) -> str:
    """The domain's XML; ``bridges`` by link's name."""
    top = ET.Element("domain", type=parameters.domain_type)
    _add(top, "name", name)
    _add(top, "memory", str(request.memory_bytes), unit="bytes")
    _add(top, "vcpu", str(request.vcpus), placement="static")
    _tune(top, request, parameters)
    _machine(top, parameters, places)
    for event in ("poweroff", "reboot", "crash"):
        _add(top, f"on_{event}", "destroy")
    devices = _add(top, "devices")
    _machine_devices(devices, parameters, places)
    for link in request.network.links:
        _interface(devices, link, bridges[link.name], parameters)
    ET.indent(top)
    return ET.tostring(top, encoding="unicode")


def _add(parent: ET.Element, tag: str, text: str | None = None, **attributes: str) -> ET.Element:
    made = ET.SubElement(parent, tag, attributes)
    made.text = text
    return made


def _tune(top: ET.Element, request: GuestRequest, parameters: LibvirtParameters) -> None:
    """Pinning, and the quota for the whole domain; in a driver without a daemon the quota is a cgroup of the lab's."""
    quota = None if parameters.embedded else request.cpu_quota
    if not request.cpus and quota is None:
        return
    tune = _add(top, "cputune")
    cpus = ",".join(map(str, request.cpus))
    if request.cpus:
        for number in range(request.vcpus):
            _add(tune, "vcpupin", vcpu=str(number), cpuset=cpus)
        _add(tune, "emulatorpin", cpuset=cpus)
    if quota is not None:
        _add(tune, "global_period", str(_QUOTA_PERIOD_MICROSECONDS))
        _add(tune, "global_quota", str(round(quota * _QUOTA_PERIOD_MICROSECONDS)))


def _machine(top: ET.Element, parameters: LibvirtParameters, places: Places) -> None:
    """Direct kernel boot."""
    system = _add(top, "os")
    machine = parameters.machine or _MACHINES.get(platform.machine(), "q35")
    _add(system, "type", "hvm", arch=platform.machine(), machine=machine)
    _add(system, "kernel", str(places.kernel))
    _add(system, "initrd", str(places.initramfs))
    _add(system, "cmdline", kernel_arguments(parameters))
    if platform.machine() == "x86_64":
        _add(_add(top, "features"), "acpi")
    _add(top, "cpu", mode="host-passthrough" if parameters.domain_type == "kvm" else "maximum")


def kernel_arguments(parameters: LibvirtParameters) -> str:
    """The kernel's command line; ``crates/agent/src/init.rs`` says what its ``virtoll`` words mean."""
    console = _CONSOLES.get(platform.machine(), "ttyS0")
    channel = "virtio-serial" if parameters.channel == "virtio-serial" else f"/dev/{console[:-1]}1"
    words = [f"console={console}", "quiet", "panic=-1", "reboot=t", "net.ifnames=0", "cryptomgr.notests"]
    return " ".join([*words, f"virtoll.channel={channel}"])


def _machine_devices(devices: ET.Element, parameters: LibvirtParameters, places: Places) -> None:
    """Nothing but NICs, console and channel: no USB, no memory balloon, no graphics."""
    _add(devices, "controller", type="usb", model="none")
    log = _add(devices, "serial", type="file")
    _add(log, "source", path=str(places.console))
    _add(log, "target", port="0")
    virtio = parameters.channel == "virtio-serial"
    agent = _add(devices, "channel" if virtio else "serial", type="unix")
    _add(agent, "source", mode="bind", path=str(places.agent))
    _add(agent, "target", **({"type": "virtio", "name": "virtoll"} if virtio else {"port": "1"}))
    _add(devices, "memballoon", model="none")


def _interface(devices: ET.Element, link: Link, bridge: str, parameters: LibvirtParameters) -> None:
    nic = _add(devices, "interface", type="bridge")
    _add(nic, "mac", address=link.guest_mac)
    _add(nic, "source", bridge=bridge)
    _add(nic, "target", dev=link.port_interface)
    _add(nic, "model", type=_NIC_MODELS[parameters.nic])
    _add(nic, "mtu", size=str(link.mtu_bytes))
    _add(nic, "rom", enabled="no")
