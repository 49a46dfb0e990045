"""What a run is resumed on: its own host, agent and image."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments

from virtoll.errors import UsageError
from virtoll.host import describe_host
from virtoll.image import GuestImage, GuestKernel
from virtoll.manifest import refuse_other_ground
from virtoll.platforms.fake_site import model_site


class Stored:
    """As much of a stored manifest as is compared."""

    run = "example-1"
    agent = None

    def __init__(self, digest: str) -> None:
        self.host = {"fingerprint": describe_host()["fingerprint"]}
        self.image = {"digest": digest}


def test_a_run_is_not_resumed_on_other_packages() -> None:
    kernel: Any = GuestKernel.__new__(GuestKernel)
    image = GuestImage("full", "sha256:23", Path(), Path(), kernel, Path(), "", tools={"packages": {}})
    site = replace(model_site(), image=image, is_model=False)
    same: Any = Stored("sha256:23")
    refuse_other_ground(same, experiments.parsed(), site)
    other: Any = Stored("sha256:42")
    with pytest.raises(
        UsageError, match=r"run example-1 was begun with another image full .*start a new run of example"
    ):
        refuse_other_ground(other, experiments.parsed(), site)
