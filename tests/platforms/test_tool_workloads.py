"""The workloads that run programs, for real, on the image full where it is built (make tools)."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support import guests

from virtoll.errors import ImageError
from virtoll.ground import Ground
from virtoll.image import prepare_image
from virtoll.lab.network import Network
from virtoll.peer import peer_programs
from virtoll.workloads import WORKLOADS
from virtoll.workloads.lmbench import TESTS

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]
SMALL: dict[str, dict[str, Any]] = {
    "bzip2": {"size_bytes": "512KiB"},
    "sysbench-cpu": {"events": 20},
    "bonnie": {"file_bytes": "4MiB"},
    "dbench": {"seconds": 2},
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
APPLICATIONS = {"kernel-compile", "mariadb-oltp", "nginx", "nginx-httperf"}  # test_application_workloads.py
OVER_THE_NETWORK = {"iperf-udp", "rsync-tree", "rsync-file"}  # test_network_workloads.py
ON_DISK = ("bonnie", "dbench", "dd", "fio")  # some seconds each: tried on one kind, once


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    """The lab's ground with the tools in its image."""
    with on_image("full") as made:
        yield made


@contextlib.contextmanager
def on_image(name: str) -> Iterator[Ground]:
    """The lab's ground on an image that is in the cache: there is no way to a package mirror from inside."""
    with guests.ground() as made:
        assert made.site is not None
        try:
            made.site.image = prepare_image(name, offline=True)
        except ImageError as error:
            pytest.skip(str(error))
        yield made


@pytest.mark.parametrize("kind", ["native", "runc", "uml", "qemu-tcg"])
def test_they_give_right_answers(ground: Ground, kind: str) -> None:
    live = guests.start(kind, ground, data_bytes=ROOM_BYTES)
    others = APPLICATIONS | OVER_THE_NETWORK
    assert set(SMALL) | others == {name for name, workload in WORKLOADS.items() if workload.image == "full"}
    for name, parameters in SMALL.items():
        workload = WORKLOADS[name]
        if name in ON_DISK and kind != "runc":
            continue
        for _ in range(1 if name in ON_DISK else 2):  # the second trial finds what the first one left
            measured = workload.measure(live.emptied(), workload.parameter_model.model_validate(parameters))
            assert measured.problem is None, name
            assert measured.check is not None
            assert measured.check["ok"]
            assert measured.clock is not None
            marks = measured.clock["marks"]
            assert marks["end_ns"] > marks["start_ns"]
    live.guest.stop()


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["netns", "qemu-tcg"])
def test_so_do_those_that_are_not_free_software(kind: str) -> None:
    with on_image("full-non-free") as ground:
        live = guests.start(kind, ground)
        assert isinstance(live.site.network, Network)
        with peer_programs(live.site, live.site.network, None) as programs:
            bench = dataclasses.replace(live.bench, programs=programs)
            for name, parameters in NON_FREE:
                workload = WORKLOADS[name]
                measured = workload.measure(bench, workload.parameter_model.model_validate(parameters))
                assert measured.problem is None, (name, parameters)
                assert measured.check is not None
                assert measured.check["ok"]
        live.guest.stop()
