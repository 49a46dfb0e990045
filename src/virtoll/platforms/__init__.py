"""Every way to run a guest that Virtoll knows: one line each, in the order of the tables.

A new platform is one file here and one line below (``CONTRIBUTING.md`` has the check-list).
"""

from virtoll.platforms.base import AnyPlatform
from virtoll.platforms.cloud_hypervisor import CloudHypervisor
from virtoll.platforms.docker import Docker
from virtoll.platforms.esxi import Esxi
from virtoll.platforms.fake import Fake
from virtoll.platforms.firecracker import Firecracker
from virtoll.platforms.gvisor import GVisor
from virtoll.platforms.kqemu import Kqemu
from virtoll.platforms.libvirt import Libvirt
from virtoll.platforms.lxc import Lxc
from virtoll.platforms.native import Native, NativeAgain
from virtoll.platforms.netns import NetworkNamespace
from virtoll.platforms.nspawn import SystemdNspawn
from virtoll.platforms.oci import AnyRuntime, Crun, Runc
from virtoll.platforms.openvz import OpenVz
from virtoll.platforms.podman import Podman
from virtoll.platforms.qemu import QemuKvm, QemuTcg
from virtoll.platforms.ssh_guest import SshGuestPlatform
from virtoll.platforms.uml import UserModeLinux
from virtoll.platforms.virtualbox import VirtualBox
from virtoll.platforms.vserver import Vserver
from virtoll.platforms.xen import Xen

PLATFORMS: dict[str, type[AnyPlatform]] = {
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
