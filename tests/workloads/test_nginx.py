"""nginx at a fixed rate from outside: its load, its configuration, its books, and what is left behind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.support.agents import OperationAgent
from tests.support.facts import Fact, refused
from tests.support.workload_trials import ProgramGuest, assert_problem, measure, trial_bench

from virtoll.agent.operations.http import HttpLoadRequest
from virtoll.agent.operations.network import Interface, NetworkRequest
from virtoll.errors import AgentError
from virtoll.lab.network import plan_links
from virtoll.workloads.base import Measurement
from virtoll.workloads.nginx_server import WebParameters, configuration


def peer(**changed: Any) -> OperationAgent:
    """A peer that got a good reply to each request within 1 s, but for what is ``changed``."""

    def load(request: HttpLoadRequest) -> Mapping[str, Any]:
        count = request.requests
        latency = {"p50": 300, "p90": 400, "p99": 500, "p999": 600, "maximum": 700, "mean": 310, "count": count}
        return {
            "intended_requests": count,
            "replies": count,
            "statuses": {"200": count},
            "timeouts": 0,
            "failures": {},
            "body_bytes": 1024 * count,
            "start_monotonic_ns": 10,
            "last_reply_monotonic_ns": 10 + 1_000_000_000,
            "latency_ns": latency,
            **changed,
        }

    return OperationAgent(network={"interfaces": []}, http_load=load)


def trial(client: OperationAgent, guest: ProgramGuest | None = None) -> Measurement:
    return measure("nginx", trial_bench(guest or ProgramGuest(), client), requests=200)


def figures(measured: Measurement) -> dict[str, Any]:
    assert measured.problem is None
    assert measured.result is not None
    found: dict[str, Any] = measured.result["figures"]
    return found


def test_the_web_server_does_not_need_ipv6() -> None:
    """Debian's own site listens on [::]:80, which a kernel without IPv6 refuses: nginx then does not start at all."""
    text = configuration("/data/x", "10.64.0.1", WebParameters())
    assert [line.split()[1] for line in text.splitlines() if line.split()[:1] == ["listen"]] == ["10.64.0.1:8080"]
    assert "[::]" not in text
    assert "include" not in text
    paths = [line.split()[1].rstrip(";") for line in text.splitlines() if "_path" in line or "pid" in line]
    assert all(path.startswith("/data/x") for path in paths)


def test_the_load_comes_from_outside_and_its_address_goes_again() -> None:
    guest, client = ProgramGuest(), peer()
    measured = trial(client, guest)
    assert measured.clock is None
    assert measured.check is not None
    assert measured.check.ok
    expected = {"latency_p99": 500, "replies_per_second": 200}
    assert figures(measured).items() >= expected.items()
    link = plan_links(0).sources[0]
    given, taken = (request.interfaces[0] for request in client.requests(NetworkRequest))
    assert given.address == f"{link.peer_address}/24"
    assert taken == Interface(mac=link.peer_mac, without_address=True)
    warm, load = client.requests(HttpLoadRequest)
    assert warm.requests < load.requests == 200
    assert load.target == f"{link.guest_address}:8080"
    assert (load.rate_requests_per_second, load.keep_alive, load.timeout_ns) == (200, False, 2_000_000_000)
    assert guest.servers == {}
    assert client.patience == [34.2, 36.0, 60.0]


def test_what_warms_a_server_up_is_not_measured() -> None:
    client, sent = peer(), []

    @contextlib.contextmanager
    def measuring() -> Iterator[None]:
        before = len(client.requests(HttpLoadRequest))
        yield
        sent.append((before, len(client.requests(HttpLoadRequest))))

    bench = trial_bench(ProgramGuest(), client)
    with bench.timekeeper.also(measuring):
        figures(measure("nginx", bench, requests=200))
    assert sent == [(1, 2)]


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({"timeouts": 1}, ("201 requests", "200 requests")),
        ({"statuses": {"200": 150, "404": 50}}, ("150 of 200 replies", "200 of 200 replies")),
        ({"body_bytes": 7}, ("200 requests",)),
        (
            {"replies": 0, "statuses": {}, "body_bytes": 0, "timeouts": 200, "last_reply_monotonic_ns": None},
            (200,),
        ),
    ],
)
def test_books_that_do_not_balance_are_a_problem(changed: dict[str, Any], facts: tuple[Fact, ...]) -> None:
    assert_problem(trial(peer(**changed)), *facts)


def test_late_replies_lower_the_rate_and_lost_ones_are_a_share() -> None:
    late = {
        "replies": 150,
        "statuses": {"200": 150},
        "body_bytes": 150 * 1024,
        "timeouts": 40,
        "failures": {"connect": 10},
        "last_reply_monotonic_ns": 10 + 3_000_000_000,
    }
    expected = {"replies_per_second": 50, "unanswered_share": 0.25}
    assert figures(trial(peer(**late))).items() >= expected.items()


def test_an_address_that_the_load_needed_goes_when_it_fails() -> None:
    guest, client = ProgramGuest(), peer()
    client.answers["http_load"] = AgentError("system", "connect: no room")
    with refused("connect: no room", error=AgentError):
        trial(client, guest)
    assert client.requests(NetworkRequest)[-1].interfaces[0].without_address
    assert guest.servers == {}
