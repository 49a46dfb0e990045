"""nginx under httperf inside the guest: its report, and replies that do not come."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.facts import refused
from tests.support.repository import RECORDED
from tests.support.workload_trials import ProgramGuest, assert_problem, measure, result_of

from virtoll.workloads import nginx_httperf

# httperf 0.9.0 of Debian 12, from the image full.
HTTPERF, STOPPED = ((RECORDED / f"{name}.txt").read_text() for name in ("httperf", "httperf-stopped-server"))


def test_its_report() -> None:
    reported = nginx_httperf.parse(HTTPERF)
    expected = {
        "connections": 200,
        "requests": 200,
        "replies": 200,
        "good_replies": 200,
        "errors": 0,
        "replies_per_second": pytest.approx(200 / 0.996),
        "connection_time_average": 100_000,
        "connection_time_maximum": 5_300_000,
        "response_time": 100_000,
        "content_bytes": 1024,
    }
    assert {name: reported[name] for name in expected} == expected


def test_a_server_that_does_not_answer() -> None:
    reported = nginx_httperf.parse(STOPPED)
    expected = {"replies": 0, "errors": 20, "timeouts": 20, "replies_per_second": 0}
    assert reported.items() >= expected.items()


@pytest.mark.parametrize(
    ("cut", "missing"),
    [
        ("Total:", "total"),
        ("Connection time [ms]: min", "connection times"),
        ("Reply time", "reply times"),
        ("Reply size", "reply sizes"),
        ("Reply status", "reply status"),
        ("Errors: total", "errors"),
    ],
)
def test_a_report_without_a_line_names_it(cut: str, missing: str) -> None:
    lines = "".join(line for line in HTTPERF.splitlines(keepends=True) if not line.startswith(cut))
    with refused(missing, error=ValueError):
        nginx_httperf.parse(lines)


def guest_with(report: str) -> ProgramGuest:
    return ProgramGuest(timed={"stdout": report})


def test_it_runs_inside_against_a_server_of_its_own() -> None:
    guest = guest_with(HTTPERF)
    measured = measure("nginx-httperf", guest, requests=200, rate_requests_per_second=200)
    result_of(measured)
    assert measured.clock is not None
    assert guest.servers == {}
    configured = next(argv for argv in guest.ran if argv[0] == "tee")
    assert configured == ["tee", "/data/virtoll-nginx/nginx.conf"]
    assert {"--rate=200", "--num-conns=200", "--num-calls=1", "--timeout=5"} <= set(guest.timed_commands[0])


def test_no_reply_is_no_result() -> None:
    assert_problem(measure("nginx-httperf", guest_with(STOPPED), requests=20), "20 of 20")


@pytest.mark.parametrize("changed", [{"requests": 300}, {"size_bytes": 2048}])
def test_another_number_or_size_than_wanted_is_a_problem(changed: dict[str, Any]) -> None:
    measured = measure("nginx-httperf", guest_with(HTTPERF), **{"requests": 200, **changed})
    assert_problem(measured, "200 connections", "1024 B")


def test_the_mean_is_of_no_use_where_some_got_no_reply() -> None:
    """It is of those that got one: a guest that answers a few at once and the others never would be the fastest."""
    some = HTTPERF.replace("Errors: total 0 client-timo 0", "Errors: total 5 client-timo 5")
    figures = result_of(measure("nginx-httperf", guest_with(some), requests=205))["figures"]
    assert (figures["errors"], figures["connection_time_average"]) == (5, None)
    assert figures["replies_per_second"] > 0
