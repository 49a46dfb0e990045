"""Which host CPU does what: guests, generator, sink, guests side by side and those beside a measured one. Pure.

Main types: ``Pinning``, ``choose_pinning``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from virtoll.experiment.model import Experiment
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
        free = [cpu for cpu in usable if cpu not in self.cpus]
        if len(free) < vcpus:
            free = [cpu for cpu in usable if cpu not in self.guest_cpus]
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
        free = [cpu for cpu in usable if cpu not in (*guest_cpus, self.generator_cpu, self.sink_cpu)]
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
        free = [cpu for cpu in usable if cpu not in self.cpus] if self.guest_cpus else []
        ordered = sorted(free, key=lambda cpu: (cpu in taken, -cpu))
        generator = ordered[0] if ordered else self.generator_cpu
        sink = ordered[1] if len(ordered) > 1 and ordered[1] not in taken else self.sink_cpu
        return LoadCpus(generator, sink)

    def takes_generator(self, cpus: Sequence[int]) -> bool:
        """Whether one of these CPUs is the generator's or the sink's."""
        return any(cpu in (self.generator_cpu, self.sink_cpu) for cpu in cpus)

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
    usable = tuple(sorted(os.sched_getaffinity(0)))
    if affinity != "unpinned" and len(usable) < vcpus:
        return None
    return Pinning(usable[:vcpus], None, None).side_by_side(affinity, guests, vcpus, usable)


def choose_pinning(vcpus: int, allowed: tuple[int, ...] | None = None) -> Pinning:
    """Guests on the first CPUs, the generator on the last, the sink on the last but one where that is not a guest's.

    On two CPUs generator and sink share one: the guest's is never shared with its load.
    """
    cpus = allowed if allowed is not None else tuple(sorted(os.sched_getaffinity(0)))
    if len(cpus) < vcpus + 1:
        return Pinning((), None, None)
    return Pinning(cpus[:vcpus], cpus[-1], cpus[-2] if len(cpus) >= vcpus + 2 else cpus[-1])


def pinning_for(experiment: Experiment) -> Pinning:
    """Of an experiment's run: generator and sink have no CPU of this machine where they are on other hosts."""
    pinning = choose_pinning(experiment.most_vcpus)
    if experiment.testbed is not None and not experiment.testbed.this_machine:
        return replace(pinning, generator_cpu=None, sink_cpu=None)
    return pinning
