"""Routers side by side: lanes of all guests, a total rate, and what is refused."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from tests.support.facts import assert_facts, refused
from tests.support.traffic_trials import forwarding, forwarding_bench
from tests.support.workload_trials import measure

from virtoll.agent.operations.traffic import TrafficRequest
from virtoll.errors import GuestCannot
from virtoll.workloads import WORKLOADS
from virtoll.workloads.virtual_routers import VirtualRoutersParameters

TOTAL = {"total_rate_frames_per_second": 1000.0}
EACH = {"each_rate_frames_per_second": 7000.0}


def test_all_guests_are_offered_a_total_at_once() -> None:
    peer = forwarding()
    bench = forwarding_bench(peer, None, forwarding_bench(peer, number=5), number=3)
    measured = measure("virtual-routers", bench, routers=2, total_rate_frames_per_second=10_000)
    assert measured.problem is None
    (asked,) = peer.requests(TrafficRequest)
    assert [(one.interface, one.rate_frames_per_second) for one in asked.sources] == [("p3in0", 5000), ("p5in0", 5000)]
    assert asked.sink.interfaces == ("p3out", "p5out")
    assert [one.destination_address for one in asked.sources] == ["10.67.3.2", "10.69.3.2"]
    assert asked.histograms is True


@pytest.mark.parametrize("routers", [1, 2])
def test_each_is_offered_a_rate_whatever_their_number(routers: int) -> None:
    peer = forwarding()
    others = [forwarding_bench(peer, number=5)] * (routers - 1)
    measured = measure("virtual-routers", forwarding_bench(peer, None, *others), **EACH, routers=routers)
    assert measured.problem is None
    (asked,) = peer.requests(TrafficRequest)
    assert [one.rate_frames_per_second for one in asked.sources] == [7000] * routers
    assert len(measured.points or ()) == 1


def test_without_a_rate_the_rates_rise() -> None:
    peer = forwarding(3000)
    bench = forwarding_bench(peer, None, forwarding_bench(peer, number=5))
    wanted = {"routers": 2, "sweep": "rising", "first_rate_frames_per_second": 1000}
    measured = measure("virtual-routers", bench, **wanted)
    rates = [point.intended_rate_frames_per_second for point in measured.points or ()]
    assert rates == [1000.0, 2000.0, 4000.0, 8000.0, None]
    warm = WORKLOADS["virtual-routers"].with_parameters(wanted).warm_up(bench)
    assert [point.intended_rate_frames_per_second for point in warm.points or ()] == [1000.0]


def test_frames_that_none_of_them_forwards_are_a_problem() -> None:
    peer = forwarding(0)
    bench = forwarding_bench(peer, None, forwarding_bench(peer, number=5))
    assert measure("virtual-routers", bench, total_rate_frames_per_second=1000).problem is not None


@pytest.mark.parametrize(
    ("wrong", "facts"),
    [
        (TOTAL | {"rate_factor": 3}, ["rate_factor", *TOTAL]),
        (EACH | {"rate_factor": 3}, ["rate_factor", *EACH]),
        (TOTAL | EACH, [*TOTAL, *EACH]),
    ],
)
def test_one_rate_has_no_sweep_and_no_other_rate(wrong: dict[str, float], facts: list[str]) -> None:
    with pytest.raises(ValidationError) as raised:
        VirtualRoutersParameters.model_validate(wrong)
    assert_facts(str(raised.value), *facts)


def test_guests_behind_one_real_nic_are_refused() -> None:
    peer, trunk = forwarding(), {"trunk": "eth0"}
    with refused("testbed", "NICs", error=GuestCannot):
        measure("virtual-routers", forwarding_bench(peer, None, forwarding_bench(peer, number=5), links=trunk))
    alone = forwarding_bench(peer, links=trunk)
    assert measure("virtual-routers", alone, routers=1, total_rate_frames_per_second=1000).problem is None
