"""Threads of the host's kernel that work for the guest alone: NAPI threads of its links, vhost workers of its machine.

The lab does not see them. So the launcher hands it the host's own /proc. ksoftirqd and kworkers serve whoever needs
them: what they do is among the counts of the guest's CPUs (``machine.py``).
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from virtoll.host.guest_usage import pids_of
from virtoll.host.observe.base import CounterObserver
from virtoll.host.observe.host_proc import host_pid
from virtoll.host.readings import colon_table, numbered, read_text


class KernelThreads(CounterObserver):
    """Needs the host's /proc."""

    name: ClassVar[str] = "kernel threads"
    counts: ClassVar[tuple[str, ...]] = ("kernel_thread_switches", "kernel_thread_ns")
    _threads: tuple[int, ...] = ()

    def applies(self) -> bool:
        """Where it has any; a guest without threaded NAPI and vhost has none."""
        self._threads = self._found() if self.watched.processes and self.watched.host_proc is not None else ()
        return bool(self.watched.processes) and (not self._shown() or bool(self._threads))

    def _shown(self) -> bool:
        """Whether the host's /proc is there, and has the kernel's threads: their parent is process 2."""
        return self.watched.host_proc is not None and self._name(2) == "kthreadd"

    def available(self) -> str | None:
        """Where the host's /proc is there, and each link's thread is one."""
        if self.watched.host_proc is None:
            return "the lab was not given the host's own /proc, in which alone threads of the kernel are seen"
        if not self._shown():
            return "the host's /proc shows no thread of the kernel: Virtoll is in a PID namespace of its own"
        for interface in self.watched.interfaces:
            numbers = sorted(number for name, number in map(self._napi, self._threads) if name == interface)
            # An interface's threads are made by one write and numbered in a row.
            if numbers and numbers[-1] - numbers[0] + 1 != len(numbers):
                return f"several labs have an interface {interface} just now, whose threads are not told apart"
        return None

    def read(self) -> dict[str, int]:
        """Sums over these threads; none where one has ended."""
        switches, ran_ns = 0, 0
        for thread in self._threads:
            folder = self._folder(thread)
            status, times = colon_table(read_text(folder / "status")), (read_text(folder / "schedstat") or "").split()
            if "voluntary_ctxt_switches" not in status or len(times) != 3:
                reason = f"thread {thread} of the host's kernel has ended meanwhile"
                self.uncounted |= dict.fromkeys(self.counts, reason)
                return {}
            switches += status["voluntary_ctxt_switches"] + status["nonvoluntary_ctxt_switches"]
            ran_ns += int(times[0])
        return {"kernel_thread_switches": switches, "kernel_thread_ns": ran_ns}

    def _found(self) -> tuple[int, ...]:
        proc = self.watched.host_proc
        if proc is None:
            return ()
        pids = {pid for guest in self.watched.processes for pid in pids_of(guest)}
        workers = {f"vhost-{host_pid(proc, pid)}" for pid in pids}
        threads = []
        for thread in numbered(proc):
            name = self._name(thread)
            link, _ = self._napi(thread) if name.startswith("napi/") else ("", 0)
            mine = link in self.watched.interfaces and self._started(thread) >= self.watched.since_ticks
            if mine or name in workers:
                threads.append(thread)
        return tuple(threads)

    def _folder(self, thread: int) -> Path:
        return (self.watched.host_proc or self.watched.proc) / str(thread)

    def _name(self, thread: int) -> str:
        return read_text(self._folder(thread) / "comm") or ""

    def _napi(self, thread: int) -> tuple[str, int]:
        """Interface and number of a thread that receives (``napi/NAME-NUMBER``); no name for any other."""
        name, _, number = self._name(thread).removeprefix("napi/").rpartition("-")
        return (name, int(number)) if number.isdigit() else ("", 0)

    def _started(self, thread: int) -> int:
        """In ticks since the host's boot."""
        words = (read_text(self._folder(thread) / "stat") or "").rpartition(")")[2].split()
        return int(words[19]) if len(words) > 19 else 0
