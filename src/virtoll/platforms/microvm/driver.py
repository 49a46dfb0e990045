"""What drivers of machine monitors with an API socket share: start the process, configure, boot, pause, end.

Main types: ``MicroVm`` (the driver; a product is a subclass with its argument list and its requests), ``MicroVmGuest``.
A product's binary is the user's (``binary``): none is installed by Virtoll. KVM is never assumed from /dev/kvm: the
probe boots a guest.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from virtoll.agent.client import AgentClient
from virtoll.errors import GuestError
from virtoll.image import GuestImage
from virtoll.lab.commands import ProcessOptions
from virtoll.lab.inside import end_process, is_listened, wait_until
from virtoll.lab.interfaces import TUN_DEVICE, taps_allowed
from virtoll.lab.network import GuestNetwork
from virtoll.platforms.base import GuestRequest, GuestStartError, Platform, Probe, Validation, no_taps
from virtoll.platforms.host import Site
from virtoll.platforms.kernel_settings import ClockSetting, kernel_words
from virtoll.platforms.last_words import last_line
from virtoll.platforms.microvm.http_over_unix import SocketApi
from virtoll.platforms.process_guest import AgentGuest, quota_group, root_disk

_MIB = 2**20
_PROBE_MEMORY_BYTES = 256 * _MIB
_SOCKET_DEADLINE_SECONDS = 60.0
KVM_DEVICE = Path("/dev/kvm")


class MicroVmParameters(ClockSetting):
    """``binary``: the product's program, a path or a name; ``root``: in memory, or the image as a read-only disk."""

    binary: str = Field(description="the product's program, a path or a name")
    root: Literal["initramfs", "disk"] = Field(
        default="initramfs", description="the guest's root: in memory, or the image as a read-only disk"
    )


@dataclass(kw_only=True)
class MicroVmGuest(AgentGuest):
    """A machine that is paused and resumed over its monitor's API."""

    driver: MicroVm | None = None
    api: SocketApi | None = None
    output_file: Path | None = None
    parked: bool = False

    def evidence(self) -> dict[str, bytes]:
        """The console, which is the agent's channel too, and what the monitor itself said."""
        evidence = super().evidence()
        if self.output_file is not None:
            with contextlib.suppress(OSError):
                evidence["monitor.txt"] = self.output_file.read_bytes()
        return evidence

    def park(self) -> None:
        """Pause the virtual CPUs."""
        driver, api = self._ends()
        driver.pause(api)
        self.parked = True

    def resume(self) -> None:
        """Let the virtual CPUs run again."""
        if self.parked and self.process.poll() is None:
            driver, api = self._ends()
            driver.resume(api)
            self.parked = False

    def _ends(self) -> tuple[MicroVm, SocketApi]:
        if self.driver is None or self.api is None:
            raise GuestError("this guest has no monitor")
        return self.driver, self.api


class MicroVm(Platform[MicroVmParameters]):
    """The driver; a product is a subclass."""

    name: ClassVar[str]
    product: ClassVar[str]
    api_prefix: ClassVar[str] = ""
    family: ClassVar[str] = "hardware-assisted"
    validation: ClassVar[Validation] = "mock"
    parameter_model = MicroVmParameters
    boot_seconds: ClassVar[float] = 2.0
    slowdown: ClassVar[float] = 1.2
    probe_deadline_seconds: ClassVar[float] = 30.0
    speaks_on_stdio: ClassVar[bool]

    def command(self, socket: Path, folder: Path) -> list[str]:
        """The monitor's argument list; its API is to listen on ``socket``."""
        raise NotImplementedError

    def configure(self, api: SocketApi, request: GuestRequest, image: GuestImage, disk: Path | None) -> None:
        """Every request before the machine is booted."""
        raise NotImplementedError

    def connect(self, process: subprocess.Popen[bytes], folder: Path, who: str) -> AgentClient:
        """The agent's channel; called once the machine is started."""
        raise NotImplementedError

    def boot(self, api: SocketApi) -> None:
        """Start the machine."""
        raise NotImplementedError

    def pause(self, api: SocketApi) -> None:
        """Stop its virtual CPUs."""
        raise NotImplementedError

    def resume(self, api: SocketApi) -> None:
        """Let them run."""
        raise NotImplementedError

    @property
    def programs(self) -> tuple[str, ...]:
        """The product's, where it is found by its name; a path is a parameter."""
        return () if "/" in self.parameters.binary else (self.parameters.binary,)

    def depends_on(self) -> str | None:
        """The binary and KVM's device: what decides whether a guest boots."""
        files = []
        for path in (shutil.which(self.parameters.binary), str(KVM_DEVICE), TUN_DEVICE):
            if path is not None and Path(path).exists():
                status = Path(path).stat()
                files.append(f"{path} {status.st_size} {status.st_mtime_ns} {status.st_mode} {status.st_rdev}")
        return "; ".join([*files, *map(str, os.getgroups())])

    @property
    def needs_kernel(self) -> bool:
        """Its machines boot it."""
        return True

    def probe(self, site: Site) -> Probe:
        """Ask for the version and boot a guest without network."""
        binary = self.parameters.binary
        if site.this_machine.which(binary) is None:
            return Probe.unusable(None, f"{binary}: not found", self.how_to_get())
        try:
            version = site.host.run([binary, "--version"], "probe").splitlines()[0].strip()
        except (GuestError, IndexError) as error:
            return Probe(False, None, f"{binary} does not report its version: {error}; is it {self.product}?")
        if not os.access(KVM_DEVICE, os.R_OK | os.W_OK):
            remedy = "load KVM's module of this CPU, and join the group kvm"
            return Probe.unusable(version, f"{self.product} needs {KVM_DEVICE}, which cannot be opened here", remedy)
        if not taps_allowed():
            return no_taps(version)
        deadline = self.probe_deadline_seconds
        request = GuestRequest(f"probe-{self.name}", 1, _PROBE_MEMORY_BYTES, (), GuestNetwork(()), deadline)
        try:
            self._start(request, site).stop()
        except GuestError as error:
            return Probe(False, version, f"no guest boots with {self.product} here: {error}")
        return Probe(True, version, None)

    def start(self, request: GuestRequest, site: Site) -> MicroVmGuest:
        """Boot the image with one virtio NIC a link, each on a tap in a bridge."""
        network = site.network
        try:
            for link in request.network.links:
                network.tap_port(link)
            guest = self._start(request, site)
        except GuestError:
            network.remove(request.network)
            raise
        guest.cleanup.append(lambda: network.remove(request.network))
        return guest

    def _start(self, request: GuestRequest, site: Site) -> MicroVmGuest:
        host = site.this_machine
        folder = host.guest_folder(request.file_name)
        socket, output = folder / "api.sock", folder / "monitor.txt"
        disk = self._disk(site)
        group = quota_group(host, request)
        spawned = time.monotonic_ns()
        with output.open("wb") as stream:
            descriptor = stream.fileno()
            ends = (subprocess.PIPE, subprocess.PIPE) if self.speaks_on_stdio else (subprocess.DEVNULL, descriptor)
            process = host.spawn(
                self.command(socket, folder),
                f"guest {request.name}",
                ProcessOptions(cpus=request.cpus, group=group, stdin=ends[0], stdout=ends[1], stderr=descriptor),
            )
        api = SocketApi(socket, request.name, self.api_prefix)
        try:
            wait_until(
                lambda: process.poll() is not None or is_listened(socket),
                _SOCKET_DEADLINE_SECONDS,
                f"{self.product}'s API socket of {request.name}",
            )
            self.configure(api, request, site.image, disk)
            self.boot(api)
            agent = self.connect(process, folder, request.name)
        except GuestError as error:
            end_process(process)
            if group is not None:
                group.remove()
            output_bytes = output.read_bytes()
            complaint = last_line(output_bytes)
            reason = f"{error} (it said: {complaint})" if complaint else str(error)
            raise GuestStartError(reason, {"monitor.txt": output_bytes}) from error
        guest = MicroVmGuest(
            agent=agent,
            peer=site.peer,
            process=process,
            attachment="bridge",
            console_file=folder / "console.txt",
            spawned_monotonic_ns=spawned,
            driver=self,
            api=api,
            output_file=output,
            cleanup=[group.remove] if group is not None else [],
        )
        guest.wait_ready(request.deadline_seconds)
        return guest

    def _disk(self, site: Site) -> Path | None:
        if self.parameters.root == "initramfs" and not site.image.needs_disk:
            return None
        return site.host.put(root_disk(site.image))


def kernel_arguments(parameters: MicroVmParameters, console: str, disk: Path | None, *more: str) -> str:
    """The kernel's command line; console and agent share the serial port ``console``."""
    words = [f"console={console}", "quiet", "net.ifnames=0", "cryptomgr.notests", *more, *kernel_words(parameters)]
    words.append(f"virtoll.channel=/dev/{console}")
    if disk is not None:
        words += ["virtoll.modules=erofs", "virtoll.root=/dev/vda", "virtoll.disktype=erofs"]
    return " ".join(words)
