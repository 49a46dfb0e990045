"""The generator and sink of a testbed, on another host: its agent, its NICs, and how guests are reached over them.

Main type: ``FarPeer``. The timekeeper stays in the lab's own peer: marks never cross a NIC that carries traffic.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from virtoll.agent import AgentClient
from virtoll.errors import LabError
from virtoll.hosts.session import inherited
from virtoll.lab.network import GuestNetwork, Network, over_trunks
from virtoll.testbed import Testbed

_READY_SECONDS = 20.0


@dataclass(frozen=True)
class FarPeer:
    """``agent`` is the session; ``near`` this machine's NICs, ``far`` the other host's by name and MAC; sink's last."""

    agent: AgentClient
    near: tuple[str, ...]
    far: tuple[tuple[str, str], ...]

    def reach(self, network: GuestNetwork) -> GuestNetwork:
        """A guest's links by way of the NICs."""
        return over_trunks(network, self.near, self.far)


@contextlib.contextmanager
def far_peer(testbed: Testbed | None, network: Network) -> Iterator[FarPeer | None]:
    """Connect to the agent that the launcher started, and take this machine's NICs; None without a testbed."""
    given = inherited()
    if testbed is None:
        yield None
        return
    if given is None:
        raise LabError("testbed: its agent was not started; start the run through the 'virtoll' command line")
    agent = AgentClient(given.reader, given.writer, f"the agent on {testbed.far.words}")
    try:
        agent.wait_ready(_READY_SECONDS)
        network.adopt(testbed.hypervisor.interfaces, given.outside)
        names = [*testbed.generator.interfaces, *testbed.sink.interfaces]
        yield FarPeer(agent, tuple(testbed.hypervisor.interfaces), _addresses(agent, names, testbed.far.words))
    finally:
        agent.close()


def _addresses(agent: AgentClient, names: Sequence[str], where: str) -> tuple[tuple[str, str], ...]:
    """Name and MAC address of each interface, from the agent's facts."""
    known = {one["name"]: one["mac"] for one in agent.call("facts")["interfaces"]}
    missing = [name for name in names if not known.get(name)]
    if missing:
        raise LabError(f"testbed: {where} has no interface {', '.join(missing)}; it has: {', '.join(known)}")
    return tuple((name, known[name]) for name in names)
