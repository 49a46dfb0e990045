"""What the kernel counts of the guest's processes and its platform's daemons, by /proc/PID/{stat,io} and its threads.

Source: proc(5). Page faults, CPU time, reads and writes of a process that ended are in its parent's once that has
waited for it. Context switches and waiting are a thread's own and go with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from virtoll.host.guest_usage import pids_of, ran_ns
from virtoll.host.observe.base import CounterObserver
from virtoll.host.readings import colon_table, numbered, read_text

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_IO = {"rchar": "read_bytes", "wchar": "written_bytes", "syscr": "read_calls", "syscw": "write_calls"}
_Add = Callable[[str, int], None]
_OF_THREADS = ("voluntary_switches", "involuntary_switches", "waited_ns")


class ProcessCounters(CounterObserver):
    """Needs no right for the user's own processes."""

    name: ClassVar[str] = "processes"
    counts: ClassVar[tuple[str, ...]] = (
        "minor_faults",
        "major_faults",
        "cpu_ns",
        *_IO.values(),
        *_OF_THREADS,
    )
    _threads: frozenset[tuple[int, int]] = frozenset()
    _reaped: int = 0

    def available(self) -> str | None:
        """Where its processes can be seen."""
        missing = [
            process.started
            for process in self.watched.processes
            if not (self.watched.proc / str(process.started)).is_dir()
        ]
        return f"process {missing[0]} of the guest is not in {self.watched.proc}" if missing else None

    def read(self) -> dict[str, int]:
        """Sums over all processes and threads that are there now."""
        counters: dict[str, int] = {}

        def add(name: str, value: int) -> None:
            counters[name] = counters.get(name, 0) + value

        threads, reaped = set(), 0
        for pid in {pid for guest in self.watched.processes for pid in pids_of(guest)}:
            folder = self.watched.proc / str(pid)
            words = (read_text(folder / "stat") or "").rpartition(")")[2].split()
            if len(words) < 15:
                continue  # it has ended; its counts are its parent's
            minor, reaped_minor, major, reaped_major = (int(word) for word in words[7:11])
            add("minor_faults", minor + reaped_minor)
            add("major_faults", major + reaped_major)
            reaped += reaped_minor + reaped_major
            own_ns = ran_ns(pid)
            if own_ns is not None:
                add("cpu_ns", own_ns + sum(int(word) for word in words[13:15]) * _TICK_NS)
            for key, value in colon_table(read_text(folder / "io")).items():
                if key in _IO:
                    add(_IO[key], value)
            threads |= {(pid, thread) for thread in self._read_threads(folder / "task", add)}
        self._threads, self._reaped = frozenset(threads), reaped
        return counters

    def read_again(self, before: Mapping[str, int]) -> dict[str, int]:
        """Without the threads' counters where a thread has ended meanwhile."""
        del before
        threads, reaped = self._threads, self._reaped
        counters = self.read()
        if not threads <= self._threads or reaped != self._reaped:
            reason = "threads or processes of the guest ended meanwhile, and took their own counts along"
            self.uncounted.update(dict.fromkeys(_OF_THREADS, reason))
            counters = {name: value for name, value in counters.items() if name not in _OF_THREADS}
        return counters

    def _read_threads(self, tasks: Path, add: _Add) -> list[int]:
        """Add what each thread counts; their numbers."""
        seen = []
        for number in numbered(tasks):
            status = colon_table(read_text(tasks / str(number) / "status"))
            waited = (read_text(tasks / str(number) / "schedstat") or "").split()
            if "voluntary_ctxt_switches" not in status:
                continue
            seen.append(number)
            add("voluntary_switches", status["voluntary_ctxt_switches"])
            add("involuntary_switches", status["nonvoluntary_ctxt_switches"])
            if len(waited) == 3:
                add("waited_ns", int(waited[1]))
        return seen
