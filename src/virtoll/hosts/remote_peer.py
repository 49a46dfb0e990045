"""The generator and sink of a testbed, on other hosts: their agents and NICs, and how guests are reached over them.

Main types: ``RemotePeer``, ``Apart`` (the agent of a host once more, with no NIC in reach). The timekeeper stays in the
lab's own peer: marks never cross a NIC that carries traffic.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from virtoll.agent.client import AgentClient, Caller, ChannelMark, Reply, TrafficAgents
from virtoll.agent.operations.programs import ExecRequest
from virtoll.agent.operations.session import FactsRequest
from virtoll.agent.request import Request
from virtoll.errors import AgentError, GuestCannot, GuestError, LabError
from virtoll.experiment.topology import Testbed
from virtoll.hosts.session import inherited
from virtoll.hosts.undo import Undo
from virtoll.lab.flow_control import switch
from virtoll.lab.local_network import Network
from virtoll.lab.network import GuestNetwork, over_trunks
from virtoll.lab.shaping import End, end_there

_READY_SECONDS = 60.0
_ANSWER_LIMIT_BYTES = 4 << 20
_CHANGE_NS = 30_000_000_000
_COMPLAINT_LIMIT_BYTES = 4096


@dataclass(frozen=True, kw_only=True)
class RemotePeer:
    """``ends`` are the sessions; ``near`` this machine's NICs, ``far`` those they face by name and MAC.

    The last ``sinks`` of them are the sink's. ``where`` names the hosts. ``bridges``: how the names of the NICs'
    bridges begin. ``neighbour``: the same of the guest next to the measured one; None if that has no NICs.
    """

    ends: TrafficAgents
    where: tuple[str, ...]
    near: tuple[str, ...]
    far: tuple[tuple[str, str], ...]
    sinks: int
    bridges: str = "t"
    neighbour: RemotePeer | None = None

    def reach(self, network: GuestNetwork) -> GuestNetwork:
        """A guest's links by way of the NICs."""
        return over_trunks(network, self.near, self.far, self.sinks, bridges=self.bridges)

    @property
    def ended(self) -> str | None:
        """Which host's agent is gone, or None."""
        gone = next((name for name, agent in zip(self.where, self.ends.agents, strict=True) if agent.ended), None)
        return self.neighbour.ended if gone is None and self.neighbour is not None else gone


@contextlib.contextmanager
def remote_peer(testbed: Testbed | None, network: Network) -> Iterator[RemotePeer | None]:
    """Connect to the agent that the launcher started, and take this machine's NICs; None without a testbed."""
    streams = inherited()
    if testbed is None:
        yield None
        return
    if streams is None:
        raise LabError("testbed: its agents were not started; start the run through the 'virtoll' command line")
    if not testbed.far:  # generator and sink are this machine's peer, and the guests are elsewhere
        _adopt(testbed, network, streams.outside, peer=True)
        yield None
        return
    hosts = [(host.words, names) for host, names in (*testbed.far, *testbed.far_of_neighbour)]
    agents = [
        AgentClient(*stream, f"the agent on {words}") for stream, (words, _) in zip(streams.agents, hosts, strict=True)
    ]
    undos = [
        Undo(words, os.fdopen(reader, "rb", buffering=0), os.fdopen(writer, "wb", buffering=0))
        for (reader, writer), (words, _) in zip(streams.undos, hosts, strict=True)
    ]
    try:
        addresses: list[tuple[tuple[str, str], ...]] = []
        for agent, (words, names) in zip(agents, hosts, strict=True):
            agent.wait_ready(_READY_SECONDS)
            addresses.append(_addresses(agent, names, words))
        _adopt(testbed, network, streams.outside)
        ends = [
            end_at(agent, undo, nic)
            for agent, undo, (_, names) in zip(agents, undos, hosts, strict=True)
            for nic in names
        ]
        network.face(dict(zip(testbed.moved, ends, strict=True)))
        far_count = len(testbed.far)
        neighbour = None
        if testbed.far_of_neighbour:
            both, where = TrafficAgents.of_one(agents[far_count]), (hosts[far_count][0],)
            near = testbed.near_of_neighbour
            neighbour = RemotePeer(ends=both, where=where, near=near, far=addresses[far_count], sinks=1, bridges="tb")
        yield RemotePeer(
            ends=_agents_of(testbed, agents[:far_count]),
            where=tuple(words for words, _ in hosts[:far_count]),
            near=testbed.near,
            far=tuple(itertools.chain(*addresses[:far_count])),
            sinks=len(testbed.sink_interfaces),
            neighbour=neighbour,
        )
    finally:
        for agent in agents:
            agent.close()
        for undo in undos:
            undo.close()


def _agents_of(testbed: Testbed, agents: Sequence[Caller]) -> TrafficAgents:
    """Those of ``Testbed.far`` by what they do."""
    if testbed.one_host:
        return TrafficAgents.of_one(agents[0])
    sending, counting = agents[: len(testbed.generators)], agents[len(testbed.generators) :]
    of_source = [agent for agent, host in zip(sending, testbed.generators, strict=True) for _ in host.interfaces]
    of_sink = [agent for agent, host in zip(counting, testbed.sinks, strict=True) for _ in host.interfaces]
    return TrafficAgents(
        sending[0],
        counting[0],
        of_source=tuple(of_source) if len(sending) > 1 else (),
        of_sink=tuple(of_sink) if len(counting) > 1 else (),
    )


def _adopt(testbed: Testbed, network: Network, outside: int, *, peer: bool = False) -> None:
    """Take this machine's NICs, with their flow control as the testbed wants it."""
    if testbed.flow_control is not None:
        for nic in testbed.moved:
            try:
                switch(nic, testbed.flow_control)
            except GuestError as error:
                raise LabError(f"testbed: {error}") from error
    network.adopt(testbed.moved, outside, peer=peer)


def end_at(agent: Caller, undo: Undo, nic: str) -> End:
    """A host's end of a cable, whose discipline is changed by its agent; it is gone with the connection to the host.

    ``GuestCannot`` where nobody may change it there.
    """

    def change(verb: str, words: Sequence[str]) -> None:
        argv = ("tc", "qdisc", verb, "dev", nic, "root", *words)
        try:
            ended = agent.ask(ExecRequest(argv=argv, timeout_ns=_CHANGE_NS, limit_bytes=_COMPLAINT_LIMIT_BYTES))
        except AgentError as error:
            raise GuestCannot(
                f"{undo.host}: {error}; install iproute2 there, or leave the parameters link_... out"
            ) from error
        if ended.status == 0:
            return
        message = (ended.stderr or ended.stdout).decode(errors="replace").strip() or f"it ended with {ended.status}"
        complaint = f"{undo.host}: tc: {message.splitlines()[0]}"
        if "not permitted" in complaint:
            raise GuestCannot(f"{complaint}; give a user that is root there, or leave the parameters link_... out")
        raise GuestError(complaint)

    return end_there(change, lambda: undo.guard(["tc", "qdisc", "del", "dev", nic, "root"]))


def _addresses(agent: AgentClient, names: Sequence[str], where: str) -> tuple[tuple[str, str], ...]:
    """Name and MAC address of each interface, from the agent's facts."""
    known = {interface.name: interface.mac for interface in agent.ask(FactsRequest()).interfaces if interface.mac}
    missing = [name for name in names if name not in known]
    if missing:
        raise LabError(f"testbed: {where} has no interface {', '.join(missing)}; it has: {', '.join(known)}")
    return tuple((name, known[name]) for name in names)


@dataclass
class Apart:
    """An agent once more on its host, for one request at a time, in a network namespace of its own with veth pairs.

    What is sent into ``pair<n>out`` arrives at ``pair<n>in`` and nowhere else. It calls its own executable, which need
    have no file any more.
    """

    agent: Caller
    pairs: int
    channel_marks: deque[ChannelMark] = field(default_factory=deque)

    @property
    def ended(self) -> bool:
        """When the agent that calls it is gone."""
        return self.agent.ended

    def close(self) -> None:
        """Nothing is left of a request that was answered."""

    def ask(self, request: Request[Reply], deadline_seconds: float = 60.0) -> Reply:
        """One request in a namespace that is made for it; raises a ``GuestError`` as any agent."""
        line = json.dumps({"id": 1, **request.to_json()}).encode() + b"\n"
        argv = ("/proc/self/exe", "--role", "peer", "--channel", "stdio", "--pairs", str(self.pairs))
        ended = self.agent.ask(
            ExecRequest(argv=argv, stdin=line, timeout_ns=int(deadline_seconds * 1e9), limit_bytes=_ANSWER_LIMIT_BYTES),
            deadline_seconds + 5,
        )
        lines = [json.loads(line) for line in ended.stdout.splitlines()]
        answer = next((line for line in lines if line.get("id") == 1), None)
        if answer is None:
            complaint = ended.stderr.decode(errors="replace").strip() or "no message"
            raise GuestError(f"the agent gave no answer from a namespace of its own: {complaint.splitlines()[-1]}")
        if "ok" not in answer:
            raise AgentError(answer["error"]["kind"], f"'{request.op}' was refused: {answer['error']['message']}")
        return request.read_reply(answer["ok"], "the agent in a namespace of its own")

    def stream_ends(self, number: int) -> tuple[tuple[str, str], tuple[str, str]]:
        """Name and MAC address of both ends of a pair: where frames go in, where they come out."""
        return (
            (f"pair{number}out", f"02:76:74:03:00:{number:02x}"),
            (f"pair{number}in", f"02:76:74:03:01:{number:02x}"),
        )
