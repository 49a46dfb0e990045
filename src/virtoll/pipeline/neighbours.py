"""The guests beside the measured one: their loads begin before a trial, are proven to run through it, and end with it.

Main types: ``Neighbours`` (the loads of a run), ``Loaded`` (those of one trial). A guest beside that fails costs that
trial and is named (``NeighbourFailed``); a load that cannot be shown to have run makes the trial invalid. What a guest
that forwards as a load forwards at most is found in the same boot, beside an idle guest as Schlosser et al. (2011) did,
and stored (``maxima.jsonl``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from virtoll.agent.client import TrafficAgents
from virtoll.agent.operations.programs import EndReply, EndRequest, ProgressRequest, SpawnRequest
from virtoll.agent.operations.session import ClocksRequest
from virtoll.agent.operations.traffic import TrafficStartRequest, TrafficStopRequest
from virtoll.agent.path_counters import read_counters
from virtoll.errors import GuestCannot, GuestError
from virtoll.lab.disks import DISKS
from virtoll.lab.inside import wait_until
from virtoll.pipeline.live_guest import LiveGuest, named, running
from virtoll.pipeline.progress import Progress
from virtoll.pipeline.session import RunSession
from virtoll.platforms.base import DATA_PATH
from virtoll.runfolder.conditions import TRAFFIC_LOADS, Condition, MaximumRecord, NeighbourRecord
from virtoll.runfolder.conditions import Progress as ProgressRecord
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.traffic_records import Point
from virtoll.workloads.base import Bench
from virtoll.workloads.forward import stream_through
from virtoll.workloads.loads import (
    FLOOD_SHARE,
    MOST_TRAFFIC_FRAMES,
    MOST_TRAFFIC_NS,
    PROGRAM_LOADS,
    SAMPLE_NS,
    WAKE_NS,
    Place,
    data_bytes_of,
    gone_still,
    not_sent_through,
)
from virtoll.workloads.programs import GUEST_ENVIRONMENT, GUEST_HOME, last_line
from virtoll.workloads.retakes import retaken_unobserved
from virtoll.workloads.starvation import why_no_result
from virtoll.workloads.sweep import SweepParameters, source_rate, sweep
from virtoll.workloads.traffic import send

# How what a guest forwards at most is found. Small frames cost a router the most for a byte; these are the smallest of
# Schlosser et al. 2011, who count 64 bytes without FCS.
MAXIMUM_SWEEP: Final = SweepParameters(
    frame_size_bytes=68, sweep="from-flat-out", first_rate_frames_per_second=1000, point_milliseconds=200
)
_NAME = "load"
_LOG = "/tmp/virtoll-load"  # noqa: S108 - in the guest, where nobody else is
_LOG_BYTES = 4096
_BEGINS_SECONDS = 60.0
_ENDS_SECONDS, _ANSWER_SECONDS = 5.0, 60.0


@dataclass
class Loaded:
    """The loads of one trial, once they have ended; ``problem``: why one cannot be believed, or None."""

    records: tuple[NeighbourRecord, ...] = ()
    problem: str | None = None


@dataclass
class Neighbours:
    """The loads of a run; ``session`` has who generates traffic for them."""

    session: RunSession
    folder: RunFolder
    progress: Progress
    _maxima: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def loaded(self, guests: Sequence[LiveGuest], condition: Condition | None) -> Iterator[Loaded]:
        """The guests run with their load within the context, and are parked again after an orderly end.

        ``NeighbourFailed`` where one of them fails. Whatever else fails within, the loads end.
        """
        loaded = Loaded()
        if condition is None:
            yield loaded
            return
        loads = [self._load(live, condition, condition.guest(number)) for number, live in enumerate(guests, start=1)]
        records: list[NeighbourRecord] = []
        with contextlib.ExitStack() as undo:
            for load in loads:
                with named(load.who):
                    undo.callback(_parked, load.live)
                    load.live.guest.resume()
                    load.live.guest.agent.ask(ClocksRequest())
                    undo.callback(load.abandon)
                    load.begin()
            begun = [_moment(load) for load in loads]
            yield loaded
            ended = [_moment(load) for load in loads]
            for load, window in zip(loads, zip(begun, ended, strict=True), strict=True):
                with named(load.who):
                    record, problem = load.end(window)
                    load.live.guest.park()
                records.append(record)
                if problem is not None and loaded.problem is None:
                    loaded.problem = f"{load.who} was not loaded throughout: {problem}"
            undo.pop_all()
        loaded.records = tuple(records)

    def _load(self, live: LiveGuest, condition: Condition, who: str) -> _Load:
        if condition.load in TRAFFIC_LOADS:
            bench = self._bench(live)
            with named(who):
                maximum = self._maximum(live, bench)
            share = condition.rate_share or FLOOD_SHARE
            return _Traffic(live, who, bench, maximum, share, counted=not self.session.site.is_model)
        program = PROGRAM_LOADS.get(condition.load)
        if program is None:
            return _Idle(live, who)
        if data_bytes_of(condition.load):
            _refuse_memory(live, who)
        folder = DATA_PATH if live.data is not None else GUEST_HOME
        return _Program(live, who, program.argv(Place(live.place.memory_bytes, live.place.vcpus, folder)))

    def _bench(self, live: LiveGuest) -> Bench:
        """The guest with who sends to it as a load: an agent of its own on CPUs of its own, or a model's own peer.

        Where it has NICs of its own that lead to a testbed's generator and sink, that agent is there.
        """
        if live.site.far is not None:
            return live.bench(self.session.pinning, self.session.tags)
        peer = TrafficAgents.of_one(self.session.load_peer or live.guest.peer)
        bench = live.bench(self.session.pinning, self.session.tags)
        cpus = self.session.load_cpus
        return replace(bench, peer=peer, generator_cpu=cpus.generator, sink_cpu=cpus.sink)

    def _maximum(self, live: LiveGuest, bench: Bench) -> float:
        """What a guest forwards at most, frames/s: found once in its boot, while the measured one is idle."""
        if live.boot not in self._maxima:
            self.progress.message(f"what {live.boot} forwards at most")
            stream = stream_through(bench, MAXIMUM_SWEEP)

            def measure(rate: float | None) -> Point:
                return send(bench.peer, stream, MAXIMUM_SWEEP, bench.next_tag(), MAXIMUM_SWEEP.point_ns, rate)

            with running((live,)):
                points = sweep(MAXIMUM_SWEEP, lambda rate: retaken_unobserved(partial(measure, rate)))
            problem = why_no_result(points)
            if problem is not None:
                raise GuestError(f"what it forwards at most is unknown: {problem}")
            most = max(map(source_rate, points))
            if most <= 0:
                raise GuestError("it forwards no frames beside an idle guest")
            size = MAXIMUM_SWEEP.frame_size_bytes
            self.folder.append(MaximumRecord(live.boot, live.label, size, tuple(points), most))
            self._maxima[live.boot] = most
        return self._maxima[live.boot]


class _Load:
    """What one guest beside does during one trial; ``who`` is that guest in words."""

    def __init__(self, live: LiveGuest, who: str) -> None:
        self.live = live
        self.who = who

    def begin(self) -> None:
        """It runs when this returns."""

    def now_ns(self) -> int:
        """This moment by the clock of its readings."""
        return self.live.guest.agent.ask(ClocksRequest()).monotonic_ns

    def end(self, window: tuple[int, int]) -> tuple[NeighbourRecord, str | None]:
        """End it; its record, and why it cannot be shown to have run through the window, or None."""
        raise NotImplementedError

    def abandon(self) -> None:
        """End it after a failure; never raises."""

    def record(self, window: tuple[int, int], **known: Any) -> NeighbourRecord:
        """What is known of every guest beside, with what this load adds."""
        return NeighbourRecord(self.live.boot, self.live.label, self.live.place.cpus, window, **known)


class _Idle(_Load):
    """Nothing: the guest runs."""

    def end(self, window: tuple[int, int]) -> tuple[NeighbourRecord, str | None]:
        return self.record(window), None


class _Program(_Load):
    """A program of the image."""

    def __init__(self, live: LiveGuest, who: str, argv: tuple[str, ...]) -> None:
        super().__init__(live, who)
        self._argv = argv
        self._runs = False

    def begin(self) -> None:
        agent = self.live.guest.agent
        agent.ask(
            SpawnRequest(
                name=_NAME,
                argv=self._argv,
                env=GUEST_ENVIRONMENT,
                directory=GUEST_HOME,
                output=_LOG,
                sample_ns=SAMPLE_NS,
            )
        )
        self._runs = True
        used = f"the first use of CPU time by {self._argv[0]}"
        wait_until(lambda: agent.ask(ProgressRequest(name=_NAME)).cpu_ns > 0, _BEGINS_SECONDS, used)

    def end(self, window: tuple[int, int]) -> tuple[NeighbourRecord, str | None]:
        ended = self._end()
        output = ended.output.decode(errors="replace")
        progress = tuple(
            ProgressRecord(sample.monotonic_ns, sample.cpu_ns, sample.processes) for sample in ended.samples or ()
        )
        problem = gone_still(progress, window)
        if ended.by_itself:
            problem = f"{self._argv[0]} ended before the trial did: {last_line(output) or 'it wrote nothing'}"
        return self.record(window, argv=self._argv, progress=progress, output=output), problem

    def abandon(self) -> None:
        if self._runs and not self.live.guest.agent.ended:
            with contextlib.suppress(GuestError):
                self._end()

    def _end(self) -> EndReply:
        self._runs = False
        request = EndRequest(name=_NAME, timeout_ns=int(_ENDS_SECONDS * 1e9), limit_bytes=_LOG_BYTES)
        return self.live.guest.agent.ask(request, _ENDS_SECONDS + _ANSWER_SECONDS)


class _Traffic(_Load):
    """Frames that the guest forwards, at a share of what it forwards at most.

    ``counted``: whether the generator's interface has counters, which a model's has not.
    """

    def __init__(self, live: LiveGuest, who: str, bench: Bench, maximum: float, share: float, *, counted: bool) -> None:
        super().__init__(live, who)
        self._bench = bench
        self._peer = bench.peer.generator
        self._maximum = maximum
        self._rate = maximum * share
        self._counted = counted
        self._runs = False

    def begin(self) -> None:
        stream = stream_through(self._bench, MAXIMUM_SWEEP)
        interface = stream.lanes[0].interface
        length_ns = min(MOST_TRAFFIC_NS, int((MOST_TRAFFIC_FRAMES - 1) * 1e9 / self._rate))
        request = stream.request(MAXIMUM_SWEEP, self._bench.next_tag(), length_ns, self._rate)
        before = self._sent_frames(interface) if self._counted else 0
        self._peer.ask(TrafficStartRequest.from_record(request, wake_ns=WAKE_NS))
        self._runs = True
        if self._counted:
            wait_until(lambda: self._sent_frames(interface) > before, _BEGINS_SECONDS, "the first frame to it")

    def _sent_frames(self, interface: str) -> int:
        """What the generator's interface has sent so far, by its own counter."""
        return read_counters(self._peer, [interface])[1][interface]["tx_packets"]

    def now_ns(self) -> int:
        super().now_ns()  # the guest still answers
        return self._peer.ask(ClocksRequest()).monotonic_ns

    def end(self, window: tuple[int, int]) -> tuple[NeighbourRecord, str | None]:
        self._runs = False
        reply = self._peer.ask(TrafficStopRequest())
        sent_ns = max(source.end_monotonic_ns - source.start_monotonic_ns for source in reply.sources)
        point = Point.from_record(reply, intended_rate_frames_per_second=self._rate, duration_ns=max(1, sent_ns))
        record = self.record(window, traffic=point, maximum_frames_per_second=self._maximum)
        return record, not_sent_through(point, window)

    def abandon(self) -> None:
        if self._runs and not self._peer.ended:
            with contextlib.suppress(GuestError):
                self._peer.ask(TrafficStopRequest())


def _refuse_memory(live: LiveGuest, who: str) -> None:
    """``GuestCannot`` where files of the load would be in memory, so that it loads no disk."""
    if live.data is None:
        raise GuestCannot(f"{who} has no data directory for its load: {live.no_data or 'none was made'}")
    if not live.data.volume.on_disk:
        kind = live.data.volume.file_system
        raise GuestCannot(f"{who} has its data directory in memory ({DISKS} is a {kind}): its load reaches no disk")


def _moment(load: _Load) -> int:
    with named(load.who):
        return load.now_ns()


def _parked(live: LiveGuest) -> None:
    """Stop it after a failure of another one; what is wrong with it then shows in its next trial."""
    with contextlib.suppress(GuestError, OSError):
        live.guest.park()
