"""What the tests of platforms share: this machine as their lab's session has it, and a record of their lab."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import guests
from tests.support.tools_image import small_tools_image

from virtoll.image import GuestImage
from virtoll.pipeline.session import RunSession
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


@pytest.fixture(scope="session")
def tools_image(tmp_path_factory: pytest.TempPathFactory) -> GuestImage:
    """An image that is no initramfs; the modules of a lab share it, and no guest may change it."""
    busybox = (guests.cached_image("debug").root / "bin/busybox").read_bytes()
    return small_tools_image(tmp_path_factory.mktemp("tools"), busybox)


@pytest.fixture(scope="module")
def with_tools(run_session: RunSession, tools_image: GuestImage) -> Site:
    """The lab's site on that image."""
    return dataclasses.replace(run_session.site, image=tools_image)
