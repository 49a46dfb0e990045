"""The controller between the two halves of a trial: how they are joined, and what it leaves when one of them fails."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import replace
from typing import Any

import pytest

from virtoll.agent.client import Answer, ChannelMark, TrafficAgents
from virtoll.errors import AgentError, GuestDied, GuestError, LabError
from virtoll.hosts.remote_peer import Apart, RemotePeer
from virtoll.platforms.fake.site import model_site
from virtoll.run.fleet import Pinning
from virtoll.run.session import CommandLog, RunSession
from virtoll.workloads.traffic import FrameParameters, Lane, TrafficStream, send, unbalanced

LANE = Lane("eth1", "02:00:00:00:00:01", "02:00:00:00:00:02", "10.1.0.1", "10.2.0.1")
STREAM = TrafficStream((LANE,), ("eth1",), None, None)
BOOKS = {"source": 0, "intended_frames": 10, "offered_frames": 9, "unsent_frames": 1}
SENT = {
    "backend": "af-packet",
    "sources": [BOOKS],
    "interfaces": [{"interface": "eth1", "tx_packets": 9}],
    "cpu": {"generator_cpu_ns": 5, "processors": [{"cpu": 0}]},
}
RECEIVED = {
    "sink": {"per_source": [{"source": 0, "forwarded_frames": 7, "lost_frames": 2}], "drained": True},
    "interfaces": [{"interface": "eth1", "rx_packets": 7}],
    "cpu": {"sink_cpu_ns": 6, "processors": [{"cpu": 1}]},
}


class Scripted:
    """Answers each operation with what is written down, or raises it; remembers what it was asked."""

    def __init__(self, answers: dict[str, Answer | GuestError], *, ended: bool = False) -> None:
        self.answers, self.ended = answers, ended
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.channel_marks: deque[ChannelMark] = deque()

    def call(self, op: str, deadline_seconds: float = 10.0, **fields: Any) -> Answer:
        assert deadline_seconds > 0
        self.asked.append((op, fields))
        answer = self.answers[op]
        if isinstance(answer, GuestError):
            raise answer
        return answer

    def close(self) -> None:
        self.ended = True

    @property
    def operations(self) -> list[str]:
        return [op for op, _ in self.asked]


def point(generator: Scripted, sink: Scripted) -> dict[str, Any]:
    return send(TrafficAgents(generator, sink), STREAM, FrameParameters(), 3, 1_000_000, 10_000.0, histograms=True)


def test_two_halves_are_joined_to_what_one_agent_answers() -> None:
    generator = Scripted({"send": SENT})
    sink = Scripted({"sink-open": {"backend": "xdp"}, "sink-finish": RECEIVED})
    reported = point(generator, sink)
    assert unbalanced([reported]) is None
    assert reported["sink"] == RECEIVED["sink"]
    assert [one["interface"] for one in reported["interfaces"]] == ["eth1", "eth1"]
    assert reported["cpu"] == {
        "generator_cpu_ns": 5,
        "sink_cpu_ns": 6,
        "processors": [{"cpu": 0}],
        "sink_processors": [{"cpu": 1}],
    }
    assert sink.operations == ["sink-open", "sink-finish"]
    assert generator.asked[0][1] == sink.asked[0][1]
    assert sink.asked[1][1] == {"sources": [{key: BOOKS[key] for key in BOOKS if key != "source"}]}


def test_one_agent_is_asked_for_the_whole() -> None:
    both = Scripted({"traffic": SENT})
    send(TrafficAgents.of_one(both), STREAM, FrameParameters(), 3, 1_000_000, None, histograms=False)
    assert both.operations == ["traffic"]


@pytest.mark.parametrize("death", [AgentError("system", "send on eth1: no room"), GuestDied("the agent ended")])
def test_no_sink_stays_open_when_the_generator_fails(death: GuestError) -> None:
    sink = Scripted({"sink-open": {}, "sink-close": {}, "sink-finish": RECEIVED})
    with pytest.raises(GuestError, match=str(death)):
        point(Scripted({"send": death}), sink)
    assert sink.operations == ["sink-open", "sink-close"]
    assert unbalanced([point(Scripted({"send": SENT}), sink)]) is None


def test_the_first_failure_is_the_one_that_is_told() -> None:
    """The sink fails as it finishes, so there is nothing left to close; that is no news."""
    sink = Scripted(
        {
            "sink-open": {},
            "sink-close": AgentError("bad-request", "no sink is open"),
            "sink-finish": AgentError("system", "the books of source 0 do not balance"),
        }
    )
    with pytest.raises(AgentError, match="do not balance"):
        point(Scripted({"send": SENT}), sink)
    assert sink.operations == ["sink-open", "sink-finish", "sink-close"]


def test_a_sink_that_does_not_open_lets_nothing_be_sent() -> None:
    generator = Scripted({"send": SENT})
    with pytest.raises(AgentError, match="no such interface"):
        point(generator, Scripted({"sink-open": AgentError("system", "no such interface")}))
    assert generator.operations == []


def test_a_run_whose_far_agent_is_gone_ends_with_its_host_named() -> None:
    """It cannot be started anew from inside the lab, and no platform is to blame."""
    far = RemotePeer(TrafficAgents(Scripted({}), Scripted({}, ended=True)), ("ssh a", "ssh b"), (), ())
    site = replace(model_site(), peer=Scripted({}), far=far)
    run_session = RunSession(site, Pinning((), None, None), itertools.count(1), CommandLog())
    with pytest.raises(LabError, match=r"the agent on ssh b ended; .*virtoll resume"):
        run_session.refuse_dead_peer(GuestDied("it ended"))


def test_an_agent_apart_says_why_it_gave_no_answer() -> None:
    silent = Scripted({"exec": {"stdout": "", "stderr": "bm90IGFsbG93ZWQK"}})
    with pytest.raises(GuestError, match="not allowed"):
        Apart(silent, 1).call("traffic")
    assert silent.asked[0][1]["argv"][-2:] == ["--pairs", "1"]
