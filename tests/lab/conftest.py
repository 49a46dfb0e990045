"""What the lab's tests share: a place to run experiments as root and as an ordinary user, and a state folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.playground import Playground, playground


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own, which is not there yet."""
    monkeypatch.setenv("VIRTOLL_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


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
