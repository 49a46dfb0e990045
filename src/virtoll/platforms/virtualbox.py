"""VirtualBox by ``VBoxManage``: a machine that boots the image from a CD-ROM, on a host that has the product.

The BIOS reads that CD-ROM from the IDE controller, whose driver the guest is not given. What else it has is on a SATA
controller of its own: an image with tools as a second CD-ROM, the data directory as a disk. So each is the only one of
its kind that the guest sees, and the order in which drives are found does not matter.

The agent's channel is the machine's first UART, which VirtualBox offers as a Unix socket. Everything it registers is in
a settings folder of the guest's own (VBOX_USER_HOME), so the user's own machines are never seen. Its NICs are bridged
to one end of a veth pair, whose other end is a port of the link's bridge.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from virtoll.agent.client import AgentClient
from virtoll.errors import CommandFailed, GuestError, ImageError
from virtoll.experiment.model import Switch
from virtoll.experiment.topology import Testbed
from virtoll.hosts.base import CommandRunner, GuestHost
from virtoll.hosts.links import Links
from virtoll.image.bootdisk import boot_disk
from virtoll.lab.data import DataBy
from virtoll.lab.network import GuestNetwork, Link
from virtoll.lab.residue import lab_named_in
from virtoll.platforms.attachment import Attached
from virtoll.platforms.base import GuestRequest, Platform, Probe, Validation
from virtoll.platforms.drives import Drive, Vmdk, drive_words
from virtoll.platforms.host import Site
from virtoll.platforms.kernel_settings import KernelSettings, kernel_words
from virtoll.platforms.managed_guest import ManagedMachine
from virtoll.platforms.process_guest import root_disk
from virtoll.platforms.promises import promised, until_gone

_MIB = 2**20
_STEP_SECONDS = 120.0
_ASKED = 5
_TOLD = 5  # how often a machine is told to go off before it is killed
_END_SECONDS = 60.0
_NO_SERVER = "Failed to create the VirtualBox object"
_PROBE_SECONDS = 240.0
_WINDOW_BYTES = 512  # the UART's far end takes what it can, and its queue is short
_LINE = (
    "console=ttyS0,115200 quiet panic=-1 reboot=t net.ifnames=0 cryptomgr.notests no5lvl no_timer_check "
    "virtoll.channel=/dev/ttyS0 virtoll.paced"
)
_SATA = "sata"
_ROOT_PORT, _DATA_PORT = 0, 1
_ROOT = Drive("/dev/sr0", ("ahci", "sr_mod", "erofs"))
_DATA = Drive("/dev/sda", ("ahci", "ext4"))
_DATA_EXTENT = "data.raw"
# The extent has a name beside the descriptor, a link: VirtualBox passes no flush on to one with an absolute path
# (``vmdkFlushImage`` in VMDK.cpp of 7.0).
DATA_MEDIUM = Vmdk("monolithicFlat", f'RW {{sectors}} FLAT "{_DATA_EXTENT}" 0', adapter="ide", heads=16)
_TAKEN = re.compile(r"VERR_(VMX_IN_VMX_ROOT_MODE|SVM_IN_USE|SVM_HOST_SVME_NOT_ENABLED)")
_MACHINE = re.compile(r"VBoxHeadless --comment (\S+) ")
_OFFLOADS = ("rx", "tx", "tso", "gso", "gro")


class VirtualBoxParameters(KernelSettings, Attached):
    """``nic`` of every link; ``nested_paging`` and ``paravirt_provider`` as VBoxManage has them."""

    nic: Literal["virtio", "82540EM"] = Field(default="virtio", description="model of every link's NIC")
    nested_paging: Switch = Field(
        default="on", description="whether the CPU's nested paging is used, as VBoxManage has it"
    )
    paravirt_provider: Literal["default", "none", "legacy", "minimal", "hyperv", "kvm"] = Field(
        default="default", description="paravirtualisation interface, as VBoxManage has it"
    )

    def conflict(self, testbed: Testbed | None) -> tuple[str, str] | None:
        """Bridged adapters alone."""
        if self.attachment != "bridge":
            return "attachment", f"{self.attachment} is not a way of VirtualBox's adapters; allowed: bridge"
        return super().conflict(testbed)


class VirtualBox(Platform[VirtualBoxParameters]):
    """The driver, through ``GuestHost`` alone."""

    name: ClassVar[str] = "virtualbox"
    packages: ClassVar[tuple[str, ...]] = ("virtualbox",)
    remedy: ClassVar[str] = "install VirtualBox with its kernel module"
    without_root: ClassVar[str] = "no"
    remote_hosts: ClassVar[bool] = True
    family: ClassVar[str] = "hardware-assisted"
    validation: ClassVar[Validation] = "nested: functional only"
    title: ClassVar[str] = "Oracle VirtualBox (VBoxManage)"
    parameter_model = VirtualBoxParameters
    boot_seconds: ClassVar[float] = 12.0
    slowdown: ClassVar[float] = 1.3
    data_by: ClassVar[DataBy] = "disk"

    def depends_on(self) -> None:
        """Always tried: its module and its version are not this kernel's."""
        return

    @classmethod
    def remove_leftovers(cls, host: CommandRunner, alive: frozenset[str]) -> list[str]:
        """By the product's own commands."""
        return remove_leftovers(host, alive)

    @property
    def needs_kernel(self) -> bool:
        """Its machines boot it."""
        return True

    def probe(self, site: Site) -> Probe:
        """Ask for its version and its device, then boot a guest without network and wait for its agent."""
        try:
            version = f"VirtualBox {site.host.run(['VBoxManage', '--version'], 'probe').splitlines()[-1].strip()}"
        except GuestError as error:
            return self.without(error, site.host)
        try:
            site.host.run(["test", "-r", "/dev/vboxdrv", "-a", "-w", "/dev/vboxdrv"], "probe")
        except GuestError:
            remedy = "modprobe vboxdrv (with Secure Boot its key must be enrolled), and join the group vboxusers"
            return Probe.unusable(version, f"/dev/vboxdrv cannot be opened on {site.host.name}", remedy)
        request = GuestRequest("probe-virtualbox", 1, 128 * _MIB, (), GuestNetwork(()), _PROBE_SECONDS)
        try:
            self._start(request, site).stop()
        except GuestError as error:
            taken = "; 'virtoll doctor' says why KVM keeps the CPU from it" if _TAKEN.search(str(error)) else ""
            return Probe(False, version, f"no guest boots: {error}{taken}")
        return Probe(True, version, None)

    def start(self, request: GuestRequest, site: Site) -> ManagedMachine:
        """Register a machine with one NIC a link, hold its UART, start it, wait for its agent."""
        return self._start(request, site)

    def _start(self, request: GuestRequest, site: Site) -> ManagedMachine:
        host, name = site.host, f"{site.host.lab_id}-{request.file_name}"
        folder = host.guest_folder(request.file_name)
        manage = ["env", f"VBOX_USER_HOME={folder / 'settings'}", "VBoxManage", "-q"]
        root, data = site.image.needs_disk, request.data_disk_path
        try:
            line = kernel_line(self.parameters, root=root, data=data is not None)
            disk = host.put(boot_disk(site.image, line, drives=root or data is not None))
        except ImageError as error:
            raise GuestError(str(error)) from error

        def do(*words: str, role: str = f"guest {request.name}") -> str:
            return _ask(host, [*manage, *words], role)

        base = folder / "machines"
        with contextlib.ExitStack() as undo:
            network = site.network if request.network.links else None
            adapters = undo.enter_context(_adapters(host, network, request.network))
            off = [*manage, "controlvm", name, "poweroff"]
            unregister = [*manage, "unregistervm", name, "--delete"]
            undo.callback(promised(host, off, lambda: _end_machine(host, do, name, folder), unregister))
            spawned = time.monotonic_ns()
            do("createvm", "--name", name, "--ostype", "Linux_64", "--register", "--basefolder", str(base))
            do("modifyvm", name, *self._settings(request, adapters, folder / "uart"))
            do("storagectl", name, "--name", "cd", "--add", "ide")
            _attach(do, name, "cd", 0, "dvddrive", disk)
            if root or data is not None:
                # The host's page cache is used, as by the other machines' disks.
                do("storagectl", name, "--name", _SATA, "--add", "sata", "--portcount", "2", "--hostiocache", "on")
            if root:
                _attach(do, name, _SATA, _ROOT_PORT, "dvddrive", _root_medium(host, folder, root_disk(site.image)))
            if data is not None:
                _attach(do, name, _SATA, _DATA_PORT, "hdd", _data_medium(host, folder, data))
                # Else what the guest syncs stays in the host's memory.
                do("setextradata", name, f"VBoxInternal/Devices/ahci/0/LUN#{_DATA_PORT}/Config/IgnoreFlush", "0")
            do("startvm", name, "--type", "headless")
            console = host.connect(folder / "uart", request.name, 60.0).detach()
            agent = AgentClient(
                console, console, request.name, window_bytes=_WINDOW_BYTES, wake_seconds=2.0, patience=2.0
            )
            undo.callback(agent.close)
            if request.cpus:
                _pin(host, name, request.cpus)
            kept = undo.pop_all()
        guest = ManagedMachine(
            agent=agent,
            peer=site.peer,
            host=host,
            attachment=request.network.attachment,
            spawned_monotonic_ns=spawned,
            pause=lambda: do("controlvm", name, "pause"),
            unpause=lambda: do("controlvm", name, "resume"),
            destroy=lambda: None,
            cleanup=[kept.close],
            consoles={"virtualbox.txt": base / name / "Logs" / "VBox.log"},
        )
        guest.wait_ready(request.deadline_seconds)
        return guest

    def _settings(self, request: GuestRequest, adapters: dict[str, str], uart: Path) -> list[str]:
        """``modifyvm``'s words: size, processor, UART, one adapter a link."""
        parameters = self.parameters
        words = [
            "--memory",
            str(request.memory_bytes // _MIB),
            "--cpus",
            str(request.vcpus),
            "--ioapic",
            "on",
            "--hwvirtex",
            "on",
            "--nested-paging",
            parameters.nested_paging,
            "--paravirt-provider",
            parameters.paravirt_provider,
            "--graphicscontroller",
            "vboxvga",
            "--vram",
            "8",
            "--audio-driver",
            "none",
            "--usb-ohci",
            "off",
            "--boot1",
            "dvd",
            "--boot2",
            "none",
            "--uart1",
            "0x3F8",
            "4",
            "--uart-mode1",
            "server",
            str(uart),
        ]
        if request.cpu_quota is not None:
            words += ["--cpu-execution-cap", str(max(1, min(100, round(100 * request.cpu_quota / request.vcpus))))]
        if not adapters:
            words += ["--nic1", "none"]
        for number, link in enumerate(request.network.links, 1):
            words += [
                f"--nic{number}",
                "bridged",
                f"--bridge-adapter{number}",
                adapters[link.name],
                f"--nic-type{number}",
                parameters.nic,
                f"--mac-address{number}",
                link.guest_mac.replace(":", ""),
                f"--nic-promisc{number}",
                "allow-all",
                f"--cable-connected{number}",
                "on",
            ]
        return words


def _ask(host: GuestHost, argv: list[str], role: str) -> str:
    """Its server ends five seconds after its last client: who asks just then gets no answer, and asks again.

    Nothing was done then: every command begins with that server's object. (``gShutdownDelayMs`` in its svcmain.cpp.)
    """
    for _ in range(_ASKED - 1):
        try:
            return host.run(argv, role, _STEP_SECONDS)
        except CommandFailed as error:
            if _NO_SERVER not in error.complaint:
                raise
    return host.run(argv, role, _STEP_SECONDS)


def kernel_line(parameters: VirtualBoxParameters, *, root: bool, data: bool) -> str:
    """The kernel's command line; ``root``: that is on a CD-ROM, ``data``: the data directory's disk is there."""
    drives = drive_words(root=_ROOT if root else None, data=_DATA if data else None)
    return " ".join([_LINE, *drives, *kernel_words(parameters, data=data)])


def _attach(do: Any, name: str, controller: str, port: int, kind: str, medium: Path) -> None:
    where = ["--storagectl", controller, "--port", str(port), "--device", "0"]
    do("storageattach", name, *where, "--type", kind, "--medium", str(medium))


def _root_medium(host: GuestHost, folder: Path, form: Path) -> Path:
    """The image's disk form under a name by which VirtualBox takes for a CD-ROM what is no ISO 9660."""
    medium = folder / "root.iso"
    host.run(["ln", "-s", "--", str(host.put(form)), str(medium)], "disk")
    return medium


def _data_medium(host: GuestHost, folder: Path, disk: Path) -> Path:
    medium = folder / "data.vmdk"
    size_bytes = int(host.run(["stat", "-L", "-c", "%s", "--", str(disk)], "disk"))
    host.run(["ln", "-s", "--", str(disk), str(folder / _DATA_EXTENT)], "disk")
    host.write(medium, DATA_MEDIUM.descriptor(size_bytes).encode("ascii"))
    return medium


@contextlib.contextmanager
def _adapters(host: GuestHost, network: Links | None, guest_network: GuestNetwork) -> Iterator[dict[str, str]]:
    """By link's name, what its NIC is bridged to: one end of a veth pair, without offloads, which it would pass on."""
    made: dict[str, str] = {}
    with contextlib.ExitStack() as undo:
        if network is not None:
            undo.callback(network.remove, guest_network)
            for link in guest_network.links:
                made[link.name] = undo.enter_context(_adapter(host, network, link))
        yield made


@contextlib.contextmanager
def _adapter(host: GuestHost, network: Links, link: Link) -> Iterator[str]:
    inner, outer = f"vtb{link.owner}{link.name}", link.port_interface
    bridge = network.bridge_port(link, outer)
    withdraw = host.guard(["ip", "link", "del", inner])
    try:
        lines = (
            f"link add {inner} mtu {link.mtu_bytes} type veth peer name {outer} mtu {link.mtu_bytes}",
            f"link set {inner} addrgenmode none",
            f"link set {outer} addrgenmode none",
            f"link set {outer} master {bridge} up",
            f"link set {inner} up",
        )
        host.run(["ip", "-batch", "-"], "adapter", stdin="".join(f"{line}\n" for line in lines).encode())
        for name in (inner, outer):
            host.run(["ethtool", "-K", name, *(word for offload in _OFFLOADS for word in (offload, "off"))], "adapter")
        yield inner
    finally:
        with contextlib.suppress(GuestError):
            host.run(["ip", "link", "del", inner], "adapter")
        with contextlib.suppress(GuestError):
            withdraw()


def remove_leftovers(host: CommandRunner, alive: frozenset[str] = frozenset()) -> list[str]:
    """End machines of runs which are not among ``alive`` (labs' ids); what was ended. Nothing else.

    A machine is registered with its run's own settings folder alone, so with its process all of it is gone that the
    product holds.
    """
    removed = []
    for pid, name in machines(host):
        lab = lab_named_in(name)
        if lab is not None and lab not in alive:
            host.run(["kill", "-KILL", pid], "leftovers")
            removed.append(f"VirtualBox machine {name}")
    return removed


def machines(host: CommandRunner) -> list[tuple[str, str]]:
    """The machines that run there, of whatever user and settings folder: process and name."""
    lines = host.run(["ps", "axww"], "machines").splitlines()
    return [(line.split()[0], match[1]) for line in lines if (match := _MACHINE.search(line)) is not None]


def _end_machine(host: GuestHost, do: Callable[..., str], name: str, folder: Path) -> None:
    """Off and unregistered, so that nothing of it is left; ``GuestRemains`` where something is after a minute.

    It cannot be unregistered until its session is unlocked, a moment after it has gone off. One that does not go off
    when it is told to is killed.
    """
    attempts = itertools.count()

    def running() -> list[str]:
        return [pid for pid, machine in machines(host) if machine == name]

    def left() -> str:
        there = running() or host.run(["find", str(folder), "-name", f"{name}.vbox"], "end").strip()
        return f"the machine {name}" if there else ""

    def end() -> None:
        for pid in running():
            if next(attempts) < _TOLD:
                do("controlvm", name, "poweroff")
            else:
                host.run(["kill", "-KILL", pid], "end")
        do("unregistervm", name, "--delete")

    until_gone(host, left, _END_SECONDS, end)


def _pin(host: GuestHost, name: str, cpus: tuple[int, ...]) -> None:
    """Every thread of the machine's process: VirtualBox itself pins nothing.

    Twice, for those that a thread made which was not pinned yet.
    """
    pids = [pid for pid, running in machines(host) if running == name]
    if not pids:
        raise GuestError(f"{name} cannot be pinned: {host.name} shows no VBoxHeadless of that name")
    for _ in range(2):
        host.run(["taskset", "-acp", ",".join(map(str, cpus)), pids[0]], "pinning")
