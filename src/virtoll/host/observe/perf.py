"""Events of perf_event_open(2): system calls, switches, copies of frames, hardware counters, of the guest's threads.

Each thread that is there has its own events; threads and processes that it makes inherit them, and what they counted
is in the sum when they have ended. Frames that interfaces take in and are given are counted on the guest's CPUs,
whoever works there. A tracepoint is known by a number of this boot, which tracefs tells. Layout and numbers:
linux/perf_event.h.

``system_calls`` is the tracepoint ``raw_syscalls:sys_enter``. A call that seccomp or a tracer answers in the kernel's
place (gVisor's and User-mode Linux's guests) never gets there, and is not among them. ``frame_copies`` is
``skb:skb_copy_datagram_iovec``: the kernel copies a packet, or a message of a local socket, to a program that reads it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import resource
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from virtoll.errors import GuestError
from virtoll.host.guest_usage import pids_of
from virtoll.host.observe.base import CounterObserver, Watched
from virtoll.host.observe.file_systems import kernel_file_system
from virtoll.host.readings import numbered, read_text

_SYSTEM_CALL = {"x86_64": 298, "aarch64": 241}
_INHERIT, _TIMES = 1 << 1, 0b11  # flags; PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING
_CLOSE_ON_EXEC = 8
_HARDWARE, _SOFTWARE, _TRACEPOINT = 0, 1, 2
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


class _Attribute(ctypes.Structure):
    """``struct perf_event_attr`` in its first form, ``PERF_ATTR_SIZE_VER0``."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("sample_period", ctypes.c_uint64),
        ("sample_type", ctypes.c_uint64),
        ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("wakeup_events", ctypes.c_uint32),
        ("breakpoint_type", ctypes.c_uint32),
        ("breakpoint_address", ctypes.c_uint64),
    )


@dataclass(frozen=True)
class Event:
    """A type and a number of perf's, or the tracepoint whose number is still to be read."""

    kind: int
    config: int = 0
    tracepoint: str = ""


OF_THREADS: Final = {
    "system_calls": Event(_TRACEPOINT, tracepoint="raw_syscalls/sys_enter"),
    "frame_copies": Event(_TRACEPOINT, tracepoint="skb/skb_copy_datagram_iovec"),
    "context_switches": Event(_SOFTWARE, 3),
    "migrations": Event(_SOFTWARE, 4),
    "instructions": Event(_HARDWARE, 1),
    "cycles": Event(_HARDWARE, 0),
    "cache_misses": Event(_HARDWARE, 3),
    "branch_misses": Event(_HARDWARE, 5),
}
OF_CPUS: Final = {
    "frames_received": Event(_TRACEPOINT, tracepoint="net/netif_receive_skb"),
    "frames_sent": Event(_TRACEPOINT, tracepoint="net/net_dev_xmit"),
}


class PerfCounters(CounterObserver):
    """Needs root for all but the guest's own software events."""

    name: ClassVar[str] = "perf"
    counts: ClassVar[tuple[str, ...]] = (*OF_THREADS, *OF_CPUS)

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._opened: dict[str, list[int]] = {}
        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    def available(self) -> str | None:
        """Opens what can be; an event that cannot be has its own reason, and all of them fail together only once."""
        if platform.machine() not in _SYSTEM_CALL:
            return f"the number of perf_event_open is not known for {platform.machine()}"
        _allow_descriptors(self._limits[1])
        for name, event in OF_THREADS.items():
            self._try(name, event, cpus=None)
        for name, event in OF_CPUS.items():
            if self.watched.cpus:
                self._try(name, event, cpus=self.watched.cpus)
            else:
                self.uncounted[name] = "its guest is pinned to no CPU"
        return None

    def read(self) -> dict[str, int]:
        """The sums of each event; one that shared its hardware counter with others is left out."""
        sums = {}
        for name, descriptors in self._opened.items():
            total = 0
            for descriptor in descriptors:
                count, enabled_ns, running_ns = struct.unpack("=QQQ", os.read(descriptor, 24))
                if running_ns != enabled_ns:
                    self.uncounted[name] = "the processor has fewer counters than others want just now"
                total += count
            if name not in self.uncounted:
                sums[name] = total
        return sums

    def close(self) -> None:
        """Close all events."""
        for descriptors in self._opened.values():
            for descriptor in descriptors:
                os.close(descriptor)
        self._opened = {}
        _allow_descriptors(self._limits[0])  # a guest that is started later has the limits of every other

    def _try(self, name: str, event: Event, cpus: Iterable[int] | None) -> None:
        descriptors: list[int] = []
        try:
            number = self._number(event)
            if cpus is None:
                self._open_threads(event.kind, number, descriptors)
            else:
                descriptors.extend(_perf_event_open(event.kind, number, pid=-1, cpu=cpu) for cpu in cpus)
        except (GuestError, OSError) as error:
            for descriptor in descriptors:
                os.close(descriptor)
            self.uncounted[name] = _why(event, error)
        else:
            self._opened[name] = descriptors

    def _open_threads(self, kind: int, config: int, descriptors: list[int]) -> None:
        """One event for each thread of the guest's. One that starts meanwhile inherits its maker's, or is found now.

        One that did both would count twice: so a guest that starts threads while it is listed is refused.
        """
        before = self._threads()
        for thread in sorted(before):
            with contextlib.suppress(ProcessLookupError):
                descriptors.append(_perf_event_open(kind, config, pid=thread, cpu=-1))
        if not self._threads() <= before:
            raise GuestError("threads of the guest were started while they were listed")
        if not descriptors:
            raise OSError(errno.ESRCH, "no thread of the guest is there")

    def _threads(self) -> set[int]:
        pids = {pid for guest in self.watched.processes for pid in pids_of(guest)}
        return {thread for pid in pids for thread in numbered(self.watched.proc / str(pid) / "task")}

    def _number(self, event: Event) -> int:
        if not event.tracepoint:
            return event.config
        file = kernel_file_system("tracefs", self.watched) / "events" / event.tracepoint / "id"
        number = read_text(file)
        if number is None:
            raise GuestError(f"this kernel has no tracepoint {event.tracepoint.replace('/', ':')}")
        return int(number)


def _why(event: Event, error: GuestError | OSError) -> str:
    if isinstance(error, GuestError):
        return str(error)
    if event.kind == _HARDWARE and error.errno in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        return "the processor shows this kernel no such counter (a virtual machine without one?)"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"perf_event_open is refused ({_PARANOID} is {read_text(_PARANOID) or 'missing'}); run as root"
    return f"perf_event_open: {error.strerror or error}"


def _allow_descriptors(number: int) -> None:
    """So many open files, as far as this process may have them: a guest has many threads, and each some events."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, most))


def _perf_event_open(kind: int, config: int, *, pid: int, cpu: int) -> int:
    """The event's descriptor, counting from now on; ``OSError`` where it is refused."""
    size, flags = ctypes.sizeof(_Attribute), _INHERIT if pid >= 0 else 0
    attribute = _Attribute(type=kind, size=size, config=config, read_format=_TIMES, flags=flags)
    library = ctypes.CDLL(None, use_errno=True)
    arguments = ctypes.byref(attribute), pid, cpu, -1, ctypes.c_ulong(_CLOSE_ON_EXEC)
    descriptor = int(library.syscall(_SYSTEM_CALL[platform.machine()], *arguments))
    if descriptor < 0:
        raised = ctypes.get_errno()
        raise OSError(raised, os.strerror(raised))
    return descriptor
