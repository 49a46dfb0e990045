"""What a host must have: each Debian package with its purpose, its programs, and its names in other distributions.

Main types: ``Package`` and ``Names``. The one list for ``virtoll setup`` and for a clone's ``tools/setup.py``, which
loads this file by its path before anything is installed: standard library only. Must not: install anything, or print.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Names(NamedTuple):
    """A package's names for the package managers of other distributions; empty where they are not certain."""

    dnf: str = ""
    pacman: str = ""
    zypper: str = ""
    apk: str = ""


class Package(NamedTuple):
    """A Debian package; ``programs``: those of it that are started, none where it brings files alone."""

    name: str
    purpose: str
    programs: tuple[str, ...] = ()
    elsewhere: Names = Names()


def _everywhere(name: str) -> Names:
    return Names(name, name, name, name)


_OF_UTIL_LINUX = Names("util-linux", "util-linux", "util-linux")
_SYSLINUX = _everywhere("syslinux")
TO_RUN = (
    Package("ca-certificates", "package downloads over TLS", (), _everywhere("ca-certificates")),
    Package("e2fsprogs", "data directories and images as disks", ("mke2fs",), _everywhere("e2fsprogs")),
    Package("iproute2", "the lab's links", ("ip",), Names("iproute", "iproute2", "iproute2", "iproute2")),
    Package("mount", "the lab's own mounts", ("mount", "umount", "losetup"), _OF_UTIL_LINUX),
    Package("procps", "finds what other hosts have left", ("ps",), Names("procps-ng", "procps-ng", "procps")),
    Package("runc", "containers", ("runc",), _everywhere("runc")),
    Package("util-linux", "the lab's namespaces", ("setpriv", "unshare", "nsenter"), _OF_UTIL_LINUX),
)
EMULATORS = {
    "x86_64": Package(
        "qemu-system-x86",
        "machines",
        ("qemu-system-x86_64",),
        Names("qemu-system-x86", "qemu-system-x86", "qemu-x86", "qemu-system-x86_64"),
    ),
    "aarch64": Package(
        "qemu-system-arm",
        "machines",
        ("qemu-system-aarch64",),
        Names("qemu-system-aarch64", "qemu-system-aarch64", "qemu-arm", "qemu-system-aarch64"),
    ),
}
# Each platform says by its probe when something of these is missing, so none is needed to measure.
FOR_PLATFORMS = (
    Package("crun", "containers by crun", ("crun",), _everywhere("crun")),
    Package("docker.io", "containers by Docker", ("dockerd",), Names("moby-engine", "docker", "docker", "docker")),
    Package("erofs-utils", "the image as a read-only disk", ("mkfs.erofs",), _everywhere("erofs-utils")),
    Package("isolinux", "the image as a CD-ROM that boots", (), _SYSLINUX),
    # None of these four starts a service.
    Package("libvirt-clients", "libvirt", ("virsh",), Names("libvirt-client", "libvirt", "libvirt-client")),
    Package("libvirt-daemon", "libvirt", ("libvirtd",), Names("libvirt-daemon", "libvirt", "libvirt-daemon")),
    Package("libvirt-daemon-driver-lxc", "libvirt's containers"),
    Package("libvirt-daemon-driver-qemu", "libvirt's machines"),
    Package("lxc", "containers by LXC", ("lxc-start",), _everywhere("lxc")),
    Package(
        "openssh-client",
        "other hosts and the platform ssh",
        ("ssh",),
        Names("openssh-clients", "openssh", "openssh", "openssh-client"),
    ),
    Package("podman", "containers by Podman", ("podman",), _everywhere("podman")),
    Package("syslinux-common", "isolinux's own modules", (), _SYSLINUX),
    Package(
        "systemd-container",
        "containers by systemd-nspawn",
        ("systemd-nspawn",),
        Names("systemd-container", "systemd", "systemd-container"),
    ),
    Package("user-mode-linux", "User-mode Linux", ("linux.uml",)),
    Package("xorriso", "the image as a CD-ROM", ("xorriso",), Names("xorriso", "libisoburn", "xorriso", "xorriso")),
)
# What makes the image with the workloads' tools: no experiment of the agent's own jobs needs it.
FOR_TOOLS = (
    Package("erofs-utils", "that image as a machine's root", ("mkfs.erofs",), _everywhere("erofs-utils")),
    Package("mmdebstrap", "installs the workloads' tools into an image", ("mmdebstrap",)),
    Package("util-linux", "an ended build leaves nothing", ("setpriv", "unshare"), _OF_UTIL_LINUX),
)
STANDS_IN = {"runc": "containerd.io"}
"""A package that brings the same program and that must not be removed in favour of Debian's own."""
_SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"


def needed(machine: str, *, platforms: bool = False, tools: bool = False) -> tuple[Package, ...]:
    """What measuring needs on such a machine (``uname -m``), each package once, sorted by name.

    With ``platforms`` what every platform needs, with ``tools`` what makes the image of the workloads' tools.
    """
    emulator = (EMULATORS[machine],) if machine in EMULATORS else ()
    more = (*(FOR_PLATFORMS if platforms else ()), *(FOR_TOOLS if tools else ()))
    first = {package.name: package for package in reversed((*TO_RUN, *emulator, *more))}
    return tuple(first[name] for name in sorted(first))


def parse_installed(listing: str) -> frozenset[str]:
    """Names of installed packages from ``dpkg-query -W -f '${Package} ${db:Status-Status}\\n'``."""
    rows = (line.split() for line in listing.splitlines())
    return frozenset(row[0] for row in rows if len(row) == 2 and row[1] == "installed")


def missing_packages(names: Sequence[str]) -> tuple[str, ...]:
    """Those of the Debian packages that dpkg does not know as installed; FileNotFoundError where there is no dpkg."""
    query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *names, *STANDS_IN.values()]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)
    installed = parse_installed(answer.stdout)
    return tuple(name for name in names if name not in installed and STANDS_IN.get(name) not in installed)


def install_command(names: Sequence[str]) -> list[str]:
    """The command that installs Debian packages and removes none, as an argument list."""
    return ["apt-get", "install", "-y", "--no-remove", "--no-install-recommends", *names]


def missing_sentence(names: Sequence[str]) -> str:
    """What an ordinary user is told: one sentence with the exact command."""
    return f"Debian packages are missing, install them with: sudo {shlex.join(install_command(names))}"


def without_programs(packages: Iterable[Package]) -> tuple[tuple[Package, tuple[str, ...]], ...]:
    """The packages of which programs are not there, each with those; also looked for where root alone has its PATH."""
    path = f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_FOLDERS}"
    found = ((one, tuple(name for name in one.programs if shutil.which(name, path=path) is None)) for one in packages)
    return tuple((one, programs) for one, programs in found if programs)
