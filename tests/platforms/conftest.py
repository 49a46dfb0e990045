"""What the tests of platforms share: this machine as their lab's session has it."""

from __future__ import annotations

import pytest

from virtoll.campaign.session import RunSession
from virtoll.platforms.host import Site


@pytest.fixture
def site(run_session: RunSession) -> Site:
    """This machine, as the lab has it."""
    return run_session.site
