"""The parameter ``attachment`` that platforms have in common, and what a machine's driver needs to take its links.

Main types: ``Attached`` (base of the parameters of every platform with links of its own) and ``AttachedMachine`` (adds
PCI devices). How a link is made is ``lab/attachments.py``; docs/platforms/attachments.md draws the paths.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field, StringConstraints

from virtoll.errors import GuestError
from virtoll.experiment.describe import Words
from virtoll.experiment.model import Parameters
from virtoll.experiment.topology import Testbed
from virtoll.hosts.links import Links
from virtoll.lab.attachments import Port
from virtoll.lab.interfaces import nodes_allowed
from virtoll.lab.network import Attachment, GuestNetwork, Link, attached
from virtoll.lab.vfio import PCI_ADDRESS, PciBus


class Attached(Parameters):
    """How the links that carry traffic reach the guest; the link for marks keeps its bridge."""

    attachment: Attachment = Field(
        default="bridge",
        description="how the links that carry traffic reach the guest; the link for marks keeps its bridge",
    )

    def conflict(self, testbed: Testbed | None) -> tuple[str, str] | None:
        """A testbed's NICs are shared by all guests, each at a port of their bridges."""
        if testbed is not None and self.attachment != "bridge":
            return "attachment", f"{self.attachment} does not go with a 'testbed' yet; leave one of them out"
        return None


class AttachedMachine(Attached):
    """``vfio``: PCI addresses of the NICs that ``attachment: passthrough`` hands in: one a source, then each sink's."""

    vfio: tuple[
        Annotated[str, StringConstraints(pattern=PCI_ADDRESS), Words("a PCI address such as 0000:01:00.0")], ...
    ] = Field(default=(), description="NICs that attachment passthrough hands in: one a source, then each sink's")

    @property
    def needs_far_side(self) -> str | None:
        """PCI devices lead to a testbed's generator and sink, or out of a nested host."""
        return "vfio" if self.vfio else None

    def conflict(self, testbed: Testbed | None) -> tuple[str, str] | None:
        """PCI devices and passthrough belong together."""
        if bool(self.vfio) != (self.attachment == "passthrough"):
            return "vfio", "a machine with 'attachment: passthrough' needs 'vfio: [PCI addresses]', and no other has it"
        return None if self.vfio else super().conflict(testbed)

    def refusal(self) -> str | None:
        """Why a machine cannot be attached like that here, and what to do; None: it can, as far as can be seen."""
        if self.attachment == "macvtap" and not nodes_allowed():
            return "attachment: macvtap: a machine needs a device node, which only root may make; run as root"
        return PciBus().refusal(self.vfio)

    def devices(self, network: GuestNetwork) -> dict[str, str]:
        """The PCI device of each link that carries traffic, by the link's name; none where there are none."""
        if not self.vfio:
            return {}
        traffic = [link.name for link in network.traffic]
        if len(self.vfio) != len(traffic):
            raise GuestError(
                f"vfio: {len(self.vfio)} PCI addresses given and {len(traffic)} needed: one a source, then each sink's"
            )
        return dict(zip(traffic, self.vfio, strict=True))


class Unattached(Parameters):
    """Of a guest that has no links of the lab's; ``wired``: it has NICs that lead to the testbed's."""

    @property
    def wired(self) -> bool:
        """Whether it has links at all."""
        return False


def attach(network: GuestNetwork, parameters: Parameters) -> GuestNetwork:
    """The links as a platform's parameters want them."""
    if isinstance(parameters, Unattached) and not parameters.wired:
        return GuestNetwork(())
    return attached(network, parameters.attachment) if isinstance(parameters, Attached) else network


@contextlib.contextmanager
def machine_ports(
    network: Links, guest_network: GuestNetwork, devices: Mapping[str, str], *, several_queues: bool = False
) -> Iterator[dict[str, Port]]:
    """The machine's end of each link, by the link's name, for as long as its monitor is being started.

    Descriptors are closed at the end, since the monitor has inherited them: held open here, a tap would outlive its
    machine. When the start fails the links are removed again.
    """
    ports: dict[str, Port] = {}
    try:
        for link in guest_network.links:
            ports[link.name] = network.tap_port(link, devices.get(link.name), several_queues=several_queues)
        yield ports
    except GuestError:
        network.remove(guest_network)
        raise
    finally:
        for descriptor in descriptors(ports):
            os.close(descriptor)


def descriptors(ports: Mapping[str, Port]) -> list[int]:
    """Those that the machine's monitor must inherit."""
    return [port.descriptor for port in ports.values() if port.descriptor is not None]


def qemu_backend(link: Link, port: Port) -> str:
    """QEMU's ``-netdev`` for a tap or macvtap; of a descriptor it finds out itself what headers it has."""
    if port.descriptor is not None:
        return f"tap,id={link.name},fd={port.descriptor}"
    return f"tap,id={link.name},ifname={port.interface},script=no,downscript=no"
