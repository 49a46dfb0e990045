"""One workload in several guests at once: all begin at one moment, and what each of them did is stored.

Main types: ``Barrier`` (where they wait for each other), ``Outcome`` (of all of them). Each guest is measured as one
alone is, by a thread of its own: what a workload makes ready, its marks, its check. The jobs begin when every guest is
there. A guest that fails costs the trial and is named; guests that did not begin together make the trial invalid.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from virtoll import units
from virtoll.agent import turns
from virtoll.agent.hand_over import hand_over_around
from virtoll.agent.timekeeper import PAUSE_NS
from virtoll.errors import GuestCannot, GuestError
from virtoll.experiment.plan import Trial
from virtoll.lab import interrupts
from virtoll.pipeline.live_guest import LiveGuest, named, running
from virtoll.pipeline.session import RunSession
from virtoll.pipeline.threads import at_once
from virtoll.runfolder.hand_over import HandOverSpan
from virtoll.runfolder.records import GuestRun, duration_ns, start_skew_ns
from virtoll.runfolder.scale import ScalePoint
from virtoll.workloads import workload_of

MOST_SKEW: Final = 0.01
"""By what share of the shortest job the guests may begin apart."""
# From when all are there to the start: by then each must have read its request. A guest has as long from its start mark
# to its job as all marks together need, since a job that has begun keeps the CPU from them.
_LEAD_NS, _LEAD_NS_A_GUEST = 200_000_000, 20_000_000
_PAUSE_NS_A_GUEST = 2_000_000


class GuestLost(GuestError):
    """Another guest of those that are measured together failed, so that this one waits in vain."""


class Barrier:
    """Where so many guests wait for each other, before their jobs and after them; a ``timekeeper.StartBarrier``."""

    def __init__(self, guests: int) -> None:
        """All of them are to come."""
        self.pause_ns = PAUSE_NS + _PAUSE_NS_A_GUEST * (guests - 1)
        self._guests = guests
        self._there = threading.Condition()
        self._waiting = 0
        self._times = 0
        self._gone = False
        self._full_ns = 0

    def start(self) -> int:
        """Wait until all are there; in how many ns from now all begin."""
        self.meet()
        return max(1, self._full_ns + _LEAD_NS + _LEAD_NS_A_GUEST * self._guests - time.monotonic_ns())

    def finish(self) -> None:
        """Wait until all have ended."""
        self.meet()

    def leave(self) -> None:
        """One of them does not come: who waits, waits in vain."""
        with self._there:
            self._gone = True
            self._there.notify_all()

    def meet(self) -> None:
        """Wait until all are there, as often as they like."""
        with turns.given_up(), self._there:
            times = self._times
            self._waiting += 1
            if self._waiting == self._guests:
                self._waiting, self._times, self._full_ns = 0, times + 1, time.monotonic_ns()
                self._there.notify_all()
            while self._times == times and not self._gone:
                self._there.wait(turns.LOOK_SECONDS)
                interrupts.check()
            if self._times == times:
                raise GuestLost("another guest failed while this one waited for it")


@dataclass
class BarrierGroup:
    """The guests at a barrier, as one of them sees them; a ``workloads.base.GuestGroup``."""

    barrier: Barrier
    guests: int
    number: int

    def meet(self) -> None:
        """As ``Barrier``."""
        self.barrier.meet()


@dataclass(frozen=True)
class Outcome:
    """What all guests did; ``problem``: why it cannot be believed, or None.

    ``hand_over``: how far apart their CPUs were before and after; None: not read.
    """

    members: tuple[GuestRun, ...] = ()
    problem: str | None = None
    hand_over: HandOverSpan | None = None


@dataclass
class _Member:
    """One of the guests while it is measured; ``error``: what it failed of."""

    live: LiveGuest
    group: BarrierGroup
    error: GuestError | None = None
    run: GuestRun | None = field(default=None)


def measure_at_once(trial: Trial, point: ScalePoint, guests: Sequence[LiveGuest], session: RunSession) -> Outcome:
    """The trial's workload in all guests.

    ``NeighbourFailed`` names one that failed; ``AgentError`` says what they, being well, cannot do.
    """
    barrier = Barrier(len(guests))
    members = [_Member(live, BarrierGroup(barrier, len(guests), number)) for number, live in enumerate(guests)]
    readers = [live.hand_overs(session.pinning) for live in guests[1:]]
    reader = guests[0].hand_overs(session.pinning, readers)
    with running(guests, point.guest), hand_over_around(reader) as around:
        at_once([partial(_measure, trial, member, session) for member in members])
        for number, member in enumerate(members, start=1):
            if member.error is not None and not isinstance(member.error, GuestLost):
                with named(point.guest(number), number):
                    raise member.error
    runs = tuple(member.run for member in members if member.run is not None)
    return Outcome(runs, _problem(point, guests, runs), around.span)


def _measure(trial: Trial, member: _Member, session: RunSession) -> None:
    """One guest's part, in a thread of its own."""
    live, barrier, workload = member.live, member.group.barrier, workload_of(trial.workload)
    try:
        with live.host_cpu() as used, live.prepared(workload.name, workload.needs()) as lacking:
            if lacking is not None:
                raise GuestCannot(lacking)
            bench = replace(live.bench(session.pinning, session.tags), cpus=(), group=member.group)
            # Reading one guest's processes would disturb those that still work, so that it is done of one alone.
            read = used if member.group.guests == 1 else None
            counted = live.timekeeper.also(read.measuring) if read is not None else contextlib.nullcontext()
            with live.timekeeper.together(barrier), counted:
                outcome = workload.warm_up(bench) if trial.warm_up else workload.measure(bench)
    except GuestError as error:
        member.error = error
        return
    finally:
        barrier.leave()  # nobody waits for it any more: who is well has passed it as often as all others
    member.run = GuestRun(
        boot=live.boot,
        clock=outcome.clock,
        result=outcome.result,
        check=outcome.check,
        problem=outcome.problem,
        host_cpu=used.used if used is not None else None,
    )


def _problem(point: ScalePoint, guests: Sequence[LiveGuest], runs: Sequence[GuestRun]) -> str | None:
    """Why what they did together cannot be believed, in one sentence; None: it can."""
    for number, (live, run) in enumerate(zip(guests, runs, strict=True), start=1):
        if live.unlike:
            return f"{point.guest(number)} is not what was asked for: {'; '.join(live.unlike)}"
        if run.problem is not None:
            return f"{point.guest(number)}: {run.problem}"
    clocks = [run.clock for run in runs]
    skew_ns = start_skew_ns(clocks)
    shortest_ns = min((duration_ns(clock) or 0 for clock in clocks if clock is not None), default=0)
    if skew_ns is None or shortest_ns <= 0:
        return "when each guest began is not known"
    if skew_ns > MOST_SKEW * shortest_ns:
        return (
            f"the guests began {units.nanoseconds(skew_ns)} apart, {units.percent(skew_ns / shortest_ns)} of the "
            f"shortest job (at most {units.percent(MOST_SKEW)} is allowed): give the workload more to do"
        )
    return None
