"""Which host CPU does what: guests, generator, sink, guests side by side and those beside a measured one.

Main types: ``Pinning``, ``choose_pinning``. Guest and generator are on cores of their own that share an L3 cache, if
the host has them: each frame goes from the one to the other. All else takes CPUs whose cores are free, if there are.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from virtoll.experiment.model import Experiment
from virtoll.host.cpu_topology import UNKNOWN, CpuTopology, Distance
from virtoll.runfolder.conditions import Affinity


@dataclass(frozen=True)
class LoadCpus:
    """CPUs of who loads a guest beside the measured one with traffic; None: any."""

    generator: int | None = None
    sink: int | None = None


@dataclass(frozen=True)
class Pinning:
    """Host CPUs: the guest's, the generator's and the sink's; empty or None where there are too few to pin."""

    guest_cpus: tuple[int, ...]
    generator_cpu: int | None
    sink_cpu: int | None
    topology: CpuTopology = field(default=UNKNOWN, compare=False, repr=False)

    @property
    def distance(self) -> Distance | None:
        """How far the generator is from the guest's first CPU, as the kernel says; None where it does not."""
        if not self.guest_cpus or self.generator_cpu is None:
            return None
        return self.topology.distance(self.generator_cpu, self.guest_cpus[0])

    def record(self) -> dict[str, object]:
        """As the manifest has it."""
        return {
            "guest_cpus": self.guest_cpus,
            "generator_cpu": self.generator_cpu,
            "sink_cpu": self.sink_cpu,
            "distance": self.distance,
        }

    def _free(self, usable: Sequence[int], taken: Collection[int]) -> list[int]:
        """CPUs that are not taken, first those of cores of which none is."""
        cores = {self.topology.core_of(cpu) for cpu in taken}
        free = [cpu for cpu in usable if cpu not in taken]
        return sorted(free, key=lambda cpu: self.topology.core_of(cpu) in cores)

    def guest_of(self, vcpus: int, allowed: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """CPUs of a measured guest with so many virtual ones: the first of the largest guest's.

        Where that has too many for the host to be pinned, a smaller one is pinned as if it were the largest.
        """
        return self.guest_cpus[:vcpus] if self.guest_cpus else choose_pinning(vcpus, allowed).guest_cpus

    def of_neighbour(
        self, affinity: Affinity, vcpus: int, allowed: Sequence[int] | None = None
    ) -> tuple[int, ...] | None:
        """CPUs of a guest beside the measured one, none for any; None where the host has too few for that affinity.

        *Apart* are CPUs that nothing else of the run is pinned to; where there are too few, generator's and sink's too,
        which are idle while a workload has no traffic.
        """
        if affinity == "unpinned":
            return ()
        if affinity == "shared" or not self.guest_cpus:
            return self.guest_cpus if affinity == "shared" else None
        usable = sorted(os.sched_getaffinity(0)) if allowed is None else allowed
        free = self._free(usable, self.cpus)
        if len(free) < vcpus:
            free = self._free(usable, self.guest_cpus)
        return tuple(free[:vcpus]) if len(free) >= vcpus else None

    def side_by_side(
        self, affinity: Affinity, guests: int, vcpus: int, allowed: tuple[int, ...] | None = None
    ) -> tuple[tuple[int, ...], ...] | None:
        """CPUs of each of several guests of one platform that are measured together; None where the host has too few.

        *Shared*: all on those of one guest. *Apart*: each on its own, which nothing else of the run is pinned to.
        *Unpinned*: all on any CPU, the first one too.
        """
        if affinity == "unpinned":
            return ((),) * guests
        if affinity == "shared":
            return (self.guest_of(vcpus, allowed),) * guests
        return self._each_apart(vcpus, allowed)[:guests] if guests <= self.most_apart(vcpus, allowed) else None

    def most_apart(self, vcpus: int, allowed: tuple[int, ...] | None = None) -> int:
        """How many guests of so many virtual CPUs can each have host CPUs of their own."""
        return len(self._each_apart(vcpus, allowed))

    def _each_apart(self, vcpus: int, allowed: tuple[int, ...] | None) -> tuple[tuple[int, ...], ...]:
        guest_cpus = self.guest_of(vcpus, allowed)
        usable = sorted(os.sched_getaffinity(0)) if allowed is None else allowed
        pinned = (*guest_cpus, self.generator_cpu, self.sink_cpu)
        free = self._free(usable, [cpu for cpu in pinned if cpu is not None])
        more = [tuple(free[first : first + vcpus]) for first in range(0, len(free) - vcpus + 1, vcpus)]
        return (guest_cpus, *more) if guest_cpus else ()

    def of_load(self, allowed: Sequence[int] | None = None) -> LoadCpus:
        """Who sends to a guest next to the measured one, and who takes in what it forwards.

        They have CPUs that nothing is pinned to, the last ones first, or else those of the trial's own generator and
        sink, which guests next to it would disturb less than the measured one. Those that a neighbour *apart* may have
        are used before the generator's and not before others.
        """
        taken = self.of_neighbour("apart", len(self.guest_cpus), allowed) or ()
        usable = sorted(os.sched_getaffinity(0)) if allowed is None else allowed
        free = self._free(sorted(usable, reverse=True), self.cpus) if self.guest_cpus else []
        ordered = sorted(free, key=lambda cpu: cpu in taken)
        generator = ordered[0] if ordered else self.generator_cpu
        sink = ordered[1] if len(ordered) > 1 and ordered[1] not in taken else self.sink_cpu
        return LoadCpus(generator, sink)

    def takes_generator(self, cpus: Sequence[int]) -> bool:
        """Whether one of these CPUs is the generator's or the sink's."""
        return any(cpu in (self.generator_cpu, self.sink_cpu) for cpu in cpus)

    def in_order(self, guest_cpus: Sequence[int] = ()) -> tuple[int, ...]:
        """CPUs in the order of a frame's way, each once: the generator's, a guest's (its own), and the sink's.

        Where nothing is pinned they are all that this process may use.
        """
        guests = guest_cpus or self.guest_cpus
        way = [cpu for cpu in (self.generator_cpu, *guests, self.sink_cpu) if cpu is not None]
        return tuple(dict.fromkeys(way)) or self.cpus

    @property
    def usable(self) -> tuple[int, ...]:
        """All CPUs of this process, where it has enough of them to pin anything."""
        return tuple(sorted(os.sched_getaffinity(0))) if self.guest_cpus else ()

    @property
    def cpus(self) -> tuple[int, ...]:
        """All of them, ascending; where nothing is pinned all that this process may use."""
        pinned = {*self.guest_cpus, self.generator_cpu, self.sink_cpu} - {None}
        return tuple(sorted(cpu for cpu in pinned or os.sched_getaffinity(0) if cpu is not None))


def cpus_at_once(affinity: Affinity, guests: int, vcpus: int) -> tuple[tuple[int, ...], ...] | None:
    """CPUs of each of several guests that do the same at once, without traffic; None where the host has too few.

    All CPUs are theirs: no generator and no sink works meanwhile.
    """
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    if affinity != "unpinned" and len(cpus) < vcpus:
        return None
    usable = tuple(_cores_first(_topology_of(cpus).by_l3(cpus)))
    return Pinning(usable[:vcpus], None, None).side_by_side(affinity, guests, vcpus, usable)


def choose_pinning(vcpus: int, allowed: tuple[int, ...] | None = None, topology: CpuTopology | None = None) -> Pinning:
    """Guests on the first CPUs, the generator on the last, the sink on the last but one where that is not a guest's.

    They are of one L3 cache, each on a core of its own, if one has enough cores, and the first such; the sink may have
    another cache. Two threads of a core are used only if there are too few cores, and then first within the guest. On
    two CPUs generator and sink share one: the guest's is never shared with its load. ``topology`` None: as the kernel
    says of this process's CPUs, and unknown of others that are ``allowed``.
    """
    cpus = allowed if allowed is not None else tuple(sorted(os.sched_getaffinity(0)))
    if topology is None:
        topology = _topology_of(cpus) if allowed is None else UNKNOWN
    if len(cpus) < vcpus + 1:
        return Pinning((), None, None, topology)
    # Stable: of caches with enough cores the first, with one core for the sink too if there is such a one.
    caches = sorted(topology.by_l3(cpus), key=lambda cores: -min(len(cores), vcpus + 2))
    ordered = _cores_first(caches)
    cores = sum(map(len, caches))
    if len(caches[0]) > vcpus:
        guest_cpus, generator = ordered[:vcpus], ordered[len(caches[0]) - 1]
    elif cores > vcpus:
        guest_cpus, generator = ordered[:vcpus], ordered[cores - 1]
    else:
        ordered = [cpu for cache in caches for core in cache for cpu in core]
        guest_cpus, generator = ordered[:vcpus], ordered[-1]
    return Pinning(tuple(guest_cpus), generator, _sink_cpu(ordered, cores, guest_cpus, generator, topology), topology)


def _sink_cpu(
    ordered: Sequence[int], cores: int, guest_cpus: Sequence[int], generator: int, topology: CpuTopology
) -> int:
    """A core of its own, next to the generator's; or another thread of the generator's core, or its CPU."""
    position = ordered.index(generator)
    nearby = [*reversed(ordered[:position]), *reversed(ordered[position + 1 : cores])]
    siblings = [cpu for cpu in ordered if topology.core_of(cpu) == topology.core_of(generator)]
    candidates = [cpu for cpu in (*nearby, *siblings) if cpu not in guest_cpus]
    return next((cpu for cpu in candidates if cpu != generator), generator)


def _cores_first(caches: Sequence[Sequence[Sequence[int]]]) -> list[int]:
    """The first thread of each core, cache by cache, then the second of each, and so on."""
    threads = max((len(core) for cache in caches for core in cache), default=0)
    return [core[thread] for thread in range(threads) for cache in caches for core in cache if thread < len(core)]


@cache
def _topology_of(cpus: tuple[int, ...]) -> CpuTopology:
    return CpuTopology.read(cpus)


def pinning_for(experiment: Experiment) -> Pinning:
    """Of an experiment's run: generator and sink have no CPU of this machine where they are on other hosts."""
    pinning = choose_pinning(experiment.most_vcpus)
    if experiment.testbed is not None and not experiment.testbed.this_machine:
        return replace(pinning, generator_cpu=None, sink_cpu=None)
    return pinning
