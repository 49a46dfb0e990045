"""One point by several agents: how their answers are joined, and that no sink is left open when one of them fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.agents import OperationAgent, processor_times
from tests.support.facts import refused

from virtoll.agent.client import TrafficAgents
from virtoll.agent.operations.session import ClocksReply, Done
from virtoll.agent.operations.traffic import SinkFinishReply, SinkFinishRequest, SinkOpenReply, SourceTotals
from virtoll.errors import AgentError, GuestDied, GuestError
from virtoll.runfolder.record import Record
from virtoll.runfolder.traffic_records import (
    Cpu,
    InterfaceChange,
    Point,
    SendReply,
    Sink,
    SinkCounts,
    SourceCounts,
    TrafficReply,
)
from virtoll.workloads.traffic import FrameParameters, Lane, TrafficStream, send, unbalanced

LANE = Lane("eth1", "02:00:00:00:00:01", "02:00:00:00:00:02", "10.1.0.1", "10.2.0.1")
STREAM = TrafficStream((LANE,), ("eth1",), None, None)


BOOKS = SourceTotals(intended_frames=10, offered_frames=9, unsent_frames=1)
SENT = SendReply(
    backend="af-packet",
    frame_size_bytes=64,
    sources=(SourceCounts(source=0, start_monotonic_ns=1, end_monotonic_ns=2, **BOOKS.to_json()),),
    interfaces=(InterfaceChange(interface="eth1", rx_packets=0, tx_packets=9),),
    cpu=Cpu(generator_cpu_ns=5, processors=(processor_times(0),)),
)
ARRIVED = SinkCounts(
    source=0,
    forwarded_frames=7,
    lost_frames=2,
    duplicate_frames=0,
    reordered_frames=0,
    first_received_monotonic_ns=3,
    last_received_monotonic_ns=4,
)
SINK = Sink(
    per_source=(ARRIVED,), foreign_frames=0, late_trial_frames=0, kernel_dropped_frames=0, drained=True, backend="xdp"
)
RECEIVED = SinkFinishReply(
    sink=SINK,
    interfaces=(InterfaceChange(interface="eth1", rx_packets=7, tx_packets=0),),
    cpu=Cpu(sink_cpu_ns=6, processors=(processor_times(1),)),
)
OPEN = SinkOpenReply(backend="xdp")


def point(generator: OperationAgent, sink: OperationAgent) -> Point:
    return send(TrafficAgents(generator, sink), STREAM, FrameParameters(), 3, 1_000_000, 10_000.0, histograms=True)


def test_two_halves_are_joined_to_what_one_agent_answers() -> None:
    generator = OperationAgent(send=SENT)
    sink = OperationAgent(sink_open=OPEN, sink_finish=RECEIVED)
    reported = point(generator, sink)
    assert unbalanced([reported]) is None
    assert reported.sink == SINK
    assert [one.interface for one in reported.interfaces or ()] == ["eth1", "eth1"]
    assert reported.cpu == Cpu(
        generator_cpu_ns=5,
        sink_cpu_ns=6,
        processors=(processor_times(0),),
        sink_processors=(processor_times(1),),
    )
    assert sink.operations() == ["sink-open", "sink-finish"]
    assert {**generator.asked[0].to_json(), "op": ""} == {**sink.asked[0].to_json(), "op": ""}
    assert sink.asked[1] == SinkFinishRequest(sources=(BOOKS,))


def several(
    *agents: OperationAgent, sink: OperationAgent, sources: int = 3, of_source: tuple[int, ...] = (0, 1, 1)
) -> Point:
    """A point of so many sources, of which each is sent as by one of the agents."""
    lanes = tuple(replace(LANE, interface=f"eth{number}") for number in range(sources))
    ends = TrafficAgents(agents[0], sink, tuple(agents[number] for number in of_source))
    stream = TrafficStream(lanes, ("eth1",), None, None)
    return send(ends, stream, FrameParameters(sources=sources), 3, 1_000_000, 10_000.0)


def sent_as(count: int, **more: Any) -> SendReply:
    """What an agent answers that sent as so many sources, by their places in its request."""
    sources = tuple(SENT.sources[0].replace(source=place, start_monotonic_ns=10 * place) for place in range(count))
    cpu = Cpu(generator_cpu_ns=5, generator_user_ns=2, generator_cores=(1,) * count, processors=(processor_times(0),))
    return SENT.replace(**{"sources": sources, "cpu": cpu, **more})


CLOCKS = ClocksReply(realtime_ns=1, monotonic_ns=2, monotonic_raw_ns=3, boottime_ns=4)


def test_several_generators_each_send_as_their_own_sources() -> None:
    """The sink is told of all; each generator of its own by their numbers, and of when to begin."""
    arrived = RECEIVED.replace(
        sink=SINK.replace(per_source=tuple(ARRIVED.replace(source=number) for number in range(3)))
    )
    sink = OperationAgent(sink_open=OPEN, sink_finish=arrived)
    agents = [OperationAgent(clocks=CLOCKS, send=sent_as(count)) for count in (1, 2)]
    reported = several(*agents, sink=sink)
    assert unbalanced([reported]) is None
    assert [(one.source, one.start_monotonic_ns) for one in reported.sources] == [(0, 0), (1, 0), (2, 10)]
    for agent, own in zip(agents, ((0,), (1, 2)), strict=True):
        assert agent.operations() == ["clocks", "send"]
        asked: Any = agent.asked[1].to_json()
        assert [(one["number"], one["interface"]) for one in asked["sources"]] == [(one, f"eth{one}") for one in own]
        assert asked["delay_ns"] >= 0
        assert asked["sink"] == sink.asked[0].to_json()["sink"]
    assert sink.asked[1] == SinkFinishRequest(sources=(BOOKS,) * 3)
    cpu = reported.cpu
    assert (cpu.generator_cpu_ns, cpu.generator_user_ns, cpu.generator_cores) == (10, 4, (None,) * 3)
    assert cpu.processors is None
    assert (cpu.sink_cpu_ns, cpu.sink_processors) == (6, (processor_times(1),))
    stored: Any = reported.to_json()["generator_clocks"]
    assert [(one["sources"], one["monotonic_ns"]) for one in stored] == [([0], 2), ([1, 2], 2)]
    assert all(one["asked_monotonic_ns"] <= one["answered_monotonic_ns"] for one in stored)


def counted(*forwarded: int, **more: Any) -> SinkFinishReply:
    """What an agent answers that counted so many frames of each source, and 9 were offered of each it was told of."""
    own = tuple(
        ARRIVED.replace(source=number, forwarded_frames=count, lost_frames=(9 - count if count else 0))
        for number, count in enumerate(forwarded)
    )
    cpu = Cpu(sink_cpu_ns=6, sink_core=1, processors=(processor_times(1),))
    return RECEIVED.replace(sink=SINK.replace(per_source=own, foreign_frames=2, **more), cpu=cpu)


def test_several_sinks_each_count_what_arrives_at_their_own_interfaces() -> None:
    """Each is told what its own sources offered, and of the others nothing; what is of no source is added up."""
    generator = OperationAgent(send=sent_as(3))
    sinks = [
        OperationAgent(sink_open=OPEN, sink_finish=counted(8, 0, 0, kernel_dropped_frames=3)),
        OperationAgent(sink_open=OPEN, sink_finish=counted(0, 7, 6, kernel_dropped_frames=4, drained=False)),
    ]
    lanes = tuple(replace(LANE, interface=f"eth{number}") for number in range(3))
    stream = TrafficStream(lanes, ("out0", "out1", "out2"), None, None)
    ends = TrafficAgents(generator, sinks[0], of_sink=(sinks[0], sinks[1], sinks[1]))
    reported = send(ends, stream, FrameParameters(sources=3, egress="each"), 3, 1_000_000, 10_000.0)
    sink = reported.sink
    counts = [(one.source, one.forwarded_frames, one.lost_frames) for one in sink.per_source]
    assert counts == [(0, 8, 1), (1, 7, 2), (2, 6, 3)]
    assert (sink.foreign_frames, sink.kernel_dropped_frames, sink.drained) == (4, 7, False)
    assert (reported.cpu.sink_cpu_ns, reported.cpu.sink_core) == (12, None)
    nothing = SourceTotals(intended_frames=0, offered_frames=0, unsent_frames=0)
    for one, own, told in (
        (sinks[0], ("out0",), (BOOKS, nothing, nothing)),
        (sinks[1], ("out1", "out2"), (nothing, BOOKS, BOOKS)),
    ):
        opened: Any = one.asked[0].to_json()
        assert (tuple(opened["sink"]["interfaces"]), len(opened["sources"])) == (own, 3)
        assert one.asked[1] == SinkFinishRequest(sources=told)


def test_no_sink_of_several_stays_open_when_one_does_not_open() -> None:
    generator = OperationAgent(send=SENT)
    sinks = [OperationAgent(sink_open=OPEN, sink_close=Done()), OperationAgent(sink_open=AgentError("system", "no"))]
    ends = TrafficAgents(generator, sinks[0], of_sink=tuple(sinks))
    lanes = tuple(replace(LANE, interface=f"eth{number}") for number in range(2))
    stream = TrafficStream(lanes, ("out0", "out1"), None, None)
    with refused("no", error=AgentError):
        send(ends, stream, FrameParameters(sources=2, egress="each"), 3, 1_000_000, 10_000.0)
    assert [one.operations() for one in sinks] == [["sink-open", "sink-close"], ["sink-open"]]
    assert generator.operations() == []


def test_a_generator_that_has_no_source_of_a_point_is_not_asked() -> None:
    first = OperationAgent(send=SENT)
    sink = OperationAgent(sink_open=OPEN, sink_finish=RECEIVED)
    reported = several(first, OperationAgent(), sink=sink, sources=1)
    assert unbalanced([reported]) is None
    assert first.operations() == ["send"]
    assert reported.generator_clocks is None


@pytest.mark.parametrize(
    ("second", "facts"),
    [
        (GuestDied("the agent ended"), ("the agent ended",)),
        (sent_as(2, backend="af-xdp"), ("af-packet", "af-xdp", "'backend'")),
    ],
)
def test_generators_that_send_unlike_leave_no_sink_open(second: Record | GuestError, facts: tuple[str, ...]) -> None:
    sink = OperationAgent(sink_open=OPEN, sink_close=Done(), sink_finish=RECEIVED)
    agents = [OperationAgent(clocks=CLOCKS, send=answer) for answer in (sent_as(1), second)]
    with refused(*facts, error=GuestError):
        several(*agents, sink=sink)
    assert sink.operations() == ["sink-open", "sink-close"]


def test_one_agent_is_asked_for_the_whole() -> None:
    both = OperationAgent(traffic=TrafficReply.from_record(SENT, sink=SINK))
    send(TrafficAgents.of_one(both), STREAM, FrameParameters(), 3, 1_000_000, None, histograms=False)
    assert both.operations() == ["traffic"]


@pytest.mark.parametrize("death", [AgentError("system", "send on eth1: no room"), GuestDied("the agent ended")])
def test_no_sink_stays_open_when_the_generator_fails(death: GuestError) -> None:
    sink = OperationAgent(sink_open=OPEN, sink_close=Done(), sink_finish=RECEIVED)
    with pytest.raises(type(death)):
        point(OperationAgent(send=death), sink)
    assert sink.operations() == ["sink-open", "sink-close"]
    assert unbalanced([point(OperationAgent(send=SENT), sink)]) is None


def test_the_first_failure_is_the_one_that_is_raised() -> None:
    """The sink fails as it finishes, so there is nothing left to close; that is no news."""
    sink = OperationAgent(
        sink_open=OPEN,
        sink_close=AgentError("bad-request", "no sink is open"),
        sink_finish=AgentError("system", "source 0 does not balance"),
    )
    with refused("source 0", error=AgentError):
        point(OperationAgent(send=SENT), sink)
    assert sink.operations() == ["sink-open", "sink-finish", "sink-close"]


def test_a_sink_that_does_not_open_lets_nothing_be_sent() -> None:
    generator = OperationAgent(send=SENT)
    with refused("no such interface", error=AgentError):
        point(generator, OperationAgent(sink_open=AgentError("system", "no such interface")))
    assert generator.operations() == []
