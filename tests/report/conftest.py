"""What takes a second to start, once a module: the process that draws its reports, and a browser."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from playwright.sync_api import Browser
from tests.support.browsing import chromium

from virtoll.report import build, reproduction
from virtoll.report.drawing import Drawer


@pytest.fixture(scope="module")
def one_drawer() -> Iterator[None]:
    """All that a run's and a study's report draw meanwhile; `test_drawer` has the processes of real reports."""
    with Drawer() as drawer, pytest.MonkeyPatch.context() as changed:
        for module in (build, reproduction):
            changed.setattr(module, "Drawer", lambda: nullcontext(drawer))
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started
