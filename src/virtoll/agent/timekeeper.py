"""The clock outside the guest: marks, the path's delay, and an estimate of each duration's error.

Guests' clocks are not to be believed (Mattos et al. 2012, III.A). The guest sends an ICMP echo request on a link that
carries nothing else at the start and at the end of each job. The kernel of the peer's namespace stamps their arrival.
Where a guest has no such link, the same marks over the agent's channel do, stamped when they are read.

After the start mark the guest sleeps for ``PAUSE_NS``: a job that begins at once can keep the CPU from who carries the
mark. It measures the pause by its own clock, and the duration is without that share of it
(``runfolder.records.duration_ns``). Nothing outside the guest sees when the pause ends. So a guest that reports a
longer pause than it was to make is believed no further than 50 ms or a tenth of the duration: what is too much adds
to the error, and more makes the trial invalid. The agent marks and pauses once more if it woke up late; the last start
counts.

A mark travels for a time between zero and one whole round trip, as long as the path is as it was when it was tried. It
may not be, so that this bounds nothing: ``error_estimate_ns`` is the largest round trip seen, or the difference of the
durations by both kinds of marks where that is larger. Nothing is subtracted: it stands beside the value.
Marks on the channel are stamped by this process. On a busy host a late wake-up can exceed what the path showed, which
is one more reason to give a guest its link.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from virtoll.agent.client import Caller, ChannelMark
from virtoll.agent.operations.jobs import MarkLink, RunRequest
from virtoll.agent.operations.session import ClocksRequest
from virtoll.agent.operations.timekeeping import MarksRequest, PathDelayRequest, TimekeeperStartRequest
from virtoll.errors import GuestError
from virtoll.lab.network import Link
from virtoll.runfolder.records import Clock, GuestClock, Marks, duration_ns


class StartBarrier(Protocol):
    """Where guests that are measured at once wait for each other; ``pause_ns``: from the start mark to the job."""

    pause_ns: int

    def start(self) -> int:
        """Wait until all are there; in how many ns from now all begin."""
        ...

    def finish(self) -> None:
        """Wait until all have ended, so that nothing disturbs one that still works."""
        ...


Measuring = Callable[[], contextlib.AbstractContextManager[None]]
"""Gives a context around one request whose answer is what is measured."""
PATH_DELAY_SAMPLES = 10
# Between the start mark and the job; `benches/marks.py` shows what it takes.
PAUSE_NS = 10_000_000
# A pause may be this much longer than requested, besides the path's round trip; beyond it, it is worth a tenth at most.
_PAUSE_SLACK_NS = 1_000_000
_MOST_EXCESS = 0.1
# A busy host wakes a guest so much too late, which it reports truly: that is in the error, and makes no trial invalid.
_LATE_NS = 50_000_000
# A guest that is emulated on a busy host answers late; who answers at once pays nothing for them.
_ECHO_TIMEOUT_NS = 5_000_000_000
_MARK_DEADLINE_NS = 10_000_000_000
_PATH_DEADLINE_SECONDS = 120.0
_PATH_ECHO_TIMEOUT_NS = 250_000_000


@dataclass(frozen=True)
class TimedJob:
    """One job's result with its clock readings, both as ``docs/run-folder.md`` stores them.

    ``problem`` makes the trial invalid.
    """

    clock: Clock
    result: dict[str, Any]
    check: str
    problem: str | None


class Timekeeper:
    """Times jobs of one guest; ``link`` is the guest's link for marks, or None where it has none."""

    def __init__(
        self,
        guest: Caller,
        peer: Caller,
        link: Link | None,
        guest_interface: str,
        identifier: int,
        measuring: Measuring = contextlib.nullcontext,
        *,
        pause_ns: int = PAUSE_NS,
    ) -> None:
        """Start to listen on the link's peer end.

        ``guest_interface`` is the link's name inside the guest; ``identifier`` (16 bits) separates its marks from
        others'. ``measuring`` is entered around each request whose answer is measured.
        """
        self.measuring = measuring
        self._pause_ns = pause_ns
        self._guest = guest
        self._peer = peer
        self._link = link
        self._guest_interface = guest_interface
        self._identifier = identifier
        self._sequence = 0
        self._start_line: StartBarrier | None = None
        if link is not None:
            peer.ask(TimekeeperStartRequest(interface=link.peer_interface))

    @contextlib.contextmanager
    def together(self, line: StartBarrier) -> Iterator[None]:
        """Within the context its jobs begin when those of all guests at the line do."""
        self._start_line = line
        try:
            yield
        finally:
            self._start_line = None

    @contextlib.contextmanager
    def also(self, measuring: Measuring) -> Iterator[None]:
        """Within the context this is entered as well around each request whose answer is measured."""
        outer = self.measuring

        @contextlib.contextmanager
        def both() -> Iterator[None]:
            with measuring(), outer():
                yield

        self.measuring = both
        try:
            yield
        finally:
            self.measuring = outer

    def path_delay_ns(self) -> tuple[int, ...]:
        """Round trips on the path that the marks take, in the outside clock, ns."""
        if self._link is None:
            return tuple(self._channel_round_trip_ns() for _ in range(PATH_DELAY_SAMPLES))
        reply = self._peer.ask(
            echo_request(self._link, PATH_DELAY_SAMPLES, _ECHO_TIMEOUT_NS),
            deadline_seconds=PATH_DELAY_SAMPLES * _ECHO_TIMEOUT_NS / 1e9 + 5,
        )
        return reply.round_trip_ns

    def time_job(
        self, job: str, parameters: Mapping[str, object], deadline_seconds: float, repeats: int = 1
    ) -> TimedJob:
        """Run a built-in job between two marks; a missing mark or path delay is named in ``problem``.

        So are marks that arrived together: a serial line that was not read for longer than the job took brings both.
        """
        before = self.path_delay_ns()
        self._guest.channel_marks.clear()
        request = RunRequest(job=job, parameters=dict(parameters), marks=self._mark_link(), pause_ns=self._pause_ns)
        if repeats > 1:
            request = request.replace(repeats=repeats)
        line = self._start_line
        with self.measuring():
            if line is not None:
                request = request.replace(pause_ns=line.pause_ns, delay_ns=line.start())
            reply = self._guest.ask(request, deadline_seconds)
            if line is not None:
                line.finish()
        channel = {mark.edge: mark for mark in list(self._guest.channel_marks)}
        marks, step = self._marks_from_link(self._link) if self._link is not None else _marks_from_channel(channel)
        after = self.path_delay_ns()
        channel_marks, channel_step = _marks_from_channel(channel)
        own_ns, channel_ns = _between(marks, step), _between(channel_marks, channel_step)
        errors = [*before, *after]
        if errors and own_ns is not None and channel_ns is not None:
            errors.append(abs(own_ns - channel_ns))
        excess_ns = _excess_of_pause_ns(reply.guest, own_ns, request.pause_ns + max([*before, *after], default=0))
        clock = Clock(
            method="icmp" if self._link is not None else "channel",
            marks=marks,
            channel_marks=channel_marks,
            realtime_step_ns=step,
            path_delay_before_ns=before,
            path_delay_after_ns=after,
            error_estimate_ns=max(errors) + excess_ns if errors else None,
            guest=reply.guest,
        )
        problem = _problem(clock, own_ns, request.pause_ns, excess_ns)
        return TimedJob(clock, dict(reply.result), reply.check, problem)

    def _mark_link(self) -> MarkLink | None:
        if self._link is None:
            return None
        self._sequence = (self._sequence + 2) % 0xFFFE
        return MarkLink(
            interface=self._guest_interface,
            source=self._link.guest_address,
            target=self._link.peer_address,
            target_mac=self._link.peer_mac,
            identifier=self._identifier,
            first_sequence=self._sequence,
        )

    def _marks_from_link(self, link: Link) -> tuple[Marks | None, int]:
        """Start and end in the outside clock, and how far that clock was stepped between them, ns."""
        request = MarksRequest(
            interface=link.peer_interface, identifier=self._identifier, wait_for=2, timeout_ns=_MARK_DEADLINE_NS
        )
        reply = self._peer.ask(request, deadline_seconds=_MARK_DEADLINE_NS / 1e9 + 5)
        by_sequence = {mark.sequence: mark for mark in reply.marks}
        start, end = by_sequence.get(self._sequence), by_sequence.get(self._sequence + 1)
        if start is None or end is None:
            return None, 0
        step = _step_ns(end.realtime_minus_monotonic_ns - start.realtime_minus_monotonic_ns)
        return Marks(start.received_realtime_ns, end.received_realtime_ns), step

    def _channel_round_trip_ns(self) -> int:
        start = time.monotonic_ns()
        self._guest.ask(ClocksRequest())
        return time.monotonic_ns() - start


def time_outside(
    agent: Caller, job: str, parameters: Mapping[str, object], deadline_seconds: float, measuring: Measuring
) -> TimedJob:
    """A job of an agent that is itself outside the guest, such as a client beside the peer, by its channel's marks.

    Nothing of a guest is between it and the clock, so that it pauses not, and its own clock is no guest's to be told.
    """
    timed = Timekeeper(agent, agent, None, "", 0, measuring, pause_ns=0).time_job(job, parameters, deadline_seconds)
    return replace(timed, clock=timed.clock.replace(guest=None))


def echo_request(link: Link, count: int, timeout_ns: int) -> PathDelayRequest:
    """So many echo requests from the peer to the guest on this link."""
    return PathDelayRequest(
        interface=link.peer_interface,
        source=link.peer_address,
        target=link.guest_address,
        target_mac=link.peer_next_hop_mac,
        count=count,
        timeout_ns=timeout_ns,
    )


def await_path(peer: Caller, link: Link) -> None:
    """Wait until the guest answers an echo on a link: a carrier is not yet a path.

    QEMU's e1000, for one, takes in no frame for a second of its own time after its driver switched it on or changed its
    filters.
    """
    deadline = time.monotonic() + _PATH_DEADLINE_SECONDS
    while time.monotonic() < deadline:
        if peer.ask(echo_request(link, 1, _PATH_ECHO_TIMEOUT_NS)).round_trip_ns:
            return
    raise GuestError(f"its link {link.name} answered no echo within {_PATH_DEADLINE_SECONDS:g} s")


def _step_ns(offset_change_ns: int) -> int:
    """A step of the outside clock: a change of its offset to the monotonic one that reading both cannot explain (1 ms).

    Both clocks are slewed alike, so their offset changes only when the real-time clock is set.
    """
    return offset_change_ns if abs(offset_change_ns) >= 1_000_000 else 0


def _between(marks: Marks | None, step_ns: int) -> int | None:
    return None if marks is None else marks.end_ns - marks.start_ns - step_ns


def _problem(clock: Clock, between_ns: int | None, pause_ns: int, excess_ns: int) -> str | None:
    """Why a duration cannot be believed; None: it can. ``pause_ns``: as requested, ``excess_ns``: of the one made."""
    made_ns = 0
    if clock.guest is not None:
        made_ns = clock.guest.pause_ns
    if clock.marks is None:
        return "a mark of the job's start or end did not reach the timekeeper; the duration is not known"
    # The guest slept for `pause_ns` between them, by a clock of its own that may run fast.
    if between_ns is not None and 2 * between_ns <= made_ns:
        return "both marks of the job reached the timekeeper at once: the first was held up; the duration is not known"
    if excess_ns > max(_LATE_NS, _MOST_EXCESS * (duration_ns(clock) or 0)):
        return (
            f"the guest reported a pause of {round(made_ns / 1e6, 1):g} ms before its job, where {pause_ns / 1e6:g} ms "
            "were requested: what that takes off the duration cannot be checked; measure on a less busy host, or a "
            "longer job"
        )
    if not clock.path_delay_before_ns or not clock.path_delay_after_ns:
        return "the path to the timekeeper answered no echo; the error of the duration is not known"
    return None


def _excess_of_pause_ns(guest: GuestClock, outside_ns: int | None, most_ns: int) -> int:
    """By how much the pause that the guest reports is longer than ``most_ns`` and the slack, in the outside clock."""
    guest_ns = guest.between_marks_ns
    if outside_ns is None or guest_ns <= 0:
        return 0
    return max(0, guest.pause_ns * outside_ns // guest_ns - most_ns - _PAUSE_SLACK_NS)


def _marks_from_channel(channel: dict[str, ChannelMark]) -> tuple[Marks | None, int]:
    if "start" not in channel or "end" not in channel:
        return None, 0
    start, end = channel["start"], channel["end"]
    step = _step_ns((end.realtime_ns - end.monotonic_ns) - (start.realtime_ns - start.monotonic_ns))
    return Marks(start.realtime_ns, end.realtime_ns), step
