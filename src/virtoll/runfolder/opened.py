"""How a file of somebody else's is opened: a regular file, of a size that fits in memory, and nothing else.

A run folder may come from anybody. A FIFO would keep its reader waiting, a device may be read without end, and a file
with holes is larger than any memory. Main functions: ``open_file``, ``read_whole``. Raises ``OSError`` alone, so that a
reader tells it as any other file that cannot be read.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 512 << 20
"""Of a file that is read whole, such as a manifest, in which a trial takes some 400."""

_GROWN_BYTES: Final = 1 << 20  # of a file that grows meanwhile, or of the kernel's, which has the size 0


def open_file(path: Path) -> BufferedReader:
    """The file, to be read; ``OSError`` for what is none. Nothing is waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "It is a device or a pipe, and no file", str(path))
        return os.fdopen(descriptor, "rb")
    except OSError:
        os.close(descriptor)
        raise


def read_whole(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """All of a file; ``OSError`` where it has more than ``most_bytes``."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(size + 1) if size <= most_bytes else None  # the memory for all of it is reserved first
        while data is not None and size < len(data) <= most_bytes:  # it grows
            size = len(data)
            data += file.read(min(_GROWN_BYTES, most_bytes + 1 - size))
    if data is None or len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"It is larger than {most_bytes >> 20} MiB", str(path))
    return data
