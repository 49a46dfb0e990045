"""Sources that each leave the guest by a link of their own: every frame arrives by it, and is missed there alone.

A machine with as many is in tests/platforms/test_machines_elsewhere.py.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.support import guests
from tests.support.guests import Connected

from virtoll.lab.init import silence_ipv6
from virtoll.lab.network import plan_links
from virtoll.pipeline.session import RunSession
from virtoll.runfolder.traffic_records import Hop, Point
from virtoll.stats.hops import CHATTER_FRAMES, Owner, Segment, growth, locate
from virtoll.workloads.forward import Forward, ForwardParameters
from virtoll.workloads.router import routing
from virtoll.workloads.traffic import unbalanced

INSIDE_LAB = True
pytestmark = [pytest.mark.lab]

SOURCES = 3


@pytest.fixture(scope="module", params=["netns", "runc", "uml-tap"])
def live(request: pytest.FixtureRequest, run_session: RunSession) -> Iterator[Connected]:
    """One guest for all tests of its kind, with as many links out as in, in a lab as silent as a run's."""
    silence_ipv6()
    wanted = guests.request(request.param)
    links = plan_links(wanted.network.links[0].owner, SOURCES, sinks=SOURCES)
    started = guests.start(request.param, run_session, replace(wanted, network=links))
    yield started
    started.guest.stop()


def measured(live: Connected, wanted: ForwardParameters) -> Point:
    """So few frames of each source that a guest loses none by itself, however slow this machine is."""
    live.wait_for_quiet()
    point = Forward(wanted).point(live.bench, guests.FEW_PER_SECOND)
    assert unbalanced([point]) is None
    assert len(point.sources) == SOURCES
    assert all(sent.offered_frames for sent in point.sources)
    return point


def sinks(point: Point) -> dict[int | None, Hop]:
    """The hop where each source's frames reach the sink."""
    return {hop.source: hop for hop in point.hops or () if hop.role == "sink"}


def test_the_frames_of_each_source_arrive_by_its_own_link(live: Connected) -> None:
    point = measured(live, guests.few_frames(sources=SOURCES, egress="each"))
    assert [one.lost_frames for one in point.sink.per_source] == [0] * SOURCES
    assert locate(point) == ()
    found, links = sinks(point), live.bench.network.sinks
    assert {source: hop.interface for source, hop in found.items()} == {
        number: link.peer_interface for number, link in enumerate(links)
    }
    for arrived in point.sink.per_source:
        grown = growth(found[arrived.source], "rx_packets")
        assert grown is not None
        assert 0 < arrived.forwarded_frames <= grown <= arrived.forwarded_frames + CHATTER_FRAMES


def test_with_one_egress_all_of_them_arrive_by_the_first(live: Connected) -> None:
    """As without the other links, which no frame of the trial comes near."""
    point = measured(live, guests.few_frames(sources=SOURCES))
    assert [one.lost_frames for one in point.sink.per_source] == [0] * SOURCES
    assert {source: hop.interface for source, hop in sinks(point).items()} == {
        None: live.bench.network.sink.peer_interface
    }


def test_what_is_lost_on_one_way_out_is_lost_there_and_of_its_source_alone(live: Connected) -> None:
    """The bridge's port behind the second way out lets nothing pass."""
    port = live.bench.hops.endpoints[live.bench.network.sinks[1].name].port
    assert port is not None
    subprocess.run(["bridge", "link", "set", "dev", port, "state", "disabled"], check=True)
    try:
        point = measured(live, guests.few_frames(sources=SOURCES, egress="each"))
    finally:
        subprocess.run(["bridge", "link", "set", "dev", port, "state", "forwarding"], check=True)
    lost = point.sources[1].offered_frames
    assert [one.lost_frames for one in point.sink.per_source] == [0, lost, 0]
    assert [(loss.source, loss.words, loss.frames, loss.owner) for loss in locate(point)] == [
        (1, Segment.ATTACHMENT_OUT, lost, Owner.PLATFORM)
    ]


def test_each_way_out_has_its_ipv6_addresses(live: Connected) -> None:
    if not live.kind.ipv6:
        pytest.skip("its kernel has no IPv6")
    wanted = guests.few_frames(sources=SOURCES, egress="each", frame_size_bytes=84, ip_version=6)
    with routing(live.bench, wanted):
        point = measured(live, wanted)
    assert [one.lost_frames for one in point.sink.per_source] == [0] * SOURCES
    assert len(sinks(point)) == SOURCES
