"""How many idle guests fit: started one after another until a stated budget of the host's memory is gone.

Main types: ``MemoryReading`` (the host's memory and the guests' at one moment). Every step is stored as it was read;
slopes are made by ``stats/consolidation.py``. The guests have no links, are not pinned and are not parked: idle is what
they are by themselves. The host is never brought to swap or to kill: a start that could take it below its reserve is
not tried. If memory runs out all the same, the kernel kills the lab's processes first.
"""

from __future__ import annotations

import contextlib
import itertools
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from virtoll.agent.operations.session import ClocksRequest
from virtoll.errors import GuestError
from virtoll.experiment.model import ConsolidationBudget, Experiment, Parameters, PlatformChoice
from virtoll.host.guest_usage import available_bytes, read_footprint, swapped_out_pages
from virtoll.lab import interrupts
from virtoll.lab.network import GuestNetwork
from virtoll.pipeline.progress import Progress
from virtoll.pipeline.requirements import RESERVE_BYTES
from virtoll.pipeline.session import RunSession
from virtoll.platforms.base import Guest, GuestRequest, GuestStartError, Platform
from virtoll.platforms.limits import limit
from virtoll.runfolder.guest_records import Budget, ConsolidationRecord
from virtoll.runfolder.store import RunFolder

_MIB = 2**20
_MONITORS_BYTES = 256 * _MIB  # what a machine's monitor may take besides the machine's memory
_KILLED_FIRST = "1000"


@dataclass(frozen=True)
class MemoryReading:
    """Bytes that the host has available, and that all guests' processes and what they share hold.

    None: not reported.
    """

    available: int | None
    processes: int | None
    shared: int | None
    swapped_out_pages: int | None


@dataclass
class Series:
    """The guests of one platform while they are counted."""

    choice: PlatformChoice
    experiment: Experiment
    budget: ConsolidationBudget
    folder: RunFolder
    session: RunSession
    driver: Platform[Parameters]
    guests: list[Guest] = field(default_factory=list)
    first: MemoryReading | None = None
    largest_step: int = 0

    def run(self, progress: Progress) -> None:
        """Start guests until a reason is found to start no more; end them all."""
        try:
            while True:
                before = self.read()
                self.first = before if self.first is None else self.first
                reason = self.why_no_more(before)
                if reason is not None:
                    self._store("stopped", reason, before, before, None)
                    return
                progress.message(f"{self.choice.label}: idle guest {len(self.guests) + 1}")
                if not self._add(before):
                    return
        finally:
            for guest in reversed(self.guests):
                try:
                    guest.stop()
                except (GuestError, OSError) as error:
                    progress.message(f"the end of a guest: {error}")

    def refuse(self, reason: str) -> None:
        """Store why no guest of this platform is tried."""
        now = self.read()
        self._store("stopped", reason, now, now, None)

    def read(self) -> MemoryReading:
        """The host's memory and the guests' now."""
        held: list[int | None] = []
        shared: dict[int, int | None] = {}
        for guest in self.guests:
            place = guest.host_processes()
            footprint = read_footprint(place) if place is not None else None
            held.append(footprint.held_bytes() if footprint else None)
            for process in itertools.chain(*footprint.shared.values()) if footprint else ():
                shared[process.pid] = (
                    process.pss_bytes + process.page_tables_bytes
                    if process.pss_bytes is not None and process.page_tables_bytes is not None
                    else None
                )
        return MemoryReading(available_bytes(), _total(held), _total(list(shared.values())), swapped_out_pages())

    def why_no_more(self, now: MemoryReading) -> str | None:
        """Why no further guest is started: the budget, the number, or the host's own safety. None: go on."""
        if len(self.guests) >= self.budget.guests:
            return f"there are as many guests as were asked for ({self.budget.guests})"
        taken = self.taken(now)
        if max(taken, now.processes or 0) >= self.budget.memory:
            return f"the budget of {self.budget.memory // _MIB} MiB is gone"
        if now.available is None:
            return "this host does not say how much memory is available; a kernel of at least 3.14 does"
        need = max(self.experiment.memory_bytes + _MONITORS_BYTES, 2 * self.largest_step)
        if now.available - need < RESERVE_BYTES:
            return f"another guest could bring the host below its reserve of {RESERVE_BYTES // _MIB} MiB"
        before = self.first.swapped_out_pages if self.first else None
        if before is not None and now.swapped_out_pages is not None and now.swapped_out_pages > before:
            return "the host has begun to swap"
        return None

    def taken(self, now: MemoryReading) -> int:
        """By how much less memory the host has available than before the first guest; 0 where it does not say."""
        if self.first is None or self.first.available is None or now.available is None:
            return 0
        return self.first.available - now.available

    def _add(self, before: MemoryReading) -> bool:
        """Start one more guest and store the step; False where it did not start, which ends the series."""
        name = f"{self.choice.label}/consolidation/{len(self.guests) + 1}"
        request = GuestRequest(
            name,
            self.experiment.vcpus,
            self.experiment.memory_bytes,
            (),
            GuestNetwork(()),
            cpu_quota=self.experiment.cpu_quota,
        )
        try:
            guest = self.driver.start(limit(request, self.choice.parameters), self.session.site_of(self.choice))
        except (GuestError, OSError) as error:
            interrupts.check()
            files = error.evidence if isinstance(error, GuestStartError) else {}
            return self._end_with(f"guest {len(self.guests) + 1} did not start: {error}", before, files)
        self.guests.append(guest)
        for number, member in enumerate(self.guests, start=1):
            try:
                member.agent.ask(ClocksRequest())
            except GuestError as error:
                interrupts.check()
                ended = f"guest {number} of {len(self.guests)} does not answer any more: {error}"
                return self._end_with(ended, before, member.evidence(), lost=1)
        after = self.read()
        if before.available is not None and after.available is not None:
            self.largest_step = max(self.largest_step, before.available - after.available)
        self._store("ok", None, before, after, guest)
        return True

    def _end_with(self, reason: str, before: MemoryReading, files: Mapping[str, bytes], lost: int = 0) -> bool:
        """Store why the series ends, with the evidence; False, as of ``_add``. ``lost``: guests that ended."""
        evidence = self.folder.keep_evidence(f"consolidation-{self.choice.label}", files)
        self._store("failed", reason, before, self.read(), None, evidence, lost=lost)
        return False

    def _store(
        self,
        status: Literal["ok", "failed", "stopped"],
        reason: str | None,
        before: MemoryReading,
        after: MemoryReading,
        guest: Guest | None,
        evidence: tuple[str, ...] = (),
        *,
        lost: int = 0,
    ) -> None:
        running = len(self.guests) - lost
        self.folder.append(
            ConsolidationRecord(
                platform=self.choice.label,
                step=running + (status != "ok"),
                status=status,
                reason=reason,
                guests=running,
                monotonic_ns=time.monotonic_ns(),
                available_before_bytes=before.available,
                available_bytes=after.available,
                processes_bytes=after.processes,
                shared_bytes=after.shared,
                swap_out_pages=after.swapped_out_pages,
                spawn_monotonic_ns=guest.spawned_monotonic_ns if guest else None,
                ready_monotonic_ns=guest.ready_monotonic_ns if guest else None,
                budget=Budget(int(self.budget.memory), self.budget.guests),
                evidence=evidence,
            )
        )


def measure(
    experiment: Experiment,
    folder: RunFolder,
    session: RunSession,
    platforms: Mapping[str, type[Platform[Parameters]]],
    progress: Progress,
) -> None:
    """A series for each platform that has none in the folder yet that came to its end."""
    budget = experiment.consolidation
    if budget is None:
        raise ValueError("an experiment of the scenario consolidation is expected")
    ended = {record.platform for record in folder.consolidation() if record.status != "ok"}
    entries = {entry.label: entry for entry in folder.manifest.platforms}
    for choice in experiment.platforms:
        if choice.label in ended:
            continue
        driver = platforms[choice.platform].with_parameters(choice.parameters)
        series = Series(choice, experiment, budget, folder, session, driver)
        entry = entries[choice.label]
        if entry.available:
            series.run(progress)
        else:
            series.refuse(f"not available: {entry.reason}")


def many_guests() -> None:
    """What is started from here may be many: it is what the kernel ends first when memory runs out."""
    _be_killed_first()
    _allow_many_files()


def _total(parts: Sequence[int | None]) -> int | None:
    """The sum; None where a part is not known; 0 of nothing."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _be_killed_first() -> None:
    """Whatever is started from here is what the kernel ends first when memory runs out, and never the host's own."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_KILLED_FIRST, encoding="ascii")


def _allow_many_files() -> None:
    """Each guest holds a few of this process's file descriptors."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
