"""QEMU's parameters, which of them go together, and the argument list that follows from them.

Main types: ``QemuParameters``, ``MachineEnds`` (the descriptors that QEMU is given). It must not start anything.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from virtoll.experiment.describe import DefaultWords
from virtoll.experiment.model import Switch, refuse
from virtoll.image.kernel import HANDED_IN_NICS
from virtoll.lab.attachments import Port
from virtoll.lab.network import Link
from virtoll.platforms.attachment import AttachedMachine, qemu_backend
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.kernel_settings import KernelSettings, kernel_words

_MIB = 2**20
_RUN_WITH_USER = re.compile(r"^-run-with (?:.|\n(?!-))*\buser=", re.MULTILINE)  # QEMU 11 needs several lines for it
# Which node a disk becomes depends on the order in which they are found: with two of them they go by these.
_DATA_SERIAL = "virtoll-data"
_ROOT_SERIAL = "virtoll-root"
DATA_DRIVE = "data"
"""What the monitor calls the data directory's disk."""
_NIC_MODELS = {"virtio-net": "virtio-net", "e1000": "e1000", "rtl8139": "rtl8139", "vmxnet3": "vmxnet3"}
_CONSOLES = {"x86_64": "ttyS", "aarch64": "ttyAMA"}
MACHINES = {"x86_64": ("q35", "pc", "microvm"), "aarch64": ("virt",)}
"""Machine types by the host's architecture, the default first."""

# Its default interrupt controller serves 8 CPUs under emulation.
_MACHINE_ARGUMENTS = {"virt": "virt,gic-version=max"}

Machine = Literal["q35", "pc", "microvm", "virt"]
_DISKS_OF = {
    "q35": ("virtio-blk", "ahci", "nvme"),
    "pc": ("virtio-blk", "ide", "nvme"),
    "microvm": ("virtio-blk",),
    "virt": ("virtio-blk", "nvme"),
}
"""How a machine's disks may be attached: by a controller of its own, or by a device on its bus."""
_CONTROLLERS = {
    "ide": "IDE controller (machine pc has)",
    "ahci": "AHCI controller (machine q35 has)",
    "nvme": "PCI bus",
}
_DISK_MODULES = {"virtio-blk": (), "ide": ("ata_piix",), "ahci": ("ahci",), "nvme": ("nvme",)}
"""The modules that a disk needs besides those of every image, by the names of ``image.kernel.ON_REQUEST``."""
_DEFAULT_MACHINE: Machine = "virt" if platform.machine() == "aarch64" else "q35"


class QemuParameters(KernelSettings, AttachedMachine):
    """Machine type, NIC of every link, disk, and ``channel``: the way to the agent.

    ``vhost``: the host's kernel moves the frames. ``queues``: pairs of queues of each virtio NIC, of which the guest's
    driver uses as many as the guest has CPUs. ``disk``: how the image's disk form is attached; ``root``: whether
    the guest's root is the initramfs (the disk is then at /mnt) or that disk. ``data_disk``: how the data directory's
    is. ``cache``: QEMU's mode for the host's page cache and for flushes. ``isolation``: whether QEMU confines itself.
    """

    machine: Annotated[Machine, DefaultWords("q35, on aarch64 virt")] = Field(
        default=_DEFAULT_MACHINE, description="machine type"
    )
    nic: Literal["virtio-net", "e1000", "rtl8139", "vmxnet3"] = Field(
        default="virtio-net", description="model of every link's NIC"
    )
    vhost: Switch = Field(default="off", description="whether the host's kernel moves the frames of virtio NICs")
    queues: int = Field(
        default=1,
        ge=1,
        le=64,
        description="pairs of queues of each virtio NIC; its driver uses as many as the guest has CPUs",
    )
    disk: Literal["none", "virtio-blk", "ide", "ahci", "nvme"] = Field(
        default="none", description="how the image's disk form is attached; none: not at all"
    )
    data_disk: Literal["virtio-blk", "ide", "ahci", "nvme"] = Field(
        default="virtio-blk", description="how the data directory's disk is attached"
    )
    cache: Literal["none", "writeback", "writethrough", "directsync", "unsafe"] = Field(
        default="writeback", description="QEMU's mode for the host's page cache and for flushes"
    )
    root: Literal["initramfs", "disk"] = Field(
        default="initramfs", description="the guest's root: the initramfs (the disk is then at /mnt), or the disk"
    )
    filesystem: Literal["ext4", "erofs"] = Field(default="ext4", description="file system of the image's disk form")
    channel: Literal["virtio-serial", "serial"] = Field(
        default="virtio-serial", description="the device by which the agent is reached"
    )
    isolation: Literal["strict", "open"] = Field(
        default="strict", description="strict: QEMU filters its own system calls and leaves the root user"
    )

    @field_validator("nic", "channel")
    @classmethod
    def _has_a_bus(cls, value: str, information: ValidationInfo) -> str:
        machine = information.data.get("machine")
        if machine == "microvm" and value not in ("virtio-net", "virtio-serial"):
            why = "has one serial port" if value == "serial" else "has no PCI bus"
            refuse(f"machine microvm {why}; allowed there: virtio-net, virtio-serial")
        if machine == "virt" and value == "serial":
            refuse("machine virt has one serial port, which is the console; allowed there: virtio-serial")
        return value

    @field_validator("disk", "data_disk")
    @classmethod
    def _has_a_controller(cls, value: str, information: ValidationInfo) -> str:
        machine = str(information.data.get("machine", _DEFAULT_MACHINE))
        if value != "none" and value not in _DISKS_OF[machine]:
            refuse(f"machine {machine} has no {_CONTROLLERS[value]}; allowed there: {', '.join(_DISKS_OF[machine])}")
        return value

    @field_validator("vhost", "queues")
    @classmethod
    def _is_virtio(cls, value: str | int, information: ValidationInfo) -> str | int:
        name = str(information.field_name)
        if value != cls.model_fields[name].default and information.data.get("nic", "virtio-net") != "virtio-net":
            refuse(f"{name} is for nic: virtio-net alone; leave it out")
        return value

    @field_validator("queues")
    @classmethod
    def _is_in_a_bridge(cls, value: int, information: ValidationInfo) -> int:
        if value > 1 and information.data.get("attachment", "bridge") != "bridge":
            refuse("several queues go with attachment: bridge alone; leave one of them out")
        if value > 1 and information.data.get("machine") == "microvm":
            refuse("a NIC of machine microvm has one interrupt for all its queues; leave queues out")
        return value

    @field_validator("cache", "root", "filesystem")
    @classmethod
    def _has_a_disk(cls, value: str, information: ValidationInfo) -> str:
        name = str(information.field_name)
        if information.data.get("disk", "") == "none" and value != cls.model_fields[name].default:
            refuse(f"there is no disk; add 'disk: virtio-blk', or leave '{name}' out")
        return value


NOBODY = 65534
"""The user and the group that QEMU becomes once all is open."""
_SANDBOX = "on,obsolete=deny,spawn=deny,resourcecontrol=deny"


def confinement(parameters: QemuParameters, options: str, *, root: bool) -> list[str]:
    """Arguments by which QEMU confines itself; ``options`` are those that it says it has, ``root``: as whom it starts.

    Without root there is no user to leave. A device that is handed in keeps its rights: it is mapped while it runs.
    """
    if parameters.isolation == "open":
        return []
    if not root or parameters.vfio:
        return ["-sandbox", f"{_SANDBOX},elevateprivileges=deny"]
    # To become another user is among what 'elevateprivileges' denies; without a program to execute nobody goes back.
    option, user = ("-run-with", "user=") if _RUN_WITH_USER.search(options) else ("-runas", "")
    return ["-sandbox", _SANDBOX, option, f"{user}{NOBODY}:{NOBODY}"]


def with_disk(parameters: QemuParameters) -> QemuParameters:
    """The same with the root on a disk, for an image that is no initramfs; a disk that was asked for stays as it was.

    One that nobody asked for is only read, by all guests alike: erofs, whose reading writes nothing.
    """
    if parameters.disk != "none":
        return parameters.model_copy(update={"root": "disk"})
    return parameters.model_copy(update={"disk": "virtio-blk", "root": "disk", "filesystem": "erofs"})


@dataclass(frozen=True)
class MachineEnds:
    """What the machine is started with: agent's channel, monitor, and the disk's file where it has one.

    Descriptors that it inherits; on another host paths: of sockets that it waits at to be connected, and of the file.
    ``shared``: the disk's file is the cache's own, and is only read. ``data``: the file of the data directory's disk.
    """

    agent: int | Path
    monitor: int | Path
    disk: int | Path | None = None
    shared: bool = False
    data: int | Path | None = None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Those that must be inherited."""
        return tuple(end for end in (self.agent, self.monitor, self.disk, self.data) if isinstance(end, int))


@dataclass(frozen=True)
class Boot:
    """Kernel and initramfs as the host's QEMU finds them."""

    kernel: Path
    initramfs: Path


def _socket(name: str, end: int | Path) -> str:
    place = f"fd={end}" if isinstance(end, int) else f"path={end},server=on,wait=on"
    return f"socket,id={name},{place}"


def machine_command(
    parameters: QemuParameters, request: GuestRequest, boot: Boot, console: Path, ends: MachineEnds
) -> list[str]:
    """Everything that follows accelerator and CPU model, without NICs (``nic_arguments``)."""
    command = [
        "-machine",
        _MACHINE_ARGUMENTS.get(parameters.machine, parameters.machine),
        "-smp",
        str(request.vcpus),
        "-m",
        f"{request.memory_bytes // _MIB}M",
        "-kernel",
        str(boot.kernel),
        "-initrd",
        str(boot.initramfs),
        "-append",
        kernel_arguments(parameters, data=ends.data is not None),
        "-chardev",
        f"file,id=console,path={console}",
        "-serial",
        "chardev:console",
        "-chardev",
        _socket("agent", ends.agent),
        *_channel_arguments(parameters),
        "-chardev",
        _socket("monitor", ends.monitor),
        "-mon",
        "chardev=monitor,mode=control",
    ]
    if ends.disk is not None:
        command += _disk_arguments(parameters, ends)
    if ends.data is not None:
        command += _data_arguments(parameters, ends.data)
    return command


def kernel_arguments(parameters: QemuParameters, *, data: bool = False) -> str:
    """The kernel's command line; ``crates/agent/src/init.rs`` says what its ``virtoll`` words mean."""
    serial = _CONSOLES.get(platform.machine(), "ttyS")
    channel = "virtio-serial" if parameters.channel == "virtio-serial" else f"/dev/{serial}1"
    words = [f"console={serial}0", "quiet", "panic=-1", "reboot=t", "net.ifnames=0", "cryptomgr.notests"]
    # Its own check of the timer compares clocks that go on while the emulator waits for a CPU, and panics.
    words.append("no_timer_check")
    words.append(f"virtoll.channel={channel}")
    words += kernel_words(parameters, data=data)
    modules = []
    if parameters.disk != "none":
        modules += [*_DISK_MODULES[parameters.disk], parameters.filesystem]
        words.append(f"virtoll.{'root' if parameters.root == 'disk' else 'disk'}=serial:{_ROOT_SERIAL}")
        words.append(f"virtoll.disktype={parameters.filesystem}")
    if data:
        modules += [*_DISK_MODULES[parameters.data_disk], "ext4"]
    if parameters.vfio:
        modules.append(HANDED_IN_NICS)
    if modules:
        words.append(f"virtoll.modules={','.join(dict.fromkeys(modules))}")
    if data:
        words.append(f"virtoll.data=serial:{_DATA_SERIAL}")
    return " ".join(words)


def nic_arguments(parameters: QemuParameters, link: Link, port: Port) -> list[str]:
    """One NIC on the link's tap or macvtap, or the host's own device."""
    if port.pci_address is not None:
        return ["-device", f"vfio-pci,host={port.pci_address}"]
    backend = qemu_backend(link, port)
    if parameters.vhost == "on":
        backend += ",vhost=on"
    several = ""
    if parameters.queues > 1:
        backend += f",queues={parameters.queues}"
        # An interrupt for each queue each way, one for the configuration and one for control.
        several = f",mq=on,vectors={2 * parameters.queues + 2}"
    model = _NIC_MODELS[parameters.nic]
    device = _device(parameters, model) if parameters.nic == "virtio-net" else model
    rom = "" if parameters.machine == "microvm" else ",romfile="
    return ["-netdev", backend, "-device", f"{device},netdev={link.name},mac={link.guest_mac}{several}{rom}"]


def _channel_arguments(parameters: QemuParameters) -> list[str]:
    if parameters.channel == "serial":
        return ["-serial", "chardev:agent"]
    return ["-device", _device(parameters, "virtio-serial"), "-device", "virtserialport,chardev=agent,name=virtoll"]


def _file(disk: int | Path | None) -> str:
    """A disk without a name: QEMU opens the descriptor that it was started with anew, with its own flags."""
    return f"/proc/self/fd/{disk}" if isinstance(disk, int) else str(disk)


def _disk_arguments(parameters: QemuParameters, ends: MachineEnds) -> list[str]:
    """The image's disk."""
    file = _file(ends.disk)
    drive = f"if=none,id=disk,format=raw,file={file},cache={parameters.cache}{',readonly=on' if ends.shared else ''}"
    device = f"{_disk_device(parameters, parameters.disk, 'ide.0')},drive=disk,serial={_ROOT_SERIAL}"
    return ["-drive", drive, "-device", device]


def _data_arguments(parameters: QemuParameters, data: int | Path) -> list[str]:
    """The data directory's disk; what the guest says is free is given back, so that trials are alike."""
    drive = f"if=none,id={DATA_DRIVE},format=raw,file={_file(data)},cache={parameters.cache},discard=unmap"
    device = f"{_disk_device(parameters, parameters.data_disk, 'ide.1')},drive={DATA_DRIVE},serial={_DATA_SERIAL}"
    return ["-drive", drive, "-device", device]


def _disk_device(parameters: QemuParameters, disk: str, channel: str) -> str:
    """By QEMU's name; one of IDE or AHCI is on this channel or port of the machine's own controller."""
    return {"virtio-blk": _device(parameters, "virtio-blk"), "nvme": "nvme"}.get(disk, f"ide-hd,bus={channel}")


def _device(parameters: QemuParameters, model: str) -> str:
    return f"{model}-device" if parameters.machine == "microvm" else f"{model}-pci"
