"""Files of dom0 as the block devices of its guests.

Main function: ``block_device``.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from virtoll.hosts.base import GuestHost
from virtoll.platforms.promises import promised


def block_device(host: GuestHost, file: Path, undo: contextlib.ExitStack, *options: str) -> str:
    """A file of dom0's as a block device: itself where it is one, else a loop device, for which xl starts no QEMU."""
    if host.run(["stat", "-L", "-c", "%F", str(file)], "disk").strip() == "block special file":
        return str(file)
    device = host.run(["losetup", "--find", "--show", *options, str(file)], "disk").strip()
    detach = ["losetup", "--detach", device]
    undo.callback(promised(host, detach, lambda: host.run(detach, "disk")))
    return device
