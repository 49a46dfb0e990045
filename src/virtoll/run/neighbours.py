"""The guests beside the measured one: their loads begin before a trial, are proven to run through it, and end with it.

Main types: ``Neighbours`` (the loads of a run), ``Loaded`` (those of one trial). A guest beside that fails costs that
trial and is named (``NeighbourFailed``); a load that cannot be shown to have run makes the trial invalid. What a guest
that forwards as a load forwards at most is found in the same boot, beside an idle guest as Schlosser et al. (2011) did,
and stored (``maxima.jsonl``).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from virtoll.agent.client import Caller, TrafficAgents
from virtoll.agent.operations.counters import CountersRequest
from virtoll.agent.operations.programs import EndReply, EndRequest, ProgressRequest, SpawnRequest
from virtoll.agent.operations.session import ClocksRequest
from virtoll.agent.operations.traffic import TrafficStartRequest, TrafficStopRequest
from virtoll.errors import AgentError, GuestError, NeighbourFailed
from virtoll.platforms.base import DATA_PATH
from virtoll.run.fleet import LiveGuest, running
from virtoll.run.progress import Progress
from virtoll.run.session import RunSession
from virtoll.runfolder.conditions import TRAFFIC_LOADS, Condition
from virtoll.runfolder.store import RunFolder, parse_record
from virtoll.workloads.forward import stream_through
from virtoll.workloads.loads import (
    FLOOD_SHARE,
    MAXIMUM_SWEEP,
    MOST_TRAFFIC_FRAMES,
    MOST_TRAFFIC_NS,
    PROGRAM_LOADS,
    SAMPLE_NS,
    WAKE_NS,
    Place,
    gone_still,
    not_sent_through,
)
from virtoll.workloads.points import MeasuredPoint
from virtoll.workloads.programs import GUEST_ENVIRONMENT, GUEST_HOME
from virtoll.workloads.sweep import source_rate, sweep
from virtoll.workloads.traffic import TrafficStream, send

if TYPE_CHECKING:
    from virtoll.runfolder.conditions import NeighbourRecord

_NAME = "load"
_LOG = "/tmp/virtoll-load"  # noqa: S108 - in the guest, where nobody else is
_LOG_BYTES = 4096
_BEGINS_SECONDS, _BEGINS_STEP_SECONDS = 60.0, 0.02
_ENDS_SECONDS, _ANSWER_SECONDS = 5.0, 30.0


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
        found = Loaded()
        if condition is None:
            yield found
            return
        loads: list[_Load] = [self._load(live, condition) for live in guests]
        with contextlib.ExitStack() as undo:
            for number, (live, load) in enumerate(zip(guests, loads, strict=True), start=1):
                with _named(condition, number, len(guests)):
                    undo.callback(_parked, live)
                    live.guest.resume()
                    live.guest.agent.ask(ClocksRequest())
                    undo.callback(load.abandon)
                    load.begin()
            begun = [self._moment(load, condition, number, len(loads)) for number, load in enumerate(loads, start=1)]
            yield found
            ended = [self._moment(load, condition, number, len(loads)) for number, load in enumerate(loads, start=1)]
            records: list[NeighbourRecord] = []
            for number, (live, load, window) in enumerate(
                zip(guests, loads, zip(begun, ended, strict=True), strict=True), start=1
            ):
                with _named(condition, number, len(guests)):
                    record, problem = load.end(window)
                    records.append(record)
                    if problem is not None and found.problem is None:
                        which = f"guest {number} of {len(guests)}" if len(guests) > 1 else "the guest"
                        found.problem = f"{which} beside it ({condition.label}) was not loaded throughout: {problem}"
                    live.guest.park()
            undo.pop_all()
        found.records = tuple(records)

    def _load(self, live: LiveGuest, condition: Condition) -> _Load:
        if condition.load in TRAFFIC_LOADS:
            return _Traffic(live, self, self._maximum(live, condition), condition.rate_share or FLOOD_SHARE)
        program = PROGRAM_LOADS.get(condition.load)
        if program is None:
            return _Idle(live)
        request = live.place
        folder = DATA_PATH if live.data is not None else GUEST_HOME
        return _Program(live, program.argv(Place(request.memory_bytes, request.vcpus, folder)))

    def _moment(self, load: _Load, condition: Condition, number: int, count: int) -> int:
        with _named(condition, number, count):
            return load.now_ns()

    def generator(self, live: LiveGuest) -> tuple[Caller, int | None]:
        """Who sends to a guest beside, and on which CPU: an agent of its own; a model's own peer."""
        return (self.session.load_peer or live.guest.peer), self.session.load_cpu

    def _maximum(self, live: LiveGuest, condition: Condition) -> float:
        """What a guest forwards at most, frames/s: found once in its boot, while the measured one is idle."""
        from virtoll.runfolder.conditions import MaximumRecord
        from virtoll.runfolder.traffic_records import Point

        if live.boot not in self._maxima:
            self.progress.message(f"what {live.boot} forwards at most")
            peer, _ = self.generator(live)
            stream, agents = self.stream(live), TrafficAgents.of_one(peer)

            def point(rate: float | None) -> MeasuredPoint:
                return send(agents, stream, MAXIMUM_SWEEP, self.tag(), MAXIMUM_SWEEP.point_ns, rate)

            with _named(condition, 1, 1):
                with running((live,)):
                    points = sweep(MAXIMUM_SWEEP, point)
                most = max(map(source_rate, points))
                if most <= 0:
                    raise GuestError("it forwards no frames beside an idle guest")
            stored = tuple(parse_record(Point, one.to_json()) for one in points)
            size = MAXIMUM_SWEEP.frame_size_bytes
            self.folder.append_maximum(MaximumRecord(live.boot, live.label, size, stored, most))
            self._maxima[live.boot] = most
        return self._maxima[live.boot]

    def stream(self, live: LiveGuest) -> TrafficStream:
        """Frames from its first source to its sink through a guest beside."""
        _, cpu = self.generator(live)
        bench = live.bench(self.session.pinning, self.session.tags)
        return TrafficStream(
            stream_through(bench, MAXIMUM_SWEEP).lanes,
            (live.network.sink.peer_interface,),
            cpu,
            self.session.pinning.sink_cpu,
        )

    def tag(self) -> int:
        """A number that distinguishes this traffic from any earlier one's."""
        return next(self.session.tags) % 2**16


class _Load:
    """What one guest beside does during one trial."""

    def __init__(self, live: LiveGuest) -> None:
        self.live = live

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
        from virtoll.runfolder.conditions import NeighbourRecord

        return NeighbourRecord(self.live.boot, self.live.label, self.live.place.cpus, window, **known)


class _Idle(_Load):
    """Nothing: the guest runs."""

    def end(self, window: tuple[int, int]) -> tuple[NeighbourRecord, str | None]:
        return self.record(window), None


class _Program(_Load):
    """A program of the image."""

    def __init__(self, live: LiveGuest, argv: tuple[str, ...]) -> None:
        super().__init__(live)
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
        _await(lambda: agent.ask(ProgressRequest(name=_NAME)).cpu_ns > 0, f"{self._argv[0]} used no CPU time")

    def end(self, window: tuple[int, int]) -> tuple[NeighbourRecord, str | None]:
        from virtoll.runfolder.conditions import Progress as ProgressRecord

        ended = self._end()
        samples = ended.samples or ()
        said = ended.output.decode(errors="replace")
        problem = gone_still(samples, window)
        if ended.by_itself:
            problem = f"{self._argv[0]} ended before the trial did: {_last_line(said)}"
        progress = tuple(ProgressRecord(one.monotonic_ns, one.cpu_ns, one.processes) for one in samples)
        return self.record(window, argv=self._argv, progress=progress, output=said), problem

    def abandon(self) -> None:
        if self._runs and not self.live.guest.agent.ended:
            with contextlib.suppress(GuestError):
                self._end()

    def _end(self) -> EndReply:
        self._runs = False
        request = EndRequest(name=_NAME, timeout_ns=int(_ENDS_SECONDS * 1e9), limit_bytes=_LOG_BYTES)
        return self.live.guest.agent.ask(request, _ENDS_SECONDS + _ANSWER_SECONDS)


class _Traffic(_Load):
    """Frames that the guest forwards, at a share of what it forwards at most."""

    def __init__(self, live: LiveGuest, neighbours: Neighbours, maximum: float, share: float) -> None:
        super().__init__(live)
        self._neighbours = neighbours
        self._maximum = maximum
        self._rate = maximum * share
        self._peer, _ = neighbours.generator(live)
        self._length_ns = min(MOST_TRAFFIC_NS, int((MOST_TRAFFIC_FRAMES - 1) * 1e9 / self._rate))
        self._runs = False

    def begin(self) -> None:
        stream = self._neighbours.stream(self.live)
        wanted = stream.request(MAXIMUM_SWEEP, self._neighbours.tag(), self._length_ns, self._rate)
        arrivals = [stream.lanes[0].interface]
        before = self._sent(arrivals)
        self._peer.ask(TrafficStartRequest.of(wanted, wake_ns=WAKE_NS))
        self._runs = True
        _await(lambda: self._sent(arrivals) != before, "none of its frames left the generator")

    def _sent(self, interfaces: list[str]) -> object:
        """What these interfaces have sent, by their counters; of a model, which has none, another value each time."""
        if self._neighbours.session.site.is_model:
            return object()
        reported = self._peer.ask(CountersRequest(interfaces=tuple(interfaces))).interfaces
        return [one.statistics["tx_packets"] for one in reported]

    def now_ns(self) -> int:
        super().now_ns()  # the guest still answers
        return self._peer.ask(ClocksRequest()).monotonic_ns

    def end(self, window: tuple[int, int]) -> tuple[NeighbourRecord, str | None]:
        from virtoll.runfolder.traffic_records import Point

        self._runs = False
        reply = self._peer.ask(TrafficStopRequest())
        sent_ns = max(one.end_monotonic_ns - one.start_monotonic_ns for one in reply.sources)
        point = parse_record(Point, MeasuredPoint(self._rate, max(1, sent_ns), reply).to_json())
        record = self.record(window, traffic=point, maximum_frames_per_second=self._maximum)
        return record, not_sent_through(point, window)

    def abandon(self) -> None:
        if self._runs and not self._peer.ended:
            with contextlib.suppress(GuestError):
                self._peer.ask(TrafficStopRequest())


@contextlib.contextmanager
def _named(condition: Condition, number: int, count: int) -> Iterator[None]:
    """What fails within is a guest beside, and not the measured one."""
    try:
        yield
    except NeighbourFailed:
        raise
    except AgentError as error:
        if error.kind == "unsupported":
            raise  # the guest is well: its platform cannot do this
        raise NeighbourFailed(condition.label, error, number, count) from error
    except GuestError as error:
        raise NeighbourFailed(condition.label, error, number, count) from error


def _await(begun: Callable[[], bool], otherwise: str) -> None:
    """Wait until a load has begun; ``GuestError`` where it has not in a minute."""
    deadline = time.monotonic() + _BEGINS_SECONDS
    while not begun():
        if time.monotonic() > deadline:
            raise GuestError(f"{otherwise} within {_BEGINS_SECONDS:g} s")
        time.sleep(_BEGINS_STEP_SECONDS)


def _parked(live: LiveGuest) -> None:
    """Stop it after a failure of another one; what is wrong with it then shows in its next trial."""
    with contextlib.suppress(GuestError, OSError):
        live.guest.park()


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it wrote nothing"
