"""A run's session: without one of the lab's own agents it ends, and can be resumed."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from tests.support.agents import OperationAgent
from tests.support.facts import Command, refused

from virtoll.errors import GuestDied, LabError
from virtoll.pipeline.pinning import Pinning
from virtoll.pipeline.session import CommandLog, RunSession
from virtoll.platforms.fake.site import model_site

OWN = {
    "peer": ["peer"],
    "counters": ["lab", "agent"],
    "programs": ["agent", "programs", "peer"],
    "load_peer": ["peer", "beside"],
}


def session(ended: str | None = None) -> RunSession:
    """One with all agents, which are asked for nothing, and of which one may have ended."""
    agents = {name: OperationAgent() for name in OWN}
    if ended is not None:
        agents[ended].close()
    load_peer = agents.pop("load_peer")
    site = replace(model_site(), peer=agents["peer"], counters=agents["counters"], programs=agents["programs"])
    return RunSession(site, Pinning((), None, None), itertools.count(1), CommandLog(), load_peer=load_peer)


@pytest.mark.parametrize("name", OWN)
def test_a_lab_agent_that_ended_ends_the_run(name: str) -> None:
    """Each trial that needs it would fail from here on, whoever is measured."""
    with refused(*OWN[name], Command("virtoll resume"), error=LabError):
        session(name).refuse_dead_agent(GuestDied("it ended"))


def test_a_guest_that_died_is_no_reason_to_end_the_run() -> None:
    session().refuse_dead_agent(GuestDied("it ended"))
