"""What a guest makes its host do, counted in trials of their own: `virtoll explain` (docs/explain.md).

`OBSERVERS` is the table of them; `observing` opens those that can count here, for one guest.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from virtoll.host.observe.base import CounterObserver, Watched
from virtoll.host.observe.kernel_threads import KernelThreads
from virtoll.host.observe.kvm import KvmExits
from virtoll.host.observe.machine import MachineCounters
from virtoll.host.observe.perf import PerfCounters
from virtoll.host.observe.platform_own import PlatformCounters
from virtoll.host.observe.processes import ProcessCounters
from virtoll.host.observe.throttling import Throttling
from virtoll.runfolder.explain_records import CounterReading

OBSERVERS: dict[str, type[CounterObserver]] = {
    observer.name: observer
    for observer in (
        PlatformCounters,
        KvmExits,
        Throttling,
        MachineCounters,
        KernelThreads,
        ProcessCounters,
        PerfCounters,
    )
}
"""From the outermost to the innermost: an emulator that is asked works for its answer, which is not to be counted."""

_ELSEWHERE = "its guest has no process on this host, whose own counters alone are read"


@dataclass(frozen=True)
class Observation:
    """The observers of one guest that can count here."""

    observers: tuple[CounterObserver, ...]
    unavailable: dict[str, str]

    def read(self) -> CounterReading:
        """All counters, at about one moment."""
        counted = [observer.read() for observer in self.observers]
        return CounterReading(time.monotonic_ns(), {name: value for each in counted for name, value in each.items()})

    def read_again(self, before: CounterReading) -> CounterReading:
        """All counters after ``before``, in the opposite order: who reads first then is the last now."""
        began_ns = time.monotonic_ns()
        counted = [observer.read_again(before.counted) for observer in reversed(self.observers)]
        counters = {name: value for each in reversed(counted) for name, value in each.items()}
        return CounterReading(began_ns, counters)

    @property
    def uncounted(self) -> dict[str, str]:
        """Why a counter is missing, by its name or by its observer's."""
        return {
            **self.unavailable,
            **{name: why for observer in self.observers for name, why in observer.uncounted.items()},
        }


@contextlib.contextmanager
def observing(watched: Watched) -> Iterator[Observation]:
    """The observers of a guest, opened for the length of the context."""
    unavailable: dict[str, str] = {} if watched.processes else {"host": _ELSEWHERE}
    with contextlib.ExitStack() as opened:
        observers = []
        for name, kind in OBSERVERS.items():
            observer = kind(watched)
            if not observer.applies():
                continue
            reason = observer.available()
            if reason is None:
                opened.callback(observer.close)
                observers.append(observer)
            else:
                unavailable[name] = reason
        yield Observation(tuple(observers), unavailable)
