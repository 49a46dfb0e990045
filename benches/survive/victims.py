"""Who is killed, stopped or starved: the processes of a run by what they do there, and whose guest each is.

Main types: ``Role`` (how processes of one role are known by their command lines) and ``ROLES``. A process's platform is
that of the first process above it whose command line names one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.support.machine import Family, Process


@dataclass(frozen=True)
class Role:
    """``pattern`` finds it in a command line; ``platforms``: of which it is a part, none: of the lab itself.

    ``root``: only root's runs have it. ``below``: it is a child of a process whose command line has this.
    """

    pattern: str
    platforms: tuple[str, ...] = ()
    root: bool = False
    below: str = ""

    def found_in(self, seen: Family) -> list[Process]:
        """All that there are."""
        known = {process.pid: process for process in seen.processes}
        return [
            process
            for process in seen.processes
            if re.search(self.pattern, line_of(process))
            and (not self.below or re.search(self.below, line_of(known.get(process.parent))))
        ]


LAB_ROLES: Mapping[str, Role] = {
    "launcher": Role(r"-m virtoll (run|resume) "),
    "`unshare`": Role(r"^unshare .* virtoll\.lab\.init "),
    "PID 1 of the lab": Role(r"^\S*python\S* -I \S*/system/python\.py (--also \S+ )?virtoll\.lab\.init "),
    "controller": Role(r"/system/python\.py (--also \S+ )?virtoll in-lab-"),
    "janitor": Role(r"/system/python\.py (--also \S+ )?virtoll\.lab\.launch "),
    "agent of the peer": Role(r"virtoll-agent --role peer "),
    "agent of the lab": Role(r"virtoll-agent --role host "),
}
GUEST_ROLES: Mapping[str, Role] = {
    "agent of native": Role(r"^/init --role host ", ("native",)),
    "agent of netns": Role(r"^/init --role guest ", ("netns",), below=r"virtoll-agent enter "),
    "`runc`": Role(r"^runc ", ("runc",)),
    "agent under runc": Role(r"^/init ", ("runc",), below=r"^runc "),
    "`crun`": Role(r"^crun ", ("crun",)),
    "agent under crun": Role(r"^/init ", ("crun",), below=r"^crun "),
    "`systemd-nspawn`": Role(r"^systemd-nspawn ", ("nspawn",), root=True),
    "agent under nspawn": Role(r"^/init ", ("nspawn",), True, below=r"^systemd-nspawn "),
    "`lxc-start`": Role(r"^lxc-start ", ("lxc",), root=True),
    "agent under lxc": Role(r"^/init ", ("lxc",), True, below=r"^lxc-start "),
    "`podman`": Role(r"^podman ", ("podman",)),
    "`conmon`": Role(r"/conmon ", ("podman",)),
    "agent under podman": Role(r"^/init ", ("podman",), below=r"/conmon "),
    "`docker`": Role(r"/docker ", ("docker",), root=True),
    "`dockerd`": Role(r"^dockerd ", ("docker",), root=True),
    "`containerd`": Role(r"^containerd ", ("docker",), root=True),
    "`containerd-shim`": Role(r"/containerd-shim", ("docker",), root=True),
    "agent under docker": Role(r"^/init ", ("docker",), True, below=r"/containerd-shim"),
    "`runsc run`": Role(r"/runsc .* run ", ("runsc",)),
    "sentry of runsc": Role(r"^runsc-sandbox ", ("runsc",)),
    "gofer of runsc": Role(r"^runsc-gofer ", ("runsc",)),
    "User-Mode Linux": Role(r"(^| )linux\.uml mem=", ("uml",)),
    "QEMU": Role(r"^qemu-system-x86_64 ", ("qemu-tcg",)),
    "QEMU of libvirt": Role(r"qemu-system-x86_64 -name guest=", ("libvirt",), root=True),
    "`virsh`": Role(r"^virsh ", ("libvirt",), root=True),
    "`libvirtd`": Role(r"^libvirtd ", ("libvirt-lxc",), root=True),
    "`libvirt_lxc`": Role(r"libvirt_lxc ", ("libvirt-lxc",), root=True),
}
ROLES: Mapping[str, Role] = {**LAB_ROLES, **GUEST_ROLES}


def line_of(process: Process | None) -> str:
    """Its command line; empty for none."""
    return " ".join(process.argv) if process is not None else ""


def platform_of(process: Process, seen: Family) -> str | None:
    """Whose guest a process is part of; None for the lab's own."""
    known = {one.pid: one for one in seen.processes}
    for one in _upwards(process, known):
        for role in GUEST_ROLES.values():
            if one in role.found_in(seen):
                return role.platforms[0]
        if any(one in role.found_in(seen) for role in LAB_ROLES.values()):
            return None
    return None


def _upwards(process: Process, known: Mapping[int, Process]) -> Iterator[Process]:
    """It and those above it."""
    at: Process | None = process
    while at is not None:
        yield at
        at = known.get(at.parent)
