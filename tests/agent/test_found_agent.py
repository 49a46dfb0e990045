"""The agent of a guest that was found: it is asked for nothing that cannot be put back."""

from __future__ import annotations

import json
import os
from typing import Any, BinaryIO, Literal

import pytest
from tests.support.agents import recorded_reply
from tests.support.facts import refused

from virtoll.agent.links import network_request
from virtoll.agent.operations.session import ClocksRequest
from virtoll.errors import AgentError, ProtocolError
from virtoll.lab.network import plan_links
from virtoll.platforms.ssh.driver import FoundAgent
from virtoll.runfolder.frame_shape import FrameShape
from virtoll.workloads.router import router_request, without_vlans


def found_agent(answers: list[dict[str, Any]]) -> tuple[FoundAgent, BinaryIO]:
    """The agent of a guest that was found, which has answered already; and what it is asked, to be read."""
    (reader, theirs), (asked, writer) = os.pipe(), os.pipe()
    lines = [json.dumps({"id": number, "ok": answer}) + "\n" for number, answer in enumerate(answers, start=1)]
    os.write(theirs, "".join(lines).encode())
    os.close(theirs)
    return FoundAgent(reader, writer, "a found guest"), os.fdopen(asked, "rb")


def test_a_found_guest_is_asked_for_all_but_forwarding() -> None:
    agent, asked = found_agent([{"interfaces": []}, {"interfaces": []}, recorded_reply("clocks")])
    wanted = network_request(plan_links(0))
    with asked:
        agent.ask(wanted)
        assert json.loads(asked.readline()) == {"id": 1, **wanted.replace(ip_forward=None).to_json()}
        agent.ask(without_vlans(plan_links(0)))
        assert "ip_forward" not in json.loads(asked.readline())
        assert agent.ask(ClocksRequest()).to_json() == recorded_reply("clocks")
        assert json.loads(asked.readline()) == {"id": 3, "op": "clocks"}
        agent.close()


@pytest.mark.parametrize(("ip_version", "vlan"), [(6, 0), (4, 5), (6, 5)])
def test_a_found_guest_is_asked_for_nothing_that_is_not_put_back(ip_version: Literal[4, 6], vlan: int) -> None:
    agent, asked = found_agent([])
    wanted = router_request(plan_links(0), FrameShape(frame_size_bytes=88, ip_version=ip_version, vlan=vlan))
    assert wanted is not None
    with asked:
        with refused("IPv4", error=AgentError) as raised:
            agent.ask(wanted)
        assert getattr(raised.value, "kind", None) == "unsupported"
        agent.close()
        assert asked.read() == b""


def test_an_answer_that_is_not_the_operations_names_the_field() -> None:
    agent, asked = found_agent([{"interfaces": [{"name": "eth0", "mac": 7}]}])
    with asked:
        with refused("a found guest", "'network'", "interfaces[0].mac", "int", error=ProtocolError):
            agent.ask(network_request(plan_links(0)))
        agent.close()
