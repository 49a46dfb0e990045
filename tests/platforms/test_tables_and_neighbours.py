"""Routing tables in a real guest, and real guests that forward and send side by side."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.support import guests, machine
from tests.support.facts import assert_facts, refused
from tests.support.guests import Connected
from tests.support.present import present

from virtoll.agent.operations.network import NetworkRequest, Route
from virtoll.agent.operations.traffic import Traffic
from virtoll.errors import AgentError, GuestCannot
from virtoll.lab.inside import wait_until
from virtoll.lab.network import plan_links
from virtoll.pipeline.session import RunSession
from virtoll.runfolder.records import Check
from virtoll.workloads import traffic
from virtoll.workloads.base import Measurement
from virtoll.workloads.forward import Forward, ForwardParameters
from virtoll.workloads.traffic import BACKENDS, FrameParameters, TrafficStream
from virtoll.workloads.transmitters import Transmitters, TransmittersParameters
from virtoll.workloads.virtual_routers import VirtualRouters, VirtualRoutersParameters

INSIDE_LAB = "frames"
pytestmark = [pytest.mark.lab]
# As many frames as queues between namespaces hold; the second point is too fast for any machine.
SLOW = 500.0
SWEEP: dict[str, Any] = {
    "first_rate_frames_per_second": SLOW,
    "rate_factor": 1e4,
    "stop_below_share": 1.0,
    "point_milliseconds": round(1000 * guests.HELD_FRAMES / SLOW),
}
FEW_IN_A_SECOND: dict[str, Any] = {"rate_frames_per_second": 200.0, "duration_milliseconds": 1000}
"""For guests that send together: on a busy host one may begin 50 ms after another."""
SENDERS = ("frames", "udp")


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sinks wait long for frames of the slow points alone: what is too fast for any machine loses some for good."""
    asked = TrafficStream.request

    def request(
        self: TrafficStream, wanted: FrameParameters, tag: int, duration_ns: int, rate: float | None
    ) -> Traffic:
        with monkeypatch.context() as here:
            if rate is None or rate > SLOW:
                here.setattr(traffic, "RESIDUAL_NS", traffic.QUIET_NS)
            return asked(self, wanted, tag, duration_ns, rate)

    monkeypatch.setattr(TrafficStream, "request", request)


@pytest.fixture(scope="module")
def pair(run_session: RunSession) -> Iterator[tuple[Connected, Connected]]:
    first, second = guests.start("netns", run_session), guests.start("netns", run_session)
    yield first, second
    first.guest.stop()
    second.guest.stop()


def routes(live: Connected) -> int:
    """What the guest's own kernel lists."""
    return len(guests.output_of(live.bench.guest, "/bin/busybox", "cat", "/proc/net/route").splitlines()) - 1


def forwarded(done: Measurement, point: int = 0) -> list[tuple[int, int]]:
    """Offered and forwarded frames of each source of a point."""
    reported = present(done.points)[point]
    counts = {one.source: one.forwarded_frames for one in reported.sink.per_source}
    return [(one.offered_frames, counts[one.source]) for one in reported.sources]


def assert_all_came(done: Measurement) -> None:
    """At the first point, which is slow enough."""
    assert done.problem is None
    for offered, came in forwarded(done):
        assert came == offered > 0


def test_a_table_is_loaded_looked_up_in_and_taken_away(pair: tuple[Connected, Connected]) -> None:
    live, _ = pair
    before = routes(live)
    own = Forward(ForwardParameters(routes=5000, destinations=4000, **SWEEP))
    done = guests.measured(own, lambda: live.bench)
    assert done.problem is None
    assert done.check == Check("5000", "5000", True)
    # So few that none is lost: what was sent to destinations all over the table came through.
    ((offered, came),) = forwarded(done)
    assert came == offered > 0
    table = (done.result or {})["routing_table"]
    assert table["loaded"]["changed_routes"] == 5000
    assert table["clock"]["marks"]["end_ns"] > table["clock"]["marks"]["start_ns"]
    assert routes(live) == before


def test_a_table_over_another_way_out_is_refused_and_the_way_is_kept(pair: tuple[Connected, Connected]) -> None:
    _, live = pair
    gateway = live.bench.network.sources[0].peer_address
    wider = Route(destination="192.0.0.0/2", via=gateway)
    live.bench.guest.ask(NetworkRequest(routes=(wider,)), guests.HANG_SECONDS)
    before = routes(live)
    with pytest.raises(AgentError) as raised:
        Forward(ForwardParameters(routes=10, **SWEEP)).measure(live.bench)
    assert raised.value.kind == "unsupported"
    assert_facts(str(raised.value), "192.0.0.0/2")
    assert routes(live) == before


def test_two_routers_forward_each_its_own_flow(pair: tuple[Connected, Connected]) -> None:
    first, second = pair
    bench = dataclasses.replace(first.bench, co_located=(second.bench,))
    done = guests.measured(VirtualRouters(VirtualRoutersParameters(routers=2, **SWEEP)), lambda: bench)
    assert_all_came(done)
    # Flat out both get something, and the books of each balance.
    assert all(came > 0 for _, came in forwarded(done, -1))


@pytest.mark.parametrize("sender", SENDERS)
def test_two_guests_send_at_once_and_the_sink_outside_counts_them_apart(
    pair: tuple[Connected, Connected], sender: Any
) -> None:
    first, second = pair
    bench = dataclasses.replace(first.bench, co_located=(second.bench,))
    wanted = TransmittersParameters(transmitters=2, sender=sender, **FEW_IN_A_SECOND)
    done = guests.measured(Transmitters(wanted), lambda: bench)
    assert_all_came(done)
    frames = FEW_IN_A_SECOND["rate_frames_per_second"]
    assert [one.intended_frames for one in present(done.points)[0].sources] == [frames, frames]


@pytest.fixture(scope="module")
def at_one_nic(run_session: RunSession) -> Iterator[tuple[Connected, ...]]:
    """Guests that are attached in different ways, with a NIC in common."""
    with contextlib.ExitStack() as stack:
        started = []
        for kind in ("native", "netns", "runsc-systrap", "uml-raw"):
            asked = guests.request(kind)
            own = asked.network.links[0].owner
            live = guests.start(kind, run_session, dataclasses.replace(asked, network=plan_links(own, shared=True)))
            stack.callback(live.guest.stop)
            bench = dataclasses.replace(live.bench, lab_links=live.site.network.local)
            started.append(dataclasses.replace(live, bench=bench))
        yield tuple(started)


def over_one_nic(lives: tuple[Connected, ...], **given: Any) -> Measurement:
    """What they send at once over it."""
    first, *others = [live.bench for live in lives]
    wanted = TransmittersParameters(transmitters=len(lives), nic="shared", **given)
    return guests.measured(Transmitters(wanted), lambda: dataclasses.replace(first, co_located=tuple(others)))


def disciplines(interface: str) -> str:
    """The queueing disciplines of an interface of the lab, as another program lists them."""
    argv = ["tc", "qdisc", "show", "dev", interface]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("sender", SENDERS)
def test_guests_send_over_one_nic(at_one_nic: tuple[Connected, ...], sender: str) -> None:
    """Slowly enough, and each frame arrives at the one interface, counted apart."""
    done = over_one_nic(at_one_nic, sender=sender, **FEW_IN_A_SECOND)
    assert_all_came(done)
    (point,) = present(done.points)
    assert point.to_json()["shared_link"] is True
    assert {one.interface for one in point.interfaces or ()} >= {"pshared"}


def test_guests_share_a_nic_with_a_rate(at_one_nic: tuple[Connected, ...]) -> None:
    """It carries half of what one of them sends, something of each, and has its rate for the trial alone."""
    done = over_one_nic(
        at_one_nic, link_rate_bits_per_second=10_000_000, rate_frames_per_second=2000, duration_milliseconds=300
    )
    counts = forwarded(done)
    assert all(came > 0 for _, came in counts)
    assert sum(came for _, came in counts) < sum(offered for offered, _ in counts)
    assert (done.result or {})["shaped_by"] in ("netem", "tbf")
    assert not {"netem", "tbf"} & set(disciplines("lshared").split())


def test_guests_without_a_nic_in_common_cannot_share_one(pair: tuple[Connected, Connected]) -> None:
    with refused("NIC", "nic: own", error=GuestCannot):
        over_one_nic(pair)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_generator_that_is_stopped_goes_on_where_it_was(pair: tuple[Connected, Connected], backend: str) -> None:
    """In the middle of a point: its frames leave late and in order, and none is left out."""
    live, _ = pair
    generator = present(machine.family(os.getpid()).find("--role", "peer"))
    wanted = ForwardParameters(point_milliseconds=1000, backend=backend)
    enough = live.frames_at_port() + guests.FEW_FRAMES // 2
    with ThreadPoolExecutor(max_workers=1) as beside:
        measuring = beside.submit(Forward(wanted).point, live.bench, float(guests.FEW_FRAMES))
        # The first few are the generator's own, by which it asks whether frames pass.
        wait_until(
            lambda: measuring.done() or live.frames_at_port() >= enough, guests.HANG_SECONDS, "frames of the point"
        )
        with machine.frozen(generator.pid):
            pass
        point = measuring.result()
    assert forwarded(Measurement(points=[point])) == [(guests.FEW_FRAMES, guests.FEW_FRAMES)]


def test_a_kernel_without_a_queueing_discipline_sends_too(run_session: RunSession) -> None:
    with guests.running("runsc-systrap", run_session) as live:
        wanted = TransmittersParameters(
            transmitters=1, rate_frames_per_second=guests.FEW_FRAMES * 10, duration_milliseconds=100
        )
        done = guests.measured(Transmitters(wanted), lambda: live.bench)
    assert_all_came(done)
