"""The network outside the lab, for what only a machine out there can answer: a hypervisor that is driven by its API.

The launcher hands its own network namespace in as a descriptor; for as long as a block lasts, the calling thread (and
no other) is in it. Sockets made meanwhile stay there. Guests, bridges and taps are never made in it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

from virtoll.errors import GuestError

OUTSIDE_VARIABLE = "VIRTOLL_OUTSIDE"
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def outside_network() -> Iterator[None]:
    """This thread is in the launcher's network namespace; where none was handed in it stays where it is."""
    descriptor = os.environ.get(OUTSIDE_VARIABLE)
    if descriptor is None:
        yield
        return
    namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(int(descriptor))
        try:
            yield
        finally:
            _enter(namespace)
    finally:
        os.close(namespace)


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
        why = os.strerror(ctypes.get_errno())
        raise GuestError(f"a lab leads to no network, and this one may not enter the machine's ({why}); run as root")
