"""A seeded model of a platform: known cost, jitter, loss, clock error, and failures on request. No process, no root.

It stands behind the same interface as the real ones, so that the whole path is tested, and so that a test can
inject a known cost and see whether the instrument finds it. Time is simulated: a trial of a minute takes no time at
all. What it "measures" is the model below and nothing else; every table shows it by its family, *model*.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pydantic import Field

from virtoll.agent.client import AgentModel, ChannelMark
from virtoll.agent.operations.counters import CountersRequest
from virtoll.agent.operations.jobs import MarkLink, RunReply, RunRequest
from virtoll.agent.operations.network import InterfaceState, NetworkReply, NetworkRequest
from virtoll.agent.operations.programs import (
    EndReply,
    EndRequest,
    ExecRequest,
    ProgressRequest,
    SpawnReply,
    SpawnRequest,
)
from virtoll.agent.operations.session import (
    ClocksReply,
    ClocksRequest,
    Done,
    FactsRequest,
    HelloReply,
    HelloRequest,
    ShutdownRequest,
)
from virtoll.agent.operations.timekeeping import (
    Mark,
    MarksReply,
    MarksRequest,
    PathDelayReply,
    PathDelayRequest,
    TimekeeperStartRequest,
)
from virtoll.agent.operations.traffic import (
    SendRequest,
    SinkCloseRequest,
    SinkFinishRequest,
    SinkOpenReply,
    SinkOpenRequest,
    Traffic,
    TrafficRequest,
    TrafficStartRequest,
    TrafficStopRequest,
)
from virtoll.agent.request import Request
from virtoll.errors import AgentError, GuestDied, GuestNotReady
from virtoll.experiment.model import Parameters
from virtoll.platforms.base import Guest, GuestRequest, GuestStartError, Platform, Probe, Validation
from virtoll.platforms.fake import jobs
from virtoll.platforms.fake.traffic import LINK_DELAY_NS, FakeWire, LostAt
from virtoll.platforms.host import Site
from virtoll.runfolder.conditions import Progress
from virtoll.runfolder.facts import Facts
from virtoll.runfolder.record import Record
from virtoll.runfolder.records import GuestClock


class FakeParameters(Parameters):
    """The model: ``cost`` multiplies durations and divides rates; ``jitter`` is the relative spread (log-normal).

    ``loss`` is a share of the frames; ``lost_at`` is where those and the ones that come too fast are lost.
    ``interference``: by how much each guest beside it with a load adds to its cost (0.5: half as much again).
    ``host_cpus``: CPUs that guests which begin together share (0: each has its own). ``late_milliseconds``: how much
    later than asked it begins with others. ``failing_instance``: of several guests the one that the failure is of.
    """

    cost: float = Field(default=1.0, gt=0, description="multiplies durations and divides rates")
    jitter: float = Field(default=0.01, ge=0, le=1, description="relative spread of its results (log-normal)")
    loss: float = Field(default=0.0, ge=0, lt=1, description="share of the frames that are lost")
    lost_at: LostAt = Field(default="guest", description="where frames are lost")
    clock_error: float = Field(default=0.0, gt=-1, description="relative error of its clock")
    interference: float = Field(
        default=0.0, ge=0, description="what each loaded guest beside it adds to its cost; 0.5: half as much again"
    )
    failure: Literal[
        "none",
        "unavailable",
        "never-ready",
        "dies",
        "refuses-job",
        "wrong-check",
        "loses-marks",
        "unbalanced-books",
        "no-vlan",
        "too-small",
        "load-ends",
        "load-stands-still",
        "dies-under-load",
        "dies-at-rest",
    ] = Field(default="none", description="what goes wrong with it")
    dies_at_job: int = Field(default=3, ge=1, description="for failure dies: at which job, from 1")
    refused_job: str = Field(default="masr", description="for failure refuses-job: which job")
    host_cpus: int = Field(
        default=0, ge=0, description="CPUs that guests which begin together share; 0: each has its own"
    )
    late_milliseconds: int = Field(
        default=0, ge=0, description="how much later than asked it begins with others, in ms"
    )
    failing_instance: int | None = Field(
        default=None, ge=0, description="of several guests the one that fails, from 0; else all"
    )
    translated_blocks: int | None = Field(
        default=None, ge=0, description="how many blocks an emulator says it translated; else it says nothing"
    )
    seed: int = Field(default=1, ge=0, description="seed of its random numbers")


@dataclass
class FakeHost:
    """What fake guests of one site share: the names of those that have a load, and how many of them are up.

    ``begun``: the names of those that began together last, at ``begins_ns``.
    """

    loaded: set[str] = field(default_factory=set)
    guests: int = 0
    begins_ns: int = 0
    begun: set[str] = field(default_factory=set)

    def begin_together(self, name: str, moment_ns: int) -> int:
        """The moment that guests have in common: the first one's, until one of them is asked again or has ended.

        The controller may be off its CPU between asking two of them, for however long; a model is not late for that.
        """
        if not self.begun or name in self.begun:
            self.begun, self.begins_ns = set(), moment_ns
        self.begun.add(name)
        return self.begins_ns

    def one_less(self) -> None:
        """A guest has ended: those that are left, and others, begin anew."""
        self.guests -= 1
        self.begun.clear()


@dataclass
class FakeWorld:
    """The simulated clock and noise that a fake guest and its peer share; ``host``: with whom else it runs."""

    parameters: FakeParameters
    noise: random.Random
    name: str
    host: FakeHost
    instance: int = 0
    vcpus: int = 1
    load_began_ns: int = 0
    neighbour_traffic: Traffic | None = None
    now_ns: int = field(default_factory=time.time_ns)
    jobs: int = 0
    translated: int = 0
    marks: deque[Mark] = field(default_factory=deque)
    wire: FakeWire = field(init=False)

    def __post_init__(self) -> None:
        """The packet path has its own model."""
        model = self.parameters
        self.wire = FakeWire(model.cost, model.loss, model.lost_at, model.failure == "unbalanced-books")

    @property
    def is_chosen(self) -> bool:
        """Whether it is the one of several guests that the model's failure is of."""
        return self.parameters.failing_instance in (None, self.instance)

    def translate(self, units: int) -> None:
        """So many jobs or frames: what the model says that it translates for each is done."""
        self.translated += units * (self.parameters.translated_blocks or 0)

    @property
    def died(self) -> str | None:
        """When it died, in words; None: it lives."""
        if self.parameters.failure == "dies-under-load" and self.name in self.host.loaded:
            return "under its load"
        return "while it was parked" if self.parameters.failure == "dies-at-rest" and self.is_chosen else None

    def spread(self) -> float:
        """One factor of the platform's jitter, median 1, and of what guests with a load beside it take."""
        loaded_neighbours = len(self.host.loaded - {self.name})
        interference = 1 + self.parameters.interference * loaded_neighbours
        return math.exp(self.noise.gauss(0.0, self.parameters.jitter)) * interference

    def clocks(self) -> ClocksReply:
        """The clocks now; under a load each look at them takes a millisecond."""
        self.now_ns += 1_000_000 if self.name in self.host.loaded else 0
        now = self.now_ns
        return ClocksReply(realtime_ns=now, monotonic_ns=now, monotonic_raw_ns=now, boottime_ns=now)

    def load(self, request: SpawnRequest | ProgressRequest | EndRequest) -> Record:
        """A program beside the requests, which the model takes for a load."""
        match request:
            case SpawnRequest():
                self.begin_load()
                return SpawnReply(pid=2)
            case ProgressRequest():
                return self.progress()
            case EndRequest():
                return self.end_load()

    def begin_load(self) -> None:
        """From now on it has a load."""
        self.host.loaded.add(self.name)
        self.load_began_ns = self.now_ns

    def progress(self) -> Progress:
        """What its load has used by now: all the time, or a moment where the model says that it stands still."""
        self.now_ns += 1_000_000
        used = self.now_ns - self.load_began_ns
        if self.parameters.failure == "load-stands-still":
            used = min(used, 1_000_000)
        return Progress(monotonic_ns=self.now_ns, cpu_ns=used, processes=1)

    def end_load(self) -> EndReply:
        """Its load ends."""
        self.host.loaded.discard(self.name)
        by_itself = self.parameters.failure == "load-ends"
        samples = (
            Progress(monotonic_ns=self.load_began_ns, cpu_ns=0, processes=1),
            Progress(monotonic_ns=self.load_began_ns + 1, cpu_ns=1_000_000, processes=1),
            self.progress(),
        )
        if self.parameters.failure == "load-stands-still":
            samples = (samples[0].replace(cpu_ns=1_000_000), *samples[1:])
        reply = EndReply(status=None, signal=15, by_itself=False, killed=False, output=b"", samples=samples)
        if by_itself:
            return reply.replace(status=0, signal=None, by_itself=True, output=b"the model's load ends\n")
        return reply


@dataclass
class FakeAgent(AgentModel):
    """Answers the agent's operations from the model."""

    world: FakeWorld
    channel_marks: deque[ChannelMark] = field(default_factory=deque)
    ended: bool = False

    def answer(self, request: Request[Record]) -> Record:
        """One operation; ``AgentError`` for what the model has not."""
        world = self.world
        match request:
            case RunRequest():
                return self._run(request)
            case ExecRequest():
                return jobs.run_program(request.argv)
            case FactsRequest():
                return _facts(world.parameters, world.vcpus)
            case CountersRequest() if world.parameters.lost_at != "unlocated":
                return world.wire.counters("guest", request.interfaces, world.now_ns)
            case NetworkRequest():
                return self._network(request)
            case SendRequest():
                sent = world.wire.send(request, world.now_ns, world.spread())
                world.now_ns += request.duration_ns
                return sent
            case ClocksRequest():
                if world.died is not None:
                    raise GuestDied(f"the fake guest died {world.died}, as its model's parameters ask")
                return world.clocks()
            case SpawnRequest() | ProgressRequest() | EndRequest():
                return world.load(request)
            case HelloRequest():
                return HelloReply(protocol=request.protocol)
            case ShutdownRequest():
                return Done()
        raise AgentError("unsupported", f"the fake platform's model has no '{request.op}'")

    def _network(self, request: NetworkRequest) -> NetworkReply:
        if self.world.parameters.failure == "no-vlan" and any(interface.vlans for interface in request.interfaces):
            raise AgentError(
                "unsupported", "the model's parameters say that it has no VLANs; set 'failure: none', or vlan 0"
            )
        self.world.wire.learn(request.interfaces)
        return _named("eth", request)

    def _run(self, request: RunRequest) -> RunReply:
        world, model = self.world, self.world.parameters
        world.jobs += 1
        if model.failure == "dies" and world.is_chosen and world.jobs >= model.dies_at_job:
            raise GuestDied("the fake guest died, as its model's parameters ask")
        if model.failure == "refuses-job" and request.job == model.refused_job:
            raise AgentError("limit", f"the fake guest refuses the job {request.job}, as its model's parameters ask")
        cost = model.cost if request.job != "idle" else 1.0
        if request.delay_ns > 0:  # it begins with others, by a clock that all of them have
            late_ns = model.late_milliseconds * 1_000_000 if world.is_chosen else 0
            world.now_ns = world.host.begin_together(world.name, time.time_ns() + request.delay_ns) + late_ns
            cost *= max(1.0, world.host.guests / model.host_cpus) if model.host_cpus else 1.0
        world.translate(request.repeats)
        duration = int(request.repeats * jobs.native_ns(request.job, request.parameters) * cost * world.spread())
        start = world.now_ns
        end = start + request.pause_ns + duration
        world.now_ns = end + 1_000_000
        if model.failure != "loses-marks" or not world.is_chosen:
            self._leave_marks(request.marks, start, end)
        guest_ns = int((end - start) * (1 + model.clock_error))
        guest = GuestClock(
            start_monotonic_ns=start,
            end_monotonic_ns=start + guest_ns,
            start_realtime_ns=start,
            end_realtime_ns=start + guest_ns,
            user_cpu_ns=duration,
            system_cpu_ns=0,
            pause_ns=int(request.pause_ns * (1 + model.clock_error)),
        )
        result, check = jobs.answer(request.job, request.parameters, int(duration * (1 + model.clock_error)))
        wrong = model.failure == "wrong-check" and world.is_chosen
        return RunReply(guest=guest, result=result, check="wrong" if wrong else check)

    def _leave_marks(self, marks: MarkLink | None, start: int, end: int) -> None:
        """Those of the channel, and where they are requested those that the timekeeper receives."""
        self.channel_marks += (ChannelMark("start", start, start), ChannelMark("end", end, end))
        if marks is None:
            return
        for sequence, at in enumerate((start, end)):
            arrival = at + int(LINK_DELAY_NS * (0.5 + self.world.noise.random()))
            self.world.marks.append(
                Mark(
                    identifier=marks.identifier,
                    sequence=marks.first_sequence + sequence,
                    received_realtime_ns=arrival,
                    realtime_minus_monotonic_ns=0,
                )
            )


def _named(prefix: str, request: NetworkRequest) -> NetworkReply:
    interfaces = enumerate(request.interfaces)
    return NetworkReply(interfaces=tuple(InterfaceState(f"{prefix}{n}", interface.mac) for n, interface in interfaces))


@dataclass
class FakePeer(AgentModel):
    """Answers the peer's operations from the model: the timekeeper and the traffic."""

    world: FakeWorld
    channel_marks: deque[ChannelMark] = field(default_factory=deque)
    ended: bool = False

    def answer(self, request: Request[Record]) -> Record:
        """One operation; ``AgentError`` for what the model has not."""
        world = self.world
        match request:
            case NetworkRequest():
                return _named("peer", request)
            case PathDelayRequest():
                delays = (int(LINK_DELAY_NS * (1.5 + world.noise.random())) for _ in range(request.count))
                return PathDelayReply(round_trip_ns=tuple(delays), lost=0)
            case MarksRequest():
                taken = tuple(world.marks)
                world.marks.clear()
                return MarksReply(marks=taken, missing=max(0, request.wait_for - len(taken)))
            case CountersRequest():
                return world.wire.counters("peer", request.interfaces, world.now_ns)
            case TrafficRequest():
                carried = world.wire.traffic(request, world.now_ns, world.spread())
                world.now_ns += request.duration_ns
                world.translate(sum(source.forwarded_frames for source in carried.sink.per_source))
                return carried
            case SinkOpenRequest():
                world.wire.open_sink(request)
                return SinkOpenReply(backend="model")
            case SinkFinishRequest():
                return world.wire.close_sink(request.sources, world.now_ns)
            case TrafficStartRequest():
                world.begin_load()
                world.neighbour_traffic = request
                return Done()
            case TrafficStopRequest() if world.neighbour_traffic is not None:
                world.host.loaded.discard(world.name)
                world.now_ns += 1_000_000
                sent = world.neighbour_traffic.replace(duration_ns=world.now_ns - world.load_began_ns)
                return world.wire.traffic(sent, world.load_began_ns, 1.0)
            case ClocksRequest():
                return world.clocks()
            case TimekeeperStartRequest() | SinkCloseRequest():
                return Done()
        raise AgentError("unsupported", f"the fake peer's model has no '{request.op}'")


@dataclass
class FakeGuest(Guest):
    """A guest that is a model."""

    world: FakeWorld
    agent: FakeAgent
    peer: FakePeer
    spawned_monotonic_ns: int
    ready_monotonic_ns: int
    attachment: str = "model"

    def park(self) -> None:
        """A model uses no CPU."""

    def resume(self) -> None:
        """A model uses no CPU."""

    def stop(self) -> None:
        """Nothing was started; one guest less is up."""
        if not self.agent.ended:
            self.agent.close()
            self.world.host.one_less()

    def evidence(self) -> dict[str, bytes]:
        """The model's parameters stand for a console."""
        return {"console.txt": f"fake guest: {self.world.parameters!r}\n".encode()}

    def host_processes(self) -> None:
        """A model has none."""

    def own_counters(self) -> Mapping[str, int]:
        """What the model says that it translates, where it says so."""
        return {} if self.world.parameters.translated_blocks is None else {"translated_blocks": self.world.translated}


class Fake(Platform[FakeParameters]):
    """The seeded model as a platform."""

    name: ClassVar[str] = "fake"
    without_root: ClassVar[str] = "yes"
    family: ClassVar[str] = "model"
    validation: ClassVar[Validation] = "model"
    title: ClassVar[str] = "a seeded model, for tests (measures nothing real)"
    parameter_model = FakeParameters
    boot_seconds: ClassVar[float] = 0.0
    slowdown: ClassVar[float] = 0.0
    needs_lab: ClassVar[bool] = False

    def probe(self, site: Site) -> Probe:  # noqa: ARG002 - the seam's signature
        """There, unless the model is told not to be."""
        if self.parameters.failure == "unavailable":
            return Probe(False, None, "the model's parameters say that it is unavailable; set 'failure: none'")
        return Probe(True, "model 1", None)

    def start(self, request: GuestRequest, site: Site) -> FakeGuest:
        """A guest whose noise depends on the model's seed and the guest's name alone."""
        if self.parameters.failure == "never-ready" and self.parameters.failing_instance in (None, request.instance):
            error = GuestNotReady(f"{request.name} was not ready, as its model's parameters ask")
            raise GuestStartError(str(error), {"console.txt": b"fake: never ready\n"})
        host = site.shared.find(FakeHost)
        if host is None:
            host = FakeHost()
            site.shared.keep(host)
        noise = random.Random(f"{self.parameters.seed}/{request.name}")
        world = FakeWorld(self.parameters, noise, request.name, host, request.instance, request.vcpus)
        host.guests += 1
        now = time.monotonic_ns()
        return FakeGuest(world, FakeAgent(world), FakePeer(world), now, now)


def _facts(model: FakeParameters, vcpus: int) -> Facts:
    return Facts(
        kernel_release="model",
        cpus_online=vcpus,
        memory_total_bytes=2**20 if model.failure == "too-small" else None,
        clock_source="model",
        agent_sha256=hashlib.sha256(b"virtoll fake agent").hexdigest(),
        hypervisor="model",
        interfaces=(),
        sysctls={},
    )
