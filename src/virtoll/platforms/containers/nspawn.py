"""systemd-nspawn: systemd's container program, on a host with or without systemd.

Registration with systemd-machined and a unit of its own are switched off. The container is in a cgroup of the lab's,
and nspawn makes its two groups (``supervisor``, ``payload``) below that. Source: systemd-nspawn(1) of version 252.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from virtoll.platforms.base import DATA_PATH, GuestRequest
from virtoll.platforms.containers.guest import ManagedContainer
from virtoll.platforms.host import Site

# By default /proc/sys is read-only; the guest is a router and switches its forwarding on by itself.
_ENVIRONMENT = ["env", "SYSTEMD_NSPAWN_API_VFS_WRITABLE=network"]
_OPTIONS = [
    "--quiet",
    "--register=no",
    "--keep-unit",
    "--console=pipe",
    "--read-only",
    "--private-network",
    "--capability=CAP_NET_ADMIN",
    "--resolv-conf=off",
    "--timezone=off",
    "--link-journal=no",
    "--hostname=guest",
]


# What it gives a container by itself and nothing uses (of systemd 252, and what later ones have beside).
_UNUSED = (
    "AUDIT_CONTROL AUDIT_WRITE DAC_READ_SEARCH IPC_OWNER LEASE LINUX_IMMUTABLE MKNOD NET_BROADCAST SETFCAP SYS_ADMIN "
    "SYS_BOOT SYS_PTRACE SYS_RESOURCE SYS_TTY_CONFIG"
)
_DROPPED = ",".join(f"CAP_{name}" for name in _UNUSED.split())


class SystemdNspawn(ManagedContainer):
    """systemd-nspawn."""

    name: ClassVar[str] = "nspawn"
    title: ClassVar[str] = "container by systemd-nspawn"
    program: ClassVar[str] = "systemd-nspawn"
    packages: ClassVar[tuple[str, ...]] = ("systemd-container",)
    install: ClassVar[tuple[str, ...]] = ("systemd-container",)

    def version(self, output: str) -> str:
        """From ``systemd 252 (252.39-1~deb12u1)``."""
        return f"systemd-nspawn {output.split()[1]}"

    def command(
        self,
        site: Site,
        folder: Path,
        name: str,
        argv: Sequence[str],
        request: GuestRequest | None,
        undo: contextlib.ExitStack,
    ) -> list[str]:
        """It runs as it does under systemd, but for what needs systemd."""
        folder_of_data = request.data_folder if request is not None else None
        data = [f"--bind={folder_of_data}:{DATA_PATH}"] if folder_of_data is not None else []
        root = self.private_root(site, folder, name, undo)
        confined = ["--no-new-privileges=yes", f"--drop-capability={_DROPPED}"] if self.parameters.strict else []
        return [
            *_ENVIRONMENT,
            self.program,
            *_OPTIONS,
            *confined,
            *data,
            f"--directory={root}",
            f"--machine={name}",
            "--",
            *argv,
        ]
