"""The workloads that run programs, for real, on the image full where it is built (make tools)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support import guests

from virtoll.errors import ImageError
from virtoll.ground import Ground
from virtoll.image import prepare_image
from virtoll.workloads import WORKLOADS

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]
SMALL: dict[str, dict[str, Any]] = {
    "bzip2": {"size_bytes": "512KiB"},
    "sysbench-cpu": {"events": 20},
    "povray": {},
    "bonnie": {"file_bytes": "4MiB"},
    "dbench": {"seconds": 2},
    "dd": {"size_bytes": "1MiB"},
    "fio": {"size_bytes": "256KiB"},
}
ROOM_BYTES = 64 * 2**20
APPLICATIONS = {"kernel-compile", "mariadb-oltp", "nginx", "nginx-httperf"}  # test_application_workloads.py
OVER_THE_NETWORK = {"iperf-udp", "rsync-tree", "rsync-file"}  # test_network_workloads.py
LONG = ("bonnie", "dbench", "dd", "fio", "povray")  # some seconds each: tried on one kind, once


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    """The lab's ground with the tools in its image."""
    with guests.ground() as made:
        assert made.site is not None
        try:
            made.site.image = prepare_image("full", offline=True)
        except ImageError as error:
            pytest.skip(f"{error} (or make tools)")
        yield made


@pytest.mark.parametrize("kind", ["native", "runc", "uml", "qemu-tcg"])
def test_they_give_right_answers(ground: Ground, kind: str) -> None:
    live = guests.start(kind, ground, data_bytes=ROOM_BYTES)
    others = APPLICATIONS | OVER_THE_NETWORK
    assert set(SMALL) | others == {name for name, workload in WORKLOADS.items() if workload.image == "full"}
    for name, parameters in SMALL.items():
        workload = WORKLOADS[name]
        if name in LONG and kind != "runc":
            continue
        for _ in range(1 if name in LONG else 2):  # the second trial finds what the first one left
            measured = workload.measure(live.emptied(), workload.parameter_model.model_validate(parameters))
            assert measured.problem is None, name
            assert measured.check is not None
            assert measured.check["ok"]
            assert measured.clock is not None
            marks = measured.clock["marks"]
            assert marks["end_ns"] > marks["start_ns"]
            assert measured.clock["error_bound_ns"] > 0  # with the guest's own reading: its clock error
            assert measured.clock["guest"]["end_monotonic_ns"] > measured.clock["guest"]["start_monotonic_ns"]
    live.guest.stop()
