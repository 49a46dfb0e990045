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
SMALL: dict[str, dict[str, Any]] = {"bzip2": {"size_bytes": "512KiB"}, "sysbench-cpu": {"events": 20}}


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
    live = guests.start(kind, ground)
    others = {name for name, workload in WORKLOADS.items() if workload.resource == "network"}
    assert set(SMALL) == {name for name, workload in WORKLOADS.items() if workload.image == "full"} - others
    for name, parameters in SMALL.items():
        workload = WORKLOADS[name]
        for _ in range(2):  # the second trial finds what the first one left
            measured = workload.measure(live.bench, workload.parameter_model.model_validate(parameters))
            assert measured.problem is None, name
            assert measured.check is not None
            assert measured.check["ok"]
            assert measured.clock is not None
            marks = measured.clock["marks"]
            assert marks["end_ns"] > marks["start_ns"]
    live.guest.stop()
