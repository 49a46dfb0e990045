"""The guests of one block: all started before its first trial, parked between trials, ended after its last.

Main type: ``Fleet`` (starts, hands out, replaces, ends guests and writes their boot records). A block is one boot of
each platform, so that the variation from boot to boot is inside the interval and not hidden below it. It is more than
one where a guest is lost, or is ended because the host's memory does not hold all.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from virtoll.agent.client import PROTOCOL, TrafficAgents
from virtoll.agent.links import network_request, peer_request
from virtoll.agent.operations.session import FactsRequest, HelloRequest
from virtoll.agent.path_counters import HopReader
from virtoll.agent.timekeeper import Timekeeper, await_path
from virtoll.campaign.data_directory import DataKeeper, find_data_volume
from virtoll.campaign.guest_check import compare, compare_pre_provisioned
from virtoll.campaign.live_guest import LiveGuest, NeighbourKey, Placement, Slot
from virtoll.campaign.observer import Observer
from virtoll.campaign.pinning import Pinning, cpus_at_once
from virtoll.campaign.progress import Progress
from virtoll.campaign.room import ended_for, held_bytes, lacking_bytes
from virtoll.campaign.threads import at_once
from virtoll.errors import AgentError, GuestCannot, GuestDied, GuestError, LabError, NeighbourFailed
from virtoll.experiment.model import Experiment, Parameters, PlatformChoice, WorkloadChoice
from virtoll.experiment.plan import Trial
from virtoll.host.guest_usage import available_bytes, read_footprint
from virtoll.lab import interrupts
from virtoll.lab.data import DataVolume
from virtoll.lab.network import GuestNetwork, plan_links, with_found_macs
from virtoll.platforms.attachment import attach
from virtoll.platforms.base import Guest, GuestRequest, GuestStartError, Platform
from virtoll.platforms.host import Site
from virtoll.platforms.kernel_settings import why_not_in_force
from virtoll.platforms.last_words import with_last_words
from virtoll.platforms.limits import limit
from virtoll.runfolder.conditions import Affinity, Condition
from virtoll.runfolder.scale import ScalePoint
from virtoll.runfolder.store import RunFolder
from virtoll.workloads import workload_of
from virtoll.workloads.base import Needs
from virtoll.workloads.loads import data_bytes_of

if TYPE_CHECKING:
    from virtoll.campaign.drafts import BootDraft

_STARTS_PER_BLOCK = 3
_REFUSALS_PER_BLOCK = 2  # a second try, since what refused may have been a busy host
_STANDARD_MTU_BYTES = 1500
_GROUPS_PER_BLOCK = 2  # a second try, since one of many guests may have failed of a busy host
_BOOT_SECONDS = 120.0  # the longest that one guest alone may take
_FACTS_DEADLINE_SECONDS = 60.0  # an emulated guest reads and hashes all its files


@dataclass
class Fleet:
    """The guests of one block; a context manager. A guest that dies is started anew, at most three times a block.

    A guest whose agent answers a workload with an error is started anew too, since the job may have left something
    behind. That start is not one of the three, and a workload that was answered so twice is not tried again: it costs
    its own trials, and not those of the other workloads.
    Guests that hold memory which another needs now are ended, and started anew when they are next asked for. That start
    is not one of the three either.
    ``boots`` counts the starts of each platform in each block, over all sessions of the run. ``site_of`` gives the
    host of a platform's guests, or raises a ``GuestError``.
    """

    experiment: Experiment
    block: tuple[Trial, ...]
    folder: RunFolder
    site_of: Callable[[PlatformChoice], Site]
    pinning: Pinning
    platforms: Mapping[str, type[Platform[Parameters]]]
    progress: Progress
    boots: Counter[tuple[str, int]]
    observer: Observer = field(default_factory=Observer)
    _live: dict[str, LiveGuest] = field(default_factory=dict)
    _co_located: dict[tuple[str, Affinity], list[LiveGuest]] = field(default_factory=dict)
    _neighbours: dict[NeighbourKey, list[LiveGuest]] = field(default_factory=dict)
    _starts: dict[str, int] = field(default_factory=dict)
    _neighbour_failures: Counter[NeighbourKey] = field(default_factory=Counter)
    _beside_failures: Counter[str] = field(default_factory=Counter)
    _group: list[LiveGuest] = field(default_factory=list)
    _groups: int = 0
    _absent: dict[str, str] = field(default_factory=dict)
    _refusals: Counter[tuple[str, WorkloadChoice]] = field(default_factory=Counter)

    def __enter__(self) -> Self:
        """Start one guest of each platform that has a trial in this block, in the plan's order, and park it.

        Those of a group are started when it is first asked for. What ends the run meanwhile ends the guests that are up
        already.
        """
        with contextlib.ExitStack() as undo:
            undo.callback(self._end_all)
            for choice in dict.fromkeys(trial.platform for trial in self.block if trial.scale is None):
                self._start(choice)
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every guest; what it holds of the host's memory is read once more before."""
        try:
            for live in (*self._live.values(), *self._group) if kind is None else ():
                self._append_footprint(live.guest, live.boot, live.label, "after-work", live.site)
        finally:
            self._end_all()

    def guest(self, label: str) -> LiveGuest | None:
        """The platform's guest, started anew when the last one was lost.

        None when it is unavailable (``why_absent``).
        """
        if (live := self._live.get(label)) is not None:
            self._make_room(live.site, live.place.memory_bytes, (label,), up=live)
        elif self._starts.get(label, 0) < _STARTS_PER_BLOCK:
            self._start(next(trial.platform for trial in self.block if trial.platform.label == label))
        return self._live.get(label)

    def guests(self, label: str, count: int, affinity: Affinity = "shared") -> tuple[LiveGuest, ...]:
        """The platform's guest and ``count`` - 1 more beside it, started when they are first needed and kept parked.

        Those that are not pinned are all others than the platform's guest, which is. Empty when not all of them are
        available (``why_absent``).
        """
        first = self.guest(label)
        if first is None:
            return ()
        choice = next(trial.platform for trial in self.block if trial.platform.label == label)
        if choice.parameters.pre_provisioned:
            if count == 1:
                return (first,)
            self._absent[label] = f"it is one guest that is there already, and {count} side by side are needed"
            return ()
        places = self._side_by_side(choice, first.site, affinity, count)
        if places is None:
            self._absent[label] = f"its host has too few CPUs for {count} guests on CPUs of their own"
            return ()
        pinned = () if affinity == "unpinned" else (first,)
        beside = self._co_located.setdefault((label, affinity), [])
        for place in places[len(pinned) + len(beside) :]:
            if self._beside_failures[label] >= _STARTS_PER_BLOCK:
                return ()
            live = self._start_one(choice, Slot(len(beside) + 1, place, affinity=affinity))
            if live is None:
                self._beside_failures[label] += 1
                return ()
            beside.append(live)
        return (*pinned, *beside)[:count]

    def _side_by_side(
        self, choice: PlatformChoice, site: Site, affinity: Affinity, count: int
    ) -> tuple[Placement, ...] | None:
        """Where each of so many guests of a platform is; None where the host has too few CPUs for that affinity."""
        vcpus, memory_bytes = self.experiment.size_of(choice)
        pinning, usable = self.pinning, None
        if site.cpus is not None:  # of another host, whose last CPU is left to itself
            pinning, usable = Pinning(site.pinned(vcpus, ()), None, None), site.cpus[:-1]
        cpus = pinning.side_by_side(affinity, count, vcpus, usable)
        return None if cpus is None else tuple(Placement(guest_cpus, vcpus, memory_bytes) for guest_cpus in cpus)

    def neighbours(self, label: str, condition: Condition) -> tuple[LiveGuest, ...]:
        """The guests beside the platform's under a condition, started when they are first needed and kept parked.

        ``NeighbourFailed`` where one cannot be started, ``GuestCannot`` where its host has too few CPUs for it.
        """
        key = self._neighbour_key(label, condition)
        choice = self._choice_of(key[0])
        beside = self._neighbours.setdefault(key, [])
        while len(beside) < condition.guests:
            if self._neighbour_failures[key] >= _STARTS_PER_BLOCK:
                cause = GuestError(f"it failed {_STARTS_PER_BLOCK} times in this block, and is not tried again")
                raise NeighbourFailed(condition.guest(len(beside) + 1), cause)
            live = self._start_one(choice, Slot(len(beside) + 1, key[1], beside=label))
            if live is None:
                cause = GuestError(self._absent.pop(choice.label, "it could not be started"))
                raise NeighbourFailed(condition.guest(len(beside) + 1), cause)
            beside.append(live)
        return tuple(beside[: condition.guests])

    def _neighbour_key(self, label: str, condition: Condition) -> NeighbourKey:
        memory_bytes, vcpus = condition.memory_bytes or self.experiment.memory_bytes, self.experiment.vcpus
        label = condition.platform or label
        return label, Placement(self._cpus_beside(self._choice_of(label), condition), vcpus, memory_bytes)

    def _choice_of(self, label: str) -> PlatformChoice:
        return next(choice for choice in self.experiment.platforms if choice.label == label)

    def _cpus_beside(self, choice: PlatformChoice, condition: Condition) -> tuple[int, ...]:
        """Their host's CPUs, none for any: of another host those beside the ones that its guests are pinned to.

        Where it does not tell how many it has, it is asked for the first, and refuses those that it has not.
        """
        vcpus, pinning, known = self.experiment.vcpus, self.pinning, None
        if choice.host is not None:
            site = self.site_of(choice)
            pinning = Pinning(site.pinned(vcpus, pinning.guest_of(vcpus)), None, None)
            known = site.cpus or tuple(range(2 * vcpus))
        cpus = pinning.beside(condition.affinity, vcpus, known)
        if cpus is None:
            where = "its host" if choice.host is None else choice.host.words
            raise GuestCannot(
                f"{where} has too few CPUs for guests beside it on others ('affinity: apart'); set 'affinity: shared'"
            )
        return cpus

    def lose_neighbours(self, label: str, condition: Condition, folder_name: str) -> tuple[str, ...]:
        """Guests beside the platform's failed: keep their evidence, end all that are alike, and give its paths."""
        key = self._neighbour_key(label, condition)
        self._neighbour_failures[key] += 1
        paths: tuple[str, ...] = ()
        for number, live in enumerate(self._neighbours.pop(key, []), start=1):
            with live.site.awake():
                paths += self.folder.keep_evidence(f"{folder_name}-neighbour-{number}", live.guest.evidence())
            self._end(live.guest, live.site, live.data)
        return paths

    def group(self, choice: PlatformChoice, point: ScalePoint) -> tuple[LiveGuest, ...]:
        """So many guests of one platform, started at the same time when they are first needed, and kept parked.

        Empty when not all of them are available (``why_absent``). Virtoll's own part of each start, such as its link,
        comes one after another; what it then waits for goes on for all of them at once.
        """
        if self._group or self._groups >= _GROUPS_PER_BLOCK:
            return tuple(self._group)
        from virtoll.runfolder.scale import GroupRecord

        self._groups += 1
        self._absent.pop(choice.label, None)
        affinity = "unpinned" if self.experiment.scale is None else self.experiment.scale.affinity
        cpus = cpus_at_once(affinity, point.guests, point.vcpus)
        if cpus is None:
            raise ValueError(f"{point.label} do not fit on this host's CPUs")  # requirements.py left none
        places = [Placement(guest_cpus, point.vcpus, point.memory_bytes) for guest_cpus in cpus]
        before, began_ns = available_bytes(), time.monotonic_ns()
        at_once([partial(self._join_group, choice, number, place, point) for number, place in enumerate(places)])
        self._group.sort(key=lambda live: live.instance)
        whole = len(self._group) == point.guests
        for live in self._group if whole else ():
            self._append_footprint(live.guest, live.boot, live.label, "idle", live.site)
        self.folder.append(
            GroupRecord(
                platform=choice.label,
                block=self.block[0].block,
                scale=point,
                status="ok" if whole else "failed",
                reason=None if whole else self._absent[choice.label],
                boots=tuple(live.boot for live in self._group),
                began_monotonic_ns=began_ns,
                up_monotonic_ns=max(live.guest.ready_monotonic_ns for live in self._group) if whole else None,
                available_before_bytes=before,
                available_idle_bytes=available_bytes() if whole else None,
            )
        )
        if not whole:
            self._end_group()
        return tuple(self._group)

    def _join_group(self, choice: PlatformChoice, instance: int, place: Placement, point: ScalePoint) -> None:
        live = self._start_one(choice, Slot(instance, place, point))
        if live is not None:
            self._group.append(live)

    def lose_group(
        self, label: str, workload: WorkloadChoice, error: NeighbourFailed, folder_name: str
    ) -> tuple[str, ...]:
        """One of a group failed in a trial of this workload: keep its evidence, end all, and give the paths."""
        if isinstance(error.cause, AgentError):
            self._refusals[label, workload] += 1
            self._groups -= 1
        self._absent[label] = f"its guests were lost and not started again: {error}"
        failed = [live for number, live in enumerate(self._group, start=1) if number == error.number]
        paths = [self.folder.keep_evidence(folder_name, live.guest.evidence()) for live in failed]
        self._end_group()
        return tuple(itertools.chain(*paths))

    def _end_group(self) -> None:
        for live in self._group:
            self._end(live.guest, live.site, live.data)
        self._group.clear()

    def why_absent(self, label: str) -> str:
        """Why ``guest`` gave None, in one sentence."""
        return self._absent.get(label, "its guest could not be started")

    def refuses(self, label: str, workload: WorkloadChoice) -> str | None:
        """Why this workload is not tried again with the platform in this block, in one sentence; None where it is."""
        count = self._refusals[label, workload]
        if count < _REFUSALS_PER_BLOCK:
            return None
        return f"its guests answered this workload with an error {count} times in this block, and are not asked again"

    def lose(
        self, label: str, workload: WorkloadChoice, error: GuestError, folder_name: str
    ) -> tuple[str, tuple[str, ...]]:
        """A guest failed in a trial of this workload: keep its evidence and end it.

        Gives the reason, for a guest that died with what its console said last, and the evidence's paths in the run
        folder.
        """
        live = self._live.pop(label, None)
        reason = str(error)
        self._absent[label] = f"its guest was lost and not started again: {reason}"
        if live is None:
            return reason, ()
        if isinstance(error, AgentError):
            self._refusals[label, workload] += 1
            self._starts[label] -= 1
        with live.site.awake():
            evidence = live.guest.evidence()
            if isinstance(error, GuestDied):
                reason = with_last_words(reason, evidence)
                self._absent[label] = f"its guest was lost and not started again: {reason}"
            paths = self.folder.keep_evidence(folder_name, evidence)
            together = [key for key in self._co_located if key[0] == label]
            others = itertools.chain.from_iterable(map(self._co_located.pop, together))
            for number, other in enumerate(others, start=1):
                paths += self.folder.keep_evidence(f"{folder_name}-beside-{number}", other.guest.evidence())
                self._end(other.guest, other.site, other.data)
            self._end(live.guest, live.site, live.data)
        return reason, paths

    def _end_all(self) -> None:
        for live in self._everyone():
            self._end(live.guest, live.site, live.data)
        self._live.clear()
        self._co_located.clear()
        self._neighbours.clear()
        self._group.clear()

    def _end(self, guest: Guest, site: Site, data: DataKeeper | None) -> None:
        """What cannot be removed costs no trial, and is reported; the room for its data is on its host as well."""
        try:
            with site.awake(), contextlib.ExitStack() as undo:
                if data is not None:
                    undo.callback(data.volume.remove)
                guest.stop()
        except (GuestError, OSError) as error:
            self.progress.message(f"the end of a guest: {error}")

    def _start(self, choice: PlatformChoice) -> None:
        """Start the platform's guest."""
        live = self._start_one(choice, Slot())
        if live is not None:
            self._live[choice.label] = live

    def _start_one(self, choice: PlatformChoice, slot: Slot) -> LiveGuest | None:
        """Start one guest on its host; a host that is unavailable is the guest's failure."""
        try:
            site = self.site_of(choice)
        except GuestError as error:
            self._absent[choice.label] = f"its host is unavailable: {error}"
            return None
        if slot.beside and site.far:  # a testbed's NICs are the measured guest's, but those of the first one beside
            site = replace(site, far=site.far.beside if slot.instance == 1 else None)
        if slot.group is None:  # a group has been found to fit before anything was started
            place = slot.place or self._own_place(choice, site)
            self._make_room(site, place.memory_bytes, (choice.label, slot.beside), affinity=slot.affinity)
        with site.awake():
            return self._start_at(choice, site, slot)

    def _own_place(self, choice: PlatformChoice, site: Site) -> Placement:
        """Where the platform's measured guest is."""
        vcpus, memory_bytes = self.experiment.size_of(choice)
        return Placement(site.pinned(vcpus, self.pinning.guest_of(vcpus)), vcpus, memory_bytes)

    def _make_room(
        self,
        site: Site,
        memory_bytes: int,
        kept: Sequence[str | None],
        up: LiveGuest | None = None,
        *,
        affinity: Affinity | None = None,
    ) -> None:
        """End guests of platforms that are not ``kept``, until this machine has so much memory for one that is.

        Those that hold most come first, and none is ended where all of them would not be enough. ``up``: the guest that
        needs it, where it is up already and holds some of it. ``affinity``: that of the guests side by side which are
        needed; those of another are not kept.
        """
        lacking = lacking_bytes(memory_bytes) if site.host.local is not None else 0
        if lacking and up is not None:
            lacking -= held_bytes(up.guest)
        if lacking <= 0:
            return
        others = self._not_kept(kept, affinity)
        held = {number: sum(held_bytes(live.guest) for live in guests) for number, (guests, _) in enumerate(others)}
        for number in ended_for(lacking, held):
            guests, forget = others[number]
            for live in guests:
                self.progress.message(f"ending {live.boot}: its memory is needed for {kept[0]}")
                self._end(live.guest, live.site, live.data)
            forget()

    def _not_kept(
        self, kept: Sequence[str | None], affinity: Affinity | None
    ) -> list[tuple[list[LiveGuest], Callable[[], object]]]:
        """Other platforms' guests, together those that are ended together, and what forgets that they were up."""

        def forget_own(label: str) -> None:
            del self._live[label]
            self._starts[label] -= 1

        leaving: list[tuple[list[LiveGuest], Callable[[], object]]] = []
        leaving += [([live], partial(forget_own, label)) for label, live in self._live.items() if label not in kept]
        for together, guests in self._co_located.items():
            if together[0] not in kept or affinity not in (None, together[1]):
                leaving.append((guests, partial(self._co_located.pop, together)))
        for key, guests in self._neighbours.items():
            if key[0] not in kept:
                leaving.append((guests, partial(self._neighbours.pop, key)))
        return leaving

    def _start_at(self, choice: PlatformChoice, site: Site, slot: Slot) -> LiveGuest | None:
        """Start one guest, measure what it is, park it, and write its boot record; failure is recorded, not raised."""
        from virtoll.campaign.drafts import BootDraft

        number = self.block[0].block
        self.boots[choice.label, number] += 1
        attempt = self.boots[choice.label, number]
        if slot.instance == 0 and slot.group is None:
            self._starts[choice.label] = self._starts.get(choice.label, 0) + 1
        boot = f"{choice.label}/{number}" + (f"/{attempt}" if attempt > 1 else "")
        self.progress.message(f"starting {boot}")
        draft = BootDraft(boot, choice, number, attempt, slot)
        live: LiveGuest | None = None
        try:
            live = self._boot(choice, site, draft, slot, self.boots.total())
        except (GuestError, LabError) as error:
            evidence = error.evidence if isinstance(error, GuestStartError) else {}
            draft.failed(str(error), self.folder.keep_evidence(boot.replace("/", "-"), evidence))
            self._absent[choice.label] = f"{slot.words} could not be started: {error}"
            interrupts.check()  # before it is stored: the start may have failed of it
        self.folder.append(draft.record)
        return live

    def _boot(self, choice: PlatformChoice, site: Site, draft: BootDraft, slot: Slot, start: int) -> LiveGuest:
        """Start one guest; its record's draft gets what was asked for and what was found, as far as it comes.

        ``start``: its number among all starts of the run. Whatever ends the start early ends the guest and gives its
        room back; a ``GuestError`` carries the evidence.
        """
        boot, kind = draft.record.boot, self.platforms[choice.platform]
        with contextlib.ExitStack() as undo:
            needed_bytes = self._data_bytes(beside=slot.beside is not None)
            promised = sum(live.data.volume.size_bytes for live in self._everyone() if live.data is not None)
            if slot.group is not None:
                promised = slot.instance * needed_bytes  # all are started at the same time
            if site.programs_volume is not None:
                promised += site.programs_volume.size_bytes
            volume, no_data = find_data_volume(kind, site, needed_bytes, promised)
            if volume is not None:
                undo.callback(volume.remove)
            request = self._request(choice, boot, site, volume, slot)
            draft.asked(request, request.network)
            guest = kind.with_parameters(choice.parameters).start(request, site)
            undo.callback(self._end, guest, site, None)
            draft.started(guest)
            try:
                network = guest.network or request.network
                if network.attachment == "passthrough":
                    inside = guest.agent.ask(FactsRequest(), _FACTS_DEADLINE_SECONDS).interfaces
                    macs = [interface.mac for interface in inside if interface.mac is not None]
                    network = with_found_macs(network, macs)
                draft.asked(request, network)
                identifier = (os.getpid() + start) % 2**16
                timekeeper, hops = self._connect(guest, network, site, identifier, counters=choice.counters)
                if site.network.local is not None and network.sources:
                    # Guests side by side that are not pinned are not on the sender's CPU either, but on any.
                    cpus = request.cpus or (self.pinning.usable if slot.affinity == "unpinned" else ())
                    draft.receives_on(site.network.local.receive_on(network, cpus))
                unlike = self._examine(guest, request, draft, choice)
                if slot.instance == 0 and slot.group is None:
                    self._append_footprint(guest, boot, choice.label, "idle", site)
                guest.park()
            except GuestError as error:
                raise GuestStartError(str(error), guest.evidence()) from error
            undo.pop_all()
        room = guest.data or volume
        data = DataKeeper(guest.agent, room, guest.flushes) if room is not None else None
        return LiveGuest(
            boot=boot,
            guest=guest,
            network=network,
            timekeeper=timekeeper,
            hops=hops,
            wire=self._wire(guest, site),
            site=site,
            label=choice.label,
            place=Placement(request.cpus, request.vcpus, request.memory_bytes),
            unlike=unlike,
            data=data,
            no_data=no_data,
            receives_apart=draft.receives_apart,
            instance=slot.instance,
        )

    def _examine(
        self, guest: Guest, request: GuestRequest, draft: BootDraft, choice: PlatformChoice
    ) -> tuple[str, ...]:
        """Measure what the guest is and compare it with what was asked for; what makes it another guest, in words.

        ``GuestError`` where its kernel has not a setting that its platform's parameters ask for.
        """
        hello = guest.agent.ask(HelloRequest(protocol=PROTOCOL))
        facts = guest.agent.ask(FactsRequest(), _FACTS_DEADLINE_SECONDS)
        host = guest.host_view()
        unlike = (
            compare_pre_provisioned(request, facts)
            if choice.parameters.pre_provisioned
            else compare(request, facts, host)
        )
        draft.examined(facts, unlike, hello, host, guest.limits_held)
        if (refusal := why_not_in_force(choice.parameters, facts, data=request.data is not None)) is not None:
            raise GuestError(refusal)
        return draft.record.fatal

    def _append_footprint(
        self, guest: Guest, boot: str, label: str, when: Literal["idle", "after-work"], site: Site
    ) -> None:
        """Store what a guest holds of the host's memory; nothing for a model."""
        from virtoll.runfolder.guest_records import FootprintRecord

        processes = guest.host_processes()
        if processes is not None:
            held = read_footprint(processes, site.this_machine.cgroup)
            self.folder.append(
                FootprintRecord(
                    boot=boot,
                    platform=label,
                    block=self.block[0].block,
                    when=when,
                    monotonic_ns=held.monotonic_ns,
                    processes=held.processes,
                    shared=held.shared,
                    charged_bytes=held.charged_bytes,
                    files_bytes=held.files_bytes,
                )
            )

    def _everyone(self) -> Iterator[LiveGuest]:
        """All guests that are up: those beside others first."""
        return itertools.chain(*self._neighbours.values(), *self._co_located.values(), self._live.values(), self._group)

    def _data_bytes(self, *, beside: bool) -> int:
        """Room in the data directory for the largest of the experiment's workloads, or of the loads of guests beside;
        0 where none needs one.
        """
        if beside:
            return max(data_bytes_of(condition.load) for condition in self.experiment.conditions)
        return max((needs.data_bytes for needs in self._needs()), default=0)

    def _request(
        self,
        choice: PlatformChoice,
        boot: str,
        site: Site,
        volume: DataVolume | None,
        slot: Slot,
    ) -> GuestRequest:
        index = next(n for n, other in enumerate(self.experiment.platforms) if other.label == choice.label)
        if slot.group is not None:
            index = slot.instance  # nobody else is up
        elif slot.instance > 0:
            taken = {link.owner for other in self._everyone() for link in other.network.links}
            index = next(n for n in itertools.count(len(self.experiment.platforms)) if n not in taken)
        mtu = max([_STANDARD_MTU_BYTES, *(needs.mtu_bytes for needs in self._needs())])
        sources = max((needs.sources for needs in self._needs()), default=1)
        sinks = max((needs.sinks for needs in self._needs()), default=1)
        # On another host the guests share the NICs that lead here as it is.
        here = site.far is None and (choice.host is None or choice.host.local)
        shared = here and any(needs.shared_nic for needs in self._needs())
        marks = self.experiment.marks == "icmp"
        network = plan_links(index, sources, mtu, sinks=sinks, marks=marks, shared=shared)
        network = attach(network, choice.parameters)
        if site.far:
            network = site.far.reach(network)
        network = site.network.reach(network, beside=slot.instance if slot.beside else 0)
        place = slot.place or self._own_place(choice, site)
        cpus = () if choice.parameters.pre_provisioned else place.cpus
        # Not the boot's own name: runsc takes an identifier's beginning for the whole, if there is but one such.
        name = boot if slot.instance == 0 else f"beside-{boot}"
        guests = 1 if slot.group is None else slot.group.guests
        if slot.group is not None:
            name = f"of-{guests}-{slot.instance + 1:03d}-{boot}"
        request = GuestRequest(
            name,
            place.vcpus,
            place.memory_bytes,
            cpus,
            network,
            deadline_seconds=_BOOT_SECONDS * max(1.0, guests / len(os.sched_getaffinity(0))),
            cpu_quota=self.experiment.cpu_quota,
            data=volume,
            instance=slot.instance,
        )
        return limit(request, choice.parameters)

    def _needs(self) -> list[Needs]:
        """What each of the experiment's workloads needs of a guest."""
        return [workload_of(choice).needs() for choice in self.experiment.workloads]

    def _connect(
        self, guest: Guest, network: GuestNetwork, site: Site, identifier: int, *, counters: bool
    ) -> tuple[Timekeeper, HopReader]:
        """Set the network up on both sides, each by its own agent; then the timekeeper listens on the guest's link."""
        near = tuple(link for link in network.links if link.trunk is None or link.role == "marks")
        guest.peer.ask(peer_request(GuestNetwork(near)))
        wire = self._wire(guest, site)
        trunked = [link for link in network.links if link not in near]
        for agent in wire.agents if trunked else ():
            agent_links = tuple(link for link in trunked if wire.at(link.role, link.place) is agent)
            agent.ask(peer_request(GuestNetwork(agent_links)))
        configured = guest.agent.ask(network_request(network))
        names = {interface.mac: interface.name for interface in configured.interfaces if interface.mac is not None}
        link = network.marks
        for each in network.links:
            await_path(guest.peer if each in near else wire.at(each.role, each.place), each)
        name, measuring = names[link.guest_mac] if link else "", self.observer.measuring
        timekeeper = Timekeeper(guest.agent, guest.peer, link, name, identifier, measuring=measuring)
        endpoints = site.network.endpoint_interfaces(network)
        sink_hosts = (wire.of_sink or (wire.sink,)) if len(wire.agents) > 1 else ()
        return timekeeper, HopReader(
            peer=wire.generator,
            guest=guest.agent,
            lab=site.counters,
            network=network,
            guest_names=names,
            endpoints=endpoints,
            of_sink=sink_hosts,
            of_source=wire.of_source,
            enabled=counters,
        )

    def _wire(self, guest: Guest, site: Site) -> TrafficAgents:
        """Who generates and counts for a guest: its peer, or the testbed's other hosts."""
        return site.far.ends if site.far else TrafficAgents.of_one(guest.peer)
