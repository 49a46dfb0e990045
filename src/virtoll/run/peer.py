"""The network peer: generator, sink and timekeeper, as one agent in a network namespace of its own; the lab's agent.

And the routers of routed links: an agent each, in a network namespace that ends with it.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from virtoll.agent.client import AgentClient, Answer
from virtoll.errors import GuestError
from virtoll.hosts.base import LocalHost
from virtoll.image import GuestImage
from virtoll.lab.commands import PIPED
from virtoll.lab.inside import end_process
from virtoll.lab.network import Network
from virtoll.platforms.containers.native import confined
from virtoll.platforms.process_guest import connect_stdio

_READY_SECONDS = 60.0


@contextlib.contextmanager
def network_peer(host: LocalHost, image: GuestImage) -> Iterator[tuple[AgentClient, Network]]:
    """Start the peer's agent and open the lab's network towards its namespace; both end with the context."""
    command = ["unshare", "--net", "--", str(image.agent), "--seat", "peer", "--channel", "stdio"]
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
def peer_programs(host: LocalHost, image: GuestImage, network: Network, cpu: int | None) -> Iterator[AgentClient]:
    """An agent in the peer's network namespace, on the image's root: what it starts are the guests' programs.

    ``cpu``: where it and they run; None: anywhere.
    """
    enter = ["nsenter", f"--net=/proc/{network.peer_pid}/ns/net", "--"]
    apart = ["unshare", "--mount", "--propagation", "private", "--"]
    command = [*enter, *apart, *confined(image, "host")]
    cpus = () if cpu is None else (cpu,)
    with _agent(host, command, "programs of the peer", "the agent for programs of the peer", cpus) as agent:
        yield agent


@dataclass
class RouterAgent:
    """An agent in a network namespace of its own, which routes between what is moved there and tells its counters."""

    agent: AgentClient
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        """The process whose namespace it is."""
        return self.process.pid

    def call(self, op: str, deadline_seconds: float = 60.0, **fields: Any) -> Answer:
        """One of the agent's operations."""
        return self.agent.call(op, deadline_seconds, **fields)

    def close(self) -> None:
        """End the agent and its namespace."""
        self.agent.close()
        end_process(self.process)


def start_router(host: LocalHost, image: GuestImage, name: str) -> RouterAgent:
    """A router for one link; ``name`` is only told in the record of command lines."""
    command = ["unshare", "--net", "--", str(image.agent), "--seat", "host", "--channel", "stdio"]
    process = host.spawn(command, f"router of {name}", PIPED)
    router = RouterAgent(connect_stdio(process, f"the router of {name}"), process)
    try:
        router.agent.wait_ready(_READY_SECONDS)
    except GuestError:
        router.close()
        raise
    return router


@contextlib.contextmanager
def lab_agent(host: LocalHost, image: GuestImage) -> Iterator[AgentClient]:
    """An agent in the lab's own namespace, which reads the counters of its bridges, veth pairs and taps."""
    command = [str(image.agent), "--seat", "host", "--channel", "stdio"]
    with _agent(host, command, "the lab's counters", "the lab's agent") as agent:
        yield agent


@contextlib.contextmanager
def _agent(
    host: LocalHost, command: list[str], role: str, who: str, cpus: tuple[int, ...] = ()
) -> Iterator[AgentClient]:
    """An agent of the lab's own, ready; it ends with the context. ``role``: for the record of command lines."""
    process = host.spawn(command, role, replace(PIPED, cpus=cpus))
    agent = connect_stdio(process, who)
    try:
        agent.wait_ready(_READY_SECONDS)
        yield agent
    finally:
        agent.close()
        end_process(process)
