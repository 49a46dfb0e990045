"""The workloads that run programs, for real, on the image full where it is built (make tools)."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support import guests
from tests.support.facts import Fact, assert_facts
from tests.support.guests import Connected
from tests.support.present import present

from virtoll.errors import GuestCannot
from virtoll.lab.local_network import Network
from virtoll.pipeline.peer import peer_programs
from virtoll.pipeline.session import RunSession
from virtoll.platforms import PLATFORMS
from virtoll.workloads import WORKLOADS, bonnie
from virtoll.workloads.lmbench import TESTS

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.slow]
# Smaller than the quick size, which is the default.
SMALL: dict[str, dict[str, Any]] = {
    "bzip2": {"size_bytes": "512KiB"},
    "sysbench-cpu": {"events": 20},
    "bonnie": {"file_bytes": "4MiB"},
    "dbench": {"seconds": 4},  # so that a slow guest, too, gets to each kind of operation that the load begins with
    "dd": {"size_bytes": "1MiB"},
    "fio": {"size_bytes": "256KiB"},
}
NON_FREE: list[tuple[str, dict[str, Any]]] = [
    *(("lmbench", {"operation": operation, "repetitions": 1}) for operation in TESTS),
    ("netperf-tcp-stream", {"size": "1MiB"}),
    ("netperf-tcp-stream", {"size": "1MiB", "direction": "to-guest"}),
    ("netperf-tcp-rr", {"transactions": 50}),
]
ROOM_BYTES = 64 * 2**20
APPLICATIONS = {
    "kernel-compile",
    "mariadb-oltp",
    "mariadb-oltp-outside",
    "nginx",
    "nginx-httperf",
}  # test_application_workloads.py
OVER_THE_NETWORK = {"iperf-udp", "rsync-tree", "rsync-file"}  # test_network_workloads.py
ON_FULL = {name for name, kind in WORKLOADS.items() if kind.image == "full"}
ALSO: dict[str, dict[str, Any]] = {"bonnie": {"file_bytes": "8MiB", "small_files": 2048, "processes": 2}}
"""The same by several processes at once."""
LONG = ("bonnie", "dbench", "dd", "fio", "povray")  # some seconds each: tried once

EXTENDED = ("native", "netns", "runsc-systrap", "uml-raw", "qemu-tcg")


@pytest.fixture(scope="module")
def run_session() -> Iterator[RunSession]:
    """The lab's run session with the tools in its image."""
    with on_image("full") as made:
        yield made


@contextlib.contextmanager
def on_image(name: str) -> Iterator[RunSession]:
    """The lab's run session on an image that is in the cache: there is no way to a package mirror from inside."""
    with guests.run_session() as made:
        made.site.image = guests.cached_image(name)
        yield made


@pytest.mark.parametrize("kind", ["runc", *(pytest.param(kind, marks=pytest.mark.extended) for kind in EXTENDED)])
def test_they_give_right_answers(run_session: RunSession, kind: str) -> None:
    live = guests.start(kind, run_session, data_bytes=ROOM_BYTES)
    elsewhere = APPLICATIONS | OVER_THE_NETWORK
    assert elsewhere | set(SMALL) <= ON_FULL
    own = sorted(ON_FULL - elsewhere)
    for name, given in [*((name, SMALL.get(name, {})) for name in own), *ALSO.items()]:
        workload = WORKLOADS[name].with_parameters(given)
        for _ in range(1 if name in LONG else 2):  # the second trial finds what the first one left
            refused, measured = "", None
            try:
                measured = guests.measured(workload, live.emptied)
            except GuestCannot as error:
                refused = str(error)
            if measured is None:
                # A race of its own, which dbench loses in any guest where somebody else is on the CPU.
                assert name == "dbench", refused
                assert_facts(refused, "dbench", "semaphore")
                continue
            guests.assert_right(measured)
            assert measured.clock is not None
            marks, guest = measured.clock.marks, measured.clock.guest
            assert marks is not None
            assert marks.end_ns > marks.start_ns
            assert (measured.clock.error_estimate_ns or 0) > 0  # with the guest's own reading: its clock error
            assert guest is not None
            assert guest.between_marks_ns > 0
    live.guest.stop()


@pytest.fixture(scope="module")
def gvisor(run_session: RunSession) -> Iterator[Connected]:
    """gVisor, which takes things and ignores them, has some not at all, and is slow at others."""
    with guests.running("runsc-systrap", run_session, data_bytes=ROOM_BYTES) as live:
        yield live


@pytest.mark.parametrize(
    ("given", "facts"),
    [({"direct": True}, ("O_DIRECT", 1048576)), ({"engine": "io_uring"}, ("io_uring", "Function not implemented"))],
    ids=["direct-io", "io-uring"],
)
def test_what_gvisor_ignores_or_lacks_is_found_by_trying(
    gvisor: Connected, given: dict[str, Any], facts: tuple[Fact, ...]
) -> None:
    own = WORKLOADS["fio"].with_parameters({**SMALL["fio"], **given})
    with pytest.raises(GuestCannot) as raised:
        own.measure(gvisor.emptied())
    assert raised.value.kind == "unsupported"
    assert_facts(str(raised.value), *facts)
    lacking = own.needs().features & set(PLATFORMS["runsc"].lacks)
    assert lacking, "a run knows it before it starts a guest"


def test_bonnies_per_character_tests_do_not_hold_gvisor_up(gvisor: Connected) -> None:
    workload = WORKLOADS["bonnie"].with_parameters({**SMALL["bonnie"], "small_files": 0})
    measured = guests.measured(workload, gvisor.emptied)
    assert measured.problem is None
    values = (
        present(measured.result)["output"].strip().splitlines()[-1].split(",")
    )  # columns by private numbers: bonnie++'s own
    assert (values[bonnie._PUTC], values[bonnie._GETC]) == ("", ""), "they would take minutes"


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["netns", "qemu-tcg"])
def test_so_do_those_that_are_not_free_software(kind: str) -> None:
    with on_image("full-non-free") as run_session:
        live = guests.start(kind, run_session)
        assert isinstance(live.site.network, Network)
        with peer_programs(live.site.this_machine, live.site.image, live.site.network, None) as programs:
            bench = dataclasses.replace(live.bench, programs=programs)
            for name, parameters in NON_FREE:
                workload = WORKLOADS[name].with_parameters(parameters)
                guests.assert_right(guests.measured(workload, lambda: bench))
        live.guest.stop()
