"""The end of a guest undoes its whole start, and says what could not be undone: on every base class the same."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.facts import refused

from virtoll.agent.client import AgentClient
from virtoll.errors import GuestError
from virtoll.platforms.base import GuestStartError
from virtoll.platforms.containers.guest import NamespacedGuest
from virtoll.platforms.fake.site import ModelHost, ModelPeer
from virtoll.platforms.managed_guest import ManagedMachine
from virtoll.platforms.process_guest import AgentGuest, GuestRemains, StartedGuest

Steps = list[Callable[[], object]]


def client() -> AgentClient:
    """A session whose agent has ended before it said anything."""
    return AgentClient(os.open("/dev/null", os.O_RDONLY), os.open("/dev/null", os.O_WRONLY), "the guest")


def process_guest(cleanup: Steps) -> AgentGuest:
    return AgentGuest(
        agent=client(),
        peer=ModelPeer(),
        attachment="veth",
        spawned_monotonic_ns=0,
        cleanup=cleanup,
        process=subprocess.Popen(["sleep", "infinity"], start_new_session=True),
        console_file=Path("/nonexistent"),
    )


def managed_machine(cleanup: Steps) -> ManagedMachine:
    return ManagedMachine(
        agent=client(),
        peer=ModelPeer(),
        attachment="bridge",
        spawned_monotonic_ns=0,
        cleanup=cleanup,
        host=ModelHost(),
        pause=lambda: None,
        unpause=lambda: None,
        destroy=lambda: None,
    )


@pytest.fixture(params=[process_guest, managed_machine])
def make(request: pytest.FixtureRequest) -> Callable[[Steps], StartedGuest]:
    """A guest of one of the base classes, with these steps to undo its start."""
    made: Callable[[Steps], StartedGuest] = request.param
    return made


def failing(error: Exception) -> Callable[[], object]:
    """A step that fails."""

    def step() -> None:
        raise error

    return step


def test_every_step_is_undone_and_those_that_failed_are_named(make: Callable[[Steps], StartedGuest]) -> None:
    undone: list[str] = []
    guest = make(
        [
            lambda: undone.append("network"),
            failing(GuestRemains("domain d is still there")),
            lambda: undone.append("folder"),
            failing(OSError("/run/x is busy")),
            failing(GuestError("umount: /run/y: target is busy")),
        ]
    )
    with refused("/run/y", "/run/x", "domain d", error=GuestRemains):
        guest.stop()
    assert undone == ["folder", "network"]
    guest.stop()  # nothing is undone twice
    assert undone == ["folder", "network"]


def test_a_guest_that_never_was_ready_says_what_it_left_too(make: Callable[[Steps], StartedGuest]) -> None:
    guest = make([failing(GuestError("group g is not empty"))])
    with refused("guest", "group g", error=GuestStartError):
        guest.wait_ready(10.0)


def test_a_runtime_pauses_and_resumes_as_often_as_it_is_asked() -> None:
    asked: list[bool] = []
    guest = NamespacedGuest(
        agent=client(),
        peer=ModelPeer(),
        attachment="veth",
        spawned_monotonic_ns=0,
        process=subprocess.Popen(["sleep", "infinity"], start_new_session=True),
        console_file=Path("/nonexistent"),
        paused=asked.append,
    )
    for _ in range(2):
        guest.park()
        guest.park()
        guest.resume()
        guest.resume()
    guest.stop()
    assert asked == [True, False, True, False]
