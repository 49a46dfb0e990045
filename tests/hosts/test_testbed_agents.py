"""A lab takes over what the launcher started on a testbed's hosts: agents, their clean-up, and this machine's NICs."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.agents import OperationAgent, recorded_reply
from tests.support.dom0 import GuestConsole
from tests.support.facts import refused
from tests.support.present import present
from tests.support.workload_trials import exited

from virtoll.agent.client import TrafficAgents
from virtoll.agent.operations.session import FactsRequest
from virtoll.errors import AgentError, GuestError, LabError
from virtoll.experiment.topology import NeighbourNics
from virtoll.experiment.topology import Testbed as Section
from virtoll.hosts import remote_peer as room
from virtoll.hosts.remote_peer import RemotePeer, remote_peer
from virtoll.hosts.session import VARIABLE
from virtoll.lab.network import plan_links

MACS = {nic["name"]: nic["mac"] for nic in recorded_reply("facts")["interfaces"]}
OUTSIDE = 77
LOCAL = "local"
PEER, OTHER, THIRD = ({"ssh": f"bench@{name}"} for name in ("peer", "other", "third"))


@dataclass
class RecordedNetwork:
    """A lab's network that keeps which NICs it took and what they face."""

    taken: list[tuple[object, ...]] = field(default_factory=list)
    faced: dict[str, Any] = field(default_factory=dict)

    def adopt(self, names: tuple[str, ...], outside: int, *, peer: bool = False) -> None:
        self.taken.append((*names, outside, peer))

    def face(self, ends: dict[str, Any]) -> None:
        self.faced |= ends


def section(generator: object, sink: object, *, nics: int = 2, host: object = LOCAL, **changed: Any) -> Section:
    hypervisor = {"host": host, "interfaces": [f"nic{number}" for number in range(nics)]}
    return Section.model_validate({"generator": generator, "sink": sink, "hypervisor": hypervisor, **changed})


def role(host: object, *interfaces: str) -> dict[str, object]:
    return {"host": host, "interfaces": list(interfaces)}


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], list[GuestConsole]]]:
    """Has so many agents started by the launcher, each with its clean-up, whose lines go to a file."""
    consoles: list[GuestConsole] = []

    def start(count: int) -> list[GuestConsole]:
        agents, undos = [], []
        for number in range(count):
            consoles.append(GuestConsole())
            descriptor = consoles[-1].ours.detach()
            agents.append((descriptor, descriptor))
            answers = tmp_path / f"answers-{number}"
            answers.write_bytes(b"{}\n" * 20)
            written = os.open(tmp_path / f"undo-{number}", os.O_CREAT | os.O_WRONLY)
            undos.append((os.open(answers, os.O_RDONLY), written))
        monkeypatch.setenv(VARIABLE, json.dumps([agents, undos, OUTSIDE]))
        return consoles

    yield start
    for console in consoles:
        console.end()


def test_one_host_generates_and_counts(given: Callable[[int], list[GuestConsole]], tmp_path: Path) -> None:
    consoles, network = given(1), RecordedNetwork()
    with remote_peer(section(role(PEER, "eth0"), role(PEER, "eth1")), cast("Any", network)) as made:
        far = present(made)
        assert far.where == ("ssh bench@peer",)
        assert (far.near, far.sinks, far.bridges, far.neighbour, far.ended) == (("nic0", "nic1"), 1, "t", None, None)
        assert far.far == (("eth0", MACS["eth0"]), ("eth1", MACS["eth1"]))
        assert far.ends.generator is far.ends.sink
        assert (far.ends.of_source, far.ends.of_sink) == ((), ())
        assert network.taken == [("nic0", "nic1", OUTSIDE, False)]
        assert list(network.faced) == ["nic0", "nic1"]
        assert [link.trunk for link in far.reach(plan_links(0)).traffic] == ["nic0", "nic1"]
        assert {link.bridge for link in far.reach(plan_links(0)).traffic} == {"tin0", "tout"}
        agent: Any = far.ends.generator
    assert consoles[0].asked == ["hello", "facts"]
    assert agent.who == "the agent on ssh bench@peer"
    assert (tmp_path / "undo-0").read_text() == "", "nothing was changed there"
    with pytest.raises(GuestError):
        agent.ask(FactsRequest())


def test_each_of_several_hosts_has_its_own_part(given: Callable[[int], list[GuestConsole]]) -> None:
    given(3)
    hosts = section(
        [role(PEER, "eth0"), role(OTHER, "eth1")],
        [role(THIRD, "eth0", "eth2")],
        nics=4,
    )
    network = RecordedNetwork()
    with remote_peer(hosts, cast("Any", network)) as made:
        far = present(made)
        who = [cast("Any", agent).who.split("@")[1] for agent in far.ends.of_source]
        assert who == ["peer", "other"]
        assert (far.ends.generator, far.ends.of_sink) == (far.ends.of_source[0], ())
        assert cast("Any", far.ends.sink).who.endswith("third")
        assert far.where == ("ssh bench@peer", "ssh bench@other", "ssh bench@third")
        assert [name for name, _ in far.far] == ["eth0", "eth1", "eth0", "eth2"]
        assert far.sinks == 2
        assert list(network.faced) == ["nic0", "nic1", "nic2", "nic3"]


def test_each_of_several_sinks_counts_its_own(given: Callable[[int], list[GuestConsole]]) -> None:
    given(3)
    hosts = section(
        [role(PEER, "eth0", "eth1")],
        [role(OTHER, "eth0"), role(THIRD, "eth2")],
        nics=4,
    )
    with remote_peer(hosts, cast("Any", RecordedNetwork())) as made:
        ends = present(made).ends
        assert [cast("Any", agent).who.split("@")[1] for agent in ends.of_sink] == ["other", "third"]
        assert (ends.sink, ends.of_source) == (ends.of_sink[0], ())


def test_a_guest_beside_has_an_agent_of_its_own(given: Callable[[int], list[GuestConsole]]) -> None:
    given(2)
    beside = NeighbourNics(generator="eth2", sink="lo", hypervisor=["nic2", "nic3"])
    hosts = section(role(PEER, "eth0"), role(PEER, "eth1")).model_copy(update={"neighbour": beside})
    network = RecordedNetwork()
    with remote_peer(hosts, cast("Any", network)) as made:
        far = present(made)
        own = present(far.neighbour)
        assert (own.where, own.near, own.sinks, own.bridges) == (("ssh bench@peer",), ("nic2", "nic3"), 1, "tb")
        assert own.far == (("eth2", MACS["eth2"]), ("lo", MACS["lo"]))
        assert own.ends.generator is own.ends.sink is not far.ends.generator
        assert network.taken == [("nic0", "nic1", "nic2", "nic3", OUTSIDE, False)]
        assert len(far.where) == 1
        own.ends.generator.close()
        assert far.ended == "ssh bench@peer"


def test_an_interface_that_is_missing_there_is_named(given: Callable[[int], list[GuestConsole]]) -> None:
    given(1)
    network = RecordedNetwork()
    with (
        refused("testbed", "ssh bench@peer", "eth7", "lo, eth0, eth1, eth2", error=LabError),
        remote_peer(section(role(PEER, "eth0"), role(PEER, "eth7")), cast("Any", network)),
    ):
        pass
    assert network.taken == []


def test_without_a_testbed_or_a_launcher_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with remote_peer(None, cast("Any", None)) as made:
        assert made is None
    with (
        refused("testbed", "'virtoll'", error=LabError),
        remote_peer(section(role(PEER, "eth0"), role(PEER, "eth1")), cast("Any", None)),
    ):
        pass


@pytest.mark.parametrize("wanted", [True, False, None])
def test_nics_have_the_flow_control_that_is_asked_for(
    given: Callable[[int], list[GuestConsole]], monkeypatch: pytest.MonkeyPatch, wanted: bool | None
) -> None:
    given(0)
    switched: list[tuple[str, bool]] = []
    monkeypatch.setattr(room, "switch", lambda nic, on: switched.append((nic, on)))
    there = section(role(LOCAL, "nic0"), role(LOCAL, "nic1"), host=PEER, flow_control=wanted)
    network = RecordedNetwork()
    with remote_peer(there, cast("Any", network)) as made:
        assert made is None, "generator and sink are this machine's own peer"
    assert network.taken == [("nic0", "nic1", OUTSIDE, True)]
    assert switched == ([("nic0", wanted), ("nic1", wanted)] if wanted is not None else [])


def test_which_hosts_agent_is_gone_is_known() -> None:
    alive, gone = OperationAgent(), OperationAgent()
    gone.close()
    ends = TrafficAgents(alive, gone)
    assert RemotePeer(ends=ends, where=("a", "b"), near=(), far=(), sinks=1).ended == "b"
    assert RemotePeer(ends=TrafficAgents.of_one(alive), where=("a",), near=(), far=(), sinks=1).ended is None


def test_an_agent_apart_that_refuses_says_what() -> None:
    error = json.dumps({"id": 1, "error": {"kind": "system", "message": "no room"}}) + "\n"
    with refused("facts", "no room", error=AgentError):
        room.Apart(OperationAgent(exec=exited(stdout=error)), 1).ask(FactsRequest())
    unreadable = {**exited(1), "stderr": base64.b64encode(b"\xff not UTF-8").decode()}
    with refused("not UTF-8", error=GuestError):
        room.Apart(OperationAgent(exec=unreadable), 1).ask(FactsRequest())
    apart = room.Apart(OperationAgent(), 3)
    assert apart.stream_ends(2) == (("pair2out", "02:76:74:03:00:02"), ("pair2in", "02:76:74:03:01:02"))
    assert not apart.ended
