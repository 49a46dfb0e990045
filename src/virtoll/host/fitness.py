"""This host's state between trials: what may have disturbed a measurement.

Everything is read from /proc, /sys and /dev/kmsg (below `root`, so that tests can give a tree of their own). Meanings:
Linux, Documentation/filesystems/proc.rst, Documentation/accounting/psi.rst, Documentation/admin-guide/abi-testing
(cpufreq, thermal, thermal_throttle), and Documentation/ABI/testing/dev-kmsg.

Main type: `FitnessSampler`, which makes the records of fitness.jsonl. The analysis judges whether the host is fit.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from virtoll.host.readings import memory_bytes, read_numbers, read_table, read_text
from virtoll.runfolder.records import FitnessRecord, Pressure

_CPU = Path("sys/devices/system/cpu")
_KERNEL_MESSAGE_BYTES = 8192  # the kernel's own limit for one record of /dev/kmsg
_KERNEL_MESSAGES_AT_ONCE = 200


class FitnessSampler:
    """Gives one record of the host's state a call (under 5 ms); also a context manager.

    Kernel messages are those since the sampler was made; where /dev/kmsg may not be read there are none.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        """Opens the kernel's messages at their end; finds which files this host has."""
        self._root = root
        self._frequencies = sorted((root / _CPU).glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
        self._temperatures = sorted((root / "sys/class/thermal").glob("thermal_zone*/temp"))
        self._throttles = sorted((root / _CPU).glob("cpu[0-9]*/thermal_throttle/core_throttle_count"))
        self._messages = _open_at_end(root / "dev/kmsg")

    def sample(self, after_trial: int | None) -> FitnessRecord:
        """The state now; `after_trial` is the trial that ended just before, None before the first."""
        busy_ns, idle_ns, steal_ns = _processor_times(self._root)
        paging = read_table(self._root / "proc/vmstat")
        throttles = read_numbers(self._throttles)
        return FitnessRecord(
            monotonic_ns=time.monotonic_ns(),
            realtime_ns=time.time_ns(),
            after_trial=after_trial,
            steal_ns=steal_ns,
            busy_ns=busy_ns,
            idle_ns=idle_ns,
            load_1m=_load(self._root),
            pressure=_pressure(self._root),
            swap_in_pages=paging.get("pswpin"),
            swap_out_pages=paging.get("pswpout"),
            frequency_khz=read_numbers(self._frequencies),
            temperature_millicelsius=read_numbers(self._temperatures),
            throttle_count=None if throttles is None else sum(throttles),
            kernel_messages=tuple(self._new_messages()),
            memory_available_bytes=memory_bytes(self._root, "MemAvailable"),
        )

    def close(self) -> None:
        """Closes the kernel's messages; a later sample has none."""
        if self._messages is not None:
            os.close(self._messages)
            self._messages = None

    def __enter__(self) -> Self:
        """Nothing more to do than what the constructor did."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes."""
        self.close()

    def _new_messages(self) -> Iterator[str]:
        """Texts of the kernel's messages since the last call, without level, number and time."""
        for _ in range(_KERNEL_MESSAGES_AT_ONCE):
            if self._messages is None:
                return
            try:
                record = os.read(self._messages, _KERNEL_MESSAGE_BYTES)
            except OSError as error:
                if error.errno == errno.EPIPE:  # messages were overwritten before they were read: go on with the next
                    continue
                return
            if not record:
                return
            for line in record.decode(errors="replace").splitlines():
                if not line.startswith(" "):  # continuation lines are the record's device properties
                    yield line.partition(";")[2] or line


def _processor_times(root: Path) -> tuple[int | None, int | None, int | None]:
    """(busy, idle, stolen) of all processors together in ns; waiting for input or output counts as idle.

    Guests' time is within user time already, stolen time is neither busy nor idle.
    """
    first = (read_text(root / "proc/stat") or "").partition("\n")[0].split()
    if len(first) < 9 or first[0] != "cpu":
        return None, None, None
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    user, nice, system, idle, io_wait, interrupt, soft_interrupt, steal = (int(word) * tick_ns for word in first[1:9])
    return user + nice + system + interrupt + soft_interrupt, idle + io_wait, steal


def _load(root: Path) -> float | None:
    text = read_text(root / "proc/loadavg")
    return float(text.split()[0]) if text else None


def _pressure(root: Path) -> Pressure | None:
    """Totals of the "some" lines; None where the kernel was built or booted without pressure stall information."""
    cpu, memory, io = (_pressure_total(root / "proc/pressure" / resource) for resource in ("cpu", "memory", "io"))
    if cpu is None and memory is None and io is None:
        return None
    return Pressure(cpu_some_us=cpu, memory_some_us=memory, io_some_us=io)


def _pressure_total(path: Path) -> int | None:
    for line in (read_text(path) or "").splitlines():
        if line.startswith("some "):
            return int(line.rpartition("total=")[2])
    return None


def _open_at_end(path: Path) -> int | None:
    """A non-blocking descriptor behind the last kernel message, or None where it may not be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    os.lseek(descriptor, 0, os.SEEK_END)
    return descriptor
