"""The configuration of one virtual machine, as ESXi's API wants it; pure but for what it looks up of networks.

Main function: ``machine_spec``. Two serial ports: the console, kept as evidence, and the agent's channel. One CD-ROM
drive boots; with an image that is no initramfs, a second one at the same IDE channel has the root. The data directory
is a disk on a SATA controller of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyVmomi import vim

from virtoll.platforms.base import GuestRequest
from virtoll.platforms.drives import Drive, drive_words
from virtoll.platforms.esxi.data_disk import DESCRIPTOR_FILE
from virtoll.platforms.esxi.parameters import EsxiParameters
from virtoll.platforms.kernel_settings import kernel_words

TAG = "made by Virtoll"
BOOT_FILE, ROOT_FILE, CONSOLE_FILE = "boot.iso", "root.iso", "console.txt"
# no5lvl: a kernel that is started by a BIOS would take page tables of five levels, unlike the other platforms' guests.
# no_timer_check: as kernels do by themselves under VMware (arch/x86/kernel/cpu/vmware.c). What stands in for it here is
# QEMU, whose timer that check finds broken on a busy host.
_KERNEL_LINE = (
    "console=ttyS0 quiet panic=-1 reboot=t net.ifnames=0 cryptomgr.notests no5lvl no_timer_check "
    "virtoll.channel=/dev/ttyS1"
)
# The CD-ROMs' driver is there before its controller's: the drives of one channel are then found in their order.
_ROOT = Drive("/dev/sr1", ("sr_mod", "ata_piix", "erofs"))
_DATA = Drive("/dev/sda", ("ahci", "ext4"))
_MIB = 2**20
_IDE = 200  # the controller that every machine has from the start
_SATA = -40


@dataclass(frozen=True)
class Line:
    """The agent's channel as the host sees it: an address and a port, and whether the host listens there or calls."""

    host: str
    port: int
    listens: bool

    @property
    def uri(self) -> str:
        """Without Telnet's own negotiation, which would be among the agent's bytes."""
        return f"tcp://:{self.port}" if self.listens else f"tcp://{self.host}:{self.port}"


def machine_spec(
    name: str,
    request: GuestRequest,
    parameters: EsxiParameters,
    networks: Mapping[str, Any],
    line: Line,
    *,
    cpu_mhz: int,
    root: bool = False,
    data_disk_bytes: int | None = None,
) -> Any:
    """``networks``: the API's network object by link's name; ``cpu_mhz``: the host's CPUs' rate, for a quota.

    ``root``: its root is a file of its own. ``data_disk_bytes``: the size of its data directory's disk.
    """
    folder = f"[{parameters.datastore}] {name}"
    memory_mib = -(-request.memory_bytes // (4 * _MIB)) * 4
    reserved = parameters.memory_reservation == "full"
    links = request.network.links
    spec = vim.vm.ConfigSpec(
        name=name,
        annotation=f"{TAG}; 'virtoll clean --host' removes it when its lab has ended.",
        guestId="otherLinux64Guest",
        files=vim.vm.FileInfo(vmPathName=f"{folder}/{name}.vmx"),
        numCPUs=request.vcpus,
        memoryMB=memory_mib,
        cpuAllocation=vim.ResourceAllocationInfo(
            reservation=parameters.cpu_reservation_mhz,
            limit=-1 if request.cpu_quota is None else max(1, round(request.cpu_quota * cpu_mhz)),
        ),
        memoryAllocation=vim.ResourceAllocationInfo(reservation=memory_mib if reserved else 0, limit=-1),
        memoryReservationLockedToMax=reserved,
        latencySensitivity=vim.LatencySensitivity(level=parameters.latency_sensitivity),
        extraConfig=[
            # The addresses are the lab's, not VMware's own.
            vim.option.OptionValue(key=f"ethernet{number}.checkMACAddress", value="false")
            for number, _ in enumerate(links)
        ],
        deviceChange=[
            *(_nic(parameters.nic, link.guest_mac, networks[link.name], -10 - at) for at, link in enumerate(links)),
            *(_cdrom(f"{folder}/{file}", unit) for unit, file in enumerate(cdrom_files(root=root))),
            _console(f"{folder}/{CONSOLE_FILE}"),
            _channel(line),
            *([] if data_disk_bytes is None else _data_disk(f"{folder}/{DESCRIPTOR_FILE}", data_disk_bytes)),
        ],
        # The firmware's own order has disks first.
        bootOptions=vim.vm.BootOptions(bootOrder=[vim.vm.BootOptions.BootableCdromDevice()]),
    )
    if request.cpus:
        spec.cpuAffinity = vim.vm.AffinityInfo(affinitySet=list(request.cpus))
    return spec


def kernel_line(parameters: EsxiParameters, *, root: bool, data: bool) -> str:
    """The kernel's command line; ``root``: that is on a CD-ROM, ``data``: the data directory's disk is there."""
    drives = drive_words(root=_ROOT if root else None, data=_DATA if data else None)
    return " ".join([_KERNEL_LINE, *drives, *kernel_words(parameters, data=data)])


def cdrom_files(*, root: bool) -> tuple[str, ...]:
    """The files of its CD-ROM drives, in the order of the drives' numbers: the first boots."""
    return (BOOT_FILE, ROOT_FILE) if root else (BOOT_FILE,)


def _added(device: Any) -> Any:
    return vim.vm.device.VirtualDeviceSpec(operation=vim.vm.device.VirtualDeviceSpec.Operation.add, device=device)


def _connected() -> Any:
    return vim.vm.device.VirtualDevice.ConnectInfo(startConnected=True, connected=True, allowGuestControl=True)


def _nic(model: str, mac: str, network: Any, key: int) -> Any:
    models: dict[str, Any] = {
        "vmxnet3": vim.vm.device.VirtualVmxnet3,
        "e1000e": vim.vm.device.VirtualE1000e,
        "e1000": vim.vm.device.VirtualE1000,
    }
    backing = vim.vm.device.VirtualEthernetCard.NetworkBackingInfo(deviceName=network.name, network=network)
    return _added(
        models[model](key=key, backing=backing, addressType="manual", macAddress=mac, connectable=_connected())
    )


def _cdrom(file: str, unit: int) -> Any:
    backing = vim.vm.device.VirtualCdrom.IsoBackingInfo(fileName=file)
    drive = vim.vm.device.VirtualCdrom(key=-20 - unit, backing=backing, controllerKey=_IDE, unitNumber=unit)
    drive.connectable = _connected()
    return _added(drive)


def _data_disk(file: str, size_bytes: int) -> list[Any]:
    backing = vim.vm.device.VirtualDisk.FlatVer2BackingInfo(fileName=file, diskMode="persistent", thinProvisioned=False)
    sizes = {"capacityInKB": size_bytes // 1024, "capacityInBytes": size_bytes}
    disk = vim.vm.device.VirtualDisk(key=_SATA - 1, backing=backing, controllerKey=_SATA, unitNumber=0, **sizes)
    return [_added(vim.vm.device.VirtualAHCIController(key=_SATA, busNumber=0)), _added(disk)]


def _console(file: str) -> Any:
    backing = vim.vm.device.VirtualSerialPort.FileBackingInfo(fileName=file)
    return _added(vim.vm.device.VirtualSerialPort(key=-30, backing=backing, yieldOnPoll=True, connectable=_connected()))


def _channel(line: Line) -> Any:
    backing = vim.vm.device.VirtualSerialPort.URIBackingInfo(
        serviceURI=line.uri, direction="server" if line.listens else "client"
    )
    return _added(vim.vm.device.VirtualSerialPort(key=-31, backing=backing, yieldOnPoll=True, connectable=_connected()))
