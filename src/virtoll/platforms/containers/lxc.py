"""LXC: a container by ``lxc-start`` from a configuration file of our own, and nothing of the host's LXC settings.

LXC makes its groups relative to the one it is started in, which is a cgroup of the lab's. The limits are set there, and
again on the container's own group, which is what the guest can see. Source: lxc.container.conf(5) of version 5.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from virtoll.lab import cgroups
from virtoll.platforms.base import DATA_PATH, GuestRequest
from virtoll.platforms.containers.confinement import NEEDED
from virtoll.platforms.containers.guest import ManagedContainer
from virtoll.platforms.host import Site

_CONFIGURATION = """\
lxc.uts.name = guest
lxc.rootfs.path = dir:{root}
lxc.rootfs.options = ro
lxc.net.0.type = empty
lxc.net.0.flags = up
lxc.apparmor.profile = unconfined
lxc.mount.auto = {system} cgroup:ro:force
lxc.mount.entry = tmpfs run tmpfs mode=0755 0 0
lxc.mount.entry = tmpfs tmp tmpfs mode=1777 0 0
lxc.autodev = 1
lxc.tty.max = 0
lxc.pty.max = 64
lxc.console.path = none
lxc.cgroup.relative = 1
lxc.environment = PATH=/bin:/sbin:/usr/bin:/usr/sbin
lxc.init.cmd = {command}
"""
_CONFINED = """\
lxc.cap.keep = {capabilities}
lxc.no_new_privs = 1
"""
# Null, zero, full, random, urandom, tty, console and ptmx, and terminals: what every container has.
_DEVICES = ("1:3", "1:5", "1:7", "1:8", "1:9", "5:0", "5:1", "5:2", "136:*")


class Lxc(ManagedContainer):
    """LXC."""

    name: ClassVar[str] = "lxc"
    title: ClassVar[str] = "container by LXC"
    program: ClassVar[str] = "lxc-start"
    packages: ClassVar[tuple[str, ...]] = ("lxc",)
    install: ClassVar[tuple[str, ...]] = ("lxc",)

    def version(self, output: str) -> str:
        """The program says its number alone."""
        return f"LXC {output.strip()}"

    def command(
        self,
        site: Site,
        folder: Path,
        name: str,
        argv: Sequence[str],
        request: GuestRequest | None,
        undo: contextlib.ExitStack,
    ) -> list[str]:
        """In the foreground, because then the container's standard input and output are the program's own."""
        root = self.private_root(site, folder, name, undo)
        strict, v2 = self.parameters.strict, cgroups.detect().version == "v2"
        system = "proc:mixed sys:ro" if strict else "proc:rw sys:rw"
        text = _CONFIGURATION.format(root=root, command=" ".join(argv), system=system)
        if strict:
            text += _confined(v2=v2)
        if request is not None:
            key = "lxc.cgroup2.memory.max" if v2 else "lxc.cgroup.memory.limit_in_bytes"
            text += f"{key} = {request.memory_bytes}\n"
            if request.data_folder is not None:
                text += f"lxc.mount.entry = {request.data_folder} {DATA_PATH[1:]} none bind 0 0\n"
        file = folder / "config"
        file.write_text(text, encoding="utf-8")
        log = ["--logfile", str(folder / "log"), "--logpriority", "ERROR"]
        return [self.program, "--foreground", "--lxcpath", str(folder), "--name", name, "--rcfile", str(file), *log]


def _confined(*, v2: bool) -> str:
    """Lines of a configuration: the capabilities that are needed and the devices that every container has."""
    kept = " ".join(name.removeprefix("CAP_").lower() for name in NEEDED)
    devices = f"lxc.cgroup{'2' if v2 else ''}.devices"
    rules = [f"{devices}.deny = a", *(f"{devices}.allow = c {device} rwm" for device in _DEVICES)]
    return _CONFINED.format(capabilities=kept) + "".join(f"{rule}\n" for rule in rules)
