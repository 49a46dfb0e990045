"""A loss is booked where it happened: real frames, dropped by the kernel at a known place and in a known number.

Each harm is done to a real guest's own namespace or bridge with tc, iptables, ip and bridge; what the harm's own
counter says (a rule's, a queue's) is the truth that the located losses must equal, with nothing anywhere else.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support import guests
from tests.support.facts import assert_facts
from tests.support.guests import Connected

from virtoll.pipeline.session import RunSession
from virtoll.runfolder.traffic_records import Point
from virtoll.stats.hops import Loss, Owner, Segment, locate
from virtoll.workloads import retakes, traffic
from virtoll.workloads.forward import Forward, ForwardParameters

INSIDE_LAB = True
pytestmark = [pytest.mark.lab]

FRAMES = 23
IP_BYTES = 64 - 14 - 4  # without the Ethernet header and the FCS
SLOW = ["rate", "1mbit", "burst", "2kb", "limit", "2kb"]


@pytest.fixture(scope="module", params=["native", "netns"])
def live(request: pytest.FixtureRequest, run_session: RunSession) -> Iterator[Connected]:
    started = guests.start(request.param, run_session)
    # Neighbour discovery would be among what a queue or a rule counts.
    outside("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
    Router(started).inside("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
    yield started
    started.guest.stop()


@dataclass
class Router:
    """A guest's own namespace, and the lab's around it."""

    live: Connected

    def inside(self, *command: str) -> str:
        """Run a command in the guest's network namespace."""
        process = str(self.live.agent_process().pid)
        return outside("nsenter", "--net", "--target", process, "--", *command)

    def interface(self, mac: str) -> str:
        """The guest's name of the interface with this address."""
        links = json.loads(self.inside("ip", "-j", "link"))
        return str(next(one["ifname"] for one in links if one["address"] == mac))

    @property
    def out(self) -> str:
        """The guest's interface towards the sink."""
        return self.interface(self.live.bench.network.sink.guest_mac)

    @property
    def into(self) -> str:
        """The guest's interface towards the generator."""
        return self.interface(self.live.bench.network.sources[0].guest_mac)

    @contextlib.contextmanager
    def rule(self, table: str, chain: str, frames: int, *target: str) -> Iterator[Callable[[], int]]:
        """A netfilter rule for the first so many test frames; gives the rule's own count of them."""
        match = ["-i", self.into, "-p", "udp", "-m", "quota", "--quota", str(frames * IP_BYTES)]
        self.inside("iptables", "-w", "-t", table, "-A", chain, *match, "-j", *target)
        try:
            yield lambda: int(self.inside("iptables", "-w", "-t", table, "-nvxL", chain).splitlines()[2].split()[0])
        finally:
            self.inside("iptables", "-w", "-t", table, "-F", chain)

    @contextlib.contextmanager
    def slow_queue(self) -> Iterator[Callable[[], int]]:
        """A token bucket in front of the interface towards the sink; gives what tc says that it dropped."""
        name = self.out
        self.inside("tc", "qdisc", "add", "dev", name, "root", "tbf", *SLOW)
        try:
            yield lambda: int(json.loads(self.inside("tc", "-s", "-j", "qdisc", "show", "dev", name))[0]["drops"])
        finally:
            self.inside("tc", "qdisc", "del", "dev", name, "root")


def outside(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def router(live: Connected) -> Router:
    return Router(live)


@pytest.fixture(autouse=True)
def each_point_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules and queues here count frames, and would count those of a discarded point too."""
    monkeypatch.setattr(retakes, "MOST_RETAKES", 0)


@pytest.fixture
def brief_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    """For points of which no frame arrives: a sink that has seen none waits for as long as it may."""
    monkeypatch.setattr(traffic, "DRAIN_LIMIT_NS", 2 * traffic.RESIDUAL_NS)


def point(live: Connected, rate: float = 2000.0, size: int = 64, milliseconds: int = 50, **shape: Any) -> Point:
    """Many times what a harm takes, and so few that they are sent however late (``guests.HELD_FRAMES``)."""
    wanted = ForwardParameters(frame_size_bytes=size, point_milliseconds=milliseconds, **shape)
    return Forward(wanted).point(live.bench, rate)


def fast_point(live: Connected) -> Point:
    """Some 1500 frames: a generator that gets a part of its CPU still sends more than a slow queue takes."""
    return point(live, rate=6000.0, milliseconds=250)


def reported(losses: tuple[Loss, ...]) -> list[tuple[str, int, str]]:
    """Segment, frames and owner of each loss."""
    return [(loss.words, loss.frames, loss.owner) for loss in losses]


def assert_counter(loss: Loss, *facts: str | int) -> None:
    """Its frames are in one counter, which is named with its growth; or in none, and their number is reported."""
    (counter,) = loss.counters
    assert_facts(counter, "guest's stack", *facts)


def offered(measured: Point) -> int:
    assert measured.sources[0].offered_frames > 2 * FRAMES
    return measured.sources[0].offered_frames


def test_without_harm_nothing_is_lost(router: Router) -> None:
    assert locate(point(router.live)) == ()


def test_what_netfilter_drops_is_inside_the_guest_and_in_no_counter(router: Router) -> None:
    with router.rule("filter", "FORWARD", FRAMES, "DROP") as dropped:
        losses = locate(point(router.live))
        assert dropped() == FRAMES
    assert reported(losses) == [(Segment.GUEST, FRAMES, Owner.PLATFORM)]
    assert_counter(losses[0], FRAMES)


def test_in_both_directions_a_loss_is_booked_on_its_own(router: Router) -> None:
    """The rule takes frames of one direction; of the other none is missing."""
    with router.rule("filter", "FORWARD", FRAMES, "DROP") as dropped:
        measured = point(router.live, directions="both")
        assert dropped() == FRAMES
    assert [(loss.source, loss.words, loss.frames) for loss in locate(measured)] == [(0, Segment.GUEST, FRAMES)]
    assert [one.lost_frames for one in measured.sink.per_source] == [FRAMES, 0]
    assert all(one.forwarded_frames for one in measured.sink.per_source)


def test_frames_whose_time_to_live_ends_are_header_errors(router: Router) -> None:
    with router.rule("mangle", "PREROUTING", FRAMES, "TTL", "--ttl-set", "1") as marked:
        losses = locate(point(router.live))
        assert marked() == FRAMES
    assert reported(losses) == [(Segment.GUEST, FRAMES, Owner.PLATFORM)]
    assert_counter(losses[0], "Ip InHdrErrors", f"+{FRAMES}")


@pytest.mark.usefixtures("brief_drain")
def test_frames_without_a_route(router: Router) -> None:
    route = router.inside("ip", "route", "show", "dev", router.out).split("\n")[0].split()
    router.inside("ip", "route", "del", *route, "dev", router.out)
    try:
        measured = point(router.live)
    finally:
        router.inside("ip", "route", "add", *route, "dev", router.out)
    losses = locate(measured)
    assert reported(losses) == [(Segment.GUEST, offered(measured), Owner.PLATFORM)]
    assert_counter(losses[0], "IpExt InNoRoutes", f"+{offered(measured)}")


@pytest.mark.usefixtures("brief_drain")
def test_frames_that_are_larger_than_the_next_link_takes(router: Router) -> None:
    router.inside("ip", "link", "set", router.out, "mtu", "400")
    try:
        measured = point(router.live, size=500)
    finally:
        router.inside("ip", "link", "set", router.out, "mtu", "1500")
    losses = locate(measured)
    assert reported(losses) == [(Segment.GUEST, offered(measured), Owner.PLATFORM)]
    assert_counter(losses[0], "Ip FragFails", f"+{offered(measured)}")


def test_what_the_outgoing_queue_drops_is_the_queues(router: Router) -> None:
    with router.slow_queue() as dropped:
        losses = locate(fast_point(router.live))
        drops = dropped()
    assert drops > FRAMES
    assert reported(losses) == [(Segment.GUEST_QUEUE, drops, Owner.PLATFORM)]
    assert_facts(" ".join(losses[0].counters), f"queue_dropped +{drops}")


def test_losses_at_two_places_are_told_apart(router: Router) -> None:
    with router.rule("mangle", "PREROUTING", FRAMES, "TTL", "--ttl-set", "1"), router.slow_queue() as dropped:
        measured = fast_point(router.live)
        drops = dropped()
    losses = locate(measured)
    assert reported(losses) == [(Segment.GUEST, FRAMES, Owner.PLATFORM), (Segment.GUEST_QUEUE, drops, Owner.PLATFORM)]
    assert_counter(losses[0], "Ip InHdrErrors", f"+{FRAMES}")
    assert measured.sink.per_source[0].lost_frames == FRAMES + drops


@pytest.mark.usefixtures("brief_drain")
@pytest.mark.parametrize(("inward", "place"), [(True, Segment.ATTACHMENT_IN), (False, Segment.ATTACHMENT_OUT)])
def test_a_closed_port_of_a_bridge(router: Router, inward: bool, place: Segment) -> None:
    network, hops = router.live.bench.network, router.live.bench.hops
    if router.live.name == "native":
        assert not any(way.port for way in hops.endpoints.values()), "the host itself has no bridge"
        return
    port = network.sources[0].lab_interface if inward else hops.endpoints[network.sink.name].port
    assert port is not None
    outside("bridge", "link", "set", "dev", port, "state", "disabled")
    try:
        measured = point(router.live)
    finally:
        outside("bridge", "link", "set", "dev", port, "state", "forwarding")
    assert reported(locate(measured)) == [(place, offered(measured), Owner.PLATFORM)]


@pytest.mark.usefixtures("brief_drain")
def test_an_interface_that_is_down(router: Router) -> None:
    """Last: it takes addresses' routes and neighbours with it."""
    router.inside("ip", "link", "set", router.out, "down")
    measured = point(router.live)
    losses = locate(measured)
    assert reported(losses) == [(Segment.GUEST, offered(measured), Owner.PLATFORM)]
    assert_counter(losses[0], "IpExt InNoRoutes", f"+{offered(measured)}")
