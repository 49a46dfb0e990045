"""What the tests of platforms share: this machine as their lab's session has it, and a record of their lab."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import guests

from virtoll.campaign.session import RunSession
from virtoll.platforms.host import Site


@pytest.fixture
def site(run_session: RunSession) -> Site:
    """This machine, as the lab has it."""
    return run_session.site


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the lab's record, where the clean-ups are noted that outlive this process."""
    with guests.lab_record(tmp_path_factory.mktemp("record")) as folder:
        yield folder
