"""Guests that take turns in bursts: one request for all, a point for each, and who may take turns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.agents import OperationAgent
from tests.support.made_up_points import Ends, Rates, made_up_reply
from tests.support.traffic_trials import forwarding_bench
from tests.support.workload_trials import ProgramGuest

from virtoll.agent.operations.traffic import TrafficRequest
from virtoll.runfolder.traffic_records import InTurn, TrafficReply
from virtoll.stats.values import forwarded_rate, offered_rate
from virtoll.workloads.base import Bench, Measurement
from virtoll.workloads.forward import Forward

MS = 1_000_000
RATES = (Rates(900_000.0, 800_000.0), Rates(900_000.0, 300_000.0), Rates(900_000.0, 250_000.0))
PLAIN: dict[str, Any] = {"sweep": "from-flat-out", "point_milliseconds": 150}


def in_bursts(waited_ns: int = 0) -> OperationAgent:
    """A peer whose sources take turns; the thread that sends them had no CPU for so long."""

    def traffic(request: TrafficRequest) -> TrafficReply:
        reply = made_up_reply(
            request.frame_size_bytes,
            request.duration_ns,
            None,
            RATES[: len(request.sources)],
            Ends("live-frames", "xdp", shared=False),
        )
        took_ns = request.duration_ns + 1000
        sources = tuple(
            source.replace(bursts_ns=took_ns, cpu_ns=took_ns, waited_ns=waited_ns, thread=0) for source in reply.sources
        )
        arrived = tuple(counts.replace(bursts_ns=took_ns) for counts in reply.sink.per_source)
        return reply.replace(sources=sources, sink=reply.sink.replace(per_source=arrived))

    return OperationAgent(traffic=traffic, counters={}, network={}, path_delay={"round_trip_ns": [1]})


def benches(peer: OperationAgent, count: int = 3) -> list[Bench]:
    return [forwarding_bench(peer, ProgramGuest(), number=number, reads_hops=True) for number in range(count)]


def forward(**changed: Any) -> Forward:
    return Forward.with_parameters({**PLAIN, **changed})


def test_all_guests_are_sent_through_by_one_request_in_turn() -> None:
    peer = in_bursts()
    guests = benches(peer)
    measured = forward().measure_in_turn(guests)
    (request,) = peer.requests(TrafficRequest)
    bursts = request.bursts
    assert bursts is not None
    assert (bursts.count, bursts.burst_ns, request.duration_ns) == (6, 25 * MS, 150 * MS)
    assert bursts.pause_ns > 0
    entries = [bench.network.sources[0].peer_interface for bench in guests]
    assert [source.interface for source in request.sources] == entries
    assert request.sink.interfaces == tuple(bench.network.sink.peer_interface for bench in guests)
    assert all(source.rate_frames_per_second is None for source in request.sources)
    assert len({source.key for source in request.sources}) == len(guests)
    assert len(measured) == len(guests)
    assert [one.problem for one in measured] == [None] * len(guests)


def test_each_guest_has_a_point_of_its_own_source() -> None:
    measured = forward().measure_in_turn(benches(in_bursts()))
    for one, rates in zip(measured, RATES, strict=True):
        (point,) = one.points or ()
        assert (len(point.sources), len(point.sink.per_source)) == (1, 1)
        assert (point.sources[0].source, point.sink.per_source[0].source) == (0, 0)
        assert point.in_turn == InTurn(3, 6, 25 * MS, 3 * MS)
        assert (point.duration_ns, point.intended_rate_frames_per_second) == (150 * MS, None)
        assert forwarded_rate(point) == pytest.approx(rates.forwarded, rel=1e-3)
        assert offered_rate(point) == pytest.approx(rates.offered, rel=1e-3)
        assert [hop.role for hop in point.hops or ()] == ["generator", "guest-in", "exit", "sink"]
    entries = {(one.points or ())[0].hops[0].interface for one in measured}  # type: ignore[index]
    assert len(entries) == len(RATES), "of its own way"


@pytest.mark.parametrize(("milliseconds", "count"), [(10, 1), (40, 2), (200, 8)])
def test_bursts_take_as_long_as_a_point(milliseconds: int, count: int) -> None:
    peer = in_bursts()
    forward(point_milliseconds=milliseconds).measure_in_turn(benches(peer, 2))
    (request,) = peer.requests(TrafficRequest)
    assert request.bursts is not None
    assert (request.bursts.count, request.bursts.burst_ns) == (count, milliseconds * MS // count)
    assert request.duration_ns == request.bursts.count * request.bursts.burst_ns


def test_bursts_whose_sender_had_no_cpu_are_sent_again_and_then_no_result() -> None:
    peer = in_bursts(waited_ns=100 * MS)
    measured = forward().measure_in_turn(benches(peer, 2))
    assert len(peer.requests(TrafficRequest)) == 4, "three times again"
    assert all("CPU" in (one.problem or "") for one in measured)
    assert [len((one.points or ())[0].discarded) for one in measured] == [3, 3]


def first_round(**changed: Any) -> Measurement:
    """A first round whose best point is flat out, by the kernel's loop and counted by its XDP program."""
    best = forward().measure_in_turn(benches(in_bursts(), 1))[0].points or ()
    return Measurement(points=[best[0].replace(in_turn=None, **changed)])


def test_who_was_best_flat_out_takes_turns() -> None:
    bench = benches(in_bursts(), 1)[0]
    plain = first_round()
    assert forward().takes_turns(bench, plain)
    assert not forward().takes_turns(bench, Measurement())
    assert not forward().takes_turns(bench, first_round(intended_rate_frames_per_second=1000.0)), "overload did harm"
    assert not forward().takes_turns(bench, first_round(backend="af-packet"))
    point = (plain.points or ())[0]
    assert not forward().takes_turns(bench, first_round(sink=point.sink.replace(backend="tpacket")))
    apart = replace(bench, peer=replace(bench.peer, sink=in_bursts()))
    assert not forward().takes_turns(apart, plain), "generator and sink are two hosts'"


@pytest.mark.parametrize(
    "changed", [{"sweep": "rising"}, {"sources": 2}, {"routes": 10}, {"directions": "both"}], ids=str
)
def test_other_shapes_have_no_turns(changed: dict[str, Any]) -> None:
    assert forward().has_turns()
    assert not forward(**changed).has_turns()
