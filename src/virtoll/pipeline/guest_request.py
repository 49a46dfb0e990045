"""What a guest of an experiment is asked to be: its size, CPUs, network and name.

Main type: ``GuestRequests``. Nothing is started or asked here.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection
from dataclasses import dataclass

from virtoll.errors import GuestCannot
from virtoll.experiment.model import Experiment, PlatformChoice
from virtoll.lab.data import DataVolume
from virtoll.lab.network import GuestNetwork, plan_links
from virtoll.pipeline.live_guest import Placement, Slot
from virtoll.pipeline.pinning import Pinning
from virtoll.platforms.attachment import attach
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.host import Site
from virtoll.platforms.limits import limit
from virtoll.runfolder.conditions import Affinity, Condition
from virtoll.workloads import workload_of
from virtoll.workloads.base import Needs
from virtoll.workloads.loads import data_bytes_of

_STANDARD_MTU_BYTES = 1500
_BOOT_SECONDS = 120.0  # the longest that one guest alone may take


@dataclass(frozen=True)
class GuestRequests:
    """What the guests of an experiment are asked to be."""

    experiment: Experiment
    pinning: Pinning

    def place(self, choice: PlatformChoice, site: Site) -> Placement:
        """Where the platform's measured guest is."""
        vcpus, memory_bytes = self.experiment.size_of(choice)
        return Placement(site.pinned(vcpus, self.pinning.guest_of(vcpus)), vcpus, memory_bytes)

    def side_by_side(
        self, choice: PlatformChoice, site: Site, affinity: Affinity, count: int
    ) -> tuple[Placement, ...] | None:
        """Where each of so many guests of a platform is; None if the host has too few CPUs for that affinity."""
        vcpus, memory_bytes = self.experiment.size_of(choice)
        pinning, usable = self.pinning, None
        if site.cpus is not None:  # of another host, whose last CPU is left to itself
            pinning, usable = Pinning(site.pinned(vcpus, ()), None, None), site.cpus[:-1]
        cpus = pinning.side_by_side(affinity, count, vcpus, usable)
        return None if cpus is None else tuple(Placement(guest_cpus, vcpus, memory_bytes) for guest_cpus in cpus)

    def neighbours(self, choice: PlatformChoice, condition: Condition, site: Site | None) -> Placement:
        """Where neighbours of this platform are under a condition; ``site``: None if the platform names no host.

        On another host they are pinned to CPUs next to those of its guests. If it does not report how many it has, it
        is asked for the first, and refuses those that it lacks. ``GuestCannot`` if there are too few.
        """
        vcpus, pinning, known = self.experiment.vcpus, self.pinning, None
        if site is not None:
            pinning = Pinning(site.pinned(vcpus, pinning.guest_of(vcpus)), None, None)
            known = site.cpus or tuple(range(2 * vcpus))
        cpus = pinning.of_neighbour(condition.affinity, vcpus, known)
        if cpus is None:
            where = "its host" if choice.host is None else choice.host.words
            raise GuestCannot(
                f"{where} has too few CPUs for guests beside it on others ('affinity: apart'); set 'affinity: shared'"
            )
        return Placement(cpus, vcpus, condition.memory_bytes or self.experiment.memory_bytes)

    def data_bytes(self, slot: Slot) -> int:
        """Room in the data directory for the largest workload, or for the largest load of a neighbour; 0 for none."""
        if slot.neighbour_of is not None:
            return max(data_bytes_of(condition.load) for condition in self.experiment.conditions)
        return max((needs.data_bytes for needs in self._needs()), default=0)

    def request(
        self,
        choice: PlatformChoice,
        boot: str,
        site: Site,
        volume: DataVolume | None,
        slot: Slot,
        owners: Collection[int],
    ) -> GuestRequest:
        """What a guest is asked to be; ``owners``: the numbers of the guests that have links."""
        place = slot.place or self.place(choice, site)
        guests = 1 if slot.group is None else slot.group.guests
        request = GuestRequest(
            _name(boot, slot),
            place.vcpus,
            place.memory_bytes,
            () if choice.parameters.pre_provisioned else place.cpus,
            self._network(choice, site, slot, owners),
            deadline_seconds=_BOOT_SECONDS * max(1.0, guests / len(os.sched_getaffinity(0))),
            cpu_quota=self.experiment.cpu_quota,
            data=volume,
            instance=slot.instance,
        )
        return limit(request, choice.parameters)

    def _network(self, choice: PlatformChoice, site: Site, slot: Slot, owners: Collection[int]) -> GuestNetwork:
        needs = self._needs()
        # On another host the guests share the NICs that lead here as it is.
        here = site.far is None and (choice.host is None or choice.host.local)
        network = plan_links(
            self._owner(choice, slot, owners),
            max((need.sources for need in needs), default=1),
            max([_STANDARD_MTU_BYTES, *(need.mtu_bytes for need in needs)]),
            sinks=max((need.sinks for need in needs), default=1),
            marks=self.experiment.marks == "icmp",
            shared=here and any(need.shared_nic for need in needs),
        )
        network = attach(network, choice.parameters)
        if site.far:
            network = site.far.reach(network)
        return site.network.reach(network, neighbour=slot.instance if slot.neighbour_of else 0)

    def _owner(self, choice: PlatformChoice, slot: Slot, owners: Collection[int]) -> int:
        """The number of the guest among all that are up, which its links have."""
        if slot.group is not None:
            return slot.instance  # nobody else is up
        labels = [other.label for other in self.experiment.platforms]
        if slot.instance == 0:
            return labels.index(choice.label)
        return next(number for number in itertools.count(len(labels)) if number not in owners)

    def _needs(self) -> list[Needs]:
        """What each of the experiment's workloads needs of a guest."""
        return [workload_of(choice).needs() for choice in self.experiment.workloads]


def _name(boot: str, slot: Slot) -> str:
    """Not the boot's own name: runsc takes an identifier's beginning for the whole, if there is but one such."""
    if slot.group is not None:
        return f"of-{slot.group.guests}-{slot.instance + 1:03d}-{boot}"
    return boot if slot.instance == 0 else f"beside-{boot}"
