"""The client and the real agent over pipes and socket pairs: what only a process and a kernel can show."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.facts import refused

from virtoll.agent.client import MAXIMUM_LINE_BYTES, PROTOCOL, AgentClient
from virtoll.errors import AgentError, GuestDied, GuestError, ProtocolError
from virtoll.image.clone import built_agent
from virtoll.platforms.process_guest import connect_stdio, socket_session
from virtoll.workloads.superpi import SuperPi, SuperPiParameters

READY_SECONDS = 120.0
SECOND_NS = 1_000_000_000


@contextlib.contextmanager
def agent(by: str = "pipe") -> Iterator[tuple[AgentClient, subprocess.Popen[bytes]]]:
    """A real agent with a client on its standard input and output."""
    argv = [str(built_agent()), "--role", "guest", "--channel", "stdio", *(["--paced"] if by == "paced" else [])]
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


def test_the_agent_refuses_another_protocol() -> None:
    with agent() as (client, _):
        client.wait_ready(READY_SECONDS)
        with refused(PROTOCOL, PROTOCOL + 1, "make agent", error=ProtocolError):
            client.call("hello", protocol=PROTOCOL + 1)
        assert client.call("clocks")


def test_a_real_agent_that_is_killed_in_a_call() -> None:
    with agent() as (client, process):
        client.wait_ready(READY_SECONDS)
        client.post("run", job="idle", parameters={"duration_ns": 60 * SECOND_NS}, marks=None)
        while not client.channel_marks:
            client.pump(READY_SECONDS)
        process.send_signal(signal.SIGKILL)
        with pytest.raises(GuestDied):
            client.call("clocks", deadline_seconds=READY_SECONDS)


@pytest.mark.parametrize("fields", [{"op": "nonsense"}, {"op": "clocks", "extra": 1}])
def test_what_the_agent_refuses_has_its_kind(fields: dict[str, Any]) -> None:
    with agent() as (client, _):
        client.wait_ready(READY_SECONDS)
        with refused("the agent", f"'{fields['op']}'", error=AgentError) as raised:
            client.call(**fields)
        assert getattr(raised.value, "kind", None) == "bad-request"


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
        (300_000, SuperPi(SuperPiParameters(digits=300_000)).expected_check()),
        (2**20, SuperPi(SuperPiParameters(digits=2**20)).expected_check()),
    ],
)
def test_the_digits_of_pi_are_those_of_other_programs(digits: int, sha256: str) -> None:
    """Multiplied by FFT, in the build that measures: Rust's own tests have smaller numbers."""
    with agent() as (client, _):
        client.wait_ready(READY_SECONDS)
        answer = client.call("run", READY_SECONDS, job="superpi", parameters={"digits": digits}, marks=None)
    assert answer["check"] == sha256
