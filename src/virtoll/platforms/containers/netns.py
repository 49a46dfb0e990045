"""Bare namespaces.

What every container is made of, with nothing of a container engine (network, mount, PID, IPC, UTS).
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from virtoll.errors import GuestError
from virtoll.lab.data import DataBy
from virtoll.lab.enter import Enter, Namespace
from virtoll.platforms.base import GuestRequest, Platform, Probe, Validation
from virtoll.platforms.containers.confinement import NEEDED_MASK, Confined
from virtoll.platforms.containers.guest import AGENT, NamespacedGuest, move_links_in, start_namespaced
from virtoll.platforms.containers.native import kernel_version, on_image
from virtoll.platforms.host import Site
from virtoll.platforms.limits import limits_held

_NAMESPACES: tuple[Namespace, ...] = ("mount", "net", "ipc", "uts", "pid")


class NetworkNamespaceParameters(Confined):
    """``limits``: ``cgroup`` holds it to all guests' memory; a CPU quota and limits of its own are set either way."""

    limits: Literal["none", "cgroup"] = Field(
        default="none",
        description="cgroup: limited to all guests' memory; a CPU quota and limits of its own are set either way",
    )


class NetworkNamespace(Platform[NetworkNamespaceParameters]):
    """Bare Linux namespaces."""

    name: ClassVar[str] = "netns"
    family: ClassVar[str] = "os-level"
    without_root: ClassVar[str] = "yes"
    validation: ClassVar[Validation] = "real"
    title: ClassVar[str] = "bare Linux namespaces"
    parameter_model = NetworkNamespaceParameters
    boot_seconds: ClassVar[float] = 0.4
    slowdown: ClassVar[float] = 1.0
    data_by: ClassVar[DataBy] = "folder"

    def probe(self, site: Site) -> Probe:
        """Make the namespaces once."""
        try:
            agent = site.image.agent
            site.host.run([*Enter(namespaces=_NAMESPACES).prefix(agent), str(agent), "--version"], "probe")
        except GuestError as error:
            return Probe.unusable(None, str(error), "run as root")
        return Probe(True, kernel_version(), None)

    def start(self, request: GuestRequest, site: Site) -> NamespacedGuest:
        """Start the agent as PID 1 of namespaces of its own and move its links in."""
        network = site.network
        enter = on_image(site.image, _NAMESPACES, request.data_folder)
        if self.parameters.strict:
            enter = replace(enter, protect=site.host.is_root, capabilities=NEEDED_MASK)
        limits = request.limits(memory=self.parameters.limits == "cgroup")
        group = site.this_machine.group(request.name, limits) if limits.any else None
        if group is None and self.parameters.limits == "cgroup":
            raise GuestError("limits: cgroup needs root; run as root or leave it out")
        cleanup = [lambda: network.remove(request.network)]
        guest = start_namespaced(request, site, AGENT, request.network.attachment, cleanup, group, enter=enter)
        move_links_in(guest, request, site, guest.process.pid)
        # No engine does it here, and servers in the guest are reached over it.
        inside = ["nsenter", f"--net=/proc/{guest.process.pid}/ns/net", "--"]
        with guest.ending_on_error():
            guest.limits_held = limits_held(request, site, guest.process.pid)
            site.host.run([*inside, "ip", "link", "set", "dev", "lo", "up"], "loopback interface")
        return guest
