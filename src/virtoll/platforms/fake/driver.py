"""A seeded model of a platform: known cost, jitter, loss, clock error, and failures on request. No process, no root.

It stands behind the same interface as the real ones, so that the whole path is tested, and so that a self-test can
inject a known cost and see whether the instrument finds it. Time is simulated: a trial of a minute takes no time at
all. What it "measures" is the model below and nothing else; every table shows it by its family, *model*.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import Field

from virtoll.agent.client import Answer, ChannelMark
from virtoll.errors import AgentError, GuestDied, GuestNotReady
from virtoll.experiment.model import Parameters
from virtoll.platforms.base import Guest, GuestRequest, GuestStartError, Platform, Probe, Validation
from virtoll.platforms.fake import jobs
from virtoll.platforms.fake.traffic import LINK_DELAY_NS, FakeWire, LostAt
from virtoll.platforms.host import Site


class FakeParameters(Parameters):
    """The model: ``cost`` multiplies durations and divides rates; ``jitter`` is the relative spread (log-normal).

    ``loss`` is a share of the frames; ``lost_at`` is where those and the ones that come too fast are lost.
    """

    cost: float = Field(default=1.0, gt=0)
    jitter: float = Field(default=0.01, ge=0, le=1)
    loss: float = Field(default=0.0, ge=0, lt=1)
    lost_at: LostAt = "guest"
    clock_error: float = Field(default=0.0, gt=-1)
    failure: Literal[
        "none",
        "unavailable",
        "never-ready",
        "dies",
        "wrong-check",
        "loses-marks",
        "unbalanced-books",
        "no-vlan",
        "too-small",
    ] = "none"
    dies_at_job: int = Field(default=3, ge=1)
    seed: int = Field(default=1, ge=0)


@dataclass
class FakeWorld:
    """The simulated clock and noise that a fake guest and its peer share."""

    parameters: FakeParameters
    noise: random.Random
    now_ns: int = field(default_factory=time.time_ns)
    jobs: int = 0
    marks: deque[dict[str, int]] = field(default_factory=deque)
    wire: FakeWire = field(init=False)

    def __post_init__(self) -> None:
        """The packet path has its own model."""
        model = self.parameters
        self.wire = FakeWire(model.cost, model.loss, model.lost_at, model.failure == "unbalanced-books")

    def spread(self) -> float:
        """One factor of the platform's jitter, median 1."""
        return math.exp(self.noise.gauss(0.0, self.parameters.jitter))


@dataclass
class FakeAgent:
    """Answers the agent's operations from the model."""

    world: FakeWorld
    channel_marks: deque[ChannelMark] = field(default_factory=deque)
    ended: bool = False

    def call(self, op: str, deadline_seconds: float = 60.0, **fields: Any) -> Answer:  # noqa: ARG002 - the seam's signature
        """One operation; ``AgentError`` for what the model has not."""
        if op == "run":
            return self._run(fields)
        if op == "exec":
            return jobs.run_program(fields["argv"])
        if op == "facts":
            return _facts(self.world.parameters)
        if op == "counters" and self.world.parameters.lost_at != "unlocated":
            return self.world.wire.counters("guest", fields["interfaces"])
        if op == "network":
            if self.world.parameters.failure == "no-vlan" and any(one.get("vlans") for one in fields["interfaces"]):
                raise AgentError("unsupported", "the model was told to have no VLANs; set 'failure: none', or vlan 0")
            self.world.wire.learn(fields["interfaces"])
            return {"interfaces": [{**entry, "name": f"eth{n}"} for n, entry in enumerate(fields["interfaces"])]}
        if op == "send":
            answer = self.world.wire.send(fields, self.world.now_ns, self.world.spread())
            self.world.now_ns += fields["duration_ns"]
            return answer
        if op == "clocks":
            return dict.fromkeys(("realtime_ns", "monotonic_ns", "monotonic_raw_ns", "boottime_ns"), self.world.now_ns)
        if op in ("hello", "shutdown"):
            return {}
        raise AgentError("unsupported", f"the fake platform's model has no '{op}'")

    def close(self) -> None:
        """Nothing is open."""

    def _run(self, fields: dict[str, Any]) -> Answer:
        world, model = self.world, self.world.parameters
        world.jobs += 1
        if model.failure == "dies" and world.jobs >= model.dies_at_job:
            raise GuestDied("the fake guest died, as its model was told to")
        job, parameters = fields["job"], fields["parameters"]
        cost = model.cost if job != "idle" else 1.0
        duration = int(jobs.native_ns(job, parameters) * cost * world.spread())
        start, end = world.now_ns, world.now_ns + duration
        world.now_ns = end + 1_000_000
        marks = fields["marks"]
        if model.failure != "loses-marks":
            self.channel_marks += (ChannelMark("start", start, start), ChannelMark("end", end, end))
        if marks is not None and model.failure != "loses-marks":
            for sequence, at in ((0, start), (1, end)):
                arrival = at + int(LINK_DELAY_NS * (0.5 + world.noise.random()))
                world.marks.append(
                    {"identifier": marks["identifier"], "sequence": marks["first_sequence"] + sequence, "at": arrival}
                )
        guest_ns = int(duration * (1 + model.clock_error))
        guest_end = start + guest_ns
        clock = {
            "start_monotonic_ns": start,
            "end_monotonic_ns": guest_end,
            "start_realtime_ns": start,
            "end_realtime_ns": guest_end,
        }
        right = jobs.answer(job, parameters, guest_ns)
        wrong = {"check": "wrong"} if model.failure == "wrong-check" else {}
        return {"guest": {**clock, "user_cpu_ns": duration, "system_cpu_ns": 0}, **right, **wrong}


@dataclass
class FakePeer:
    """Answers the peer's operations from the model: the timekeeper and the traffic."""

    world: FakeWorld
    channel_marks: deque[ChannelMark] = field(default_factory=deque)
    ended: bool = False

    def call(self, op: str, deadline_seconds: float = 60.0, **fields: Any) -> Answer:  # noqa: ARG002 - the seam's signature
        """One operation; ``AgentError`` for what the model has not."""
        if op in ("timekeeper-start", "network"):
            return {}
        if op == "path-delay":
            delays = [int(LINK_DELAY_NS * (1.5 + self.world.noise.random())) for _ in range(fields["count"])]
            return {"round_trip_ns": delays, "lost": 0}
        if op == "marks":
            taken = [
                {
                    "identifier": m["identifier"],
                    "sequence": m["sequence"],
                    "received_realtime_ns": m["at"],
                    "realtime_minus_monotonic_ns": 0,
                }
                for m in self.world.marks
            ]
            self.world.marks.clear()
            return {"marks": taken, "missing": max(0, fields["wait_for"] - len(taken))}
        if op == "counters":
            return self.world.wire.counters("peer", fields["interfaces"])
        if op == "traffic":
            answer = self.world.wire.traffic(fields, self.world.now_ns, self.world.spread())
            self.world.now_ns += fields["duration_ns"]
            return answer
        if op in ("sink-open", "sink-close"):
            self.world.wire.open_sink(fields)
            return {}
        if op == "sink-finish":
            return self.world.wire.close_sink(fields["sources"], self.world.now_ns)
        raise AgentError("unsupported", f"the fake peer's model has no '{op}'")

    def close(self) -> None:
        """Nothing is open."""


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
        """Nothing was started."""

    def evidence(self) -> dict[str, bytes]:
        """The model's parameters stand for a console."""
        return {"console.txt": f"fake guest: {self.world.parameters!r}\n".encode()}

    def host_processes(self) -> None:
        """A model has none."""


class Fake(Platform[FakeParameters]):
    """The seeded model as a platform."""

    name: ClassVar[str] = "fake"
    without_root: ClassVar[str] = "yes"
    family: ClassVar[str] = "model"
    validation: ClassVar[Validation] = "model"
    title: ClassVar[str] = "a seeded model, for self-tests (measures nothing real)"
    parameter_model = FakeParameters
    boot_seconds: ClassVar[float] = 0.0
    slowdown: ClassVar[float] = 0.0
    needs_lab: ClassVar[bool] = False

    def probe(self, site: Site) -> Probe:  # noqa: ARG002 - the seam's signature
        """There, unless the model is told not to be."""
        if self.parameters.failure == "unavailable":
            return Probe(False, None, "the model was told to be unavailable; set 'failure: none'")
        return Probe(True, "model 1", None)

    def start(self, request: GuestRequest, site: Site) -> FakeGuest:  # noqa: ARG002 - the seam's signature
        """A guest whose noise depends on the model's seed and the guest's name alone."""
        if self.parameters.failure == "never-ready":
            error = GuestNotReady(f"{request.name} was not ready, as its model was told to")
            raise GuestStartError(str(error), {"console.txt": b"fake: never ready\n"})
        world = FakeWorld(self.parameters, random.Random(f"{self.parameters.seed}/{request.name}"))
        now = time.monotonic_ns()
        return FakeGuest(world, FakeAgent(world), FakePeer(world), now, now)


def _facts(model: FakeParameters) -> Answer:
    return {
        "kernel_release": "model",
        "cpus_online": 1,
        "memory_total_bytes": 2**20 if model.failure == "too-small" else None,
        "clock_source": "model",
        "agent_sha256": hashlib.sha256(b"virtoll fake agent").hexdigest(),
        "hypervisor": "model",
        "interfaces": [],
        "sysctls": {},
        "model_cost": model.cost,
    }
