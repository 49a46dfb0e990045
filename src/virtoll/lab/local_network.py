"""The links of guests on this machine: ``Network`` attaches and removes them, shapes them and chooses who receives.

It must not know platforms: they choose one of the ports of ``attachments.py`` for each link.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from virtoll.errors import GuestCannot, GuestError, LabError
from virtoll.lab.attachments import Attachments, EndpointInterfaces, Router
from virtoll.lab.commands import ConnectedHost, Connection
from virtoll.lab.interfaces import Interfaces, receive_offload
from virtoll.lab.network import GuestNetwork, Link
from virtoll.lab.receiving import ReceivingCpus, ReceivingInterface, receive_on, steered
from virtoll.lab.shaping import End, Shape, end_here, shaped


class Network(Attachments):
    """The links in the lab's network namespace; ``peer_pid`` is a process in the peer's.

    ``routers`` starts an agent in a network namespace of its own, for links that are routed.
    """

    def __init__(self, peer_pid: int, routers: Callable[[str], Router] | None = None) -> None:
        """Open a netlink socket in this (the lab's) namespace."""
        super().__init__(Interfaces(), peer_pid, routers)
        self._receiving: dict[str, tuple[int, ...]] = {}  # the CPUs of its threads, by the lab's interface
        self._faced: dict[str, End] = {}  # the other end of the cable, by this machine's NIC

    @property
    def local(self) -> Network:
        """The links end on this machine."""
        return self

    @property
    def shapable(self) -> Network:
        """The links have an end in the lab."""
        return self

    @property
    def peer_pid(self) -> int:
        """A process in the peer's namespace."""
        return self._peer_pid

    def close(self) -> None:
        """End the routers and close the netlink socket; other interfaces stay until their namespace ends."""
        for endpoint in self.endpoints.values():
            if endpoint.router is not None:
                endpoint.router.close()
        self._at.close()

    def reach(self, network: GuestNetwork, *, neighbour: int = 0) -> GuestNetwork:
        """The links as they are: they end on this machine."""
        del neighbour
        return network

    def endpoint_interfaces(self, network: GuestNetwork) -> dict[str, EndpointInterfaces]:
        """By link's name, the lab's interfaces on it; nothing for links that have none."""
        made = self.endpoints
        return {link.name: made[link.port_interface] for link in network.links if link.port_interface in made}

    def receive_on(self, network: GuestNetwork, cpus: Sequence[int]) -> ReceivingCpus:
        """Have what arrives by the guest's traffic links worked off on these CPUs, as far as the lab's kernel does it.

        The links must be there and switched on; never raises.
        """
        links = network.traffic
        if any(link.trunk is not None for link in links):
            return ReceivingCpus(None, reason="its traffic enters by NICs, whose interrupts choose the CPU")
        receiving = receive_on([self.receiving(link) for link in links], cpus)
        if receiving.cpus is not None:
            self._receiving |= dict.fromkeys((link.lab_interface for link in links), receiving.cpus)
        return receiving

    @contextlib.contextmanager
    def steered(self, links: Sequence[Link]) -> Iterator[None]:
        """What sockets of servers and clients send over these links is received on their guests' CPUs meanwhile.

        Only where ``receive_on`` could have frames received there.
        """
        with contextlib.ExitStack() as stack:
            for link in links:
                if cpus := self._receiving.get(link.lab_interface):
                    stack.enter_context(steered(self.receiving(link), cpus))
            yield

    def receive_at_peer(self, interface: str, cpus: Sequence[int]) -> ReceivingCpus:
        """The same for one interface in the peer's namespace."""
        return receive_on([ReceivingInterface(interface, self._peer_pid)], cpus)

    def shaped(self, link: Link, shape: Shape) -> contextlib.AbstractContextManager[str | None]:
        """The link with this rate, delay and loss in each direction, within the context; yields what shapes it.

        ``GuestCannot`` where the kernel, or the way the link is attached, does not let it be.
        """
        endpoint = self.endpoints.get(link.port_interface, EndpointInterfaces(link.lab_interface))
        if not shape.plain and link.attachment == "passthrough":
            raise GuestCannot(
                f"link {link.name} has no end in the lab that could be shaped (passthrough); "
                "leave the parameters link_... out",
            )
        lab = endpoint.router.pid if endpoint.router is not None else os.getpid()
        return shaped((self._peers_end(link), end_here(lab, link.lab_interface)), shape)

    def _peers_end(self, link: Link) -> End:
        """In the peer's namespace, or at the other end of the NIC's cable."""
        if link.trunk in self._faced:
            return self._faced[link.trunk]
        return end_here(self._peer_pid, link.peer_interface)

    def back_to_back(self, names: tuple[str, str], macs: tuple[str, str], mtu_bytes: int) -> None:
        """A veth pair inside the peer's namespace: generator and sink with nothing between."""
        try:
            self._at.veth(names[0], macs[0], names[1], macs[1], mtu_bytes)
            for name in names:
                receive_offload(name)
            for name in names:
                self._at.move(name, self._peer_pid)
        except (LabError, OSError) as error:
            raise GuestError(f"the pair for the calibration could not be made: {error}") from error

    def remove(self, network: GuestNetwork) -> None:
        """Remove the links of a guest that has ended; what its namespace took along is gone already."""
        for link in network.links:
            self._receiving.pop(link.lab_interface, None)
            self.remove_link(link)

    def face(self, ends: Mapping[str, End]) -> None:
        """Which end of a cable on another host each of this machine's NICs leads to, by the NIC's name."""
        self._faced |= ends

    def adopt(self, nics: Sequence[str], outside: int, *, peer: bool = False) -> None:
        """Take NICs into the lab, or its ``peer``, from the namespace outside (a descriptor).

        Physical ones go back when the lab ends.
        """
        enter = ("nsenter", f"--net=/proc/self/fd/{outside}", "--")
        host = ConnectedHost(Connection("this machine outside the lab", enter, descriptors=(outside,)))
        pid = self._peer_pid if peer else os.getpid()
        for nic in nics:
            try:
                host.run(["ip", "link", "set", "dev", nic, "netns", str(pid)], "NICs")
            except GuestError as error:
                raise LabError(f"testbed: interface {nic} could not be taken into the lab: {error}") from error
