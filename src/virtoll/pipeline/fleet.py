"""The guests of one block: all started before its first trial, parked between trials, ended after its last.

Main type: ``Fleet`` (hands out, replaces and gives up guests). A block is one boot of each platform, so that the
variation from boot to boot is inside the interval and not hidden below it. It is more than one if a guest is lost, or
is ended because the host's memory does not hold all.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Self

from virtoll.errors import AgentError, GuestDied, GuestError, NeighbourFailed
from virtoll.experiment.model import Experiment, PlatformChoice, WorkloadChoice
from virtoll.experiment.plan import Trial
from virtoll.host.guest_usage import available_bytes
from virtoll.pipeline.guest_pool import GuestPool, Role
from virtoll.pipeline.guest_start import GuestStarts
from virtoll.pipeline.live_guest import LiveGuest, Placement, Slot
from virtoll.pipeline.pinning import cpus_at_once
from virtoll.pipeline.threads import at_once
from virtoll.platforms.host import Site
from virtoll.platforms.last_words import with_last_words
from virtoll.runfolder.conditions import Affinity, Condition
from virtoll.runfolder.scale import GroupRecord, ScalePoint

_STARTS_PER_BLOCK = 3
_REFUSALS_PER_BLOCK = 2  # a second try, since what refused may have been a busy host
_GROUPS_PER_BLOCK = 2  # a second try, since one of many guests may have failed of a busy host


@dataclass
class Fleet:
    """The guests of one block; a context manager. A guest that dies is started anew, at most three times a block.

    A guest whose agent answers a workload with an error is started anew too, since the job may have left something
    behind. That start is not one of the three, and a workload that was answered so twice is not tried again: it costs
    its own trials, and not those of the other workloads.
    Guests that hold memory which another needs now are ended, and started anew when they are next asked for. That start
    is not one of the three either.
    ``site_of`` gives the host of a platform's guests, or raises a ``GuestError``.
    """

    experiment: Experiment
    block: tuple[Trial, ...]
    site_of: Callable[[PlatformChoice], Site]
    starts: GuestStarts
    _absent: dict[str, str] = field(default_factory=dict)
    _refusals: Counter[tuple[str, WorkloadChoice]] = field(default_factory=Counter)

    @property
    def pool(self) -> GuestPool:
        """The guests that are up."""
        return self.starts.pool

    def __enter__(self) -> Self:
        """Start one guest of each platform that has a trial in this block, in the plan's order, and park it.

        Those of a group are started when it is first asked for. What ends the run meanwhile ends the guests that are up
        already.
        """
        with contextlib.ExitStack() as undo:
            undo.callback(self.pool.end_all)
            for choice in dict.fromkeys(trial.platform for trial in self.block if trial.scale is None):
                self._start(choice, Role("measured", choice.label), Slot())
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every guest; what it holds of the host's memory is read once more before."""
        try:
            for live in self.pool.everyone("measured", "at once") if kind is None else ():
                self.starts.append_footprint(live, "after-work")
        finally:
            self.pool.end_all()

    def guest(self, label: str) -> LiveGuest | None:
        """The platform's guest, started anew when the last one was lost.

        None when it is unavailable (``why_absent``).
        """
        role = Role("measured", label)
        up = self.pool.of(role)
        if up:
            self.pool.make_room(up[0].site, up[0].place.memory_bytes, (label,), up=up[0])
        elif self.pool.tries[role] < _STARTS_PER_BLOCK:
            self._start(self._choice_of(label), role, Slot())
        return up[0] if up else None

    def up(self, label: str) -> list[LiveGuest]:
        """The platform's guest if it is up; none is started."""
        return list(self.pool.of(Role("measured", label)))

    def guests(self, label: str, count: int, affinity: Affinity = "shared") -> tuple[LiveGuest, ...]:
        """The platform's guest and ``count`` - 1 more beside it, started when they are first needed and kept parked.

        Those that are not pinned are all others than the platform's guest, which is. Empty when not all of them are
        available (``why_absent``).
        """
        first = self.guest(label)
        if first is None:
            return ()
        choice = self._choice_of(label)
        if choice.parameters.pre_provisioned:
            if count == 1:
                return (first,)
            self._absent[label] = f"it is one guest that is there already, and {count} side by side are needed"
            return ()
        places = self.starts.requests.side_by_side(choice, first.site, affinity, count)
        if places is None:
            self._absent[label] = f"its host has too few CPUs for {count} guests on CPUs of their own"
            return ()
        pinned = () if affinity == "unpinned" else (first,)
        role, tries = Role("side by side", label, affinity), Role("side by side", label)
        others = self.pool.of(role)
        for place in places[len(pinned) + len(others) :]:
            if self.pool.tries[tries] >= _STARTS_PER_BLOCK:
                return ()
            if not self._start(choice, role, Slot(len(others) + 1, place, affinity=affinity)):
                self.pool.tries[tries] += 1
                return ()
        return (*pinned, *others)[:count]

    def neighbours(self, label: str, condition: Condition) -> tuple[LiveGuest, ...]:
        """The guests beside the platform's under a condition, started when they are first needed and kept parked.

        ``NeighbourFailed`` if one cannot be started, ``GuestCannot`` if its host has too few CPUs for it.
        """
        role = self._neighbours(label, condition)
        choice = self._choice_of(role.label)
        neighbours = self.pool.of(role)
        while len(neighbours) < condition.guests:
            cause = f"it failed {_STARTS_PER_BLOCK} times in this block, and is not tried again"
            if self.pool.tries[role] < _STARTS_PER_BLOCK:
                if self._start(choice, role, Slot(len(neighbours) + 1, role.place, neighbour_of=label)):
                    continue
                cause = self._absent.pop(choice.label, "it could not be started")
            raise NeighbourFailed(condition.guest(len(neighbours) + 1), GuestError(cause))
        return tuple(neighbours[: condition.guests])

    def _neighbours(self, label: str, condition: Condition) -> Role:
        choice = self._choice_of(condition.platform or label)
        site = None if choice.host is None else self.site_of(choice)
        return Role("neighbour", choice.label, place=self.starts.requests.neighbours(choice, condition, site))

    def _choice_of(self, label: str) -> PlatformChoice:
        return next(choice for choice in self.experiment.platforms if choice.label == label)

    def lose_neighbours(self, label: str, condition: Condition, folder_name: str) -> tuple[str, ...]:
        """Guests beside the platform's failed: keep their evidence, end all that are alike, and give its paths."""
        role = self._neighbours(label, condition)
        self.pool.tries[role] += 1
        paths: tuple[str, ...] = ()
        for number, live in enumerate(self.pool.take(role), start=1):
            with live.site.awake():
                paths += self.starts.folder.keep_evidence(f"{folder_name}-neighbour-{number}", live.guest.evidence())
            self.pool.end(live)
        return paths

    def group(self, choice: PlatformChoice, point: ScalePoint) -> tuple[LiveGuest, ...]:
        """So many guests of one platform, started at the same time when they are first needed, and kept parked.

        Empty when not all of them are available (``why_absent``). Virtoll's own part of each start, such as its link,
        comes one after another; what it then waits for goes on for all of them at once.
        """
        role = Role("at once", choice.label)
        group = self.pool.of(role)
        if group or self.pool.tries[role] >= _GROUPS_PER_BLOCK:
            return tuple(group)
        self.pool.tries[role] += 1
        self._absent.pop(choice.label, None)
        slots = self._group_slots(point)
        before, began_ns = available_bytes(), time.monotonic_ns()
        at_once([partial(self._start, choice, role, slot) for slot in slots])
        group.sort(key=lambda live: live.instance)
        whole = len(group) == point.guests
        for live in group if whole else ():
            self.starts.append_footprint(live, "idle")
        self.starts.folder.append(
            GroupRecord(
                platform=choice.label,
                block=self.block[0].block,
                scale=point,
                status="ok" if whole else "failed",
                reason=None if whole else self._absent[choice.label],
                boots=tuple(live.boot for live in group),
                began_monotonic_ns=began_ns,
                up_monotonic_ns=max(live.guest.ready_monotonic_ns for live in group) if whole else None,
                available_before_bytes=before,
                available_idle_bytes=available_bytes() if whole else None,
            )
        )
        if not whole:
            self.pool.end_role(role)
        return tuple(self.pool.of(role))

    def _group_slots(self, point: ScalePoint) -> list[Slot]:
        affinity = "unpinned" if self.experiment.scale is None else self.experiment.scale.affinity
        cpus = cpus_at_once(affinity, point.guests, point.vcpus)
        if cpus is None:
            raise ValueError(f"{point.label} do not fit on this host's CPUs")  # requirements.py left none
        places = (Placement(guest_cpus, point.vcpus, point.memory_bytes) for guest_cpus in cpus)
        return [Slot(number, place, point) for number, place in enumerate(places)]

    def lose_group(
        self, label: str, workload: WorkloadChoice, error: NeighbourFailed, folder_name: str
    ) -> tuple[str, ...]:
        """One of a group failed in a trial of this workload: keep its evidence, end all, and give the paths."""
        role = Role("at once", label)
        if isinstance(error.cause, AgentError):
            self._refusals[label, workload] += 1
            self.pool.tries[role] -= 1
        self._absent[label] = f"its guests were lost and not started again: {error}"
        paths: tuple[str, ...] = ()
        for number, live in enumerate(self.pool.of(role), start=1):
            if number == error.number:
                paths = self.starts.folder.keep_evidence(folder_name, live.guest.evidence())
        self.pool.end_role(role)
        return paths

    def why_absent(self, label: str) -> str:
        """Why ``guest`` gave None, in one sentence."""
        return self._absent.get(label, "its guest could not be started")

    def has_refused(self, label: str, workload: WorkloadChoice) -> bool:
        """Whether a guest of the platform answered this workload with an error in this block."""
        return self._refusals[label, workload] > 0

    def refuses(self, label: str, workload: WorkloadChoice) -> str | None:
        """Why this workload is not tried again with the platform in this block, in one sentence; None if it is."""
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
        role = Role("measured", label)
        reason = str(error)
        lost = self.pool.take(role)
        self._absent[label] = f"its guest was lost and not started again: {reason}"
        if not lost:
            return reason, ()
        (live,) = lost
        if isinstance(error, AgentError):
            self._refusals[label, workload] += 1
            self.pool.tries[role] -= 1
        with live.site.awake():
            evidence = live.guest.evidence()
            if isinstance(error, GuestDied):
                reason = with_last_words(reason, evidence)
                self._absent[label] = f"its guest was lost and not started again: {reason}"
            paths = self.starts.folder.keep_evidence(folder_name, evidence)
            for number, other in enumerate(self.pool.take_side_by_side(label), start=1):
                paths += self.starts.folder.keep_evidence(f"{folder_name}-beside-{number}", other.guest.evidence())
                self.pool.end(other)
            self.pool.end(live)
        return reason, paths

    def _start(self, choice: PlatformChoice, role: Role, slot: Slot) -> bool:
        """Start one guest on its host, into the pool; False if that fails (``why_absent``)."""
        try:
            site = self.site_of(choice)
        except GuestError as error:
            self._absent[choice.label] = f"its host is unavailable: {error}"
            return False
        if slot.neighbour_of and site.far:  # only the first neighbour has NICs of a testbed
            site = replace(site, far=site.far.neighbour if slot.instance == 1 else None)
        if role.use != "at once":  # a group has been found to fit before anything was started
            place = slot.place or self.starts.requests.place(choice, site)
            kept = (choice.label,) if slot.neighbour_of is None else (choice.label, slot.neighbour_of)
            self.pool.make_room(site, place.memory_bytes, kept, slot.affinity)
        if role.use == "measured":
            self.pool.tries[role] += 1
        with site.awake():
            try:
                self.pool.of(role).append(self.starts.start(choice, site, slot))
            except GuestError as error:
                self._absent[choice.label] = str(error)
                return False
        return True
