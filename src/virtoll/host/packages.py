"""What a host must have: each Debian package with its purpose, its programs, and its names in other distributions.

Main types: ``Package`` and ``Names``. ``how_to_install`` says it in the words of this host's package manager.
The one list for ``virtoll setup`` and for a clone's ``tools/setup.py``, which loads this file by its path before
anything is installed: standard library only. Must not: install anything, or print.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple


class Names(NamedTuple):
    """A package's names for the package managers of other distributions; empty where they are not certain."""

    dnf: str = ""
    pacman: str = ""
    zypper: str = ""
    apk: str = ""


class Package(NamedTuple):
    """A Debian package; ``programs``: those of it that are started, none where it brings files alone.

    ``machines``: those that Debian has it for (``uname -m``), empty: all. ``newer``: whether newer releases alone have
    it, where older ones have its programs in another package of the list.
    """

    name: str
    purpose: str
    programs: tuple[str, ...] = ()
    elsewhere: Names = Names()
    machines: tuple[str, ...] = ()
    newer: bool = False


def _everywhere(name: str) -> Names:
    return Names(name, name, name, name)


_OF_UTIL_LINUX = Names("util-linux", "util-linux", "util-linux", "util-linux")  # Alpine's brings all of its parts
_SYSLINUX = _everywhere("syslinux")
_DOCKER = Names("moby-engine", "docker", "docker", "docker")  # which bring daemon and client
TO_RUN = (
    Package("ca-certificates", "package downloads over TLS", (), _everywhere("ca-certificates")),
    Package("e2fsprogs", "data directories and images as disks", ("mke2fs",), _everywhere("e2fsprogs")),
    Package("iproute2", "the lab's links", ("ip",), Names("iproute", "iproute2", "iproute2", "iproute2")),
    Package("mount", "the lab's own mounts", ("mount", "umount", "losetup"), _OF_UTIL_LINUX),
    Package("procps", "leftovers on other hosts", ("ps",), Names("procps-ng", "procps-ng", "procps")),
    Package("runc", "containers", ("runc",), _everywhere("runc")),
    Package("util-linux", "the lab's namespaces", ("setpriv", "unshare", "nsenter", "taskset"), _OF_UTIL_LINUX),
)
TO_MEASURE = frozenset({"iproute2", "mount", "util-linux"})
"""Those of them without which nothing at all is measured; what lacks another one is left out, and the rest runs."""
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
    Package("conmon", "Podman's containers", ("conmon",), _everywhere("conmon")),
    Package("crun", "containers by crun", ("crun",), _everywhere("crun")),
    Package("docker-cli", "containers by Docker", ("docker",), _DOCKER, newer=True),  # from Debian 13 on
    Package("docker.io", "containers by Docker", ("dockerd",), _DOCKER),
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
    Package("user-mode-linux", "User-mode Linux", ("linux.uml",), machines=("x86_64",)),
    Package("xorriso", "the image as a CD-ROM", ("xorriso",), Names("xorriso", "libisoburn", "xorriso", "xorriso")),
)
# What makes the image with the workloads' tools: no experiment of the agent's own jobs needs it.
FOR_TOOLS = (
    Package("erofs-utils", "that image as a machine's root", ("mkfs.erofs",), _everywhere("erofs-utils")),
    Package("mmdebstrap", "the workloads' tools in an image", ("mmdebstrap",)),
    Package("util-linux", "a build that leaves nothing when it is ended", ("setpriv", "unshare"), _OF_UTIL_LINUX),
)
STANDS_IN = {"runc": "containerd.io"}
"""A package that brings the same program and that must not be removed in favour of Debian's own."""
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Where distributions and their administrators put programs; sudo's PATH and an ordinary user's leave some out."""
_INSTALLS = {
    "apt": ("apt-get", "install"),
    "dnf": ("dnf", "install"),
    "pacman": ("pacman", "-S"),
    "zypper": ("zypper", "install"),
    "apk": ("apk", "add"),
}
"""What each package manager is called with before the packages' names."""
_STAND_INS = ("busybox", "toybox")
"""Programs that are started under the names of many others, and know some of their options alone."""
_AS_GOOD = frozenset({"ps"})
"""What is asked of these a stand-in can do as well."""


def needed(machine: str, *, platforms: bool = False, tools: bool = False) -> tuple[Package, ...]:
    """What measuring needs on such a machine (``uname -m``), each package once, sorted by name.

    With ``platforms`` what every platform needs, with ``tools`` what makes the image of the workloads' tools.
    """
    emulator = (EMULATORS[machine],) if machine in EMULATORS else ()
    more = (*(FOR_PLATFORMS if platforms else ()), *(FOR_TOOLS if tools else ()))
    here = on_machine((*TO_RUN, *emulator, *more), machine)
    first = {package.name: package for package in reversed(here)}
    return tuple(first[name] for name in sorted(first))


def on_machine(packages: Iterable[Package], machine: str) -> tuple[Package, ...]:
    """Those that Debian has for such a machine (``uname -m``)."""
    return tuple(package for package in packages if not package.machines or machine in package.machines)


def parse_installed(listing: str) -> frozenset[str]:
    """Names of installed packages from ``dpkg-query -W -f '${Package} ${db:Status-Status}\\n'``."""
    rows = (line.split() for line in listing.splitlines())
    return frozenset(row[0] for row in rows if len(row) == 2 and row[1] == "installed")


def missing_packages(names: Sequence[str]) -> tuple[str, ...]:
    """Those of the Debian packages that dpkg does not know as installed, and that this release has.

    FileNotFoundError where there is no dpkg.
    """
    query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *names, *STANDS_IN.values()]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)
    installed = parse_installed(answer.stdout)
    return _of_this_release(name for name in names if not installed & {name, STANDS_IN.get(name)})


def _of_this_release(names: Iterable[str]) -> tuple[str, ...]:
    """Each once, without those of newer releases that apt's lists do not have: apt would refuse the whole command.

    Before its first ``apt-get update`` a host has no lists, and knows none of them.
    """
    return tuple(name for name in dict.fromkeys(names) if name not in _NEWER or _in_the_lists_of_apt(name))


def _in_the_lists_of_apt(name: str) -> bool:
    if shutil.which("apt-cache") is None:
        return False
    answer = subprocess.run(["apt-cache", "madison", name], capture_output=True, text=True, check=False)
    return bool(answer.stdout.strip())


def manager() -> str | None:
    """This host's package manager, by its name in ``Names`` or ``apt``; None where it has none of those known here."""
    if all(map(shutil.which, ("apt-get", "dpkg-query"))):
        return "apt"
    return next((name for name in Names._fields if shutil.which(name) is not None), None)


def names_for(kind: str, debian: Iterable[str]) -> tuple[list[str], list[str]]:
    """What a package manager calls these Debian packages, each once, and those of which its name is not certain.

    For apt those that this release has.
    """
    if kind == "apt":
        return list(_of_this_release(debian)), []
    known: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for name in debian:
        there = _NAMED[name].elsewhere._asdict()[kind] if name in _NAMED else ""
        (known if there else unknown)[there or name] = None
    return list(known), list(unknown)


def command_of(kind: str, names: Sequence[str]) -> list[str]:
    """The command by which a person installs packages, by its manager's own names."""
    return [*_INSTALLS[kind], *names]


def how_to_install(*debian: str, here: bool = True) -> str:
    """What a person does to have these Debian packages, as a sentence ends.

    A command of this host's package manager; where it has none, or they belong on another host (not ``here``), names.
    """
    kind = manager() if here else None
    if kind is None:
        return f"install {_in_words(debian)}" + ("" if here else " there")
    known, unknown = names_for(kind, debian)
    parts = [" ".join(command_of(kind, known))] if known else []
    parts += [f"install {_in_words(unknown)}"] if unknown else []
    return ", and ".join(parts)


def _in_words(debian: Sequence[str]) -> str:
    return f"{' and '.join(dict.fromkeys(debian))} (as Debian calls {'it' if len(debian) == 1 else 'them'})"


def find(program: str) -> str | None:
    """Where a program is, as ``shutil.which``; None also where a stand-in has its name and cannot do what is asked."""
    path = shutil.which(program)
    return None if path is None or _stand_in_at(program, path) else path


def stand_in(program: str) -> str | None:
    """What PATH finds in a program's place and cannot do what is asked of it: busybox or toybox; None where nothing."""
    path = shutil.which(program)
    return None if path is None else _stand_in_at(program, path)


def _stand_in_at(program: str, path: str) -> str | None:
    """Made as links, or as one file with many names."""
    if program in _AS_GOOD:
        return None
    for name in _STAND_INS:
        itself = shutil.which(name)
        if Path(path).resolve().name.startswith(name) or (itself is not None and Path(path).samefile(itself)):
            return name
    return None


def search_system_folders() -> None:
    """Append ``SYSTEM_FOLDERS`` to PATH, for this process and those that it starts."""
    entries = os.environ.get("PATH", "").split(os.pathsep)
    folders = [folder for folder in entries if folder]
    folders += [folder for folder in SYSTEM_FOLDERS if folder not in folders]
    os.environ["PATH"] = os.pathsep.join(folders)


def why_missing(program: str) -> str:
    """Why a program that PATH does not find cannot be used."""
    other = stand_in(program)
    why = "not found on this host" if other is None else f"on this host {other}'s, which cannot do what is needed"
    return f"{program}: {why}"


class LackingTools(NamedTuple):
    """Programs without which no lab is made, and the Debian packages that bring them.

    ``stand_ins``: those of the programs that busybox or toybox has the name of.
    """

    programs: tuple[str, ...]
    debian: tuple[str, ...]
    stand_ins: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """Which programs they are, each with what is wrong."""
        missing = [name for name in self.programs if name not in self.stand_ins]
        parts = [f"missing: {', '.join(missing)}"] if missing else []
        parts += (
            [f"busybox's or toybox's, which cannot make a lab: {', '.join(self.stand_ins)}"] if self.stand_ins else []
        )
        return "; ".join(parts)

    @property
    def remedy(self) -> str:
        """What a person does, as a sentence ends."""
        return how_to_install(*self.debian)


def lacking_tools() -> LackingTools | None:
    """What of ``TO_MEASURE`` is not there; None where all is."""
    needed = [
        (program, package.name) for package in TO_RUN if package.name in TO_MEASURE for program in package.programs
    ]
    lacking = [(program, package) for program, package in needed if find(program) is None]
    if not lacking:
        return None
    programs = tuple(program for program, _ in lacking)
    debian = tuple(dict.fromkeys(package for _, package in lacking))
    return LackingTools(programs, debian, tuple(name for name in programs if stand_in(name) is not None))


def install_command(names: Sequence[str]) -> list[str]:
    """The command that installs Debian packages and removes none, as an argument list."""
    return ["apt-get", "install", "-y", "--no-remove", "--no-install-recommends", *names]


def missing_sentence(names: Sequence[str]) -> str:
    """What an ordinary user is told: one sentence with the exact command."""
    return f"Debian packages are missing, install them with: sudo {shlex.join(install_command(names))}"


def without_programs(packages: Iterable[Package]) -> tuple[tuple[Package, tuple[str, ...]], ...]:
    """The packages of which programs are not there, each with those."""
    lacking = ((package, tuple(name for name in package.programs if find(name) is None)) for package in packages)
    return tuple((package, programs) for package, programs in lacking if programs)


_NAMED = {package.name: package for package in (*TO_RUN, *EMULATORS.values(), *FOR_PLATFORMS, *FOR_TOOLS)}
_NEWER = frozenset(name for name, package in _NAMED.items() if package.newer)
