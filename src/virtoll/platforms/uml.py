"""User-mode Linux: a Linux kernel as an ordinary program, booted on the image's initramfs.

The agent's channel is the first serial line, the console is kept as evidence. ``raw``: each NIC is a packet socket on a
veth end; ``tap``: a tap. It has one CPU whatever the host has. It is process 1 of a PID namespace of its own, because
its helpers outlive it otherwise, with the agent's channel open.

Parking: UML's kernel is one host process that traces one more for each process of the guest. The kernel is stopped by
SIGSTOP. A traced process never gets that, because UML takes an unknown stop for a crash. It gets the SIGALRM by which
UML's own timer takes the CPU back, and then waits for its stopped tracer.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from virtoll.errors import GuestError
from virtoll.lab.commands import ProcessOptions
from virtoll.lab.data import DataBy
from virtoll.lab.enter import Enter
from virtoll.lab.inside import wait_until
from virtoll.lab.interfaces import TUN_DEVICE, taps_allowed
from virtoll.lab.network import GuestNetwork
from virtoll.platforms.base import GuestRequest, GuestStartError, Platform, Probe, Validation, no_taps
from virtoll.platforms.host import Site
from virtoll.platforms.kernel_settings import SchedulerSetting, kernel_words
from virtoll.platforms.process_guest import AgentGuest, quota_group, root_disk, socket_session

_MIB = 2**20
_NEEDED = 1 << 12 | 1 << 13  # NET_ADMIN and NET_RAW: packet sockets and taps
_BINARY = "linux.uml"
_MACHINE = "x86_64"  # Linux has User-mode Linux for x86 alone
_ADAPTS_TO_VECTOR_STATE = (6, 13)
_PRELOADED = Path(__file__).with_name("uml_xstate.c")
_STOP_SECONDS = 30.0
_PROBE_SECONDS = 120.0
# UML stops listening to a line for good once the guest's terminal (4096 bytes) was full: ``line_throttle`` gives the
# interrupt up, and nothing takes it back (arch/um/drivers/line.c). So it never gets full.
_WINDOW_BYTES = 2048
# Under traffic UML may also miss that something came on the line, and then sleeps over it until the next byte comes.
_WAKE_SECONDS = 0.5


class UmlParameters(SchedulerSetting):
    """``transport`` of every link: ``raw`` (a packet socket on a veth) or ``tap``.

    ``isolation``: ``strict`` leaves the program the capabilities that its NICs take, and no new privileges.
    """

    transport: Literal["raw", "tap"] = Field(
        default="raw", description="of every link: a packet socket on a veth (raw), or a tap"
    )
    isolation: Literal["strict", "open"] = Field(
        default="strict", description="strict: the program has no more capabilities than its NICs take"
    )


class UmlGuest(AgentGuest):
    """A kernel that is a process, and the processes that it traces."""

    kernel_pid: int = 0

    def park(self) -> None:
        """Stop the kernel, then take the CPU from the guest's process that is running, if one is."""
        if self.process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.kernel_pid, signal.SIGSTOP)
        wait_until(lambda: _state(self.kernel_pid) in "TZX", _STOP_SECONDS, "the stop of the guest's kernel")
        for pid in _having("TracerPid", self.kernel_pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGALRM)

    def resume(self) -> None:
        """Continue the kernel; it finds the guest's processes as its own timer would have left them."""
        with contextlib.suppress(ProcessLookupError):
            if self.process.poll() is None and self.kernel_pid:
                os.kill(self.kernel_pid, signal.SIGCONT)


class UserModeLinux(Platform[UmlParameters]):
    """User-mode Linux."""

    name: ClassVar[str] = "uml"
    packages: ClassVar[tuple[str, ...]] = ("user-mode-linux",)
    install: ClassVar[tuple[str, ...]] = ("user-mode-linux",)
    without_root: ClassVar[str] = "yes"
    family: ClassVar[str] = "user-mode kernel"
    validation: ClassVar[Validation] = "real"
    title: ClassVar[str] = "User-mode Linux"
    max_vcpus: ClassVar[int | None] = 1
    lacks: ClassVar[Mapping[str, str]] = {
        "address-space": "a process has less of it than the host's processes, and large reservations fail"
    }
    parameter_model = UmlParameters
    boot_seconds: ClassVar[float] = 2.5
    slowdown: ClassVar[float] = 8.0
    kernel_slowdown: ClassVar[float] = 20.0
    data_by: ClassVar[DataBy] = "disk"

    def depends_on(self) -> str | None:
        """The binary, the compiler for what old ones need, and the taps' device."""
        files = []
        for path in (shutil.which(_BINARY), shutil.which("cc"), TUN_DEVICE):
            if path is not None and Path(path).exists():
                status = Path(path).stat()
                files.append(f"{path} {status.st_size} {status.st_mtime_ns} {status.st_mode}")
        return "; ".join([*files, *map(str, os.getgroups())])

    @property
    def needs_kernel(self) -> bool:
        """Its kernel is its own, and starts the initramfs."""
        return True

    @property
    def boots_image_kernel(self) -> bool:
        """It boots its own."""
        return False

    @property
    def programs(self) -> tuple[str, ...]:
        """Its kernel."""
        return (_BINARY,)

    def probe(self, site: Site) -> Probe:
        """Boot a guest without network and wait for its agent."""
        if platform.machine() != _MACHINE:
            why = f"User-mode Linux is for {_MACHINE} alone, and this machine is {platform.machine()}"
            return Probe.unusable(None, why, f"measure it on {_MACHINE}")
        if site.this_machine.which(_BINARY) is None:
            return self.without_program(_BINARY)
        version = f"UML {_version(site)}"
        if self.parameters.transport == "tap" and not taps_allowed():
            return no_taps(version, "choose 'transport: raw'")
        name = f"probe-uml-{self.parameters.transport}"
        request = GuestRequest(name, 1, 128 * _MIB, (), GuestNetwork(()), _PROBE_SECONDS)
        try:
            self._start(request, site).stop()
        except GuestError as error:
            return Probe(False, version, f"no guest boots here: {error}")
        return Probe(True, version, None)

    def start(self, request: GuestRequest, site: Site) -> UmlGuest:
        """Boot the image with one NIC a link."""
        network = site.network
        if request.vcpus > 1:
            raise GuestError(f"User-mode Linux has one CPU, not {request.vcpus}; leave it out or ask for 'vcpus: 1'")
        try:
            for link in request.network.links:
                if self.parameters.transport == "raw":
                    site.local_ports.raw_port(link)
                else:
                    network.tap_port(link)
            guest = self._start(request, site)
        except GuestError:
            network.remove(request.network)
            raise
        guest.cleanup.append(lambda: network.remove(request.network))
        return guest

    def _start(self, request: GuestRequest, site: Site) -> UmlGuest:
        host = site.this_machine
        folder = host.guest_folder(request.file_name)
        console = folder / "console.txt"
        agent, agent_end = socket_session(request.name)
        agent.window_bytes, agent.wake_seconds = _WINDOW_BYTES, _WAKE_SECONDS
        group = quota_group(host, request)
        argv = [*_environment(site), *self.command(request, site, folder, agent_end.fileno())]
        spawned = time.monotonic_ns()
        with console.open("wb") as stream:
            process = host.spawn(
                argv,
                f"guest {request.name}",
                ProcessOptions(
                    enter=self._around(),
                    cpus=request.cpus,
                    group=group,
                    stdout=stream.fileno(),
                    stderr=subprocess.STDOUT,
                    pass_fds=(agent_end.fileno(), *([] if request.data_disk is None else [request.data_disk])),
                ),
            )
        agent_end.close()
        guest = UmlGuest(
            agent=agent,
            peer=site.peer,
            process=process,
            attachment="bridge",
            console_file=console,
            spawned_monotonic_ns=spawned,
            cleanup=[group.remove] if group is not None else [],
        )
        try:
            guest.wait_ready(request.deadline_seconds)
        except GuestStartError as error:
            raise GuestStartError(f"{error}{_panic(error.evidence)}", error.evidence) from error
        guest.kernel_pid = next(iter(_having("PPid", process.pid)), 0)
        return guest

    def _around(self) -> Enter:
        """What the kernel's process is put into: PIDs of its own, and no more rights than its NICs take."""
        strict = self.parameters.isolation == "strict"
        return Enter(namespaces=("pid",), capabilities=_NEEDED if strict else None)

    def command(self, request: GuestRequest, site: Site, folder: Path, agent_fd: int) -> list[str]:
        """UML's argument list for this guest; a kernel that panics ends and leaves no core file.

        Addresses are not randomised: what the kernel keeps of its memory for itself depends on where its heap begins.
        """
        transport = self.parameters.transport
        nics = [
            f"vec{number}:transport={transport},ifname={link.port_interface},mac={link.guest_mac},mtu={link.mtu_bytes}"
            for number, link in enumerate(request.network.links)
        ]
        return [
            "prlimit",
            "--core=0",
            "--",
            "setarch",
            "--addr-no-randomize",
            "--",
            _BINARY,
            f"mem={request.memory_bytes // _MIB}M",
            f"initrd={site.image.initramfs}",
            "umid=uml",
            f"uml_dir={folder}/",
            "quiet",
            "panic=-1",
            "con=null",
            "con0=null,fd:1",
            "ssl=null",
            f"ssl0=fd:{agent_fd},fd:{agent_fd}",
            "virtoll.channel=/dev/ttyS0",
            "virtoll.paced",
            *_disk(site),
            *_data(request),
            *kernel_words(self.parameters, data=request.data_disk is not None),
            *nics,
        ]


def _disk(site: Site) -> list[str]:
    """An image that is no initramfs as the guest's root: read-only, by the one file system that this kernel has."""
    if not site.image.needs_disk:
        return []
    return [f"ubd0r={root_disk(site.image, 'ext4')}", "virtoll.root=/dev/ubda", "virtoll.disktype=ext4"]


def _data(request: GuestRequest) -> list[str]:
    """The second disk; without the flag ``s``, so that only what the guest flushes is written through."""
    if request.data_disk is None:
        return []
    return [f"ubd1=/proc/self/fd/{request.data_disk}", "virtoll.data=/dev/ubdb"]


def _version(site: Site) -> str:
    return site.host.run([_BINARY, "--version"], "probe").strip()


def _environment(site: Site) -> list[str]:
    """What a UML older than 6.13 needs on a processor with more vector state than it knows (AMX)."""
    words = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split()
    numbers = tuple(int(part) for part in _version(site).split(".")[:2] if part.isdigit())
    if "amx_tile" not in words or numbers >= _ADAPTS_TO_VECTOR_STATE:
        return []
    library = site.host.scratch / "uml_xstate.so"
    if not library.exists():
        site.host.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(_PRELOADED)], "uml")
    return ["env", f"LD_PRELOAD={library}"]


def _panic(evidence: dict[str, bytes]) -> str:
    """Why the kernel ended, from its console."""
    lines = evidence.get("console.txt", b"").decode(errors="replace").splitlines()
    complaints = [line for line in lines if "panic" in line or "failed" in line] or list(filter(None, lines))
    return f" (UML said: {complaints[-1].strip()})" if complaints else ""


def _state(pid: int) -> str:
    """A process's state as one letter; ``X`` when it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    return "X"


def _having(field: str, other: int) -> list[int]:
    """The processes whose ``field`` (``TracerPid``, ``PPid``) is the process ``other``."""
    pids = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"\n{field}:\t{other}\n" in (entry / "status").read_text(errors="replace"):
                pids.append(int(entry.name))
    return pids
