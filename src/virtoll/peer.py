"""The network peer: generator, sink and timekeeper, as one agent in a network namespace of its own; the lab's agent."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

from virtoll.agent import AgentClient
from virtoll.lab.inside import end_process
from virtoll.lab.network import Network
from virtoll.platforms.base import Site, connect_stdio

_READY_SECONDS = 10.0


@contextlib.contextmanager
def network_peer(site: Site) -> Iterator[tuple[AgentClient, Network]]:
    """Start the peer's agent and open the lab's network towards its namespace; both end with the context."""
    command = ["unshare", "--net", "--", str(site.image.agent), "--seat", "peer", "--channel", "stdio"]
    process = site.lab.spawn(command, "network peer", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    peer = connect_stdio(process, "the network peer")
    network = None
    try:
        peer.wait_ready(_READY_SECONDS)
        network = Network(process.pid)
        yield peer, network
    finally:
        if network is not None:
            network.close()
        peer.close()
        end_process(process)


@contextlib.contextmanager
def lab_agent(site: Site) -> Iterator[AgentClient]:
    """An agent in the lab's own namespace, which reads the counters of its bridges, veth pairs and taps."""
    command = [str(site.image.agent), "--seat", "host", "--channel", "stdio"]
    process = site.lab.spawn(command, "the lab's counters", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    agent = connect_stdio(process, "the lab's agent")
    try:
        agent.wait_ready(_READY_SECONDS)
        yield agent
    finally:
        agent.close()
        end_process(process)
