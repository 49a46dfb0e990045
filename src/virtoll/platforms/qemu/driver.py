"""QEMU: one driver for its accelerators (TCG, KVM), machine types, NIC models and disks; direct kernel boot.

The agent's channel is a virtio-serial port or the second serial console; the first one is the guest's console and is
kept as evidence. QMP stops and continues the virtual CPUs (park, resume). KVM is never assumed from /dev/kvm: it is
probed by booting a guest, because a device file may be there and boot nothing (nested hosts).

Memory is the machine's own, so the guest sees a little less than was asked (the kernel's own reservations).
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from virtoll.agent.client import AgentClient
from virtoll.errors import GuestError, ProgramMissing
from virtoll.host.packages import EMULATORS
from virtoll.hosts.base import GuestHost
from virtoll.lab.attachments import Port
from virtoll.lab.commands import ProcessOptions
from virtoll.lab.data import DataBy
from virtoll.lab.interfaces import TUN_DEVICE, taps_allowed
from virtoll.lab.network import GuestNetwork
from virtoll.lab.priority import preferred
from virtoll.lab.qemu_monitor import Monitor
from virtoll.platforms.attachment import descriptors, machine_ports
from virtoll.platforms.base import GuestRequest, GuestStartError, Platform, Probe, Validation, no_taps
from virtoll.platforms.host import Site
from virtoll.platforms.last_words import last_complaint
from virtoll.platforms.process_guest import AgentGuest, quota_group, root_disk, socket_session
from virtoll.platforms.qemu.command import (
    DATA_DRIVE,
    MACHINES,
    Boot,
    MachineEnds,
    QemuParameters,
    confinement,
    machine_command,
    nic_arguments,
    with_disk,
)

_MIB = 2**20
_NO_PORTS: Mapping[str, Port] = {}
_VHOST_DEVICE = Path("/dev/vhost-net")
_TRANSLATIONS = {
    "TB count": "translated_blocks",
    "TB invalidate count": "invalidated_blocks",
    "TB flush count": "translation_flushes",
}


@dataclass(kw_only=True)
class QemuGuest(AgentGuest):
    """A machine under QEMU: parked by stopping its virtual CPUs."""

    monitor: Monitor | None = None
    output_file: Path | None = None

    def evidence(self) -> dict[str, bytes]:
        """The console, and what QEMU itself said."""
        output = self.output_file.read_bytes() if self.output_file is not None else b""
        return {**super().evidence(), "qemu.txt": output}

    def park(self) -> None:
        """QMP ``stop``."""
        self._monitor().execute("stop")

    def resume(self) -> None:
        """QMP ``cont``."""
        if self.process.poll() is None:
            self._monitor().execute("cont")

    def limit_data_disk(self, bytes_per_second: int) -> None:
        """From now on the data directory's disk carries so much, read and written together."""
        none = dict.fromkeys(("bps_rd", "bps_wr", "iops", "iops_rd", "iops_wr"), 0)
        self._monitor().execute("block_set_io_throttle", device=DATA_DRIVE, bps=bytes_per_second, **none)

    def own_counters(self) -> Mapping[str, int]:
        """What the emulator has translated; nothing where the processor runs the guest's code itself."""
        return translations(str(self._monitor().execute("human-monitor-command", **{"command-line": "info jit"})))

    def stop(self) -> None:
        """Let the guest power off, then end QEMU."""
        try:
            super().stop()
        finally:
            self._monitor().close()

    def _monitor(self) -> Monitor:
        if self.monitor is None:
            raise GuestError("this guest has no monitor")
        return self.monitor


def translations(output: str) -> dict[str, int]:
    """The counters in what the monitor says to ``info jit``: blocks that are there, dropped ones, and flushes of all.

    Source: QEMU, ``dump_exec_info``. Empty for an accelerator that translates nothing.
    """
    counts = {name: int(count) for name, count in re.findall(r"^(TB [a-z ]*count)\s+(\d+)", output, re.MULTILINE)}
    return {_TRANSLATIONS[name]: count for name, count in counts.items() if name in _TRANSLATIONS}


@dataclass
class _Options:
    """What emulators say of their options, by the program."""

    by_program: dict[str, str] = field(default_factory=dict)


class Qemu(Platform[QemuParameters]):
    """The driver; an accelerator is a subclass."""

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ("qemu-system-x86", "qemu-system-arm", "seabios", "ipxe-qemu")
    install: ClassVar[tuple[str, ...]] = tuple(
        emulator.name for name, emulator in EMULATORS.items() if name == platform.machine()
    )
    remedy: ClassVar[str] = "install the system emulator of QEMU for this machine"
    accelerator: ClassVar[str]
    cpu_model: ClassVar[str]
    probe_deadline_seconds: ClassVar[float]
    remote_hosts: ClassVar[bool] = True
    quota_by_cgroup: ClassVar[bool] = True
    parameter_model = QemuParameters
    data_by: ClassVar[DataBy] = "disk"
    # Tried (Linux 6.1, x86-64, 2026-11-26): the kernel takes 80 MiB until it has unpacked the initramfs, which is in
    # memory twice then. That of 7.5 MiB needs 95, and with the modules for disks, of 14.2 MiB, 108.
    least_memory_bytes: ClassVar[Mapping[str, int]] = {
        "tiny": 95 * 2**20,
        "full": 108 * 2**20,
        "full-non-free": 108 * 2**20,
    }

    @property
    def binary(self) -> str:
        """The system emulator for this host's own architecture."""
        return f"qemu-system-{platform.machine()}"

    @property
    def programs(self) -> tuple[str, ...]:
        """The emulator."""
        return (self.binary,)

    def depends_on(self) -> str | None:
        """The emulator's binary and the accelerator's device: what decides whether a guest boots."""
        files = []
        for path in (shutil.which(self.binary), "/dev/kvm", TUN_DEVICE, str(_VHOST_DEVICE)):
            if path is not None and Path(path).exists():
                status = Path(path).stat()
                files.append(f"{path} {status.st_size} {status.st_mtime_ns} {status.st_mode} {status.st_rdev}")
        return "; ".join([*files, *map(str, os.getgroups()), self.parameters.refusal() or "attachable"])

    @property
    def needs_kernel(self) -> bool:
        """Its machines boot it."""
        return True

    def probe(self, site: Site) -> Probe:
        """Boot a guest without network and wait for its agent."""
        try:
            version = site.host.run([self.binary, "--version"], "probe").splitlines()[0]
            accelerators = site.host.run([self.binary, "-accel", "help"], "probe").split()
        except ProgramMissing as error:
            return self.without(error, site.host)
        except GuestError as error:
            return Probe(False, None, str(error))
        version = version.replace("QEMU emulator version ", "QEMU ").split(" (")[0]
        if self.accelerator not in accelerators:
            return Probe(False, version, f"{version} was built without {self.accelerator}; install one that has it")
        refusal = self._refusal(site.host) or self._refusal_of_links(site.host)
        if refusal is not None:
            return Probe(False, version, refusal)
        if site.host.local is not None and not taps_allowed():
            return no_taps(version)
        request = GuestRequest(f"probe-{self.name}", 1, 128 * _MIB, (), GuestNetwork(()), self.probe_deadline_seconds)
        try:
            self._start(request, site).stop()
        except GuestError as error:
            return Probe(False, version, f"no guest boots with {self.accelerator} here: {_cause(error)}")
        return Probe(True, version, None)

    def _refusal(self, host: GuestHost) -> str | None:
        """What these parameters need of the host and it does not have; None where all is there."""
        machines = MACHINES.get(platform.machine(), ())
        if machines and self.parameters.machine not in machines:
            return f"machine {self.parameters.machine} is not for {platform.machine()}; use {' or '.join(machines)}"
        if self.parameters.machine == "microvm" and self.accelerator == "tcg":
            return (
                "machine microvm gives Debian's kernel no clock to calibrate by under emulation; use q35 or pc, or KVM"
            )
        if self.parameters.vhost == "on" and not _may_open(_VHOST_DEVICE, host):
            return f"vhost: on needs {_VHOST_DEVICE}, which cannot be opened here: as root modprobe vhost_net"
        return None

    def _refusal_of_links(self, host: GuestHost) -> str | None:
        """Why its NICs cannot be attached on this host."""
        if host.local is None and self.parameters.vfio:
            return f"vfio: QEMU's PCI devices are handed in on this machine only, not on {host.name}"
        if host.local is None:
            return None if host.is_root else f"its NICs need taps, and those root on {host.name}; log in as root"
        return self.parameters.refusal()

    def start(self, request: GuestRequest, site: Site) -> QemuGuest:
        """Boot the image with one NIC a link, each on a tap or macvtap, or a device of its own."""
        network, devices = site.network, self.parameters.devices(request.network)
        several = self.parameters.queues > 1
        with machine_ports(network, request.network, devices, several_queues=several) as ports:
            guest = self._start(request, site, ports)
        guest.cleanup.append(lambda: network.remove(request.network))
        return guest

    def _start(self, request: GuestRequest, site: Site, ports: Mapping[str, Port] = _NO_PORTS) -> QemuGuest:
        host, elsewhere = site.host, site.host if site.host.local is None else None
        folder = host.guest_folder(request.file_name)
        console = folder / "console.txt"
        # What QEMU says comes back over its process here, wherever it runs.
        output = (folder if elsewhere is None else Path(tempfile.mkdtemp(prefix="qemu-"))) / "qemu.txt"
        parameters = with_disk(self.parameters) if site.image.needs_disk else self.parameters
        shared = parameters.disk != self.parameters.disk
        disk = None if parameters.disk == "none" else self._disk(site, folder, parameters, shared=shared)
        with contextlib.ExitStack() as inherited:
            ends, connect = self._ends(request, host, folder, disk, inherited)
            data = request.data_disk_path if request.data_disk is None else request.data_disk
            ends = replace(ends, shared=shared, data=data)
            group = quota_group(host, request)
            command = self._command(request, site, console, ends, ports, parameters)
            spawned = time.monotonic_ns()
            with output.open("wb") as stream:
                process = host.spawn(
                    command,
                    f"guest {request.name}",
                    ProcessOptions(
                        cpus=request.cpus,
                        group=group,
                        stdout=stream.fileno(),
                        stderr=subprocess.STDOUT,
                        pass_fds=(*ends.descriptors, *descriptors(ports)),
                    ),
                )
            agent, monitor = connect()
        guest = QemuGuest(
            agent=agent,
            peer=site.peer,
            process=process,
            attachment=request.network.attachment,
            console_file=console,
            spawned_monotonic_ns=spawned,
            monitor=Monitor(monitor, request.name),
            output_file=output,
            cleanup=[group.remove] if group is not None else [],
            host=elsewhere,
            flushes=parameters.cache != "unsafe",
        )
        try:
            with preferred([process.pid] if elsewhere is None else []):
                guest.wait_ready(request.deadline_seconds)
        except GuestStartError as error:
            complaint = last_complaint(error.evidence["qemu.txt"])
            raise GuestStartError(
                f"{error} (QEMU said: {complaint})" if complaint else str(error), error.evidence
            ) from error
        return guest

    def _ends(
        self,
        request: GuestRequest,
        host: GuestHost,
        folder: Path,
        disk: int | Path | None,
        inherited: contextlib.ExitStack,
    ) -> tuple[MachineEnds, Callable[[], tuple[AgentClient, socket.socket]]]:
        """What QEMU is given, and how our ends are opened once it is started: made before, or on another host after."""
        if isinstance(disk, int):
            inherited.callback(os.close, disk)
        if host.local is None:
            ends = MachineEnds(folder / "agent", folder / "monitor", disk)

            def connected() -> tuple[AgentClient, socket.socket]:
                ours = [host.connect(folder / name, request.name, 60.0) for name in ("agent", "monitor")]
                descriptor = ours[0].detach()
                return AgentClient(descriptor, descriptor, request.name), ours[1]

            return ends, connected
        agent, agent_end = socket_session(request.name)
        monitor, monitor_end = socket.socketpair()
        for end in (agent_end, monitor_end):
            inherited.callback(end.close)
        return MachineEnds(agent_end.fileno(), monitor_end.fileno(), disk), lambda: (agent, monitor)

    def _disk(self, site: Site, folder: Path, parameters: QemuParameters, *, shared: bool) -> int | Path:
        """A copy of the image's disk form that is gone with the machine: its descriptor, or a file on another host.

        ``shared``: the form itself, which is then only read.
        """
        file = root_disk(site.image, parameters.filesystem)
        if shared:
            return site.host.put(file)
        if (local := site.host.local) is not None:
            return local.nameless_copy(file)
        site.host.run(["cp", "--", str(site.host.put(file)), str(folder / "disk")], "disk", 120.0)
        return folder / "disk"

    def _command(
        self,
        request: GuestRequest,
        site: Site,
        console: Path,
        ends: MachineEnds,
        ports: Mapping[str, Port],
        parameters: QemuParameters,
    ) -> list[str]:
        image = site.image
        with_more = parameters.vfio or ends.disk is not None or ends.data is not None
        initramfs = image.disk_initramfs if with_more else image.initramfs
        boot = Boot(site.host.put(image.kernel.vmlinux or image.kernel.vmlinuz), site.host.put(initramfs))
        options = [self.binary, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        options += ["-accel", self.accelerator, "-cpu", self.cpu_model]
        options += confinement(parameters, self._options(site), root=site.host.is_root)
        argv = options + machine_command(parameters, request, boot, console, ends)
        for link in request.network.links:
            argv += nic_arguments(parameters, link, ports[link.name])
        return argv

    def _options(self, site: Site) -> str:
        """What its QEMU says of its options, asked once a lab: how it is told to leave the root user has changed."""
        known = site.shared.find(_Options)
        if known is None:
            known = _Options()
            site.shared.keep(known)
        program = f"{site.host.name} {site.builds.get(self.binary, self.binary)}"
        if (help_text := known.by_program.get(program)) is None:
            help_text = known.by_program[program] = site.host.run([self.binary, "--help"], "probe")
        return help_text


class QemuTcg(Qemu):
    """Full emulation: every instruction of the guest is translated."""

    name: ClassVar[str] = "qemu-tcg"
    without_root: ClassVar[str] = "yes, where /dev/net/tun may be opened"
    family: ClassVar[str] = "emulated"
    validation: ClassVar[Validation] = "real"
    title: ClassVar[str] = "QEMU, emulated CPU (TCG)"
    accelerator: ClassVar[str] = "tcg"
    cpu_model: ClassVar[str] = "max"
    probe_deadline_seconds: ClassVar[float] = 90.0
    boot_seconds: ClassVar[float] = 4.5
    slowdown: ClassVar[float] = 40.0
    kernel_slowdown: ClassVar[float] = 20.0


class QemuKvm(Qemu):
    """Hardware-assisted virtualisation by KVM."""

    name: ClassVar[str] = "qemu-kvm"
    without_root: ClassVar[str] = "yes, with access to /dev/kvm and /dev/net/tun"
    family: ClassVar[str] = "hardware-assisted"
    validation: ClassVar[Validation] = "nested: functional only"
    title: ClassVar[str] = "QEMU with KVM"
    accelerator: ClassVar[str] = "kvm"
    cpu_model: ClassVar[str] = "host"
    # Emulation boots the same guest in a few seconds: what takes longer than this is not assisted by any hardware.
    probe_deadline_seconds: ClassVar[float] = 20.0
    boot_seconds: ClassVar[float] = 2.0
    slowdown: ClassVar[float] = 1.2


def _may_open(device: Path, host: GuestHost) -> bool:
    try:
        host.run(["test", "-r", str(device), "-a", "-w", str(device)], "probe")
    except GuestError:
        return False
    return True


def _cause(error: GuestError) -> str:
    """QEMU's own words where it said why; else the error's sentence."""
    complaint = last_complaint(error.evidence.get("qemu.txt", b"")) if isinstance(error, GuestStartError) else ""
    return complaint or str(error)
