"""What the instrument itself costs while it measures: CPU time of the controller, its children and its agents.

Main types: ``Observer`` (reads around a trial, and around each request whose answer is what is measured) and
``ObserverReading``. Such a request contains the guest's marks, or the traffic of one point. What the controller uses
between both readings is an upper bound of what it uses between the marks. Nothing is subtracted here: that is
``stats/observer.py``.
"""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_SCHEDULER_CLOCK = 2  # clock_getcpuclockid(3): what all threads of a process have run


@dataclass(frozen=True)
class ObserverReading:
    """CPU time so far (user and system, ns) at one moment of the monotonic clock.

    ``controller_cpu_ns``: all threads of this process. ``children_cpu_ns``: programs that it started and that ended.
    ``agents_cpu_ns``: agents that belong to the instrument, by role; one that cannot be read is None.
    """

    monotonic_ns: int
    controller_cpu_ns: int
    children_cpu_ns: int
    agents_cpu_ns: dict[str, int | None]


@dataclass(frozen=True)
class Observed:
    """Readings just before a trial (or a request in it), and just after."""

    before: ObserverReading
    after: ObserverReading


@dataclass
class Observer:
    """Reads what the instrument uses; ``agents``: processes of the instrument's own agents, by role."""

    agents: Mapping[str, int] = field(default_factory=dict)
    measured: list[Observed] = field(default_factory=list)

    def read(self) -> ObserverReading:
        """All of it now; some 10 microseconds."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ObserverReading(
            monotonic_ns=time.monotonic_ns(),
            controller_cpu_ns=time.process_time_ns(),
            children_cpu_ns=round((children.ru_utime + children.ru_stime) * 1e9),
            agents_cpu_ns={role: _ran_ns(pid) for role, pid in self.agents.items()},
        )

    def begin(self) -> ObserverReading:
        """A trial begins: what was measured before belongs to another."""
        self.measured.clear()
        return self.read()

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """Around one request whose answer is what is measured; kept after an orderly end only."""
        before = self.read()
        yield
        self.measured.append(Observed(before, self.read()))


def _ran_ns(pid: int) -> int | None:
    try:
        return time.clock_gettime_ns((~pid << 3) | _SCHEDULER_CLOCK)
    except OSError:
        return None
