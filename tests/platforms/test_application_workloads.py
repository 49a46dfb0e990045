"""Database and web server for real, in bare namespaces on the image full where it is built (make tools).

``kernel-compile`` is not among them: it unpacks for longer than the rest takes together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support import guests

from virtoll.errors import GuestError, ImageError
from virtoll.ground import Ground
from virtoll.image import prepare_image
from virtoll.workloads import WORKLOADS
from virtoll.workloads.base import Measurement
from virtoll.workloads.programs import run, serving, succeeds

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]
SMALL: dict[str, dict[str, Any]] = {
    "mariadb-oltp": {"transactions": 50, "rows": 200, "threads": 2},
    "nginx": {"requests": 60, "rate_requests_per_second": 300, "timeout_milliseconds": 10_000},
    "nginx-httperf": {"requests": 60, "rate_requests_per_second": 300, "timeout_milliseconds": 10_000},
}


@pytest.fixture(scope="module")
def live() -> Iterator[guests.Connected]:
    """A guest in bare namespaces with the tools in its image."""
    with guests.ground() as ground:
        yield started(ground)


def started(ground: Ground) -> guests.Connected:
    """The guest, or no test where the image is not built."""
    assert ground.site is not None
    try:
        ground.site.image = prepare_image("full", offline=True)
    except ImageError as error:
        pytest.skip(f"{error} (or make tools)")
    return guests.start("netns", ground)


def measured(live: guests.Connected, name: str, **more: Any) -> Measurement:
    """One small trial."""
    workload = WORKLOADS[name]
    return workload.measure(live.bench, workload.parameter_model.model_validate(SMALL[name] | more))


def left(live: guests.Connected) -> list[str]:
    """The data directory's entries."""
    return run(live.bench.guest, ["ls", "-A", live.bench.data.path]).split()


@pytest.mark.parametrize("name", SMALL)
def test_they_give_right_answers_and_leave_nothing(live: guests.Connected, name: str) -> None:
    before = left(live)
    found = measured(live, name)
    assert found.problem is None
    assert found.check is not None
    assert found.check["ok"]
    assert found.result is not None
    for metric in WORKLOADS[name].metrics:
        if metric.source == "figures" and metric.name != "connection_time_average":  # which httperf rounds to 0.1 ms
            assert found.result["figures"][metric.name] > 0, metric.name
    assert left(live) == before


def test_connections_are_used_again_where_that_is_asked_for(live: guests.Connected) -> None:
    each, kept = (measured(live, "nginx", keep_alive=keep_alive).result for keep_alive in (False, True))
    assert each is not None
    assert kept is not None
    assert each["connections_opened"] == 60
    assert kept["connections_opened"] < 60
    # Whoever generates has no address any more, so that its kernel answers nothing in other workloads.
    target = f"{live.bench.network.sources[0].guest_address}:8080"
    load: dict[str, Any] = {"target": target, "path": "/file", "requests": 1}
    more: dict[str, Any] = {"rate_requests_per_second": 1000, "connections": 1, "timeout_ns": 10**9, "keep_alive": True}
    assert live.bench.peer.generator.call("http-load", **load, **more)["failures"] == {"socket": 1}


def test_a_server_that_does_not_start_tells_why(live: guests.Connected) -> None:
    guest = live.bench.guest
    command = ["nginx", "-e", "stderr", "-p", "/tmp", "-c", "/tmp/no-such.conf"]
    with (
        pytest.raises(GuestError, match=r"no-such\.conf"),
        serving(guest, command, "/tmp/virtoll-log", ["test", "-s", "/tmp/virtoll-pid"], 30.0),
    ):
        pytest.fail("it does not serve")
    run(guest, ["rm", "/tmp/virtoll-log"])


def test_a_server_ends_with_what_needed_it(live: guests.Connected) -> None:
    guest = live.bench.guest
    with serving(guest, ["sleep", "1000"], "/tmp/virtoll-log", ["true"], 30.0):
        assert succeeds(guest, ["pidof", "sleep"])
    assert not succeeds(guest, ["pidof", "sleep"])
    run(guest, ["rm", "/tmp/virtoll-log"])
