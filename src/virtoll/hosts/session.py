"""The agents on a testbed's other hosts: started outside the lab, their byte streams handed into it.

Main types: ``Streams`` (what a lab is given in its environment: descriptors). ``open_session`` checks that the
interfaces are there and that the very agent of this machine runs there. It starts it, ends it and sees that no copy is
left.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from virtoll.errors import GuestError, UsageError
from virtoll.experiment.topology import Testbed
from virtoll.hosts import open_host
from virtoll.hosts.base import Host, as_usage_error
from virtoll.lab.commands import PIPED, ConnectedHost
from virtoll.lab.flow_control import EthtoolPause

VARIABLE = "VIRTOLL_TESTBED"
_ROLE = "agent of the testbed"
_PEER = ("--role", "peer", "--channel", "stdio")
_STREAMS = replace(PIPED, stderr=None)


@dataclass(frozen=True)
class Streams:
    """Reader and writer of each host's agent in the order of ``Testbed.far`` and then ``Testbed.far_beside``, and the
    network namespace outside.
    """

    agents: tuple[tuple[int, int], ...]
    outside: int

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All of them."""
        return (*(one for pair in self.agents for one in pair), self.outside)


def inherited() -> Streams | None:
    """Inside a lab: what the launcher handed in, or None without a testbed."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return None
    agents, outside = json.loads(text)
    return Streams(tuple((reader, writer) for reader, writer in agents), outside)


@contextlib.contextmanager
def open_session(testbed: Testbed | None, agent: Path) -> Iterator[tuple[dict[str, str], tuple[int, ...]]]:
    """Start the testbed's agents; yields environment and descriptors for the lab, both empty without a testbed."""
    if testbed is None:
        yield {}, ()
        return
    if os.geteuid() != 0:
        raise UsageError("testbed: this needs root, to move this machine's interfaces into the lab; run as root")
    with contextlib.ExitStack() as stack:
        with as_usage_error("testbed: "):
            _require("this machine", testbed.moved, [name for _, name in socket.if_nameindex()])
            for name in testbed.moved if testbed.flow_control is not None else ():
                EthtoolPause().read(name)  # one that cannot be switched is refused before anything is changed
            if testbed.hypervisor.host.ssh is not None or testbed.hypervisor.host.netns is not None:
                beside = testbed.neighbour.hypervisor if testbed.neighbour is not None else []
                _look_at(open_host(testbed.hypervisor.host), [*testbed.hypervisor.interfaces, *beside])
            hosts = (*testbed.far, *testbed.far_beside)
            ends = [stack.enter_context(_agent_on(open_host(host), agent, names)) for host, names in hosts]
        outside = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, outside)
        streams = Streams(tuple(ends), outside)
        yield {VARIABLE: json.dumps([streams.agents, outside])}, streams.descriptors


def _look_at(host: Host, interfaces: Sequence[str]) -> None:
    """The guests' host is there, and has these interfaces."""
    known = json.loads(host.run(["ip", "-json", "link"], _ROLE))
    _require(host.name, interfaces, [one["ifname"] for one in known])


@contextlib.contextmanager
def _agent_on(host: Host, agent: Path, interfaces: Sequence[str]) -> Iterator[tuple[int, int]]:
    """One host's agent, by the descriptors of its byte stream.

    A copy is removed by the agent itself as it starts, so that a controller that is killed leaves none.
    """
    program = host.put(agent)
    process: subprocess.Popen[bytes] | None = None
    try:
        _check_version(host, program, agent)
        _require(host.name, interfaces, _interfaces(host, program))
        flags = ["--unlink-self"] if program != agent else []
        process = host.spawn([str(program), *_PEER, *flags], _ROLE, _STREAMS)
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.fileno(), process.stdin.fileno()
    finally:
        if process is not None:
            _end(process)
        if program != agent:
            with contextlib.suppress(GuestError):
                host.run(["rm", "-f", "--", str(program)], _ROLE)


def _check_version(host: Host, program: Path, agent: Path) -> None:
    """The very binary that is here must run there: it may be another machine's kind, or an old copy."""
    here = ConnectedHost().run([str(agent), "--version"], _ROLE)
    there = host.run([str(program), "--version"], _ROLE)
    if here != there:
        raise GuestError(
            f"{host.name} runs agent {there.strip()!r}, this machine {here.strip()!r}; rebuild: 'make agent'"
        )


def _interfaces(host: Host, program: Path) -> list[str]:
    """Names of the host's interfaces, from a session of the agent that holds one request."""
    said = host.run([str(program), *_PEER], _ROLE, stdin=b'{"id":1,"op":"facts"}\n')
    answer: dict[str, Any] = next((line for line in map(json.loads, said.splitlines()) if line.get("id") == 1), {})
    return [one["name"] for one in answer.get("ok", {}).get("interfaces", [])]


def _require(where: str, wanted: Sequence[str], known: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in known]
    if missing:
        raise GuestError(f"{where} has no interface {', '.join(missing)}; it has: {', '.join(sorted(known))}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Its stream ends, so it leaves; what does not is killed."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    try:
        process.wait(3.0)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
