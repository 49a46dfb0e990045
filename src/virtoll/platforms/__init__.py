"""Every way to run a guest that Virtoll knows, in the order of the tables.

A new platform is one file here, a function that imports it and its line in ``PLATFORMS`` (``CONTRIBUTING.md`` has the
check-list). A driver is imported when an experiment names it: each that is not makes every command start faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtoll.experiment.model import Parameters, PlatformChoice
from virtoll.experiment.registry import Registry

if TYPE_CHECKING:
    from virtoll.platforms.base import Platform


def _native() -> type[Platform[Parameters]]:
    from virtoll.platforms.containers.native import Native

    return Native


def _native_again() -> type[Platform[Parameters]]:
    from virtoll.platforms.containers.native import NativeAgain

    return NativeAgain


def _netns() -> type[Platform[Parameters]]:
    from virtoll.platforms.containers.netns import NetworkNamespace

    return NetworkNamespace


def _runc() -> type[Platform[Parameters]]:
    from virtoll.platforms.containers.oci import Runc

    return Runc


def _crun() -> type[Platform[Parameters]]:
    from virtoll.platforms.containers.oci import Crun

    return Crun


def _runsc() -> type[Platform[Parameters]]:
    from virtoll.platforms.containers.gvisor import GVisor

    return GVisor


def _oci() -> type[Platform[Parameters]]:
    from virtoll.platforms.containers.oci import AnyRuntime

    return AnyRuntime


def _nspawn() -> type[Platform[Parameters]]:
    from virtoll.platforms.containers.nspawn import SystemdNspawn

    return SystemdNspawn


def _lxc() -> type[Platform[Parameters]]:
    from virtoll.platforms.containers.lxc import Lxc

    return Lxc


def _podman() -> type[Platform[Parameters]]:
    from virtoll.platforms.containers.podman import Podman

    return Podman


def _docker() -> type[Platform[Parameters]]:
    from virtoll.platforms.containers.docker import Docker

    return Docker


def _uml() -> type[Platform[Parameters]]:
    from virtoll.platforms.uml import UserModeLinux

    return UserModeLinux


def _qemu_tcg() -> type[Platform[Parameters]]:
    from virtoll.platforms.qemu.driver import QemuTcg

    return QemuTcg


def _qemu_kvm() -> type[Platform[Parameters]]:
    from virtoll.platforms.qemu.driver import QemuKvm

    return QemuKvm


def _libvirt() -> type[Platform[Parameters]]:
    from virtoll.platforms.libvirt.driver import Libvirt

    return Libvirt


def _xen() -> type[Platform[Parameters]]:
    from virtoll.platforms.xen.driver import Xen

    return Xen


def _virtualbox() -> type[Platform[Parameters]]:
    from virtoll.platforms.virtualbox import VirtualBox

    return VirtualBox


def _firecracker() -> type[Platform[Parameters]]:
    from virtoll.platforms.microvm.firecracker import Firecracker

    return Firecracker


def _cloud_hypervisor() -> type[Platform[Parameters]]:
    from virtoll.platforms.microvm.cloud_hypervisor import CloudHypervisor

    return CloudHypervisor


def _esxi() -> type[Platform[Parameters]]:
    from virtoll.platforms.esxi import Esxi

    return Esxi


def _openvz() -> type[Platform[Parameters]]:
    from virtoll.platforms.openvz import OpenVz

    return OpenVz


def _vserver() -> type[Platform[Parameters]]:
    from virtoll.platforms.vserver import Vserver

    return Vserver


def _kqemu() -> type[Platform[Parameters]]:
    from virtoll.platforms.kqemu import Kqemu

    return Kqemu


def _ssh() -> type[Platform[Parameters]]:
    from virtoll.platforms.ssh.driver import SshGuestPlatform

    return SshGuestPlatform


def _altered_netns() -> type[Platform[Parameters]]:
    from virtoll.platforms.altered.driver import AlteredNamespace

    return AlteredNamespace


def _altered_qemu_tcg() -> type[Platform[Parameters]]:
    from virtoll.platforms.altered.driver import AlteredQemu

    return AlteredQemu


def _fake() -> type[Platform[Parameters]]:
    from virtoll.platforms.fake.driver import Fake

    return Fake


PLATFORMS: Registry[type[Platform[Parameters]]] = Registry(
    {
        "native": _native,
        "native-again": _native_again,
        "netns": _netns,
        "runc": _runc,
        "crun": _crun,
        "runsc": _runsc,
        "oci": _oci,
        "nspawn": _nspawn,
        "lxc": _lxc,
        "podman": _podman,
        "docker": _docker,
        "uml": _uml,
        "qemu-tcg": _qemu_tcg,
        "qemu-kvm": _qemu_kvm,
        "libvirt": _libvirt,
        "xen": _xen,
        "virtualbox": _virtualbox,
        "firecracker": _firecracker,
        "cloud-hypervisor": _cloud_hypervisor,
        "esxi": _esxi,
        "openvz": _openvz,
        "vserver": _vserver,
        "kqemu": _kqemu,
        "ssh": _ssh,
        "fake": _fake,
    }
)
ALTERED: Registry[type[Platform[Parameters]]] = Registry(
    {"altered-netns": _altered_netns, "altered-qemu-tcg": _altered_qemu_tcg}
)
"""Guests with a known fault, for ``virtoll selftest``: an experiment may name them, and no list does."""
EVERY_PLATFORM: Registry[type[Platform[Parameters]]] = Registry({**PLATFORMS.loaders, **ALTERED.loaders})


def platform_of(choice: PlatformChoice) -> Platform[Parameters]:
    """The platform of an experiment's entry, with its parameters."""
    return EVERY_PLATFORM[choice.platform].with_parameters(choice.parameters)
