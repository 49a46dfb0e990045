"""Any guest that its user made and that SSH reaches: a machine or container of any product, or another computer.

Virtoll makes nothing there but a folder with its agent, and sets nothing but what its links need on the NICs that the
experiment names. Both are put back by the agent's ``undo`` when the connection ends, however it ends. The guest itself
is never started, paused, restarted or stopped: parked, stopped and ended is the agent in it alone.

Main types: ``SshGuestPlatform``, ``SshParameters``; ``check_before`` refuses what cannot work before anything starts.
"""

from __future__ import annotations

import contextlib
import os
import platform as this_platform
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Annotated, ClassVar

from pydantic import Field, StringConstraints

from virtoll.agent.client import AgentClient, Reply
from virtoll.agent.operations.network import NetworkRequest
from virtoll.agent.request import Request
from virtoll.errors import AgentError, GuestError, UsageError
from virtoll.experiment.describe import Words
from virtoll.experiment.model import Parameters
from virtoll.experiment.topology import HostAddress, Testbed
from virtoll.hosts import open_host
from virtoll.hosts.base import as_usage_error
from virtoll.hosts.remote_host import RemoteHost, open_remote
from virtoll.hosts.ssh import connection_from_lab
from virtoll.lab.commands import PIPED
from virtoll.lab.inside import end_process
from virtoll.lab.network import GuestNetwork, plan_links
from virtoll.lab.outside import OUTSIDE_VARIABLE
from virtoll.platforms.attachment import Unattached
from virtoll.platforms.base import GuestRequest, Platform, Probe, Validation
from virtoll.platforms.host import Site
from virtoll.platforms.managed_guest import ManagedMachine
from virtoll.platforms.process_guest import connect_stdio
from virtoll.platforms.ssh.nics import FoundNic, find_nics

_AGENT = ["--role", "guest", "--channel", "stdio"]
_PROBE_SECONDS = 60.0
_ROOT_HERE = "ssh: this needs root on this machine, because a lab of an ordinary user leads to no network; run as root"
Interface = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:@-]{1,31}$"), Words("a NIC's name or MAC address")]


class SshParameters(Unattached):
    """``destination``: user@host or a name of ssh's configuration.

    ``interfaces``: the guest's NICs by name or MAC address, which face the testbed's: a source's each, the sink's each,
    the timekeeper's. Without them the guest runs the workloads that need no traffic, marked on the agent's channel.
    """

    destination: Annotated[str, Words("user@host or a name of ~/.ssh/config")] | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9._@%:\[\]][A-Za-z0-9._@%:\[\]-]*$",
        description="the guest, as ssh reaches it",
    )
    interfaces: tuple[Interface, ...] = Field(
        default=(), description="the guest's NICs that face the testbed's: each source's, each sink's, the timekeeper's"
    )

    unlabelled: ClassVar[frozenset[str]] = frozenset({"destination", "interfaces"})
    pre_provisioned: ClassVar[bool] = True

    def conflict(self, testbed: Testbed | None) -> tuple[str, str] | None:
        """There is always a destination; NICs and the testbed's that they face come together."""
        if self.destination is None:
            return "destination", "is missing: which guest? give user@host, or a name of ~/.ssh/config"
        if self.interfaces and testbed is None:
            return "interfaces", (
                "need NICs of this machine that face them; name those in 'testbed' (generator, sink, timekeeper), or "
                "leave 'interfaces' out"
            )
        return None

    @property
    def wired(self) -> bool:
        """Whether NICs are named."""
        return bool(self.interfaces)

    @property
    def elsewhere(self) -> str | None:
        """The guest, as messages name it."""
        return None if self.destination is None else f"ssh {self.destination}"


def check_before(choices: Sequence[Parameters], testbed: Testbed | None) -> None:
    """Look at each found guest among an experiment's choices, before the lab; ``UsageError`` where it cannot be used.

    The position among the choices is the guest's number, as in its links' addresses.
    """
    named = [choice.destination for choice in choices if isinstance(choice, SshParameters)]
    twice = next((destination for destination in named if named.count(destination) > 1), None)
    if twice is not None:
        raise UsageError(f"destination: {twice} is there twice; a guest is one entry, leave the other out")
    for number, choice in enumerate(choices):
        if not isinstance(choice, SshParameters) or choice.destination is None:
            continue
        if os.geteuid() != 0:
            raise UsageError(_ROOT_HERE)
        with as_usage_error():
            _check_one(choice, number, testbed)


def _check_one(parameters: SshParameters, number: int, testbed: Testbed | None) -> None:
    host = open_host(HostAddress(ssh=parameters.destination))
    machine = host.run(["uname", "-m"], "check").strip()
    if machine != this_platform.machine():
        raise GuestError(
            f"{host.name} is a {machine} and the agent is built for {this_platform.machine()}; run Virtoll from such a "
            "machine"
        )
    if not parameters.wired or testbed is None:
        return
    if len(parameters.interfaces) != len(testbed.near):
        raise GuestError(
            f"interfaces: {len(parameters.interfaces)} of {host.name} named and {len(testbed.near)} needed, one that "
            f"faces each of {', '.join(testbed.near)}"
        )
    sources, sinks = len(testbed.generator.interfaces), len(testbed.sink.interfaces)
    network = plan_links(number, sources, sinks=sinks, marks=testbed.timekeeper is not None)
    find_nics(lambda argv: host.run(argv, "check"), host.name, parameters.interfaces, network)


class FoundAgent(AgentClient):
    """The agent in a guest that is not ours: of its network it is asked for nothing that is not put back again."""

    def ask(self, request: Request[Reply], deadline_seconds: float = 60.0) -> Reply:
        """As any agent's; IPv6 and VLANs are refused, and forwarding for the whole guest is not switched on."""
        network = request if isinstance(request, NetworkRequest) else None
        if network is None:
            return super().ask(request, deadline_seconds)
        if any(interface.ipv6_address or interface.vlans for interface in network.interfaces):
            raise AgentError(
                "unsupported", f"{self.who} is a found guest: IPv4 without tags only, so that all is put back"
            )
        return super().ask(request.replace(ip_forward=None), deadline_seconds)


@dataclass(kw_only=True)
class SshGuest(ManagedMachine):
    """The agent's session; ``network`` are its links by way of its own NICs; ``complaints`` is what ssh said."""

    network: GuestNetwork = field(default_factory=lambda: GuestNetwork(()))
    complaints: IO[bytes] | None = None

    def evidence(self) -> dict[str, bytes]:
        """What ssh and the agent complained of."""
        output = b""
        if self.complaints is not None and not self.complaints.closed:
            self.complaints.seek(0)
            output = self.complaints.read()
        return {**super().evidence(), "ssh.txt": output}


class SshGuestPlatform(Platform[SshParameters]):
    """The driver."""

    name: ClassVar[str] = "ssh"
    without_root: ClassVar[str] = "no"
    family: ClassVar[str] = "pre-provisioned"
    validation: ClassVar[Validation] = "real"
    title: ClassVar[str] = "a guest that its user made, over SSH"
    parameter_model = SshParameters
    boot_seconds: ClassVar[float] = 3.0
    slowdown: ClassVar[float] = 1.0

    def depends_on(self) -> str | None:
        """None: another machine is asked anew each time."""
        return None

    def probe(self, site: Site) -> Probe:
        """Run the agent there once, without a NIC; the version is the guest's kernel."""
        if self.parameters.destination is None:
            return Probe.unusable(
                None, "no guest is named", "'virtoll show platform ssh' has the keys of an experiment"
            )
        try:
            guest = self._start(GuestRequest("probe-ssh", 1, 0, (), GuestNetwork(()), _PROBE_SECONDS), site)
            try:
                version = guest.host.run(["uname", "-sr"], "probe").strip()
            finally:
                guest.stop()
        except GuestError as error:
            return Probe(False, None, str(error))
        return Probe(True, version, None)

    def start(self, request: GuestRequest, site: Site) -> SshGuest:
        """Bring the agent, look at the NICs again, promise to put back what is changed, and run the agent."""
        return self._start(request, site)

    def _start(self, request: GuestRequest, site: Site) -> SshGuest:
        spawned = time.monotonic_ns()
        with contextlib.ExitStack() as undo:
            host = undo.enter_context(self._opened(site))
            network = self._wired(host, request.network)
            complaints = undo.enter_context(tempfile.TemporaryFile())
            process = host.spawn(
                [str(host.agent), *_AGENT], f"guest {request.name}", replace(PIPED, stderr=complaints.fileno())
            )
            undo.callback(end_process, process)
            plain = connect_stdio(process, request.name)
            agent = FoundAgent(plain.reader, plain.writer, request.name)
            kept = undo.pop_all()

        def tell(signal: str) -> None:
            if agent.ready is not None:
                host.run(["kill", f"-{signal}", str(agent.ready.pid)], signal)

        guest = SshGuest(
            agent=agent,
            peer=site.peer,
            host=host,
            attachment="pre-provisioned",
            spawned_monotonic_ns=spawned,
            pause=lambda: tell("STOP"),
            unpause=lambda: tell("CONT"),
            destroy=lambda: None,
            cleanup=[kept.close],
            network=network,
            complaints=complaints,
        )
        guest.wait_ready(request.deadline_seconds)
        return guest

    @contextlib.contextmanager
    def _opened(self, site: Site) -> Iterator[RemoteHost]:
        outside, lab, destination = os.environ.get(OUTSIDE_VARIABLE), site.this_machine, self.parameters.destination
        if destination is None or outside is None:
            raise GuestError("ssh: was not prepared; start it through the 'virtoll' command line")
        connection = connection_from_lab(destination, int(outside), lab.scratch)
        with open_remote(connection, lab, site.image.agent) as host:
            yield host

    def _wired(self, host: RemoteHost, network: GuestNetwork) -> GuestNetwork:
        """The links by way of the guest's NICs; what the agent will set on them is promised to be put back before."""
        if not network.links:
            return network
        nics = find_nics(lambda argv: host.run(argv, "NICs"), host.name, self.parameters.interfaces, network)
        by_place = {str(place): nic for place, nic in enumerate(nics)}
        missing = [link.name for link in network.links if link.trunk not in by_place]
        if missing:
            raise GuestError(f"interfaces: no NIC of {host.name} faces {', '.join(missing)}; name one more")
        links = [replace(link, guest_mac=by_place[link.trunk or ""].mac) for link in network.links]
        for link in links:
            nic = by_place[link.trunk or ""]
            _promise(host, nic, link.guest_address, link.peer_address)
            if link.role == "source":
                _forward(host, nic)
        return GuestNetwork(tuple(links))


def _promise(host: RemoteHost, nic: FoundNic, address: str, peer: str) -> None:
    """What is done last to a NIC is undone first: neighbour, address, then whether it is on, and its MTU."""
    host.guard(["ip", "link", "set", "dev", nic.name, "mtu", str(nic.mtu_bytes)])
    if not nic.up:
        host.guard(["ip", "link", "set", "dev", nic.name, "down"])
    host.guard(["ip", "address", "del", f"{address}/24", "dev", nic.name])
    host.guard(["ip", "neighbour", "del", peer, "dev", nic.name])


def _forward(host: RemoteHost, nic: FoundNic) -> None:
    """Have the guest forward what comes in by this NIC, and by no other: its own switch for all is left alone."""
    switch = Path("/proc/sys/net/ipv4/conf") / nic.name / "forwarding"
    before = host.read(switch)
    if before.strip() == b"1":
        return
    saved = host.scratch / f"forwarding-{nic.name}"
    host.write(saved, before)
    host.guard(["cp", "--", str(saved), str(switch)])
    try:
        host.write(switch, b"1\n")
    except GuestError as error:
        raise GuestError(
            f"{host.name} does not let forwarding be set on {nic.name}; set net.ipv4.conf.{nic.name}.forwarding=1 "
            f"there yourself ({error})"
        ) from error
