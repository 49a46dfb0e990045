"""What the tests of the agent's client share."""

from __future__ import annotations

import pytest
from tests.support.played_channel import Played


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    """A channel on which the test plays kernel, clock and agent."""
    made = Played()
    made.stand_in(monkeypatch)
    return made
