"""The client against the real agent over pipes and socket pairs, and against programs that misbehave in its place."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, Literal

import pytest
from tests.support.agents import recorded_reply
from tests.support.repository import ROOT

from virtoll.agent.client import MAXIMUM_LINE_BYTES, PROTOCOL, AgentClient
from virtoll.agent.links import network_request
from virtoll.agent.operations.session import ClocksRequest, HelloReply
from virtoll.errors import AgentError, GuestDied, GuestError, GuestNotReady, ProtocolError
from virtoll.image.clone import built_agent
from virtoll.lab.network import plan_links
from virtoll.platforms.process_guest import connect_stdio, socket_session
from virtoll.platforms.ssh.driver import FoundAgent
from virtoll.runfolder.frame_shape import FrameShape
from virtoll.workloads.router import router_request, without_vlans
from virtoll.workloads.superpi import SuperPi, SuperPiParameters

READY_SECONDS = 120.0
SECOND_NS = 1_000_000_000


@contextlib.contextmanager
def session(*argv: str | Path, by: str = "pipe") -> Iterator[tuple[AgentClient, subprocess.Popen[bytes]]]:
    """A process with a client on its standard input and output."""
    if by == "pipe":
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        client = connect_stdio(process, "the agent")
    else:
        client, theirs = socket_session("the agent")
        client.window_bytes = 2048 if by == "paced" else None
        process = subprocess.Popen(argv, stdin=theirs.fileno(), stdout=theirs.fileno())
        theirs.close()
    try:
        yield client, process
    finally:
        client.close()
        process.kill()
        process.wait()


def agent(by: str = "pipe") -> contextlib.AbstractContextManager[tuple[AgentClient, subprocess.Popen[bytes]]]:
    return session(
        built_agent(), "--role", "guest", "--channel", "stdio", *(["--paced"] if by == "paced" else []), by=by
    )


def stub(behaviour: str) -> contextlib.AbstractContextManager[tuple[AgentClient, subprocess.Popen[bytes]]]:
    return session(sys.executable, ROOT / "tests" / "support" / "stub_agent.py", behaviour)


@pytest.mark.parametrize("by", ["pipe", "socket"])
def test_ready_hello_and_leaving(by: str) -> None:
    with agent(by) as (client, process):
        hello = client.wait_ready(READY_SECONDS)
        assert hello.protocol == PROTOCOL
        assert client.ready is not None
        assert (hello.role, hello.pid) == (client.ready.role, client.ready.pid) == ("guest", process.pid)
        assert client.call("clocks")["monotonic_ns"] <= time.monotonic_ns()
        assert not client.ended
        assert client.call("shutdown") == {}
        assert process.wait(READY_SECONDS) == 0


def test_the_agent_leaves_when_the_stream_ends() -> None:
    with agent() as (client, process):
        client.wait_ready(READY_SECONDS)
        client.close()
        client.close()
        assert client.ended
        assert process.wait(READY_SECONDS) == 0
        with pytest.raises(GuestError):
            client.call("clocks")


def test_the_agent_refuses_another_protocol_in_one_sentence() -> None:
    with agent() as (client, _):
        client.wait_ready(READY_SECONDS)
        with pytest.raises(ProtocolError) as raised:
            client.call("hello", protocol=PROTOCOL + 1)
        message = str(raised.value)
        assert str(PROTOCOL) in message
        assert str(PROTOCOL + 1) in message
        assert "make agent" in message
        assert "\n" not in message
        assert client.call("clocks")


def test_another_agent_is_refused_in_one_sentence() -> None:
    with stub("other-protocol") as (client, _), pytest.raises(ProtocolError) as raised:
        client.wait_ready(READY_SECONDS)
    assert str(raised.value) == (
        "the agent speaks protocol 4, this Virtoll speaks 3; rebuild agent and image with 'make agent image'"
    )


def test_a_mismatch_that_the_agent_finds_is_passed_on() -> None:
    with stub("refuses-hello") as (client, _), pytest.raises(ProtocolError, match="the agent: the agent speaks"):
        client.wait_ready(READY_SECONDS)


def test_console_noise_is_kept_and_disturbs_nothing() -> None:
    with stub("noisy") as (client, _):
        assert client.wait_ready(READY_SECONDS) == HelloReply(protocol=3)
        assert client.call("clocks") == {"monotonic_ns": 7}
        for noise in (b"Linux version 6.1", b"{not json}", b"neither", b"between request and answer", b"\xff\xfe"):
            assert noise in client.console


def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_one() -> None:
    with stub("late-answer") as (client, _):
        client.wait_ready(READY_SECONDS)
        with pytest.raises(GuestDied, match=r"did not answer 'clocks' within 0\.2 s"):
            client.call("clocks", deadline_seconds=0.2)
        assert client.call("facts") == {"which": "right"}


def test_an_answer_that_is_on_its_way_at_the_deadline_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent's part is played here: half of the answer is there, and the rest comes when the deadline has passed."""
    ours, theirs = socket.socketpair()
    descriptor = ours.detach()
    client = AgentClient(descriptor, descriptor, "slow")
    answer = b'{"id":1,"ok":{"letters":"xxxxxxxxxxxx"}}\n'
    rest, patience = [answer[:20], answer[20:]], list[float]()

    class Arrivals:
        """The kernel's poll, before whose wait a part of the answer is sent."""

        def __init__(self) -> None:
            self._poll = select.poll()

        def register(self, descriptor: int, events: int) -> None:
            self._poll.register(descriptor, events)

        def poll(self, milliseconds: float) -> object:
            patience.append(milliseconds)
            theirs.sendall(rest.pop(0))
            return self._poll.poll(milliseconds)

    played = SimpleNamespace(poll=Arrivals, POLLIN=select.POLLIN)
    monkeypatch.setattr("virtoll.agent.client.select", played)
    assert client.call("clocks", deadline_seconds=0.0) == {"letters": "x" * 12}
    assert patience[0] == 0.0
    assert patience[1] > 0.0, "it is waited for, whether or not it comes at once"
    client.close()
    theirs.close()


@pytest.mark.parametrize("behaviour", ["asleep", "fast asleep"])
def test_a_channel_that_sleeps_is_woken_by_empty_lines_over_some_of_which_it_sleeps_too(behaviour: str) -> None:
    with stub(behaviour) as (client, _):
        client.wait_ready(READY_SECONDS)
        client.wake_seconds = 0.01
        assert client.call("clocks", deadline_seconds=READY_SECONDS) == {"woken": True}


def test_an_agent_that_dies_in_a_call() -> None:
    with stub("dies") as (client, _):
        client.wait_ready(READY_SECONDS)
        with pytest.raises(GuestDied, match="the agent ended while it was needed"):
            client.call("clocks", deadline_seconds=READY_SECONDS)
        assert client.ended


def test_a_real_agent_that_is_killed_in_a_call() -> None:
    with agent() as (client, process):
        client.wait_ready(READY_SECONDS)
        client.post("run", job="idle", parameters={"duration_ns": 60 * SECOND_NS}, marks=None)
        while not client.channel_marks:
            client.pump(READY_SECONDS)
        process.send_signal(signal.SIGKILL)
        with pytest.raises(GuestDied):
            client.call("clocks", deadline_seconds=READY_SECONDS)


@pytest.mark.parametrize("behaviour", ["silent", "never"])
def test_a_deadline_names_what_was_awaited(behaviour: str) -> None:
    with stub(behaviour) as (client, _):
        if behaviour == "never":
            with pytest.raises(GuestNotReady, match=r"the agent was not ready within 0\.2 s"):
                client.wait_ready(0.2)
        else:
            client.wait_ready(READY_SECONDS)
            with pytest.raises(GuestDied, match="did not answer 'clocks'"):
                client.call("clocks", deadline_seconds=0.2)


def test_a_line_over_the_limit_ends_the_session() -> None:
    with stub("long-line") as (client, _):
        client.wait_ready(READY_SECONDS)
        with pytest.raises(ProtocolError, match=f"longer than {MAXIMUM_LINE_BYTES} bytes"):
            client.call("clocks", deadline_seconds=READY_SECONDS)


def test_an_answer_that_is_neither_ok_nor_error() -> None:
    with stub("neither") as (client, _):
        client.wait_ready(READY_SECONDS)
        with pytest.raises(ProtocolError, match="neither ok nor error"):
            client.call("clocks")


def test_what_the_agent_refuses_has_its_kind() -> None:
    with agent() as (client, _):
        client.wait_ready(READY_SECONDS)
        for fields, kind in (({"op": "nonsense"}, "bad-request"), ({"op": "clocks", "extra": 1}, "bad-request")):
            with pytest.raises(AgentError, match="refused") as raised:
                client.call(**fields)
            assert raised.value.kind == kind


def test_a_request_over_the_limit_is_answered() -> None:
    """The agent answers without an id, so the call ends at its deadline; the session goes on."""
    with agent() as (client, _):
        client.wait_ready(READY_SECONDS)
        with pytest.raises(GuestError):
            client.call("exec", deadline_seconds=0.2, argv=["x" * (MAXIMUM_LINE_BYTES + 1)])
        assert client.call("clocks", deadline_seconds=READY_SECONDS)


@pytest.mark.parametrize("by", ["pipe", "socket", "paced"])
def test_a_megabyte_goes_through_a_program_and_back_byte_for_byte(by: str) -> None:
    data = bytes(range(256)) * 16 + os.urandom(2**20 - 4096)
    with agent(by) as (client, _):
        client.wait_ready(READY_SECONDS)
        answer = client.call(
            "exec",
            deadline_seconds=READY_SECONDS,
            argv=["/bin/cat"],
            env=None,
            directory=None,
            stdin=base64.b64encode(data).decode(),
            timeout_ns=int(READY_SECONDS * SECOND_NS),
            limit_bytes=2**21,
        )
    assert (answer["status"], answer["signal"], answer["timed_out"], answer["truncated"]) == (0, None, False, False)
    assert base64.b64decode(answer["stdout"]) == data
    assert answer["stderr"] == ""


def test_marks_come_over_the_channel_and_are_stamped_on_arrival() -> None:
    with agent() as (client, _):
        client.wait_ready(READY_SECONDS)
        before = time.monotonic_ns()
        answer = client.call("run", job="idle", parameters={"duration_ns": 50_000_000}, marks=None)
        after = time.monotonic_ns()
        assert [mark.edge for mark in client.channel_marks] == ["start", "end"]
        start, end = client.channel_marks
        assert before <= start.monotonic_ns <= end.monotonic_ns <= after
        assert start.realtime_ns <= end.realtime_ns
        guest = answer["guest"]
        assert guest["end_monotonic_ns"] - guest["start_monotonic_ns"] >= 50_000_000
        assert before <= guest["start_monotonic_ns"] <= guest["end_monotonic_ns"] <= after


@pytest.mark.parametrize(
    ("digits", "sha256"),
    [
        (2**14, SuperPi(SuperPiParameters(digits=2**14)).expected_check()),
        # Made with the Chudnovsky series in Python's `decimal`, as what Rust's own tests know.
        (2**18, "9af37b536d27ab4ee9a06eba897bb254273168d9a616c114034e5eb4c3e255af"),
        (2**20, SuperPi(SuperPiParameters(digits=2**20)).expected_check()),
    ],
)
def test_the_digits_of_pi_are_those_of_other_programs(digits: int, sha256: str) -> None:
    """Multiplied by FFT, in the build that measures: Rust's own tests have smaller numbers."""
    with agent() as (client, _):
        client.wait_ready(READY_SECONDS)
        answer = client.call("run", READY_SECONDS, job="superpi", parameters={"digits": digits}, marks=None)
    assert answer["check"] == sha256


def test_a_peer_that_does_not_read_ends_the_call() -> None:
    """The other end of the socket is closed: writing fails, and says so as a death, not as a broken pipe."""
    client, theirs = socket_session("the agent")
    theirs.shutdown(socket.SHUT_RDWR)
    theirs.close()
    with pytest.raises(GuestDied, match="ended while it was needed"):
        client.call("clocks", deadline_seconds=READY_SECONDS)
    client.close()


def test_a_paced_channel_never_has_more_than_its_window_on_the_way() -> None:
    """The agent's part is played here: after each portion nothing more comes until it was said to be taken."""
    ours, theirs = socket.socketpair()
    descriptor = ours.detach()
    client = AgentClient(descriptor, descriptor, "slow", window_bytes=100)
    portions: list[bytes] = []

    def take() -> None:
        total = 0
        while not portions or not portions[-1].endswith(b"\n"):
            portions.append(theirs.recv(4096))
            total += len(portions[-1])
            if not select.select([theirs], [], [], 0.02)[0] and not portions[-1].endswith(b"\n"):
                event = {"event": "taken", "bytes": total}
                theirs.sendall(b'{"id":99,"ok":{}}\n' + json.dumps(event).encode() + b"\n")
        theirs.sendall(b'{"id":1,"ok":{"monotonic_ns":7}}\n')

    agent = threading.Thread(target=take)
    agent.start()
    assert client.call("exec", stdin="x" * 500) == {"monotonic_ns": 7}
    agent.join()
    request = b"".join(portions)
    assert json.loads(request)["stdin"] == "x" * 500
    assert [len(portion) for portion in portions] == [100] * (len(request) // 100) + [len(request) % 100]
    client.close()
    theirs.close()


def found_agent(answers: list[dict[str, Any]]) -> tuple[FoundAgent, BinaryIO]:
    """The agent of a guest that was found, which has answered already; and what it is asked, to be read."""
    (reader, theirs), (asked, writer) = os.pipe(), os.pipe()
    lines = [json.dumps({"id": number, "ok": answer}) + "\n" for number, answer in enumerate(answers, start=1)]
    os.write(theirs, "".join(lines).encode())
    os.close(theirs)
    return FoundAgent(reader, writer, "a found guest"), os.fdopen(asked, "rb")


def test_a_found_guest_is_not_switched_to_forwarding_and_all_else_is_asked_as_it_is() -> None:
    agent, asked = found_agent([{"interfaces": []}, {"interfaces": []}, recorded_reply("clocks")])
    wanted = network_request(plan_links(0))
    with asked:
        agent.ask(wanted)
        assert json.loads(asked.readline()) == {"id": 1, "op": "network", **wanted.to_json(), "ip_forward": None}
        agent.ask(without_vlans(plan_links(0)))
        assert json.loads(asked.readline())["ip_forward"] is None
        assert agent.ask(ClocksRequest()).to_json() == recorded_reply("clocks")
        assert json.loads(asked.readline()) == {"id": 3, "op": "clocks"}
        agent.close()


@pytest.mark.parametrize(("ip_version", "vlan"), [(6, 0), (4, 5), (6, 5)])
def test_a_found_guest_is_asked_for_nothing_that_is_not_put_back(ip_version: Literal[4, 6], vlan: int) -> None:
    agent, asked = found_agent([])
    wanted = router_request(plan_links(0), FrameShape(frame_size_bytes=88, ip_version=ip_version, vlan=vlan))
    assert wanted is not None
    with asked:
        with pytest.raises(AgentError, match="IPv4 without tags only") as refused:
            agent.ask(wanted)
        assert refused.value.kind == "unsupported"
        agent.close()
        assert asked.read() == b""


def test_an_answer_that_is_not_the_operations_names_the_field() -> None:
    agent, asked = found_agent([{"interfaces": [{"name": "eth0", "mac": 7}]}])
    with asked:
        with pytest.raises(ProtocolError, match=r"a found guest answered 'network' wrongly: interfaces\.0\.mac is 7"):
            agent.ask(network_request(plan_links(0)))
        agent.close()
