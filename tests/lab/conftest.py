"""What the lab's tests share: an experiment with every kind of guest, and a place to run it as root and as a user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import experiments
from tests.support.playground import Playground, playground


@pytest.fixture(params=["root", "user"])
def place(request: pytest.FixtureRequest) -> Iterator[Playground]:
    """A playground of root and one of an ordinary user; both need root to be made."""
    if os.geteuid() != 0:
        pytest.skip("needs root: it makes mount namespaces and becomes another user")
    with playground(root=request.param == "root") as made:
        yield made


@pytest.fixture
def root_place() -> Iterator[Playground]:
    """A playground of root alone."""
    if os.geteuid() != 0:
        pytest.skip("needs root: it makes mount namespaces")
    with playground(root=True) as made:
        yield made


@pytest.fixture
def every_kind(tmp_path: Path) -> str:
    """A few seconds with every kind of guest: cgroups, bridges, veth pairs, taps and data directories are there."""
    del tmp_path
    return experiments.text(
        platforms=["native", "netns", "runc", "qemu-tcg"],
        guest={"vcpus": 1, "memory": "128MiB"},
        blocks=1,
        workloads=[{"workload": "superpi", "digits": 2000}, {"workload": "zfg", "size_bytes": 1048576, "rounds": 2}],
    )
