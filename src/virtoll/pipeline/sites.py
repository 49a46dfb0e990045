"""Where the guests of a run are: this machine, the testbed's hypervisor over SSH, nested hosts; opened at first use.

Main type: ``Sites``. Each host has a ``Site``; network peer and image are the run's own, whatever the host.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from virtoll.agent.client import Caller
from virtoll.agent.links import peer_request
from virtoll.agent.operations.session import FactsRequest
from virtoll.errors import GuestError, ImageError, LabError
from virtoll.experiment.model import Build
from virtoll.experiment.topology import HostAddress, Testbed
from virtoll.hosts.base import LocalHost
from virtoll.hosts.cabled_network import CabledNetwork
from virtoll.hosts.remote_host import RemoteHost, open_remote
from virtoll.hosts.remote_network import RemoteNetwork, RemoteNic
from virtoll.hosts.session import inherited
from virtoll.hosts.ssh import connection_from_lab
from virtoll.image import GuestImage, with_kernel
from virtoll.lab.commands import Connection
from virtoll.lab.local_network import Network
from virtoll.lab.network import Link, plan_links
from virtoll.nested import NESTED_HOSTS, nested_machine, prepare_nested_host
from virtoll.pipeline.peer import ready_agent
from virtoll.platforms.host import SharedResources, Site, Sleep
from virtoll.platforms.process_guest import root_disk

_READY_SECONDS = 60.0


@dataclass
class Sites:
    """The run's sites by host; ``here`` is this machine's. A host that is unavailable is tried once."""

    here: Site
    lab: LocalHost
    network: Network
    testbed: Testbed | None
    stack: contextlib.ExitStack
    _open: dict[HostAddress, Site] = field(default_factory=dict)
    _refused: dict[HostAddress, str] = field(default_factory=dict)
    _built: dict[Build, Site] = field(default_factory=dict)

    def at(self, host: HostAddress | None) -> Site:
        """The site of a host, opened if it is not; a ``GuestError`` says why it is unavailable."""
        if host is None or host.local:
            return self.here
        if host in self._refused:
            raise GuestError(self._refused[host])
        if host not in self._open:
            try:
                self._open[host] = self._make(host)
            except (GuestError, LabError) as error:
                self._refused[host] = str(error)
                raise GuestError(str(error)) from error
        return self._open[host]

    def with_build(self, build: Build) -> Site:
        """This machine's site for guests that are started with other programs or another kernel than its own."""
        if build not in self._built:
            site = self.here
            if build.programs:
                site = site.with_builds(dict(build.programs))
                self.stack.callback(site.shared.close)
            if build.kernel is not None:
                site = replace(site, image=with_kernel(site.image, offline=True, file=build.kernel))
            self._built[build] = site
        return self._built[build]

    def _make(self, host: HostAddress) -> Site:
        if host.api is not None or host.guests:
            network = CabledNetwork(host.words, self._facing(host), self.network.peer_pid)
            return replace(self.here, network=network, counters=None, far=None)
        return self._over_ssh(host) if host.nested is None else self._nested(host, len(self._open))

    def _facing(self, host: HostAddress) -> dict[str, RemoteNic]:
        """The hypervisor's NICs by link's name, with this machine's that face them and are the peer's already."""
        testbed = self._prepared(host)
        sources, sinks = len(testbed.generator.interfaces), len(testbed.sink.interfaces)
        links = plan_links(0, sources, sinks=sinks, marks=testbed.timekeeper is not None).links
        return self._cables(links, testbed.hypervisor.interfaces, testbed.near)

    def _facing_neighbour(self, host: HostAddress) -> dict[str, RemoteNic]:
        """The same of the guest beside the measured one; none where no NICs are named for it."""
        testbed = self._prepared(host)
        if testbed.neighbour is None:
            return {}
        return self._cables(plan_links(0, marks=False).links, testbed.neighbour.hypervisor, testbed.near_of_neighbour)

    def _prepared(self, host: HostAddress) -> Testbed:
        if self.testbed is None or inherited() is None:
            raise GuestError(f"{host.words}: was not prepared; start the run through the 'virtoll' command line")
        return self.testbed

    def _cables(self, links: Sequence[Link], there: Sequence[str], here: Sequence[str]) -> dict[str, RemoteNic]:
        interfaces = self.here.peer.ask(FactsRequest()).interfaces
        return cables(links, there, here, {interface.name: interface.mac or "" for interface in interfaces})

    def _over_ssh(self, host: HostAddress) -> Site:
        """The testbed's hypervisor; this machine's NICs that face it are the peer's already."""
        passed_on, facing = inherited(), self._facing(host)
        if host.ssh is None or passed_on is None:
            raise GuestError(f"{host.words}: was not prepared; start the run through the 'virtoll' command line")
        remote = self._remote(connection_from_lab(host.ssh, passed_on.outside, self.lab.scratch))
        return self._site(remote, facing, self._facing_neighbour(host))

    def _nested(self, host: HostAddress, number: int) -> Site:
        """A hypervisor host emulated in the lab; its NICs end at taps, each with a bridge and a way to the peer."""
        kind = NESTED_HOSTS.get(host.nested or "")
        if kind is None:
            raise GuestError(f"{host.words}: there is no such nested host; there are: {', '.join(NESTED_HOSTS)}")
        try:
            made = prepare_nested_host(kind, offline=True)
        except ImageError as error:
            raise GuestError(str(error)) from error
        image = self.here.image
        disk = root_disk(image) if image.needs_disk else None
        files = (image.agent, *_machine_files(image))
        machine = self.stack.enter_context(nested_machine(made, number, self.lab, files, self.network, disk))
        self.here.peer.ask(peer_request(machine.links))
        remote = self._remote(machine.connection, machine.baked)
        names = {
            interface["address"]: interface["ifname"]
            for interface in json.loads(remote.run(["ip", "-json", "link"], "NICs"))
        }
        nics = {
            link.name: RemoteNic(names[link.guest_mac], link.peer_interface, link.peer_mac)
            for link in machine.links.links
        }
        site = replace(self._site(remote, nics), sleep=Sleep(machine))
        machine.park()
        self.stack.callback(_quietly, machine.resume)  # what ends before it is ended over the connection
        return site

    def _remote(self, connection: Connection, baked: Mapping[str, Path] | None = None) -> RemoteHost:
        return self.stack.enter_context(open_remote(connection, self.lab, self.here.image.agent, baked))

    def _site(
        self, remote: RemoteHost, nics: dict[str, RemoteNic], neighbour: Mapping[str, RemoteNic] | None = None
    ) -> Site:
        """A site like this machine's own, with the counters and CPUs of the host."""
        counters = self.stack.enter_context(host_agent(remote))
        facts = counters.ask(FactsRequest(), _READY_SECONDS)
        cpus = tuple(range(facts.cpus_online or 0))
        network = RemoteNetwork(remote, nics, self.network.peer_pid, neighbour)
        shared = SharedResources()
        self.stack.callback(shared.close)
        return replace(self.here, host=remote, network=network, counters=counters, far=None, cpus=cpus, shared=shared)


def _machine_files(image: GuestImage) -> Iterator[Path]:
    """What machines on the host are started with; nothing where no platform needs a kernel."""
    parts = image.machine
    if parts is not None:
        yield from filter(None, (parts.kernel.vmlinuz, parts.kernel.vmlinux, parts.initramfs, parts.disk_initramfs))


def _quietly(action: Callable[[], None]) -> None:
    with contextlib.suppress(GuestError):
        action()


@contextlib.contextmanager
def host_agent(host: RemoteHost) -> Iterator[Caller]:
    """An agent on the host itself, which reads the counters of its interfaces."""
    argv = [str(host.agent), "--role", "host", "--channel", "stdio"]
    with ready_agent(host, argv, "counters", f"the agent on {host.name}") as (agent, _):
        yield agent


def cables(
    links: Sequence[Link], there: Sequence[str], here: Sequence[str], macs: Mapping[str, str]
) -> dict[str, RemoteNic]:
    """The hypervisor's NIC of each link with this machine's that faces it, by the link's name.

    ``there`` and ``here``: their NICs in the order of the links; ``macs``: the MAC address of each of this machine's.
    GuestError unless each link has one of both.
    """
    if not len(links) == len(there) == len(here):
        raise GuestError(
            f"testbed: a guest has {len(links)} links, the hypervisor {len(there)} interfaces for them and this "
            f"machine {len(here)}; name one of both for each link"
        )
    ends = zip(links, there, here, strict=True)
    return {link.name: RemoteNic(far, near, macs[near]) for link, far, near in ends}
