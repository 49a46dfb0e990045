"""Every way to run a guest that Virtoll knows, in the order of the tables.

A new platform is one file here and its line in ``PLATFORMS`` (``CONTRIBUTING.md`` has the check-list). A driver is
imported when an experiment names it: each that is not makes every command start faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtoll.experiment.model import Parameters, PlatformChoice
from virtoll.experiment.registry import Registry

if TYPE_CHECKING:
    from virtoll.platforms.base import Platform

PLATFORMS: Registry[type[Platform[Parameters]]] = Registry.of_classes(
    "virtoll.platforms",
    {
        "native": "containers.native:Native",
        "native-again": "containers.native:NativeAgain",
        "netns": "containers.netns:NetworkNamespace",
        "runc": "containers.oci:Runc",
        "crun": "containers.oci:Crun",
        "runsc": "containers.gvisor:GVisor",
        "oci": "containers.oci:AnyRuntime",
        "nspawn": "containers.nspawn:SystemdNspawn",
        "lxc": "containers.lxc:Lxc",
        "podman": "containers.podman:Podman",
        "docker": "containers.docker:Docker",
        "uml": "uml:UserModeLinux",
        "qemu-tcg": "qemu.driver:QemuTcg",
        "qemu-kvm": "qemu.driver:QemuKvm",
        "libvirt": "libvirt.driver:Libvirt",
        "xen": "xen.driver:Xen",
        "virtualbox": "virtualbox:VirtualBox",
        "firecracker": "microvm.firecracker:Firecracker",
        "cloud-hypervisor": "microvm.cloud_hypervisor:CloudHypervisor",
        "esxi": "esxi:Esxi",
        "openvz": "openvz:OpenVz",
        "vserver": "vserver:Vserver",
        "kqemu": "kqemu:Kqemu",
        "ssh": "ssh.driver:SshGuestPlatform",
        "fake": "fake.driver:Fake",
    },
)
ALTERED: Registry[type[Platform[Parameters]]] = Registry.of_classes(
    "virtoll.platforms",
    {"altered-netns": "altered.driver:AlteredNamespace", "altered-qemu-tcg": "altered.driver:AlteredQemu"},
)
"""Guests with a known fault, for ``virtoll selftest``: an experiment may name them, and no list does."""
EVERY_PLATFORM: Registry[type[Platform[Parameters]]] = Registry({**PLATFORMS.loaders, **ALTERED.loaders})


def platform_of(choice: PlatformChoice) -> Platform[Parameters]:
    """The platform of an experiment's entry, with its parameters."""
    return EVERY_PLATFORM[choice.platform].with_parameters(choice.parameters)
