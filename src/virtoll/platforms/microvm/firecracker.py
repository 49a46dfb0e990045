"""Firecracker, by the user's binary: its API socket, the first serial port on standard input and output.

Written against Firecracker's API document (``src/firecracker/swagger/firecracker.yaml``, version 1.17.0-dev) and tested
against a mock that speaks it; never run on the product itself.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from virtoll.agent.client import AgentClient
from virtoll.image import GuestImage
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.microvm.driver import MicroVm, MicroVmParameters, kernel_arguments
from virtoll.platforms.microvm.http_over_unix import SocketApi
from virtoll.platforms.process_guest import connect_stdio

_MIB = 2**20
_RESET = ("panic=-1", "reboot=k", "virtoll.end=reset")  # it ends with its guest's reset, and knows no other end


class FirecrackerParameters(MicroVmParameters):
    """``binary``: the program, a path or a name; ``root``: in memory, or the image as a read-only disk."""

    binary: str = Field(default="firecracker", description="Firecracker's program, a path or a name")


class Firecracker(MicroVm):
    """Firecracker's microVM: virtio over MMIO or PCI as its version has it, no firmware."""

    name: ClassVar[str] = "firecracker"
    title: ClassVar[str] = "Firecracker (driver tested against its API's document only)"
    product: ClassVar[str] = "Firecracker"
    remedy: ClassVar[str] = "install Firecracker and give its path as 'binary'"
    speaks_on_stdio: ClassVar[bool] = True
    parameter_model = FirecrackerParameters

    def command(self, socket: Path, folder: Path) -> list[str]:
        """Its log goes to a file of its own: standard output is the guest's serial port."""
        log = folder / "firecracker.log"
        log.touch()
        return [
            self.parameters.binary,
            "--api-sock",
            str(socket),
            "--id",
            "guest",
            "--log-path",
            str(log),
            "--level",
            "Warning",
        ]

    def configure(self, api: SocketApi, request: GuestRequest, image: GuestImage, disk: Path | None) -> None:
        """Machine, boot source, drive, one interface a link."""
        size = {"vcpu_count": request.vcpus, "mem_size_mib": request.memory_bytes // _MIB}
        api.request("PUT", "/machine-config", size)
        source = {
            "kernel_image_path": str(image.kernel.vmlinux or image.kernel.vmlinuz),
            "initrd_path": str(image.initramfs if disk is None else image.disk_initramfs),
            "boot_args": kernel_arguments(self.parameters, "ttyS0", disk, *_RESET),
        }
        api.request("PUT", "/boot-source", source)
        if disk is not None:
            # Not as its root device: that would have the kernel, and not the agent, look for it.
            drive: dict[str, Any] = {"drive_id": "root", "path_on_host": str(disk)}
            api.request("PUT", "/drives/root", drive | {"is_root_device": False, "is_read_only": True})
        for link in request.network.links:
            card = {"iface_id": link.name, "guest_mac": link.guest_mac, "host_dev_name": link.port_interface}
            api.request("PUT", f"/network-interfaces/{link.name}", card)

    def connect(self, process: subprocess.Popen[bytes], folder: Path, who: str) -> AgentClient:
        """The serial port is the process's standard input and output."""
        del folder
        return connect_stdio(process, who)

    def boot(self, api: SocketApi) -> None:
        """``InstanceStart``."""
        api.request("PUT", "/actions", {"action_type": "InstanceStart"})

    def pause(self, api: SocketApi) -> None:
        """State ``Paused``."""
        api.request("PATCH", "/vm", {"state": "Paused"})

    def resume(self, api: SocketApi) -> None:
        """State ``Resumed``."""
        api.request("PATCH", "/vm", {"state": "Resumed"})
