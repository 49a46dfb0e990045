"""What a run is resumed on: its own host, agent and image."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from tests.support import experiments
from tests.support.agents import OperationAgent
from tests.support.facts import refused

from virtoll.agent.operations.session import HelloReply
from virtoll.errors import UsageError
from virtoll.host.fingerprint import describe_host
from virtoll.image import GuestImage
from virtoll.pipeline.manifest import refuse_other_host
from virtoll.platforms.fake.site import model_site


class Stored:
    """As much of a stored manifest as is compared."""

    run = "example-1"
    agent: ClassVar[dict[str, str]] = {"sha256": ""}
    nodes: ClassVar[dict[str, str] | None] = None

    def __init__(self, digest: str) -> None:
        self.host = {"fingerprint": describe_host()["fingerprint"]}
        self.image = {"digest": digest}


def test_a_run_is_not_resumed_on_another_host_or_with_other_packages() -> None:
    image = GuestImage(
        name="full", digest="sha256:23", root=Path(), agent=Path(), agent_sha256="", tools={"packages": {}}
    )
    agent = OperationAgent(hello=HelloReply(version="1", protocol=1, build="test"))
    site = replace(model_site(), image=image, peer=agent, is_model=False)
    same: Any = Stored("sha256:23")
    refuse_other_host(same, experiments.parsed(), site)
    elsewhere: Any = Stored("sha256:23")
    elsewhere.host = describe_host() | {"fingerprint": "0" * 64, "kernel": "0.1-begun"}
    with refused("example-1", "0.1-begun, here", "resume", error=UsageError):
        refuse_other_host(elsewhere, experiments.parsed(), site)
    other: Any = Stored("sha256:42")
    with refused("example-1", "image full", "example", error=UsageError):
        refuse_other_host(other, experiments.parsed(), site)
