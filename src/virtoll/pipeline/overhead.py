"""What the instrument itself costs while it measures: CPU time of the controller, its children and its agents.

Main type: ``OverheadMeter``, which reads around a trial, and around each request whose answer is what is measured.
Such a request contains the guest's marks, or the traffic of one point. What the controller uses between both readings
is an upper bound of what it uses between the marks. Nothing is subtracted here: that is
``stats/overhead.py``.
"""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from virtoll.runfolder.overhead_records import Overhead, OverheadReading, OverheadSpan

_SCHEDULER_CLOCK = 2  # clock_getcpuclockid(3): what all threads of a process have run


@dataclass
class OverheadMeter:
    """Reads what the instrument uses; ``agents``: processes of the instrument's own agents, by role."""

    agents: Mapping[str, int] = field(default_factory=dict)
    measured: list[OverheadSpan] = field(default_factory=list)

    def read(self) -> OverheadReading:
        """All of it now; some 10 microseconds."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return OverheadReading(
            monotonic_ns=time.monotonic_ns(),
            controller_cpu_ns=time.process_time_ns(),
            children_cpu_ns=round((children.ru_utime + children.ru_stime) * 1e9),
            agents_cpu_ns={role: _ran_ns(pid) for role, pid in self.agents.items()},
        )

    def begin(self) -> OverheadReading:
        """A trial begins: what was measured before belongs to another."""
        self.measured.clear()
        return self.read()

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """Around one request whose answer is what is measured; kept after an orderly end only."""
        before = self.read()
        yield
        self.measured.append(OverheadSpan(before, self.read()))

    def join(self) -> None:
        """What was measured of several guests at once is one stretch of time, from the first request to the last."""
        if len(self.measured) > 1:
            first = min((observed.before for observed in self.measured), key=lambda reading: reading.monotonic_ns)
            last = max((observed.after for observed in self.measured), key=lambda reading: reading.monotonic_ns)
            self.measured[:] = [OverheadSpan(first, last)]

    def cost_since(self, before: OverheadReading, *, counters: bool) -> Overhead:
        """Since ``before``, the trial's first reading, and in each request that was measured."""
        return Overhead(counters, OverheadSpan(before, self.read()), tuple(self.measured))


def _ran_ns(pid: int) -> int | None:
    try:
        return time.clock_gettime_ns((~pid << 3) | _SCHEDULER_CLOCK)
    except OSError:
        return None
