"""What the tests of platforms share: this machine as their lab's session has it."""

from __future__ import annotations

import pytest

from virtoll.platforms.host import Site
from virtoll.run.session import RunSession


@pytest.fixture
def site(run_session: RunSession) -> Site:
    """This machine, as the lab has it."""
    return run_session.site
