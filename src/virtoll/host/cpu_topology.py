"""Which of this host's CPUs share a core, an L3 cache or a socket, as its kernel says.

Main type: ``CpuTopology``. Meanings: Linux, Documentation/ABI/stable/sysfs-devices-system-cpu (topology and cache). A
hypervisor may say what it likes and move its virtual CPUs; how far they really are, the agent reads (``hand-over``).
Reads below ``root``, so that tests can give a tree of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from virtoll.host.readings import read_text
from virtoll.host.settings import parse_cpus

Distance = Literal["SMT sibling", "same L3", "other L3", "other socket"]
_CPU = Path("sys/devices/system/cpu")


@dataclass(frozen=True)
class CpuPlace:
    """Where a CPU is: the first CPU of its core and of those that share its L3 cache, and its socket's number."""

    core: int
    l3: int
    socket: int


@dataclass(frozen=True)
class CpuTopology:
    """The places of CPUs; empty where the kernel does not give those of all that were asked for."""

    places: Mapping[int, CpuPlace]

    @classmethod
    def read(cls, cpus: Sequence[int], root: Path = Path("/")) -> CpuTopology:
        """Of these CPUs."""
        places = {cpu: place for cpu in cpus if (place := _place(root / _CPU / f"cpu{cpu}")) is not None}
        return cls(places if len(places) == len(cpus) else {})

    def core_of(self, cpu: int) -> int:
        """The first CPU of its core; itself where that is not known."""
        place = self.places.get(cpu)
        return cpu if place is None else place.core

    def distance(self, cpu: int, other: int) -> Distance | None:
        """How far one is from another; None where that is not known, or they are one."""
        here, there = self.places.get(cpu), self.places.get(other)
        if here is None or there is None or cpu == other:
            return None
        if here.core == there.core:
            return "SMT sibling"
        if here.l3 == there.l3:
            return "same L3"
        return "other L3" if here.socket == there.socket else "other socket"

    def by_l3(self, cpus: Sequence[int]) -> list[list[list[int]]]:
        """These CPUs by the L3 caches that they share, and there by core, each in ascending order.

        A CPU whose place is not known is on a core of its own, and all these share a cache.
        """
        caches: dict[int | None, dict[int, list[int]]] = {}
        for cpu in sorted(cpus):
            place = self.places.get(cpu)
            cores = caches.setdefault(None if place is None else place.l3, {})
            cores.setdefault(self.core_of(cpu), []).append(cpu)
        return [list(cores.values()) for cores in caches.values()]


UNKNOWN: Final = CpuTopology({})


def _place(folder: Path) -> CpuPlace | None:
    """None where the kernel does not say it; a CPU without an L3 cache shares with its socket."""
    siblings = _first(folder / "topology/thread_siblings_list")
    socket = read_text(folder / "topology/physical_package_id")
    if siblings is None or socket is None:
        return None
    number = int(socket)  # -1 where there is none, as on some of Arm's boards
    l3 = _first(folder / "cache/index3/shared_cpu_list")
    return CpuPlace(siblings, -1 - number if l3 is None else l3, number)


def _first(path: Path) -> int | None:
    """The smallest number of a list such as ``0-3,8-11``."""
    return next(iter(parse_cpus(read_text(path) or "")), None)
