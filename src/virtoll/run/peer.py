"""The network peer: generator, sink and timekeeper, as one agent in a network namespace of its own; the lab's agent.

And the routers of routed links: an agent each, in a network namespace that ends with it.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from virtoll.agent.client import AgentClient
from virtoll.agent.operations.network import NetworkRequest
from virtoll.agent.path_counters import read_counters
from virtoll.errors import GuestError
from virtoll.hosts.base import LocalHost
from virtoll.image import GuestImage
from virtoll.lab.attachments import Counters
from virtoll.lab.commands import PIPED
from virtoll.lab.enter import Enter
from virtoll.lab.inside import end_process
from virtoll.lab.network import Network
from virtoll.platforms.containers.native import HOST_AGENT, on_image
from virtoll.platforms.process_guest import connect_stdio

_READY_SECONDS = 60.0


@contextlib.contextmanager
def network_peer(host: LocalHost, image: GuestImage) -> Iterator[tuple[AgentClient, Network]]:
    """Start the peer's agent and open the lab's network towards its namespace; both end with the context."""
    command = ["unshare", "--net", "--", str(image.agent), "--role", "peer", "--channel", "stdio"]
    process = host.spawn(command, "network peer", PIPED)
    peer = connect_stdio(process, "the network peer")
    network = None
    try:
        peer.wait_ready(_READY_SECONDS)
        network = Network(process.pid, lambda name: start_router(host, image, name))
        yield peer, network
    finally:
        if network is not None:
            network.close()
        peer.close()
        end_process(process)


@contextlib.contextmanager
def peer_programs(
    host: LocalHost, image: GuestImage, network: Network, cpu: int | None, folder: Path | None = None
) -> Iterator[AgentClient]:
    """An agent in the peer's network namespace, on the image's root: what it starts are the guests' programs.

    ``cpu``: where it and they run; None: anywhere. ``folder``: of this machine, for their files.
    """
    enter = replace(on_image(image, ("mount",), folder), network=Path(f"/proc/{network.peer_pid}/ns/net"))
    cpus = () if cpu is None else (cpu,)
    who = "the agent for programs of the peer"
    with _agent(host, HOST_AGENT, "programs of the peer", who, enter=enter, cpus=cpus) as (agent, _):
        yield agent


@contextlib.contextmanager
def load_peer(host: LocalHost, image: GuestImage, network: Network) -> Iterator[AgentClient]:
    """A second generator and sink in the peer's network namespace, for traffic that guests beside are loaded with.

    An agent carries one traffic trial out at a time, and the measured guest has the first.
    """
    command = [str(image.agent), "--role", "peer", "--channel", "stdio"]
    enter = Enter(network=Path(f"/proc/{network.peer_pid}/ns/net"))
    with _agent(host, command, "peer of guests beside", "the network peer of guests beside", enter=enter) as (agent, _):
        yield agent


@dataclass
class RouterAgent:
    """An agent in a network namespace of its own, which routes between what is moved there and reports its counters."""

    agent: AgentClient
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        """The process whose namespace it is."""
        return self.process.pid

    def forward(self) -> None:
        """Route IPv4 between the interfaces that are there."""
        self.agent.ask(NetworkRequest(interfaces=(), routes=(), ip_forward=True))

    def counters(self, interfaces: Sequence[str]) -> Mapping[str, Counters]:
        """What is counted at each of these interfaces, by name."""
        return read_counters(self.agent, interfaces)[1]

    def close(self) -> None:
        """End the agent and its namespace."""
        self.agent.close()
        end_process(self.process)


def start_router(host: LocalHost, image: GuestImage, name: str) -> RouterAgent:
    """A router for one link; ``name`` is only reported in the record of command lines."""
    command = ["unshare", "--net", "--", str(image.agent), "--role", "host", "--channel", "stdio"]
    process = host.spawn(command, f"router of {name}", PIPED)
    router = RouterAgent(connect_stdio(process, f"the router of {name}"), process)
    try:
        router.agent.wait_ready(_READY_SECONDS)
    except GuestError:
        router.close()
        raise
    return router


@contextlib.contextmanager
def lab_agent(host: LocalHost, image: GuestImage) -> Iterator[tuple[AgentClient, int]]:
    """An agent in the lab's own namespace, which reads the counters of its bridges, veth pairs and taps; its PID."""
    command = [str(image.agent), "--role", "host", "--channel", "stdio"]
    with _agent(host, command, "the lab's counters", "the lab's agent") as started:
        yield started


@contextlib.contextmanager
def _agent(
    host: LocalHost,
    command: Sequence[str],
    role: str,
    who: str,
    *,
    enter: Enter | None = None,
    cpus: tuple[int, ...] = (),
) -> Iterator[tuple[AgentClient, int]]:
    """An agent of the lab's own, ready, and its PID; it ends with the context. ``role``: for the record of commands."""
    process = host.spawn(command, role, replace(PIPED, enter=enter, cpus=cpus))
    agent = connect_stdio(process, who)
    try:
        agent.wait_ready(_READY_SECONDS)
        yield agent, process.pid
    finally:
        agent.close()
        end_process(process)
