"""Where a guest's traffic goes: to the peer or to another guest, over its first source link, shaped or as it is.

Main types: ``LinkParameters`` and ``PathParameters`` (what every network workload lets its user choose),
``NetworkWorkload`` (their base class) and ``FarEnd`` (who is at the other end and at which address). The peer has no
address but for the length of a trial: at all other times its kernel answers nothing and forwards nothing. Between two
guests it routes from the first one's source link to the second one's. It knows no platform.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

from pydantic import Field

from virtoll.agent.client import Caller
from virtoll.agent.operations.network import Interface, Neighbour, NetworkRequest, Route
from virtoll.errors import GuestCannot, GuestError
from virtoll.experiment.model import Parameters
from virtoll.lab.network import GuestNetwork, Link
from virtoll.lab.shaping import Shape
from virtoll.workloads.base import Bench, Needs, Workload


class LinkParameters(Parameters):
    """``link_...``: the guest's link, each way: bit/s (0: not limited), one-way delay, share of frames lost."""

    link_rate_bits_per_second: int = Field(default=0, ge=0, le=10**12)
    link_delay_ms: float = Field(default=0.0, ge=0, le=10_000)
    link_loss_percent: float = Field(default=0.0, ge=0, lt=100)

    @property
    def shape(self) -> Shape:
        """What the link is made."""
        return Shape(self.link_rate_bits_per_second, self.link_delay_ms, self.link_loss_percent)


class PathParameters(LinkParameters):
    """``between``: the other end is the ``peer`` (the host), or a second guest of the same kind (``guests``)."""

    between: Literal["peer", "guests"] = "peer"

    def transfer_seconds(self, payload_bytes: float, free_bytes_per_second: float) -> float:
        """About how long so many bytes take, where a free link carries so many a second."""
        shaped = self.link_rate_bits_per_second / 8 or free_bytes_per_second
        return payload_bytes / min(shaped, free_bytes_per_second) + 0.02 * self.link_delay_ms


Path_co = TypeVar("Path_co", bound=PathParameters, covariant=True)


class NetworkWorkload(Workload[Path_co]):
    """A workload whose traffic goes over the guest's first source link."""

    resource: ClassVar[str] = "network"
    loads_peer: ClassVar[bool] = True

    def needs(self) -> Needs:
        """A second guest, where the traffic is between two."""
        if self.parameters.between == "peer":
            return Needs()
        return Needs(guests=2, features=frozenset({"network-stack"}))


@dataclass(frozen=True)
class FarEnd:
    """The other end: its agent, its address, and the CPU that what serves there is pinned to.

    ``near`` and ``far``: the peer's address as the guest reaches it, and as the other end does, if that is a guest.
    ``programs``: the agent that can start the image's programs there; None where there is none. ``shaped_by``: the
    queueing discipline of the link.
    """

    agent: Caller
    address: str
    near: str
    far: str | None
    cpu: int | None
    programs: Caller | None
    shaped_by: str | None

    def require_programs(self) -> Caller:
        """Who can start programs there; the trial is skipped where nobody can."""
        if self.programs is None:
            raise GuestCannot(
                "this traffic's other end is a program of the image, which the peer on another host lacks; "
                "reach it by SSH ('testbed.generator'), or take this workload out",
            )
        return self.programs


@contextlib.contextmanager
def far_end(bench: Bench, wanted: PathParameters) -> Iterator[FarEnd]:
    """The way to the other end, there for the length of the context; raises ``GuestCannot`` where there is none."""
    if wanted.between == "peer":
        with peer_end(bench, wanted) as end:
            yield end
        return
    bench.require_sources()
    link = bench.network.sources[0]
    with shaped(bench, link, wanted.shape) as shaped_by, _routed(bench, link) as (agent, other):
        yield FarEnd(
            agent=agent,
            address=other.guest_address,
            near=link.peer_address,
            far=other.peer_address,
            cpu=None,
            programs=agent,
            shaped_by=shaped_by,
        )


@contextlib.contextmanager
def peer_end(bench: Bench, wanted: LinkParameters) -> Iterator[FarEnd]:
    """The way to the peer, there for the length of the context; raises ``GuestCannot`` where there is none."""
    bench.require_sources()
    link = bench.network.sources[0]
    with shaped(bench, link, wanted.shape) as shaped_by, addressed(bench, (link,)) as agent:
        yield FarEnd(
            agent=agent,
            address=link.peer_address,
            near=link.peer_address,
            far=None,
            cpu=bench.generator_cpu,
            programs=bench.programs,
            shaped_by=shaped_by,
        )


def shaped(bench: Bench, link: Link, shape: Shape) -> contextlib.AbstractContextManager[str | None]:
    """The link so within the context; yields what shapes it. ``GuestCannot`` where it is not this machine's."""
    if shape.plain:
        return contextlib.nullcontext()
    if bench.lab_links is None:
        raise GuestCannot("its link ends on a host where nothing can be set; leave the parameters link_... out")
    return bench.lab_links.shaped(link, shape)


@contextlib.contextmanager
def addressed(bench: Bench, links: tuple[Link, ...], *, forward: bool = False) -> Iterator[Caller]:
    """The peer has addresses on these links, for as long as its kernel's sockets are used; yields its agent.

    It routes between the links where it is to ``forward``. What it sends is received on the guests' CPUs.
    """
    peer = bench.peer.at(links[0].role)
    with bench.lab_links.steered(links) if bench.lab_links is not None else contextlib.nullcontext():
        peer.ask(peer_with_addresses(links, forward=forward))
        try:
            yield peer
        finally:
            with contextlib.suppress(GuestError):
                peer.ask(peer_without_addresses(links, forward=forward))


def peer_with_addresses(links: tuple[Link, ...], *, forward: bool) -> NetworkRequest:
    """The request for the peer: its end of each link, with a permanent neighbour."""
    interfaces = (
        Interface(
            mac=link.peer_mac,
            address=f"{link.peer_address}/{link.ends().prefix_bits}",
            neighbours=(Neighbour(address=link.guest_address, mac=link.peer_next_hop_mac),),
        )
        for link in links
    )
    request = NetworkRequest(interfaces=tuple(interfaces))
    return request.but(ip_forward=True) if forward else request


def peer_without_addresses(links: tuple[Link, ...], *, forward: bool) -> NetworkRequest:
    """The request that undoes it."""
    request = NetworkRequest(interfaces=tuple(Interface(mac=link.peer_mac, without_address=True) for link in links))
    return request.but(ip_forward=False) if forward else request


@contextlib.contextmanager
def _routed(bench: Bench, link: Link) -> Iterator[tuple[Caller, Link]]:
    """A second guest with its source link, and a route each way by the peer."""
    if not bench.co_located:
        raise GuestCannot("there is no second guest beside this one; leave 'between: guests' out")
    partner = bench.co_located[0]
    other = partner.network.sources[0]
    if link.trunk is not None or other.trunk is not None:
        raise GuestCannot("two guests share one real NIC here, and the peer cannot route between them")
    with addressed(bench, (link, other), forward=True):
        bench.guest.ask(route_request(bench.network, other))
        partner.guest.ask(route_request(partner.network, link))
        yield partner.guest, other


def route_request(network: GuestNetwork, other: Link) -> NetworkRequest:
    """The route to another guest's source link, by the peer's end of one's own.

    It stays until the guest ends: without the peer's address nobody answers at its end.
    """
    subnet = f"{other.peer_address.rpartition('.')[0]}.0/{other.ends().prefix_bits}"
    return NetworkRequest(interfaces=(), routes=(Route(destination=subnet, via=network.sources[0].peer_address),))
