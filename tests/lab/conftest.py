"""What the lab's tests share: a place to run experiments as root and as an ordinary user."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
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
