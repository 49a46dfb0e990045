"""Routing tables in a real guest, and real guests that forward and send side by side."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterator

import pytest
from tests.support import guests
from tests.support.guests import Connected

from virtoll.errors import AgentError
from virtoll.ground import Ground
from virtoll.workloads.base import Measurement
from virtoll.workloads.forward import Forward, ForwardParameters
from virtoll.workloads.transmitters import Transmitters, TransmittersParameters
from virtoll.workloads.virtual_routers import VirtualRouters, VirtualRoutersParameters

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.root]
SWEEP = {"first_rate_frames_per_second": 2000, "rate_factor": 64, "point_milliseconds": 100}


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with guests.ground() as made:
        yield made


@pytest.fixture(scope="module")
def pair(ground: Ground) -> Iterator[tuple[Connected, Connected]]:
    first, second = guests.start("netns", ground), guests.start("netns", ground)
    yield first, second
    first.guest.stop()
    second.guest.stop()


def routes(live: Connected) -> int:
    """What the guest's own kernel lists."""
    argv = ["/bin/busybox", "cat", "/proc/net/route"]
    answer = live.bench.guest.call("exec", argv=argv, timeout_ns=10**10, limit_bytes=2**24)
    assert answer["status"] == 0
    return len(base64.b64decode(answer["stdout"]).splitlines()) - 1


def forwarded(done: Measurement, point: int = 0) -> list[tuple[int, int]]:
    """Offered and forwarded frames of each source of a point."""
    assert done.points is not None
    told = done.points[point]
    counts = {one["source"]: one["forwarded_frames"] for one in told["sink"]["per_source"]}
    return [(one["offered_frames"], counts[one["source"]]) for one in told["sources"]]


def test_a_table_is_loaded_looked_up_in_and_taken_away(pair: tuple[Connected, Connected]) -> None:
    live, _ = pair
    before = routes(live)
    done = Forward().measure(live.bench, ForwardParameters(routes=5000, destinations=4000, **SWEEP))
    assert done.problem is None
    assert done.check == {"value": "5000", "expected": "5000", "ok": True}
    # Slow enough for any guest: what was sent to 4000 destinations all over the table came through.
    ((offered, came),) = forwarded(done)
    assert offered > 100
    assert came == offered
    table = (done.result or {})["routing_table"]
    assert table["loaded"]["changed_routes"] == 5000
    assert table["clock"]["marks"]["end_ns"] > table["clock"]["marks"]["start_ns"]
    assert routes(live) == before


def test_a_table_over_another_way_out_is_refused_and_the_way_is_kept(pair: tuple[Connected, Connected]) -> None:
    _, live = pair
    gateway = live.bench.network.sources[0].peer_address
    live.bench.guest.call("network", routes=[{"destination": "192.0.0.0/2", "via": gateway}])
    before = routes(live)
    with pytest.raises(AgentError, match=r"route of its own to 192\.0\.0\.0/2") as refused:
        Forward().measure(live.bench, ForwardParameters(routes=10, **SWEEP))
    assert refused.value.kind == "unsupported"
    assert routes(live) == before


def test_two_routers_forward_each_its_own_flow(pair: tuple[Connected, Connected]) -> None:
    first, second = pair
    bench = dataclasses.replace(first.bench, beside=(second.bench,))
    done = VirtualRouters().measure(bench, VirtualRoutersParameters(routers=2, **SWEEP))
    assert done.problem is None
    for offered, came in forwarded(done):
        assert offered > 100
        assert came == offered
    # Flat out both get something, and the books of each balance.
    assert all(came > 0 for _, came in forwarded(done, -1))


def test_two_guests_send_at_once_and_the_sink_outside_counts_them_apart(pair: tuple[Connected, Connected]) -> None:
    first, second = pair
    bench = dataclasses.replace(first.bench, beside=(second.bench,))
    wanted = TransmittersParameters(transmitters=2, rate_frames_per_second=2000, duration_milliseconds=300)
    done = Transmitters().measure(bench, wanted)
    for offered, came in forwarded(done):
        assert offered > 100
        assert came == offered
    assert done.points is not None
    assert [one["intended_frames"] for one in done.points[0]["sources"]] == [600, 600]


def test_a_kernel_without_a_queueing_discipline_sends_too(ground: Ground) -> None:
    live = guests.start("runsc-systrap", ground)
    try:
        wanted = TransmittersParameters(transmitters=1, rate_frames_per_second=1000, duration_milliseconds=300)
        done = Transmitters().measure(live.bench, wanted)
    finally:
        live.guest.stop()
    assert done.problem is None
    for offered, came in forwarded(done):
        assert offered > 100
        assert came == offered
