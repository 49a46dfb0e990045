"""libvirt by ``virsh``: machines and containers here, without a daemon or by one of the lab's own; elsewhere by theirs.

A domain is transient (``virsh create``): nothing is defined, so that nothing stays defined. Without a daemon
(``qemu:///embed``) each guest has a ``virsh`` of its own that holds its domain. It ends with the lab, as a daemon of
the lab's own does (``daemon``). On another host the domain is guarded, and ``remove_leftovers`` finds it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from virtoll.agent.client import AgentClient
from virtoll.errors import GuestError, ProgramMissing
from virtoll.host.guest_usage import GuestProcesses
from virtoll.hosts.base import CommandRunner, GuestHost
from virtoll.lab.inside import signal_tree
from virtoll.lab.interfaces import taps_allowed
from virtoll.lab.network import GuestNetwork
from virtoll.lab.priority import preferred
from virtoll.lab.residue import lab_named_in
from virtoll.platforms.base import GuestRequest, Platform, Probe, Validation, no_taps
from virtoll.platforms.host import Site
from virtoll.platforms.libvirt.connection import DEBIAN, Virsh, embedded_virsh
from virtoll.platforms.libvirt.daemon import Daemon, lab_daemon
from virtoll.platforms.libvirt.domain_xml import EMBEDDED, SYSTEM, TAG, TEST, XEN, GuestFiles, LibvirtParameters, domain
from virtoll.platforms.managed_guest import ManagedMachine
from virtoll.platforms.process_guest import quota_group, root_disk
from virtoll.platforms.promises import PromisedEnd
from virtoll.platforms.xen.disks import block_device

_MIB = 2**20
_PROBE_SECONDS = 120.0
_CREATE_SECONDS = 180.0


@dataclass(kw_only=True)
class LibvirtGuest(ManagedMachine):
    """A domain; ``processes`` where it is this machine's."""

    processes: GuestProcesses | None = None

    def host_processes(self) -> GuestProcesses | None:
        """The domain's own, the ``virsh`` that holds it, and the lab's daemon."""
        return self.processes


class Libvirt(Platform[LibvirtParameters]):
    """The driver, through ``GuestHost`` and ``virsh`` alone."""

    name: ClassVar[str] = "libvirt"
    packages: ClassVar[tuple[str, ...]] = ("libvirt-clients", "libvirt-daemon")
    install: ClassVar[tuple[str, ...]] = DEBIAN
    remote_hosts: ClassVar[bool] = True
    validation: ClassVar[Validation] = "real"
    family: ClassVar[str] = "emulated"
    title: ClassVar[str] = "machine or container by libvirt (QEMU, KVM, LXC, Xen)"
    parameter_model = LibvirtParameters
    without_root: ClassVar[str] = "no"
    boot_seconds: ClassVar[float] = 9.0
    slowdown: ClassVar[float] = 20.0

    def depends_on(self) -> None:
        """Always tried: what a daemon has loaded cannot be seen from its files."""
        return

    @classmethod
    def remove_leftovers(cls, host: CommandRunner, alive: frozenset[str]) -> list[str]:
        """By the product's own commands."""
        return remove_leftovers(host, alive)

    @property
    def needs_kernel(self) -> bool:
        """Its machines and domains boot it; its containers have none."""
        return not self.parameters.container

    def probe(self, site: Site) -> Probe:
        """Ask for the versions, then start a guest without network and wait for its agent."""
        if (refusal := self._refusal(site.host)) is not None:
            why, remedy = refusal
            return Probe.unusable(None, why, remedy)
        if not self.parameters.container and site.host.local is not None and not taps_allowed():
            return no_taps(None)
        version = None
        try:
            version = f"libvirt {site.host.run(['virsh', '--version'], 'probe').strip()}"
            request = GuestRequest("probe", 1, 128 * _MIB, (), GuestNetwork(()), _PROBE_SECONDS)
            self._start(request, site).stop()
        except ProgramMissing as error:
            return self.without(error, site.host)
        except GuestError as error:
            return Probe(False, version, f"no domain of type {self.parameters.kind} starts by {self._uri}: {error}")
        return Probe(True, version, None)

    @property
    def _uri(self) -> str:
        return self.parameters.uri

    def _refusal(self, host: GuestHost) -> tuple[str, str] | None:
        """Why these parameters cannot work on this host, whatever is installed, and what to do."""
        parameters, local = self.parameters, host.local
        if parameters.uri == TEST:
            return f"{TEST} is libvirt's driver for tests: a host of it carries no real guests", f"use {EMBEDDED}"
        if local is None:
            here = parameters.embedded or parameters.container
            return (f"{self._uri} is for this machine", f"use {SYSTEM} on {host.name}") if here else None
        if parameters.uri == XEN:
            return (
                f"{XEN} is driven on a dom0 that is named as the platform's 'host'",
                "on this machine use platform xen",
            )
        if parameters.container and local.cgroup is None:
            return f"{self._uri}: libvirt makes no container without root and cgroups", "run as root"
        if parameters.uri == SYSTEM and not host.is_root:
            return f"{SYSTEM}: the lab's own daemon needs root", "run as root"
        if parameters.embedded and not host.is_root:  # an ordinary user's namespace has no setgroups(2)
            return f"{EMBEDDED}: libvirt sets QEMU's groups, which needs root", "run as root"
        return None

    def start(self, request: GuestRequest, site: Site) -> LibvirtGuest:
        """Create the domain with one interface a link, hold its channel, let it run, wait for its agent."""
        return self._start(request, site)

    def _start(self, request: GuestRequest, site: Site) -> LibvirtGuest:
        host, parameters = site.host, self.parameters
        if (refusal := self._refusal(host)) is not None:
            raise GuestError("; ".join(refusal))
        if parameters.uri == XEN and request.cpu_quota is not None:
            raise GuestError(f"{request.name}: libvirt's driver for Xen takes no CPU quota; use the platform xen")
        name = f"{host.lab_id}-{request.file_name}"
        # A short one: the driver's sockets are below it, and a socket's path has 107 characters at most.
        folder = host.guest_folder("lv")
        with contextlib.ExitStack() as undo:
            if request.network.links:
                undo.callback(site.network.remove, request.network)
            daemon = self._daemon(site, name, undo)
            virsh = self._virsh(request, site, folder, daemon, undo)
            files = self._files(site, folder, daemon, undo)
            bridges = {}
            for link in request.network.links:
                bridges[link.name] = site.network.bridge_port(link, link.port_interface)
            host.write(folder / "domain.xml", domain(name, request, parameters, files, bridges).encode())
            _promise_end(virsh, host, name, daemon, undo)
            spawned = time.monotonic_ns()
            paused = () if parameters.container else ("--paused",)
            virsh.run("create", *paused, str(folder / "domain.xml"), deadline_seconds=_CREATE_SECONDS)
            processes = self._processes(virsh, daemon, name, folder, undo)
            # A container and a domain of Xen speak by their consoles, which are terminals of the host's.
            console = files.agent if parameters.emulated else Path(virsh.run("ttyconsole", name).strip())
            channel = host.connect(console, request.name).detach()
            agent = AgentClient(channel, channel, request.name)
            kept = undo.pop_all()
        pause, unpause = self._parking(virsh, name, processes)
        logs = {"libvirt.txt": daemon.domain_log(self._driver, name)} if daemon is not None else {}
        guest = LibvirtGuest(
            agent=agent,
            peer=site.peer,
            host=host,
            attachment=request.network.attachment,
            spawned_monotonic_ns=spawned,
            pause=pause,
            unpause=unpause,
            destroy=lambda: None,
            consoles={**({"console.txt": files.console} if parameters.emulated else {}), **logs},
            cleanup=[kept.close],
            processes=processes,
        )
        machine = processes if parameters.emulated else None
        with preferred([] if machine is None else [machine.started, *filter(None, [machine.inner])]):
            if paused:
                with guest.ending_on_error():
                    virsh.run("resume", name)
            guest.wait_ready(request.deadline_seconds)
        return guest

    @property
    def _driver(self) -> str:
        """What libvirt calls the driver in its folders' names."""
        return "lxc" if self.parameters.container else "qemu"

    def _daemon(self, site: Site, name: str, undo: contextlib.ExitStack) -> Daemon | None:
        """The lab's own, where a driver on this machine needs one."""
        if site.host.local is None or self.parameters.embedded:
            return None
        daemon = lab_daemon(site, name)
        undo.callback(daemon.release, name)
        return daemon

    def _virsh(
        self, request: GuestRequest, site: Site, folder: Path, daemon: Daemon | None, undo: contextlib.ExitStack
    ) -> Virsh:
        """The way to the driver; one of the guest's own is in its cgroup, as the machine that it starts then is."""
        if daemon is not None:
            return Virsh(site.host, daemon.uri(self._uri))
        if not self.parameters.embedded:
            return Virsh(site.host, self._uri)
        host = site.this_machine
        group = quota_group(host, request)
        if group is not None:
            undo.callback(group.remove)
        virsh = embedded_virsh(host, request.name, folder, group)
        undo.callback(virsh.close)
        return virsh

    def _files(self, site: Site, folder: Path, daemon: Daemon | None, undo: contextlib.ExitStack) -> GuestFiles:
        """The guest's files as the driver finds them."""
        agent, console, host, image = folder / "agent", folder / "console.txt", site.host, site.image
        if daemon is not None:
            disk = daemon.disk if image.needs_disk else None
            root, shown = daemon.root, daemon.root_folders
            kernel, initramfs = daemon.kernel, daemon.initramfs
            return GuestFiles(agent, console, kernel, initramfs, root=root, root_folders=shown, disk=disk)
        if self.parameters.uri == XEN:  # its initramfs has modules, of which the guest loads some
            kernel, initramfs = host.put(image.kernel.vmlinuz), host.put(image.disk_initramfs)
            file = host.put(root_disk(image)) if image.needs_disk else None
            device = None if file is None else Path(block_device(host, file, undo, "--read-only"))
            return GuestFiles(agent, console, kernel, initramfs, disk=device)
        kernel = host.put(image.kernel.vmlinux or image.kernel.vmlinuz)
        disk = host.put(root_disk(image)) if image.needs_disk else None
        return GuestFiles(agent, console, kernel, host.put(image.machine_initramfs), disk=disk)

    def _processes(
        self, virsh: Virsh, daemon: Daemon | None, name: str, folder: Path, undo: contextlib.ExitStack
    ) -> GuestProcesses | None:
        """None on another host. A machine is nobody's child, and must not outlive what holds it."""
        if virsh.shell is not None:
            machine = int((virsh.shell.folder / f"run/qemu/{name}.pid").read_text(encoding="ascii"))
            _killed_at_the_end(machine, undo)
            return GuestProcesses(virsh.shell.process.pid, machine, folder=virsh.shell.folder)
        if daemon is None:
            return None
        first = daemon.domain_pid(self._driver, name)
        if not self.parameters.container:
            _killed_at_the_end(first, undo)
        return GuestProcesses(first, shared=daemon.processes(), folder=folder)

    def _parking(
        self, virsh: Virsh, name: str, processes: GuestProcesses | None
    ) -> tuple[Callable[[], object], Callable[[], object]]:
        """By libvirt; a container's processes by signals.

        libvirt would freeze them, and what cgroup v1 holds frozen cannot be killed: it would outlive the lab.
        """
        if self.parameters.container and processes is not None:
            first = [processes.started]
            return lambda: signal_tree(first, signal.SIGSTOP), lambda: signal_tree(first, signal.SIGCONT)
        return lambda: virsh.run("suspend", name), lambda: virsh.run("resume", name)


def _killed_at_the_end(machine: int, undo: contextlib.ExitStack) -> None:
    descriptor = os.pidfd_open(machine)

    def kill() -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)

    undo.callback(kill)


def _promise_end(virsh: Virsh, host: GuestHost, name: str, daemon: Daemon | None, undo: contextlib.ExitStack) -> None:
    """Have the domain end with the guest, or with the lab."""
    if virsh.shell is None:
        refuse_taken(virsh, host, name)
    if virsh.shell is None and daemon is None:
        ending = PromisedEnd(host, "libvirt", lambda: f"domain {name}" if name in domains(virsh) else "")
        undo.enter_context(ending).promise(virsh.argv("destroy", name))
    else:  # what holds it is the lab's own: it ends with that, or with the lab
        undo.callback(_destroy, virsh, name)


def _destroy(virsh: Virsh, name: str) -> None:
    """Gone already where the guest has switched itself off."""
    with contextlib.suppress(GuestError):
        virsh.run("destroy", name)


def domains(virsh: Virsh) -> list[str]:
    """Names of all domains that the driver knows, running or not."""
    return [line.strip() for line in virsh.run("list", "--all", "--name").splitlines() if line.strip()]


def refuse_taken(virsh: Virsh, host: GuestHost, name: str) -> None:
    """A ``GuestError`` where the driver has a domain of that name."""
    if name in domains(virsh):
        raise GuestError(f"{host.name} has a domain {name} already, which this run did not make: virsh destroy it")


def remove_leftovers(host: CommandRunner, alive: frozenset[str] = frozenset(), uri: str = SYSTEM) -> list[str]:
    """Destroy domains that a run made which is not among ``alive`` (labs' ids); what was destroyed. Nothing else."""
    return remove_ours(Virsh(host, uri), alive)


def remove_ours(virsh: Virsh, alive: frozenset[str]) -> list[str]:
    """The same by any ``virsh``: by a domain's name and its description together."""
    removed = []
    for name in domains(virsh):
        lab = lab_named_in(name)
        if lab is not None and lab not in alive and virsh.run("desc", name).startswith(TAG):
            virsh.run("destroy", name)
            removed.append(f"libvirt domain {name}")
    return removed
