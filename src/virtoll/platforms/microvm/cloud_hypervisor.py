"""Cloud Hypervisor, by the user's binary: its REST API on a socket, the serial port on another.

Written against its API document (``vmm/src/api/openapi/cloud-hypervisor.yaml``, version 0.3.0) and tested against a
mock that speaks it; never run on the product itself.
"""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from virtoll.agent.client import AgentClient
from virtoll.image import GuestImage
from virtoll.lab.inside import await_listener
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.microvm.driver import MicroVm, MicroVmParameters, kernel_arguments
from virtoll.platforms.microvm.http_over_unix import SocketApi

_SERIAL = "serial.sock"
_SERIAL_SECONDS = 60.0
_CONSOLES = {"aarch64": "ttyAMA0"}


class CloudHypervisorParameters(MicroVmParameters):
    """``binary``: the program, a path or a name; ``root``: in memory, or the image as a read-only disk."""

    binary: str = Field(default="cloud-hypervisor", description="Cloud Hypervisor's program, a path or a name")


class CloudHypervisor(MicroVm):
    """Cloud Hypervisor's machine: virtio over PCI, the kernel started at its PVH entry, no firmware."""

    name: ClassVar[str] = "cloud-hypervisor"
    title: ClassVar[str] = "Cloud Hypervisor (driver tested against its API's document only)"
    product: ClassVar[str] = "Cloud Hypervisor"
    remedy: ClassVar[str] = "install Cloud Hypervisor and give its path as 'binary'"
    api_prefix: ClassVar[str] = "/api/v1"
    speaks_on_stdio: ClassVar[bool] = False
    parameter_model = CloudHypervisorParameters

    def command(self, socket: Path, folder: Path) -> list[str]:
        """The machine itself is described over the API alone."""
        del folder
        return [self.parameters.binary, "--api-socket", str(socket)]

    def configure(self, api: SocketApi, request: GuestRequest, image: GuestImage, disk: Path | None) -> None:
        """One request creates the whole machine."""
        initramfs = image.initramfs if disk is None else image.disk_initramfs
        machine: dict[str, Any] = {
            "cpus": {"boot_vcpus": request.vcpus, "max_vcpus": request.vcpus},
            "memory": {"size": request.memory_bytes},
            "payload": {
                "kernel": str(image.kernel.vmlinux or image.kernel.vmlinuz),
                "initramfs": str(initramfs),
                "cmdline": kernel_arguments(self.parameters, _CONSOLES.get(platform.machine(), "ttyS0"), disk),
            },
            "net": [
                {"id": link.name, "tap": link.port_interface, "mac": link.guest_mac} for link in request.network.links
            ],
            # With `Tty` it reads standard input only where that is a terminal.
            "serial": {"mode": "Socket", "socket": str(api.path.parent / _SERIAL)},
            "console": {"mode": "Off"},
        }
        if disk is not None:
            machine["disks"] = [{"id": "root", "path": str(disk), "readonly": True, "image_type": "Raw"}]
        api.request("PUT", "/vm.create", machine)

    def connect(self, process: subprocess.Popen[bytes], folder: Path, who: str) -> AgentClient:
        """It listens for the serial port once the machine is created or, in older versions, booted."""
        connection = await_listener(
            folder / _SERIAL,
            _SERIAL_SECONDS,
            f"{who}: a listener at its serial port",
            lambda: process.poll() is not None,
        )
        descriptor = connection.detach()
        return AgentClient(descriptor, descriptor, who)

    def boot(self, api: SocketApi) -> None:
        """``vm.boot``."""
        api.request("PUT", "/vm.boot")

    def pause(self, api: SocketApi) -> None:
        """``vm.pause``."""
        api.request("PUT", "/vm.pause")

    def resume(self, api: SocketApi) -> None:
        """``vm.resume``."""
        api.request("PUT", "/vm.resume")
