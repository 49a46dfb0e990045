"""The network peer: generator, sink and timekeeper, as one agent in a network namespace of its own; the lab's agent.

And the routers of routed links: an agent each, in a network namespace that ends with it.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from virtoll.agent.client import AgentClient, ChannelMark, Reply
from virtoll.agent.operations.network import NetworkRequest
from virtoll.agent.path_counters import read_counters
from virtoll.agent.request import Request
from virtoll.errors import GuestCannot, GuestError
from virtoll.experiment.topology import Testbed
from virtoll.hosts.base import GuestHost, LocalHost
from virtoll.hosts.remote_host import RemoteHost, open_remote
from virtoll.hosts.session import inherited
from virtoll.hosts.ssh import connection_from_lab
from virtoll.image import GuestImage
from virtoll.lab.attachments import Counters
from virtoll.lab.commands import PIPED
from virtoll.lab.enter import Enter
from virtoll.lab.inside import end_process
from virtoll.lab.local_network import Network
from virtoll.platforms.containers.native import HOST_AGENT, image_there, on_image
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
    with ready_agent(host, HOST_AGENT, "programs of the peer", who, enter=enter, cpus=cpus) as (agent, _):
        yield agent


@dataclass
class FarPrograms:
    """The same on the host of a testbed's generator, in that host's own network: started when it is first asked.

    The image is copied there as a file, once a run, and mounted in a mount namespace of the agent's own. Where that
    cannot be, a ``GuestCannot`` says why, each time. ``host``: the connection to it, opened for this alone.
    """

    host: Callable[[], contextlib.AbstractContextManager[RemoteHost]]
    image: GuestImage
    channel_marks: deque[ChannelMark] = field(default_factory=deque)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _agent: AgentClient | None = None
    _refused: str | None = None

    @property
    def ended(self) -> bool:
        """Where it was started and is gone."""
        return self._agent is not None and self._agent.ended

    def ask(self, request: Request[Reply], deadline_seconds: float = 60.0) -> Reply:
        """One request, as of any agent."""
        if self._refused is None and self._agent is None:
            try:
                self._agent = self._start()
            except GuestError as error:
                self._stack.close()
                self._refused = str(error)
        if self._agent is None:
            raise GuestCannot(
                f"this traffic's other end is a program of the image, which cannot be started there: {self._refused}"
            )
        return self._agent.ask(request, deadline_seconds)

    def _start(self) -> AgentClient:
        remote = self._stack.enter_context(self.host())
        return self._stack.enter_context(on_image_there(remote, self.image, "programs of the peer"))

    def close(self) -> None:
        """End it and what it started; the copy is gone with the connection."""
        self._stack.close()


@contextlib.contextmanager
def far_programs(testbed: Testbed, lab: LocalHost, image: GuestImage) -> Iterator[FarPrograms | None]:
    """Who starts the image's programs at a testbed's generator; None where that is not a host over SSH."""
    passed_on, address = inherited(), testbed.generator.host.ssh
    if passed_on is None or address is None:
        yield None
        return
    connection = connection_from_lab(address, passed_on.outside, lab.scratch)
    programs = FarPrograms(lambda: open_remote(connection, lab, image.agent), image)
    try:
        yield programs
    finally:
        programs.close()


@contextlib.contextmanager
def on_image_there(host: RemoteHost, image: GuestImage, role: str) -> Iterator[AgentClient]:
    """An agent on the image's root on another host, in that host's own network."""
    if not host.is_root:
        raise GuestError(f"{host.name}: only root mounts the image there; give a user that is root")
    command = [*image_there(host, image).prefix(host.agent), *HOST_AGENT]
    with ready_agent(host, command, role, f"the agent for {role} on {host.name}") as (agent, _):
        yield agent


@contextlib.contextmanager
def load_peer(host: LocalHost, image: GuestImage, network: Network) -> Iterator[AgentClient]:
    """A second generator and sink in the peer's network namespace, for traffic that guests beside are loaded with.

    An agent carries one traffic trial out at a time, and the measured guest has the first.
    """
    command = [str(image.agent), "--role", "peer", "--channel", "stdio"]
    enter = Enter(network=Path(f"/proc/{network.peer_pid}/ns/net"))
    role = "peer of guests beside"
    with ready_agent(host, command, role, f"the network {role}", enter=enter) as (agent, _):
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
    with ready_agent(host, command, "the lab's counters", "the lab's agent") as started:
        yield started


@contextlib.contextmanager
def ready_agent(
    host: GuestHost,
    command: Sequence[str],
    role: str,
    who: str,
    *,
    enter: Enter | None = None,
    cpus: tuple[int, ...] = (),
) -> Iterator[tuple[AgentClient, int]]:
    """An agent of ours on a host, ready, and its PID here; it ends with the context.

    ``role``: for the record of commands; ``who``: for errors.
    """
    process = host.spawn(command, role, replace(PIPED, enter=enter, cpus=cpus))
    agent = connect_stdio(process, who)
    try:
        agent.wait_ready(_READY_SECONDS)
        yield agent, process.pid
    finally:
        agent.close()
        end_process(process)
