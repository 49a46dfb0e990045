"""What the tests of platforms share: their lab's session, one a module; with another image a module has its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support import guests

from virtoll.platforms.host import Site
from virtoll.run.session import RunSession


@pytest.fixture(scope="module")
def run_session() -> Iterator[RunSession]:
    """The lab's run session, on the image that has busybox."""
    with guests.run_session() as made:
        yield made


@pytest.fixture
def site(run_session: RunSession) -> Site:
    """This machine, as the lab has it."""
    return run_session.site
