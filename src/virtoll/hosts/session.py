"""The agents on a testbed's other hosts: started outside the lab, their byte streams handed into it.

Main types: ``Streams`` (what a lab is given in its environment: descriptors). ``open_session`` checks that the
interfaces are there and that the very agent of this machine runs there. It starts it, ends it and sees that no copy is
left. Beside it runs the agent's ``undo``, for what the lab changes at the host's interfaces.
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
from typing import IO

from virtoll.errors import GuestError, UsageError, as_written, remedy_for
from virtoll.experiment.topology import Testbed
from virtoll.hosts import open_host
from virtoll.hosts.base import Host, as_usage_error
from virtoll.hosts.undo import Undo
from virtoll.lab.captured import passed_on
from virtoll.lab.commands import PIPED, ConnectedHost
from virtoll.lab.flow_control import EthtoolPause

VARIABLE = "VIRTOLL_TESTBED"
_ROLE = "agent of the testbed"
_PEER = ("--role", "peer", "--channel", "stdio")
_STREAMS = replace(PIPED, stderr=subprocess.PIPE)
_END_SECONDS = 3.0
_UNDO_SECONDS = 60.0

Ends = tuple[int, int]
"""Reader and writer of a byte stream."""


@dataclass(frozen=True)
class Streams:
    """Of each host's agent in the order of ``Testbed.far`` and then ``Testbed.far_of_neighbour``, of the ``undo`` there
    in the same order, and the network namespace outside.
    """

    agents: tuple[Ends, ...]
    undos: tuple[Ends, ...]
    outside: int

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All of them."""
        return (*(descriptor for pair in (*self.agents, *self.undos) for descriptor in pair), self.outside)


def inherited() -> Streams | None:
    """Inside a lab: what the launcher handed in, or None without a testbed."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return None
    agents, undos, outside = json.loads(text)
    of_agents = tuple((reader, writer) for reader, writer in agents)
    return Streams(of_agents, tuple((reader, writer) for reader, writer in undos), outside)


@contextlib.contextmanager
def open_session(testbed: Testbed | None, agent: Path) -> Iterator[tuple[dict[str, str], tuple[int, ...]]]:
    """Start the testbed's agents; yields environment and descriptors for the lab, both empty without a testbed.

    Its nodes have their hosts already (``nodes.on_its_nodes``).
    """
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
                neighbour_interfaces = testbed.neighbour.hypervisor if testbed.neighbour is not None else []
                _look_at(open_host(testbed.hypervisor.host), [*testbed.hypervisor.interfaces, *neighbour_interfaces])
            hosts = (*testbed.far, *testbed.far_of_neighbour)
            started = [stack.enter_context(_agent_on(open_host(host), agent, names)) for host, names in hosts]
        outside = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, outside)
        undos = tuple(undo for _, undo in started)
        streams = Streams(tuple(stream for stream, _ in started), undos, outside)
        yield {VARIABLE: json.dumps([streams.agents, streams.undos, outside])}, streams.descriptors


def _look_at(host: Host, interfaces: Sequence[str]) -> None:
    """The guests' host is there, and has these interfaces."""
    _refuse_noise(host)
    output = host.run(["ip", "-json", "link"], _ROLE)
    try:
        known = [str(interface["ifname"]) for interface in json.loads(output)]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise GuestError(
            f"{host.name}: 'ip -json link' did not print the interfaces there, but {_short(output)}"
        ) from error
    _require(host.name, interfaces, known)


def _refuse_noise(host: Host) -> None:
    """GuestError where a program that prints nothing does: what is read of others would begin with the same."""
    output = host.run(["true"], _ROLE)
    if output:
        raise GuestError(
            f"{host.name}: its shell prints {_short(output)} before a program's own output; have ~/.bashrc and the "
            "like print in interactive shells alone"
        )


def _short(output: str) -> str:
    """What a host printed, for a sentence."""
    return as_written(output.strip())


@contextlib.contextmanager
def _agent_on(host: Host, agent: Path, interfaces: Sequence[str]) -> Iterator[tuple[Ends, Ends]]:
    """One host's agent and its ``undo``, by the descriptors of their byte streams.

    A copy is removed by the agent itself as it starts, so that a controller that is killed leaves none.
    """
    _refuse_noise(host)
    program = host.put(agent)
    try:
        _check_version(host, program, agent)
        _require(host.name, interfaces, _interfaces(host, program))
        with _started(host, [str(program), "undo"], _UNDO_SECONDS) as undo:
            Undo(host.name, *_pipes(undo), undo.kill).guard(["true"])()  # it runs, and needs its file no more
            flags = ["--unlink-self"] if program != agent else []
            with _started(host, [str(program), *_PEER, *flags], _END_SECONDS) as process:
                yield _descriptors(process), _descriptors(undo)
    finally:
        if program != agent:
            with contextlib.suppress(GuestError):
                host.run(["rm", "-f", "--", str(program)], _ROLE)


@contextlib.contextmanager
def _started(host: Host, argv: Sequence[str], end_seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    """A program there until its stream ends: then it leaves, and is killed where it takes longer than ``end_seconds``.

    What has the stream too, as the lab does, has ended by then.
    """
    process = host.spawn(argv, _ROLE, _STREAMS)
    complaints = passed_on(host.name, process)
    try:
        yield process
    finally:
        for stream in _pipes(process):
            with contextlib.suppress(OSError):
                stream.close()
        try:
            process.wait(end_seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        complaints.join(end_seconds)


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdout is not None
    assert process.stdin is not None
    return process.stdout, process.stdin


def _descriptors(process: subprocess.Popen[bytes]) -> Ends:
    reader, writer = _pipes(process)
    return reader.fileno(), writer.fileno()


def _check_version(host: Host, program: Path, agent: Path) -> None:
    """The very binary that is here must run there: it may be another machine's kind, or an old copy."""
    here = ConnectedHost().run([str(agent), "--version"], _ROLE)
    there = host.run([str(program), "--version"], _ROLE)
    if here != there:
        raise GuestError(
            f"{host.name} runs agent {_short(there)}, this machine {here.strip()!r}; {remedy_for('agent')}"
        )


def _interfaces(host: Host, program: Path) -> list[str]:
    """Names of the host's interfaces, from a session of the agent that holds one request."""
    output = host.run([str(program), *_PEER], _ROLE, stdin=b'{"id":1,"op":"facts"}\n')
    try:
        answers = [json.loads(line) for line in output.splitlines()]
        facts: dict[str, list[dict[str, object]]] = next(
            (answer["ok"] for answer in answers if answer.get("id") == 1 and "ok" in answer), {"interfaces": []}
        )
        return [str(interface["name"]) for interface in facts["interfaces"]]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise GuestError(f"{host.name}: the agent there did not tell its interfaces, but {_short(output)}") from error


def _require(where: str, names: Sequence[str], known: Sequence[str]) -> None:
    missing = [name for name in names if name not in known]
    if missing:
        raise GuestError(f"{where} has no interface {', '.join(missing)}; it has: {', '.join(sorted(known))}")
