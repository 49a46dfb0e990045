"""TCP between a guest and its peer or another guest: what each end is asked, rates, books, and what is left behind."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.facts import Fact, assert_facts, refused
from tests.support.workload_trials import ProgramGuest, assert_problem, measure, result_of, trial_bench

from virtoll.agent.operations.jobs import RunRequest, ServeRequest, StreamExchange
from virtoll.agent.operations.network import NetworkRequest, Route
from virtoll.errors import GuestCannot, GuestDied
from virtoll.pipeline.requirements import unmet
from virtoll.platforms.containers.native import Native
from virtoll.runfolder.records import Check
from virtoll.workloads import WORKLOADS
from virtoll.workloads.base import Measurement

SIZE: dict[str, Any] = {"size": 1000}


def guest_with(check: str) -> ProgramGuest:
    """A guest whose exchange came out so."""
    result = {"bytes": 1000, "transaction_ns": {"p50": 40_000, "p99": 90_000}}
    return ProgramGuest(run={"result": result, "check": check})


def other_end(check: str = "1000", **more: Any) -> ProgramGuest:
    """The other end of it."""
    result = {"transaction_ns": {"p50": 30_000, "p99": 80_000}}
    finish = {"result": result, "check": check, "tcp": None, **more}
    return ProgramGuest(serve={"port": 4711}, serve_finish=finish)


def between(guest: ProgramGuest, peer: ProgramGuest, workload: str = "tcp-stream", **given: Any) -> Measurement:
    return measure(workload, trial_bench(guest, peer), **given)


def test_a_stream_is_as_fast_as_the_clock_outside_says() -> None:
    guest, peer = guest_with("1000"), other_end()
    measured = between(guest, peer, **SIZE)
    assert measured.check == Check("1000", "1000", True)
    assert result_of(measured)["figures"] == {"throughput": pytest.approx(0.016)}, "8000 bits in half a second"
    assert peer.operations() == ["network", "serve", "serve-finish", "network"]
    exchange = StreamExchange(active="opener", bytes=1000, message_bytes=16384, connections=1)
    (serve,), (ran,) = peer.requests(ServeRequest), guest.requests(RunRequest)
    assert serve.exchange == exchange
    assert (serve.address, serve.cpu) == ("10.64.0.2", 1)
    assert ran.job == "tcp"
    assert ran.parameters["exchange"] == exchange.to_json()
    assert (ran.parameters["address"], ran.parameters["port"]) == ("10.64.0.2", 4711)
    assert max(guest.deadlines) == pytest.approx(120.001), "1000 times what a bare host takes, and two minutes"
    assert peer.deadlines == [60, 60, 15, 60]
    assert peer.requests(NetworkRequest)[-1].interfaces[0].without_address is True


@pytest.mark.parametrize(
    ("at_guest", "at_peer", "facts"),
    [
        ("1 wrong of 1000", "1000", ("'1 wrong of 1000'",)),
        ("1000", "999", ("'999'", "'1000'")),
        ("17", "17", ("'17'", "'1000'")),
    ],
)
def test_an_end_that_has_something_else_is_a_problem(at_guest: str, at_peer: str, facts: tuple[Fact, ...]) -> None:
    assert_problem(between(guest_with(at_guest), other_end(at_peer), **SIZE), *facts)


@pytest.mark.parametrize(
    ("direction", "asker", "p50"), [("to-guest", "listener", 30_000), ("from-guest", "opener", 40_000)]
)
def test_latencies_are_those_of_whoever_asks(direction: str, asker: str, p50: int) -> None:
    peer = other_end("100")
    measured = between(guest_with("100"), peer, "tcp-request-response", direction=direction, transactions=100)
    figures = result_of(measured)["figures"]
    assert figures["latency_p50_ns"] == p50
    assert figures["transaction_rate"] == pytest.approx(200)
    assert peer.requests(ServeRequest)[0].exchange.active == asker


def test_both_ends_have_several_connections_and_all_answers_are_kept() -> None:
    connections = [{"transactions": 50, "tcp": None}, {"transactions": 50, "tcp": None}]
    guest, peer = guest_with("100"), other_end("100", connections=connections)
    result = result_of(between(guest, peer, "tcp-request-response", transactions=100, connections=2))
    (serve,), (ran,) = peer.requests(ServeRequest), guest.requests(RunRequest)
    assert serve.exchange.connections == 2
    assert ran.parameters["exchange"] == serve.exchange.to_json()
    assert result["other"]["connections"] == connections
    assert result["figures"]["transaction_rate"] == pytest.approx(200), "of all, over the whole time"


@pytest.mark.parametrize(
    ("name", "given", "facts"),
    [
        ("tcp-stream", {"size": 7, "connections": 8}, ("connections", "size")),
        ("tcp-request-response", {"transactions": 7, "connections": 8}, ("connections", "transactions")),
        ("tcp-stream", {"connections": 257}, ("connections", 256)),
        ("tcp-request-response", {"connections": 0}, ("connections", 1)),
    ],
)
def test_each_connection_has_a_part(name: str, given: dict[str, Any], facts: tuple[Fact, ...]) -> None:
    with pytest.raises(ValueError, match="connections") as raised:
        WORKLOADS[name].with_parameters(given)
    assert_facts(str(raised.value), *facts)


def test_a_guest_that_dies_leaves_no_server_and_no_address() -> None:
    guest, peer = ProgramGuest(run=GuestDied("gone")), ProgramGuest(serve={"port": 4711})
    with pytest.raises(GuestDied):
        between(guest, peer, **SIZE)
    assert peer.operations() == ["network", "serve", "serve-close", "network"]


def test_between_guests_the_second_one_serves_and_the_peer_routes() -> None:
    guest, peer, other = guest_with("1000"), ProgramGuest(), other_end()
    result_of(measure("tcp-stream", trial_bench(guest, peer, second=other), between="guests", **SIZE))
    (serve,) = other.requests(ServeRequest)
    assert (serve.address, serve.cpu) == ("10.69.0.1", None)
    forwarding = peer.requests(NetworkRequest)
    assert [request.ip_forward for request in forwarding] == [True, False]
    assert len(forwarding[0].interfaces) == 2
    assert guest.requests(NetworkRequest)[0].routes == (Route(destination="10.69.0.0/24", via="10.64.0.2"),)
    assert other.requests(NetworkRequest)[0].routes == (Route(destination="10.64.0.0/24", via="10.69.0.2"),)


def test_over_a_bridge_the_second_guest_serves_there_and_nobody_routes() -> None:
    wanted = {"between": "guests", "path": "bridge", **SIZE}
    assert WORKLOADS["tcp-stream"].with_parameters(wanted).needs().shared_nic
    guest, peer, other = guest_with("1000"), ProgramGuest(), other_end()
    result_of(measure("tcp-stream", trial_bench(guest, peer, second=other, shared=True), **wanted))
    (serve,) = other.requests(ServeRequest)
    assert serve.address == "10.254.5.6"
    assert {request.ip_forward for request in peer.requests(NetworkRequest)} == {None}
    assert guest.requests(NetworkRequest)[0].to_json() == {
        "op": "network",
        "interfaces": [
            {
                "mac": "02:76:74:01:00:05",
                "address": "10.254.5.1/24",
                "neighbours": [{"address": "10.254.5.6", "mac": "02:76:74:01:05:05"}],
            }
        ],
    }
    apart = trial_bench(ProgramGuest(), ProgramGuest(), second=ProgramGuest())
    with refused("bridge", "'path: bridge'", error=GuestCannot):
        measure("tcp-stream", apart, **wanted)


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({}, ("path: bridge", "between: guests")),
        ({"between": "guests", "link_delay_ms": 1}, ("path: bridge", "link_...")),
    ],
)
def test_what_a_bridge_cannot_be_is_refused(given: dict[str, Any], facts: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="bridge") as raised:
        WORKLOADS["tcp-stream"].with_parameters({"path": "bridge", **given})
    assert_facts(str(raised.value), *facts)


@pytest.mark.parametrize("name", ["tcp-stream", "tcp-request-response", "iperf-udp", "rsync-tree", "rsync-file"])
def test_without_a_second_guest_the_trial_is_skipped(name: str) -> None:
    needs = WORKLOADS[name].with_parameters({"between": "guests"}).needs()
    assert needs.guests == 2
    assert Native.lacks["network-stack"] in str(unmet(name, needs, None, "native", Native.lacks))
    assert WORKLOADS[name].with_parameters({}).needs().guests == 1
    programs = ProgramGuest({"find": [{"stdout": "x"}]})
    with refused("guest", "'between: guests'", error=GuestCannot) as raised:
        measure(name, trial_bench(ProgramGuest(), ProgramGuest(), programs), between="guests")
    assert getattr(raised.value, "kind", None) == "unsupported"


def test_a_link_that_nobody_can_shape_skips_the_trial() -> None:
    with refused("link_...", error=GuestCannot):
        between(ProgramGuest(), ProgramGuest(), link_rate_bits_per_second=1_000_000)


@pytest.mark.parametrize("name", ["iperf-udp", "rsync-tree", "rsync-file"])
def test_programs_at_the_other_end_need_an_image_there(name: str) -> None:
    with refused("image", "'testbed.generator'", error=GuestCannot):
        between(ProgramGuest(), ProgramGuest(), name)
