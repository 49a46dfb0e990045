"""libvirt: machines under QEMU or KVM by ``virsh``: on this machine without a daemon, elsewhere by the host's own.

A domain is transient (``virsh create``): nothing is defined, so that nothing stays defined. Without a daemon
(``qemu:///embed``) each guest has a ``virsh`` of its own that holds its domain and ends with the lab. With one the
domain is named after the lab and guarded, and ``remove_leftovers`` finds it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from virtoll.agent import AgentClient
from virtoll.errors import GuestError
from virtoll.experiment import Parameters
from virtoll.footprint import GuestProcesses
from virtoll.lab.network import GuestNetwork, taps_allowed
from virtoll.platforms.base import Evidence, GuestHost, GuestRequest, GuestStartError, Probe, Site, require_site
from virtoll.platforms.libvirt_connection import Commands, HeldShell, Virsh, embedded_shell
from virtoll.platforms.libvirt_domain import SYSTEM, LibvirtParameters, Places, domain
from virtoll.platforms.managed import ManagedMachine

_MIB = 2**20
_PROBE_SECONDS = 120.0
_CREATE_SECONDS = 180.0
_OURS = re.compile(r"^(virtoll-[0-9a-f]{12})-")


@dataclass
class LibvirtGuest(ManagedMachine):
    """A domain; ``processes`` where it is this machine's."""

    processes: GuestProcesses | None = None

    def host_processes(self) -> GuestProcesses | None:
        """The ``virsh`` that holds it, and its machine."""
        return self.processes


class Libvirt:
    """The driver, through ``GuestHost`` and ``virsh`` alone."""

    name: ClassVar[str] = "libvirt"
    on_other_hosts: ClassVar[bool] = True
    evidence: ClassVar[Evidence] = "real"
    family: ClassVar[str] = "emulated"
    title: ClassVar[str] = "machine by libvirt (QEMU, KVM)"
    parameter_model: ClassVar[type[Parameters]] = LibvirtParameters
    boot_seconds: ClassVar[float] = 9.0
    slowdown: ClassVar[float] = 20.0
    control_of: ClassVar[str | None] = None
    needs_lab: ClassVar[bool] = True
    small_images_only: ClassVar[bool] = True

    def __init__(self, parameters: Parameters) -> None:
        """``parameters`` is a ``LibvirtParameters``."""
        if not isinstance(parameters, LibvirtParameters):
            raise TypeError("LibvirtParameters expected")
        self.parameters = parameters

    def depends_on(self) -> None:
        """Always tried: what a daemon has loaded cannot be seen from its files."""
        return

    def probe(self, site: Site | None) -> Probe:
        """Ask for the versions, then start a guest without network and wait for its agent."""
        place = require_site(site)
        if (refusal := self._refusal(place.lab)) is not None:
            return Probe(False, None, refusal)
        version = None
        try:
            version = self._version(place)
            request = GuestRequest("probe", 1, 128 * _MIB, (), GuestNetwork(()), _PROBE_SECONDS)
            self._start(request, place).stop()
        except GuestError as error:
            return Probe(
                False, version, f"no domain of type {self.parameters.domain_type} starts by {self._uri}: {error}"
            )
        return Probe(True, version, None)

    @property
    def _uri(self) -> str:
        return self.parameters.uri

    def _version(self, site: Site) -> str:
        """libvirt's version, as virsh says it."""
        try:
            return f"libvirt {site.lab.run(['virsh', '--version'], 'probe').strip()}"
        except GuestError as error:
            packages = "apt-get install libvirt-clients libvirt-daemon-driver-qemu"
            raise GuestError(f"{error}: {packages}" if "not found" in str(error) else str(error)) from error

    def _refusal(self, host: GuestHost) -> str | None:
        """Why these parameters cannot work on this host, whatever is installed."""
        if self.parameters.embedded and host.remote:
            return f"{self._uri} is for this machine; use qemu:///system on {host.name}"
        if not self.parameters.embedded and not host.remote:
            return (
                f"{self._uri}: this machine's daemon is outside the lab, where no link of a guest leads: use "
                "qemu:///embed, or give the host that has the daemon as the platform's 'host'"
            )
        if not host.remote and not taps_allowed():
            return "its NICs need taps, and this user may not open /dev/net/tun; chmod 0666 it, or run as root"
        return None

    def start(self, request: GuestRequest, site: Site | None) -> LibvirtGuest:
        """Create the domain with one interface a link, hold its channel, let it run, wait for its agent."""
        return self._start(request, require_site(site))

    def _start(self, request: GuestRequest, site: Site) -> LibvirtGuest:
        host, wanted = site.lab, self.parameters
        if (refusal := self._refusal(host)) is not None:
            raise GuestError(refusal)
        name = f"{host.lab_id}-{request.name.replace('/', '-')}"
        # A short one: the driver's sockets are below it, and a socket's path has 107 characters at most.
        folder = host.guest_folder("lv")
        places = Places(
            folder / "agent", folder / "console.txt", host.put(site.image.kernel.vmlinux or site.image.kernel.vmlinuz),
            host.put(site.image.initramfs),
        )  # fmt: skip
        with contextlib.ExitStack() as undo:
            network = site.require_network() if request.network.links else None
            if network is not None:
                undo.callback(network.remove, request.network)
            virsh = self._virsh(request, host, folder, undo)
            bridges = {
                link.name: network.bridge_port(link, link.port_interface)
                for link in request.network.links if network is not None
            }  # fmt: skip
            host.write(folder / "domain.xml", domain(name, request, wanted, places, bridges).encode())
            if isinstance(virsh, Commands):
                _refuse_taken(virsh, name)
                undo.callback(host.guard(virsh.argv("destroy", name)))
            undo.callback(_destroy, virsh, name)
            spawned = time.monotonic_ns()
            virsh.run("create", "--paused", str(folder / "domain.xml"), deadline_seconds=_CREATE_SECONDS)
            processes = _processes(virsh, name, undo) if isinstance(virsh, HeldShell) else None
            channel = host.connect(places.agent, request.name).detach()
            agent = AgentClient(channel, channel, request.name)
            kept = undo.pop_all()
        guest = LibvirtGuest(
            agent=agent, peer=site.peer or agent, host=host, attachment=request.network.attachment,
            spawned_monotonic_ns=spawned, pause=lambda: virsh.run("suspend", name),
            unpause=lambda: virsh.run("resume", name), destroy=lambda: None,
            consoles={"console.txt": places.console}, cleanup=[kept.close], processes=processes,
        )  # fmt: skip
        try:
            virsh.run("resume", name)
        except GuestError as error:
            evidence = guest.evidence()
            guest.stop()
            raise GuestStartError(str(error), evidence) from error
        guest.wait_ready(request.deadline_seconds)
        return guest

    def _virsh(self, request: GuestRequest, host: GuestHost, folder: Path, undo: contextlib.ExitStack) -> Virsh:
        """The way to the driver; one of the guest's own is in its cgroup, as the machine that it starts then is."""
        if not self.parameters.embedded:
            return Commands(host, self.parameters.uri)
        group = host.group(request.name, request.limits(memory=False)) if request.cpu_quota is not None else None
        if group is not None:
            undo.callback(group.remove)
        shell = embedded_shell(host, request.name, folder, group)
        undo.callback(shell.close)
        return shell


def _processes(shell: HeldShell, name: str, undo: contextlib.ExitStack) -> GuestProcesses:
    """The machine is nobody's child, and must not outlive the ``virsh`` that holds it."""
    machine = int((shell.folder / f"run/qemu/{name}.pid").read_text(encoding="ascii"))
    descriptor = os.pidfd_open(machine)

    def kill() -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)

    undo.callback(kill)
    return GuestProcesses(shell.process.pid, machine, folder=shell.folder)


def _destroy(virsh: Virsh, name: str) -> None:
    """Gone already where the guest has switched itself off."""
    with contextlib.suppress(GuestError):
        virsh.run("destroy", name)


def domains(virsh: Virsh) -> list[str]:
    """Names of all domains that the driver knows, running or not."""
    return [line.strip() for line in virsh.run("list", "--all", "--name").splitlines() if line.strip()]


def _refuse_taken(virsh: Commands, name: str) -> None:
    if name in domains(virsh):
        raise GuestError(
            f"{virsh.host.name} has a domain {name} already, which this run did not make: virsh destroy it"
        )


def remove_leftovers(host: GuestHost, alive: frozenset[str] = frozenset(), uri: str = SYSTEM) -> list[str]:
    """Destroy domains that a run made which is not among ``alive`` (labs' ids); what was destroyed. Nothing else."""
    virsh = Commands(host, uri)
    removed = []
    for name in domains(virsh):
        made = _OURS.match(name)
        if made is not None and made[1] not in alive:
            virsh.run("destroy", name)
            removed.append(f"libvirt domain {name}")
    return removed
