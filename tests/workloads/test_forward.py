"""The router experiment: its points, the CPU time of a frame, the table of routes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.facts import assert_facts, refused
from tests.support.traffic_trials import GENERATOR, forwarding, forwarding_bench
from tests.support.workload_trials import ProgramGuest, assert_problem, measure

from virtoll.agent.operations.jobs import RunRequest
from virtoll.agent.operations.traffic import Destinations, TrafficRequest
from virtoll.errors import AgentError, GuestCannot
from virtoll.runfolder.frame_shape import MOST_DESTINATIONS
from virtoll.runfolder.records import Check
from virtoll.workloads import WORKLOADS
from virtoll.workloads.forward import ForwardParameters

RISING: dict[str, Any] = {"sweep": "rising", "first_rate_frames_per_second": 1000, "point_milliseconds": 100}
GRID = (1000.0, 2000.0, 4000.0, 8000.0, 16000.0)


def test_rates_rise_until_too_many_frames_are_missing_and_then_flat_out() -> None:
    peer = forwarding(9000)
    measured = measure("forward", forwarding_bench(peer), **RISING)
    assert measured.problem is None
    points = measured.points or ()
    assert [point.intended_rate_frames_per_second for point in points] == [*GRID, None]
    assert {point.duration_ns for point in points} == {100_000_000}
    asked = peer.requests(TrafficRequest)
    assert [request.trial for request in asked] == [1, 2, 3, 4, 5, 6], "a tag each"
    assert measured.cpu_points is None, "no CPUs are read where nothing says which"
    assert all(point.hops is None and point.surroundings is None for point in points)


def test_hops_are_read_around_each_point() -> None:
    peer = forwarding(9000)
    measured = measure("forward", forwarding_bench(peer, reads_hops=True), **RISING)
    hops = (measured.points or ())[0].hops or ()
    assert [hop.role for hop in hops] == ["generator", "guest-in", "exit", "sink"]
    assert len([op for op in peer.operations() if op == "counters"]) == 2 * len(GRID) + 2


def test_each_point_is_asked_for_its_histograms() -> None:
    peer = forwarding(9000)
    measure("forward", forwarding_bench(peer), **RISING)
    assert {request.histograms for request in peer.requests(TrafficRequest)} == {True}


def test_the_cpu_time_of_a_frame_is_of_a_few_and_of_many_below_the_maximum() -> None:
    peer = forwarding(9000)
    measured = measure("forward", forwarding_bench(peer, cpus=(2, 3)), **RISING, cpu_milliseconds=200, backend="auto")
    points = measured.cpu_points or ()
    assert [point.intended_rate_frames_per_second for point in points] == [225.0, 4500.0]
    assert {(point.duration_ns, point.wake_ns) for point in points} == {(200_000_000, 1_000_000)}
    for request in peer.requests(TrafficRequest)[-2:]:
        assert (request.backend, request.idle_of, request.wake_ns) == ("af-packet", (2, 3), 1_000_000)
    warm = WORKLOADS["forward"].with_parameters(RISING).warm_up(forwarding_bench(peer, cpus=(2, 3)))
    assert (len(warm.points or ()), warm.cpu_points) == (1, None)


@pytest.mark.parametrize(
    ("share", "rates"),
    [(1.0, [2500.0, 50_000.0]), (0.996, [2500.0, 50_000.0]), (0.99, [625.0, 12_500.0]), (0.0, [])],
)
def test_frames_that_are_missing_lower_the_rate_twice(share: float, rates: list[float]) -> None:
    peer = forwarding(lambda offered: share * offered)
    measured = measure(
        "forward", forwarding_bench(peer, cpus=(2,)), **RISING, cpu_milliseconds=1000, cpu_rate_frames_per_second=50_000
    )
    assert [point.intended_rate_frames_per_second for point in measured.cpu_points or ()] == rates


TABLE: dict[str, Any] = {**RISING, "routes": 1000, "routes_seed": 7}


def router(loaded: str = "1000", kept: str = "0") -> ProgramGuest:
    """A guest that has so many routes after loading them and after taking them away."""

    def run(request: RunRequest) -> dict[str, Any]:
        return {"check": loaded if request.parameters["routes"] else kept, "result": {}}

    return ProgramGuest(run=run)


def test_a_table_is_loaded_before_the_points_and_taken_away_after_them() -> None:
    guest, peer = router(), forwarding(9000)
    measured = measure("forward", forwarding_bench(peer, guest), **TABLE)
    assert measured.problem is None
    assert measured.check == Check("1000", "1000", True)
    loaded, taken = guest.requests(RunRequest)
    assert loaded.job == taken.job == "routing-table"
    assert loaded.parameters == {"routes": 1000, "seed": 7, "via": "10.64.3.2"}
    assert (taken.parameters, taken.marks) == ({"routes": 0}, None)
    assert measured.result is not None
    record = measured.result["routing_table"]
    assert (record["routes"], record["seed"], record["gateway"]) == (1000, 7, "10.64.3.2")
    assert record["clock"]["method"] == "channel"
    (spread,) = {request.sources[0].destinations for request in peer.requests(TrafficRequest)}
    assert spread == Destinations(count=MOST_DESTINATIONS, routes=1000, seed=7)
    assert not guest.channel_marks, "those of taking away are no marks of a trial"


def test_a_table_that_is_not_whole_is_a_problem() -> None:
    measured = measure("forward", forwarding_bench(forwarding(9000), router("999")), **TABLE)
    assert measured.check == Check("999", "1000", False)
    assert_problem(measured, 999, 1000)


def test_a_table_that_stays_ends_the_trial() -> None:
    with refused("3 routes", error=AgentError):
        measure("forward", forwarding_bench(forwarding(9000), router(kept="3")), **TABLE)


def test_a_table_is_taken_away_when_a_point_fails() -> None:
    guest, peer = router(), forwarding(9000)
    peer.answers["traffic"] = AgentError("system", "no room")
    with refused("no room", error=AgentError):
        measure("forward", forwarding_bench(peer, guest), **TABLE)
    assert [request.parameters["routes"] for request in guest.requests(RunRequest)] == [1000, 0]


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        (
            {"routes": 10, "destinations": 1, "ip_version": 6, "frame_size_bytes": 84},
            ("'routes'", "ip_version 4", "routes 0"),
        ),
        ({"destinations": 2}, ("routes", "destinations 1")),
        ({"routes": 10, "destinations": 1, "egress": "each"}, ("'routes'", "egress one", "routes 0")),
    ],
)
def test_tables_that_lead_nowhere_are_refused(given: dict[str, Any], facts: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError) as raised:
        ForwardParameters.model_validate(given)
    assert_facts(str(raised.value), *facts)


def test_a_guest_with_routed_links_takes_no_table() -> None:
    bench = forwarding_bench(forwarding(), links={"attachment": "routed"})
    with refused("routes 0", "attachment bridge", error=GuestCannot):
        measure("forward", bench, **TABLE)


def test_the_generator_bounds_what_is_offered_flat_out() -> None:
    measured = measure("forward", forwarding_bench(forwarding()), **{**RISING, "first_rate_frames_per_second": 4e5})
    last = (measured.points or ())[-1]
    assert last.sources[0].offered_frames == GENERATOR / 10
