"""Reports of a module are drawn by one process: each starts its own otherwise, which takes a second."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from virtoll.report import build
from virtoll.report.drawing import Drawer


@pytest.fixture(scope="module")
def one_drawer() -> Iterator[None]:
    """All that `build_report` draws meanwhile is drawn by one process; `test_drawer` has those of real reports."""
    with Drawer() as drawer, pytest.MonkeyPatch.context() as changed:
        changed.setattr(build, "Drawer", lambda: nullcontext(drawer))
        yield
