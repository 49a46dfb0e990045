"""The host itself: the agent as a process of the lab, on the image's root file system by ``chroot``.

``native`` is the baseline; ``native-again`` is the same thing under another name, the A/A control: what differs
between the two is what the run cannot see. Its traffic is routed by the host's kernel in the lab's own network
namespace.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from virtoll.errors import GuestError
from virtoll.hosts.base import GuestHost
from virtoll.image import GuestImage
from virtoll.lab.data import DataBy
from virtoll.lab.enter import Bind, Disk, Enter, Namespace
from virtoll.lab.network import GuestNetwork
from virtoll.platforms.base import DATA_PATH, GuestRequest, Platform, Probe, Validation
from virtoll.platforms.containers.guest import start_namespaced
from virtoll.platforms.host import Site
from virtoll.platforms.limits import OwnLimits, limits_held
from virtoll.platforms.process_guest import StartedGuest, root_disk

HOST_AGENT = ("/init", "--role", "host", "--channel", "stdio")


class NativeParameters(OwnLimits):
    """Without limits of its own the host is left as it is."""


class Native(Platform[NativeParameters]):
    """The bare host."""

    name: ClassVar[str] = "native"
    family: ClassVar[str] = "native"
    without_root: ClassVar[str] = "yes"
    validation: ClassVar[Validation] = "real"
    title: ClassVar[str] = "the host itself"
    parameter_model = NativeParameters
    boot_seconds: ClassVar[float] = 0.3
    slowdown: ClassVar[float] = 1.0
    data_by: ClassVar[DataBy] = "folder"
    remote_hosts: ClassVar[bool] = True
    quota_by_cgroup: ClassVar[bool] = True
    lacks: ClassVar[Mapping[str, str]] = {
        "network-stack": "two guests of it are one host, whose traffic with itself reaches no link"
    }

    def probe(self, site: Site) -> Probe:
        """Always there; the version is the kernel's. On another host an agent is started on the image's root."""
        if site.host.local is not None:
            return Probe(True, kernel_version(), None)
        version = None
        try:
            version = f"Linux {site.host.run(['uname', '-r'], 'probe').strip()}"
            self.start(GuestRequest(f"probe-{self.name}", 1, 128 * 2**20, (), GuestNetwork(())), site).stop()
        except GuestError as error:
            return Probe(False, version, f"no agent starts on the image's root there: {error}")
        return Probe(True, version, None)

    def start(self, request: GuestRequest, site: Site) -> StartedGuest:
        """Start the agent in a mount namespace of its own, changed to the image's root."""
        if site.host.local is None:
            from virtoll.platforms.containers.remote_native import start_bare_host

            return start_bare_host(request, site, image_there(site.host, site.image, request.data_folder), HOST_AGENT)
        network = site.network
        for link in request.network.links:
            site.local_ports.host_port(link)
        trunked = any(link.trunk for link in request.network.traffic)
        attachment = "bridge" if trunked else "veth"
        cleanup = [lambda: network.remove(request.network)]
        # All guests' memory does not hold it, and its agent is pinned as it is. Without a limit there is no group.
        limits = replace(request.limits(memory=False), cpus=())
        group = site.this_machine.group(request.name, limits) if limits.any else None
        enter = on_image(site.image, ("mount",), request.data_folder)
        guest = start_namespaced(request, site, HOST_AGENT, attachment, cleanup, group, enter=enter)
        with guest.ending_on_error():
            guest.limits_held = limits_held(request, site, guest.process.pid)
        return guest


class NativeAgain(Native):
    """The A/A control: the host under a second name."""

    name: ClassVar[str] = "native-again"
    title: ClassVar[str] = "the host itself, entered a second time (A/A control)"
    control_of: ClassVar[str | None] = "native"


def on_image(image: GuestImage, namespaces: tuple[Namespace, ...], folder: Path | None = None) -> Enter:
    """The image's root for a program in namespaces of its own; ``folder``: its data directory."""
    return Enter(namespaces=namespaces, root=image.root, shares=_shares(folder))


def image_there(host: GuestHost, image: GuestImage, folder: Path | None = None) -> Enter:
    """The same for a program on another host: the image is a file that is copied there once, and mounted for it."""
    root, disk = host.guest_folder("root"), host.put(root_disk(image))
    return Enter(namespaces=("mount",), mounts=(Disk(disk, root),), root=root, shares=_shares(folder))


def _shares(folder: Path | None) -> tuple[Bind, ...]:
    return (Bind(folder, Path(DATA_PATH)),) if folder is not None else ()


def kernel_version() -> str:
    """The host's kernel and its release."""
    return f"Linux {platform.release()}"
