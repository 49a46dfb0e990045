"""Guests that send side by side: each its own half, the sink all counts, and how long they sent together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.agents import OperationAgent, recorded_reply
from tests.support.facts import Fact, assert_facts, refused
from tests.support.hand_overs import reading
from tests.support.traffic_trials import forwarding_bench
from tests.support.workload_trials import ProgramGuest, assert_problem, measure

from virtoll.agent.hand_over import HandOverReader
from virtoll.agent.operations.hand_over import HandOverReply
from virtoll.agent.operations.traffic import SendRequest, SinkFinishRequest, SinkOpenRequest, SourceTotals
from virtoll.errors import AgentError, GuestCannot
from virtoll.runfolder.hand_over import HandOverSpan
from virtoll.workloads.base import Bench, Measurement
from virtoll.workloads.transmitters import TransmittersParameters

Arrival = tuple[int, int | None, int | None]
"""Frames that arrived, and when the first and the last of them did, ns."""
TOGETHER: tuple[Arrival, Arrival] = ((100, 0, 900), (90, 100, 1000))


def sink(*arrived: Arrival) -> OperationAgent:
    """A peer at which so many frames of each guest arrived."""
    of_source = recorded_reply("sink-finish")["sink"]["per_source"][0]
    counts = [
        {
            **of_source,
            "source": number,
            "forwarded_frames": count,
            "lost_frames": 100 - count,
            "first_received_monotonic_ns": first,
            "last_received_monotonic_ns": last,
        }
        for number, (count, first, last) in enumerate(arrived)
    ]
    cpu = {**recorded_reply("sink-finish")["cpu"], "sink_waited_ns": 0}
    finish = {"sink": {"per_source": counts, "drained": True, "late_trial_frames": 0}, "cpu": cpu}
    return OperationAgent(sink_open={}, sink_close={}, sink_finish=finish, network={})


def sender(**failing: Any) -> ProgramGuest:
    """A guest that sends 100 frames."""

    books = {"intended_frames": 100, "offered_frames": 100, "unsent_frames": 0}
    sent = {"sources": [{**recorded_reply("send")["sources"][0], **books, "source": 0}]}
    return ProgramGuest(**{"send": sent, **failing})


def two(peer: OperationAgent, *guests: ProgramGuest, **given: Any) -> Bench:
    """Two guests side by side."""
    first, second = guests or (sender(), sender())
    return forwarding_bench(peer, first, forwarding_bench(peer, second, number=5, **given), number=3, **given)


def trial(peer: OperationAgent, *guests: ProgramGuest, **wanted: Any) -> Measurement:
    return measure("transmitters", two(peer, *guests), **{"transmitters": 2, "duration_milliseconds": 100, **wanted})


def test_each_guest_sends_its_own_half_and_the_sink_counts_all() -> None:
    peer, guests = sink(*TOGETHER), (sender(), sender())
    measured = trial(peer, *guests, rate_frames_per_second=1000)
    assert measured.problem is None
    (opened,), (finished,) = peer.requests(SinkOpenRequest), peer.requests(SinkFinishRequest)
    assert opened.sink.interfaces == ("p3out", "p5out")
    assert [one.destination_address for one in opened.sources] == ["10.67.3.2", "10.69.3.2"]
    books = SourceTotals(intended_frames=100, offered_frames=100, unsent_frames=0)
    assert finished.sources == (books, books)
    for number, guest in enumerate(guests):
        (asked,) = guest.requests(SendRequest)
        (source,) = asked.sources
        assert (source.number, source.interface, source.cpu) == (number, "eth1", None)
        assert (source.rate_frames_per_second, asked.duration_ns) == (1000, 100_000_000)
        assert (asked.delay_ns or 0) > 0
    (point,) = measured.points or ()
    assert [one.source for one in point.sources] == [0, 1]
    assert point.intended_rate_frames_per_second == 1000
    assert len(point.guests_cpu or ()) == 2
    assert (point.shared_link, point.shared_cpus) == (False, True)
    assert measured.result == {"together_share": 0.8, "shaped_by": None}


def test_senders_by_udp_sockets_are_asked_for_as_such() -> None:
    """Their interfaces have the addresses that the frames are from; only what sends differs."""
    asked = {}
    for kind in ("frames", "udp"):
        peer, guests = sink(*TOGETHER), (sender(), sender())
        assert trial(peer, *guests, sender=kind).problem is None
        for place, guest in enumerate(guests):
            (request,) = guest.requests(SendRequest)
            source = request.sources[0].replace(key=None)
            asked[kind, place] = (source, request.frame_size_bytes)
            assert request.backend == {"frames": "af-packet", "udp": "udp"}[kind]
    assert [asked["udp", place] for place in (0, 1)] == [asked["frames", place] for place in (0, 1)]


def test_a_backend_is_what_sends_frames() -> None:
    with pytest.raises(ValidationError) as raised:
        TransmittersParameters(sender="udp", backend="af-xdp")
    assert_facts(str(raised.value), "backend", "sender: frames")


def test_the_cpus_are_read_before_the_guests_send_and_after() -> None:
    reader = OperationAgent(hand_over=HandOverReply((reading(50),)))
    bench = replace(two(sink(*TOGETHER)), hand_overs=HandOverReader(reader, (1, 0)))
    (point,) = measure("transmitters", bench, transmitters=2, duration_milliseconds=100).points or ()
    assert point.hand_over == HandOverSpan((reading(50),), (reading(50),))


def test_guests_apart_share_no_cpus_and_flat_out_has_no_rate() -> None:
    measured = trial(sink(*TOGETHER), affinity="apart")
    (point,) = measured.points or ()
    assert (point.intended_rate_frames_per_second, point.shared_cpus) == (None, False)


@pytest.mark.parametrize(
    ("arrived", "facts"),
    [
        (((100, 0, 900), (0, None, None)), ("guest 2",)),
        (((100, 0, 600), (90, 350, 1000)), ("25%", "duration_milliseconds")),
        (((100, 0, 400), (90, 500, 1000)), ("0%", "duration_milliseconds")),
    ],
)
def test_guests_that_did_not_send_together_are_a_problem(arrived: Any, facts: tuple[Fact, ...]) -> None:
    assert_problem(trial(sink(*arrived)), *facts)


def test_half_of_the_time_together_is_enough() -> None:
    measured = trial(sink((100, 0, 750), (90, 250, 1000)))
    assert (measured.problem, measured.result) == (None, {"together_share": 0.5, "shaped_by": None})


def test_a_guest_that_fails_leaves_no_sink_open() -> None:
    peer = sink(*TOGETHER)
    with refused("no room", error=AgentError):
        trial(peer, sender(), sender(send=AgentError("system", "no room")))
    assert peer.operations() == ["sink-open", "sink-close"]


def test_one_link_for_all_leads_to_one_interface() -> None:
    peer = sink(*TOGETHER)
    wanted = {"transmitters": 2, "duration_milliseconds": 100, "nic": "shared"}
    measured = measure("transmitters", two(peer, shared=True), **wanted)
    assert measured.problem is None
    (opened,) = peer.requests(SinkOpenRequest)
    assert opened.sink.interfaces == ("pshared",)
    assert (measured.points or ())[0].shared_link is True
    with refused("NIC", "nic: own", error=GuestCannot):
        measure("transmitters", two(peer), **wanted)


def test_guests_behind_one_real_nic_are_refused() -> None:
    with refused("testbed", error=GuestCannot):
        measure("transmitters", two(sink(*TOGETHER), links={"trunk": "eth0"}), transmitters=2)


def test_a_link_rate_is_of_the_shared_nic() -> None:
    with pytest.raises(ValidationError) as raised:
        TransmittersParameters(link_rate_bits_per_second=1000)
    assert_facts(str(raised.value), "link_rate_bits_per_second", "nic: shared")
