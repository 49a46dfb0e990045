"""One trial of a workload without a guest: programs that end as a test says, links that nobody wired, an outside clock.

Every job takes half a second by the marks on the channel.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.agents import OperationAgent, Told
from tests.support.benches import channel_bench
from tests.support.facts import Fact, assert_facts

from virtoll.agent.client import Caller, ChannelMark, TrafficAgents
from virtoll.agent.operations.jobs import RunRequest
from virtoll.agent.operations.programs import EndRequest, ExecRequest, SpawnRequest
from virtoll.agent.request import Request
from virtoll.errors import AgentError, GuestDied
from virtoll.lab.network import plan_links
from virtoll.runfolder.record import Record
from virtoll.workloads import WORKLOADS
from virtoll.workloads.base import Bench, DataDirectory, Measurement

MIB = 2**20
MARKS = (ChannelMark("start", 1000, 1000), ChannelMark("end", 500_001_000, 500_001_000))


def exited(status: int | None = 0, stdout: str = "", stderr: str = "", *, timed_out: bool = False) -> dict[str, Any]:
    """What an agent answers of a program that ended; without a status a signal ended it."""
    out, err = (base64.b64encode(text.encode()).decode() for text in (stdout, stderr))
    return {"status": status, "signal": None, "stdout": out, "stderr": err, "timed_out": timed_out, "truncated": False}


def server_end(output: str = "", status: int | None = 0, *, by_itself: bool = True) -> dict[str, Any]:
    """What an agent answers of a program in the background that ended."""
    text = base64.b64encode(output.encode()).decode()
    return {"status": status, "signal": None, "by_itself": by_itself, "killed": False, "output": text}


class ProgramGuest(OperationAgent):
    """Every program ends well and prints nothing, but for what ``programs`` has of those that run as ``argv[0]``.

    ``timed``: how the program between the marks ends. ``unready``: how often a server is asked before it serves.
    ``early``: how a server ended by itself. ``marks``: those of a job, ``clock``: what its guest read. ``ran``: all
    programs in order; ``timed_commands``: those between marks; ``servers``: those that run.
    """

    def __init__(
        self,
        programs: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
        *,
        timed: Mapping[str, Any] | None = None,
        unready: int = 0,
        early: Mapping[str, Any] | None = None,
        **answers: Any,
    ) -> None:
        super().__init__(**answers)
        self.programs = {name: deque(exited(**each) for each in ends) for name, ends in (programs or {}).items()}
        self.timed = None if timed is None else exited(**timed)
        self.unready, self.early = unready, early
        self.marks: tuple[ChannelMark, ...] = MARKS
        self.clock: dict[str, int] = {}
        self.ran: list[list[str]] = []
        self.timed_commands: list[list[str]] = []
        self.servers: dict[str, list[str]] = {}

    @property
    def names(self) -> list[str]:
        """The names of the programs that ran, in order."""
        return [argv[0] for argv in self.ran]

    def tell(self, request: Request[Record]) -> Told:
        """What the operation was given; for programs see above, for all else what was recorded."""
        if self.ended:
            raise GuestDied("the guest ended while it was needed")
        if isinstance(request, RunRequest):
            self.channel_marks += self.marks
        told = super().tell(request) if request.op.replace("-", "_") in self.answers else self.work(request)
        if isinstance(request, RunRequest) and not isinstance(told, Record):
            return {"guest": {"pause_ns": 0, **self.clock}, **told}
        return told

    def work(self, request: Request[Record]) -> Mapping[str, Any]:
        """A program or a server."""
        match request:
            case SpawnRequest():
                self.servers[request.name] = list(request.argv)
                return {"pid": 7}
            case EndRequest():
                if self.servers.pop(request.name, None) is None:
                    raise AgentError("bad-request", "nothing runs under that name")
                return self.early or server_end(by_itself=False)
            case ExecRequest():
                return self.run(list(request.argv))
            case RunRequest(job="program"):
                self.timed_commands.append(request.parameters["argv"])
                end = self.run(request.parameters["argv"])
                return {"result": end if self.timed is None else self.timed, "check": "not used"}
        return {}

    def run(self, argv: list[str]) -> dict[str, Any]:
        """How a program ends."""
        self.ran.append(argv)
        if argv[:2] == ["test", "-d"]:
            return exited(1 if self.early else 0)
        if argv[0] in ("test", "mariadb-admin") and self.unready:
            self.unready -= 1
            return exited(1)
        ends = self.programs.get(argv[0])
        return ends.popleft() if ends else exited()


class DataState:
    """The data directory's state as the harness finds it; ``asked``: whether the page cache was to be emptied."""

    def __init__(self, files: int = 0, in_guest: int | None = None, on_host: int = 0) -> None:
        self.reported = {"files": files, "resident_in_guest_bytes": in_guest, "resident_on_host_bytes": on_host}
        self.asked: list[bool] = []

    def __call__(self, evict: bool) -> dict[str, Any]:
        """What it is."""
        self.asked.append(evict)
        return self.reported


def trial_bench(
    guest: Caller,
    peer: Caller | None = None,
    programs: Caller | None = None,
    second: Caller | None = None,
    *,
    state: DataState | None = None,
    shared: bool = False,
    number: int = 0,
    **given: Any,
) -> Bench:
    """A guest with links, a disk and perhaps a peer; ``programs``: who starts programs beside the peer.

    ``second``: another guest, which may be ``shared`` a bridge with. Marks come over the channel.
    """
    bench: dict[str, Any] = {
        "peer": None if peer is None else TrafficAgents.of_one(peer),
        "network": plan_links(number, shared=shared),
        "generator_cpu": 1,
        "sink_cpu": 1,
        "co_located": () if second is None else (trial_bench(second, peer, shared=shared, number=5),),
        "programs": programs,
        "data": DataDirectory("/data", "ext4", "the host's disk (ext4)"),
        "data_state": state or DataState(),
    }
    return channel_bench(guest, **{**bench, **given})


def measure(name: str, of: Bench | Caller, /, **parameters: Any) -> Measurement:
    """One trial, on a bench or of a guest that needs no more."""
    bench = of if isinstance(of, Bench) else trial_bench(of)
    return WORKLOADS[name].with_parameters(parameters).measure(bench)


def result_of(measured: Measurement) -> dict[str, Any]:
    """The result of a trial that has no problem and whose check value is right."""
    assert measured.problem is None
    assert measured.check is not None
    assert measured.check.ok
    assert measured.result is not None
    return measured.result


def assert_problem(measured: Measurement, *facts: Fact) -> None:
    """The trial has a problem with these facts."""
    assert measured.problem is not None
    assert_facts(measured.problem, *facts)
