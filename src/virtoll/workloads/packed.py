"""A file of packed data, as large as is wanted: the papers' image of an installation disc (Camargos et al. 2008).

Its bytes are the kernel's source as Debian packs it, in the image, over and over. It is packed data, which no program
that looks back less than the 130 MB of that archive can make smaller.
"""

from __future__ import annotations

from virtoll.agent.client import Caller
from virtoll.workloads.programs import run

BLOCK_BYTES = 65_536
"""Sizes are multiples of it."""
KERNEL_SOURCE = "linux-source-6.1"
"""Debian's package of the kernel's source, and the folder that its archive unpacks to."""
ARCHIVE = f"/usr/src/{KERNEL_SOURCE}.tar.xz"


def make_packed(maker: Caller, file: str, size_bytes: int, seconds: float) -> None:
    """Make ``file``, which is not there yet, ``size_bytes`` long; each copy of the archive within ``seconds``."""
    archive_bytes = int(run(maker, ["stat", "--format=%s", ARCHIVE]))
    whole = archive_bytes // BLOCK_BYTES * BLOCK_BYTES
    left = size_bytes
    while left > 0:
        portion = min(left, whole)
        blocks = [f"bs={BLOCK_BYTES}", f"count={portion // BLOCK_BYTES}", "oflag=append", "conv=notrunc"]
        run(maker, ["dd", f"if={ARCHIVE}", f"of={file}", *blocks, "status=none"], seconds)
        left -= portion


def sha256(agent: Caller, file: str, seconds: float) -> str:
    """The file's hash, as ``sha256sum`` prints it."""
    return run(agent, ["sha256sum", file], seconds).split()[0]
