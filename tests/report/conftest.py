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
    """One process draws all figures of a module's reports; `test_drawer` tests the processes of real ones."""
    with Drawer() as drawer, pytest.MonkeyPatch.context() as changed:
        for module in (build, reproduction):
            changed.setattr(module, "Drawer", lambda: nullcontext(drawer))
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started
