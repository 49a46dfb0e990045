"""tracefs and debugfs: where the kernel says what it can trace, and what its parts count. Root alone may mount them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from virtoll.errors import GuestError
from virtoll.host.observe.base import Watched

_USUAL = {"tracefs": "sys/kernel/tracing", "debugfs": "sys/kernel/debug"}
_SIGN = {"tracefs": "events", "debugfs": "kvm"}


def kernel_file_system(kind: Literal["tracefs", "debugfs"], watched: Watched) -> Path:
    """Where it is mounted, or is now, below the lab's own scratch; ``GuestError`` where it may not be."""
    mount_point = watched.scratch / kind
    for place in (watched.root / _USUAL[kind], mount_point):
        if (place / _SIGN[kind]).is_dir():
            return place
    if watched.run is None:
        raise GuestError(f"{kind} is not mounted on this host")
    try:
        mount_point.mkdir(parents=True, exist_ok=True)
        watched.run(["mount", "-t", kind, kind, str(mount_point)], "observe")
    except (GuestError, OSError) as error:
        raise GuestError(f"{kind} cannot be mounted ({error}); run as root, on a kernel that has it") from error
    if not (mount_point / _SIGN[kind]).is_dir():
        raise GuestError(f"{kind} of this kernel has no {_SIGN[kind]}")
    return mount_point
