"""Agents on other hosts: one that is gone, a link's far end that cannot be shaped, and an agent apart."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.support.agents import OperationAgent, recorded_reply
from tests.support.facts import Fact, refused
from tests.support.workload_trials import exited

from virtoll.agent.client import PROTOCOL, TrafficAgents
from virtoll.agent.operations.programs import ExecRequest
from virtoll.agent.operations.session import ClocksRequest
from virtoll.errors import AgentError, GuestCannot, GuestDied, GuestError, LabError
from virtoll.hosts.remote_peer import Apart, RemotePeer, end_at
from virtoll.hosts.undo import Undo
from virtoll.lab.shaping import Shape, shaped
from virtoll.pipeline.pinning import Pinning
from virtoll.pipeline.session import CommandLog, RunSession
from virtoll.platforms.fake.site import model_site


def test_a_run_whose_far_agent_is_gone_ends_with_its_host_named() -> None:
    """It cannot be started anew from inside the lab, and no platform is to blame."""
    gone = OperationAgent()
    gone.close()
    ends = TrafficAgents(OperationAgent(), gone)
    far = RemotePeer(ends=ends, where=("ssh a", "ssh b"), near=(), far=(), sinks=1)
    site = replace(model_site(), peer=OperationAgent(), far=far)
    run_session = RunSession(site, Pinning((), None, None), itertools.count(1), CommandLog())
    with refused("ssh b", "virtoll resume", error=LabError, without=("ssh a",)):
        run_session.refuse_dead_agent(GuestDied("it ended"))


@pytest.fixture
def undo() -> Iterator[Undo]:
    """One that answers whatever it is told, which is kept."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as answers:
        answers.write(b"{}\n" * 20)
    with contextlib.closing(Undo("ssh far", os.fdopen(reader, "rb", buffering=0), io.BytesIO())) as made:
        yield made


@pytest.mark.parametrize(
    ("answer", "facts", "tried"),
    [
        (AgentError("system", "no tc: not found"), ("no tc: not found", "iproute2"), 1),
        (
            exited(2, stderr="RTNETLINK answers: Operation not permitted"),
            ("tc: RTNETLINK answers: Operation", "root"),
            1,
        ),
        (exited(2, stderr="Error: Specified qdisc kind is unknown."), ("netem", "tbf", "tc: Error: Specified"), 2),
    ],
)
def test_a_far_end_that_cannot_be_shaped_promises_nothing(
    undo: Undo, answer: Any, facts: tuple[Fact, ...], tried: int
) -> None:
    """Where nothing was set nothing is taken away either: it may have a discipline of its user's."""
    agent = OperationAgent(exec=answer)
    with refused("ssh far", *facts, error=GuestCannot):
        shaped((end_at(agent, undo, "eth1"),), Shape(rate_bits_per_second=1_000_000)).__enter__()
    asked: list[Any] = list(agent.asked)
    assert [one.argv[:6] for one in asked] == [("tc", "qdisc", "replace", "dev", "eth1", "root")] * tried
    assert isinstance(undo.writer, io.BytesIO)
    lines = [json.loads(line) for line in undo.writer.getvalue().splitlines()]
    promised = {"add": ["tc", "qdisc", "del", "dev", "eth1", "root"]}
    assert lines == [{"id": number, **more} for number in range(1, tried + 1) for more in (promised, {"drop": True})]


def test_an_agent_apart_that_gives_no_answer_names_the_reason() -> None:
    silent = OperationAgent(exec=exited(1, stderr="not allowed\n"))
    with refused("not allowed", error=GuestError):
        Apart(silent, 1).ask(ClocksRequest())
    (asked,) = silent.requests(ExecRequest)
    assert asked.argv[-2:] == ("--pairs", "1")


def test_an_agent_apart_answers_as_any_other() -> None:
    clocks = recorded_reply("clocks")
    lines = [{"event": "ready", "protocol": PROTOCOL}, {"id": 1, "ok": clocks}]
    agent = OperationAgent(exec=exited(stdout="".join(json.dumps(line) + "\n" for line in lines)))
    assert Apart(agent, 2).ask(ClocksRequest()).to_json() == clocks
    (asked,) = agent.requests(ExecRequest)
    assert json.loads(asked.stdin or b"") == {"id": 1, "op": "clocks"}
