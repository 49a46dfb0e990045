"""Every way to run a guest that Virtoll knows: one line each, in the order of the tables.

A new platform is one file here and one line below (``CONTRIBUTING.md`` has the check-list).
"""

from collections.abc import Mapping

from virtoll.experiment.model import Parameters, PlatformChoice
from virtoll.platforms.base import Platform
from virtoll.platforms.containers.docker import Docker
from virtoll.platforms.containers.gvisor import GVisor
from virtoll.platforms.containers.lxc import Lxc
from virtoll.platforms.containers.native import Native, NativeAgain
from virtoll.platforms.containers.netns import NetworkNamespace
from virtoll.platforms.containers.nspawn import SystemdNspawn
from virtoll.platforms.containers.oci import AnyRuntime, Crun, Runc
from virtoll.platforms.containers.podman import Podman
from virtoll.platforms.esxi import Esxi
from virtoll.platforms.fake.driver import Fake
from virtoll.platforms.kqemu import Kqemu
from virtoll.platforms.libvirt.driver import Libvirt
from virtoll.platforms.microvm.cloud_hypervisor import CloudHypervisor
from virtoll.platforms.microvm.firecracker import Firecracker
from virtoll.platforms.openvz import OpenVz
from virtoll.platforms.qemu.driver import QemuKvm, QemuTcg
from virtoll.platforms.ssh.driver import SshGuestPlatform
from virtoll.platforms.uml import UserModeLinux
from virtoll.platforms.virtualbox import VirtualBox
from virtoll.platforms.vserver import Vserver
from virtoll.platforms.xen.driver import Xen

PLATFORMS: Mapping[str, type[Platform[Parameters]]] = {
    "native": Native,
    "native-again": NativeAgain,
    "netns": NetworkNamespace,
    "runc": Runc,
    "crun": Crun,
    "runsc": GVisor,
    "oci": AnyRuntime,
    "nspawn": SystemdNspawn,
    "lxc": Lxc,
    "podman": Podman,
    "docker": Docker,
    "uml": UserModeLinux,
    "qemu-tcg": QemuTcg,
    "qemu-kvm": QemuKvm,
    "libvirt": Libvirt,
    "xen": Xen,
    "virtualbox": VirtualBox,
    "firecracker": Firecracker,
    "cloud-hypervisor": CloudHypervisor,
    "esxi": Esxi,
    "openvz": OpenVz,
    "vserver": Vserver,
    "kqemu": Kqemu,
    "ssh": SshGuestPlatform,
    "fake": Fake,
}


def platform_of(choice: PlatformChoice) -> Platform[Parameters]:
    """The platform of an experiment's entry, with its parameters."""
    return PLATFORMS[choice.platform].with_parameters(choice.parameters)
