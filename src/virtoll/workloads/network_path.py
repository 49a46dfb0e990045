"""Where a guest's traffic goes: to the peer or to another guest, over its first source link, shaped or as it is.

Main types: ``LinkParameters`` and ``PathParameters`` (what every network workload lets its user choose),
``NetworkWorkload`` (their base class) and ``FarEnd`` (who is at the other end and at which address). The peer has no
address but for the length of a trial: at all other times its kernel answers nothing and forwards nothing. Between two
guests it routes from the first one's source link to the second one's, unless they talk over a bridge of the host that
both have a link to. It knows no platform.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, TypeVar

from pydantic import Field, model_validator

from virtoll.agent.client import Caller
from virtoll.agent.operations.network import Interface, Neighbour, NetworkRequest, Route
from virtoll.errors import GuestCannot, GuestError
from virtoll.experiment.model import Parameters
from virtoll.lab.network import GuestNetwork, Link
from virtoll.lab.shaping import Shape
from virtoll.workloads.base import Bench, Needs, Workload


class LinkParameters(Parameters):
    """``link_...``: the guest's link, each way: bit/s (0: not limited), one-way delay, share of frames lost."""

    link_rate_bits_per_second: int = Field(
        default=0, ge=0, le=10**12, description="rate of the guest's link each way, in bit/s; 0: not limited"
    )
    link_delay_ms: float = Field(default=0.0, ge=0, le=10_000, description="delay of the guest's link one way, in ms")
    link_loss_percent: float = Field(
        default=0.0, ge=0, lt=100, description="frames that the guest's link loses each way, in percent"
    )

    @property
    def shape(self) -> Shape:
        """What the link is made."""
        return Shape(self.link_rate_bits_per_second, self.link_delay_ms, self.link_loss_percent)


class PathParameters(LinkParameters):
    """``between``: the other end is the ``peer`` (the host), or a second guest of the same kind (``guests``).

    ``path``: from guest to guest by the ``peer``, which routes, or over one ``bridge`` of the host.
    """

    between: Literal["peer", "guests"] = Field(
        default="peer", description="the other end: the peer (the host), or a second guest of the same kind"
    )
    path: Literal["peer", "bridge"] = Field(
        default="peer", description="from guest to guest by the peer, which routes, or over one bridge of the host"
    )

    @model_validator(mode="after")
    def _bridge_joins_guests(self) -> Self:
        if self.path == "bridge" and self.between != "guests":
            raise ValueError("path: bridge is of two guests; set between: guests, or leave 'path' out")
        if self.path == "bridge" and not self.shape.plain:
            raise ValueError("link_... is of the way by the peer, and no bridge has it; leave it out with path: bridge")
        return self

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
        """A second guest, where the traffic is between two, and the bridge that joins them."""
        if self.parameters.between == "peer":
            return Needs()
        over_bridge = self.parameters.path == "bridge"
        return Needs(guests=2, features=frozenset({"network-stack"}), shared_nic=over_bridge)


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
                "reach it by SSH ('testbed.generator'), or take this workload out"
            )
        return self.programs


@contextlib.contextmanager
def far_end(bench: Bench, parameters: PathParameters) -> Iterator[FarEnd]:
    """The way to the other end, there for the length of the context; raises ``GuestCannot`` where there is none."""
    if parameters.between == "peer":
        with peer_end(bench, parameters) as end:
            yield end
        return
    bench.require_sources()
    if not bench.co_located:
        raise GuestCannot("there is no second guest beside this one; leave 'between: guests' out")
    partner, link = bench.co_located[0], bench.network.sources[0]
    joined = _bridged if parameters.path == "bridge" else _routed
    with shaped(bench, link, parameters.shape) as shaped_by, joined(bench, partner) as address:
        yield FarEnd(
            agent=partner.guest,
            address=address,
            near=link.peer_address,
            far=partner.network.sources[0].peer_address,
            cpu=None,
            programs=partner.guest,
            shaped_by=shaped_by,
        )


@contextlib.contextmanager
def peer_end(bench: Bench, parameters: LinkParameters) -> Iterator[FarEnd]:
    """The way to the peer, there for the length of the context; raises ``GuestCannot`` where there is none."""
    bench.require_sources()
    link = bench.network.sources[0]
    with shaped(bench, link, parameters.shape) as shaped_by, addressed(bench, (link,)) as agent:
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
    return request.replace(ip_forward=True) if forward else request


def peer_without_addresses(links: tuple[Link, ...], *, forward: bool) -> NetworkRequest:
    """The request that undoes it."""
    request = NetworkRequest(interfaces=tuple(Interface(mac=link.peer_mac, without_address=True) for link in links))
    return request.replace(ip_forward=False) if forward else request


@contextlib.contextmanager
def _routed(bench: Bench, partner: Bench) -> Iterator[str]:
    """The second guest's address on its source link, and a route each way by the peer."""
    link, other = bench.network.sources[0], partner.network.sources[0]
    if link.trunk is not None or other.trunk is not None:
        raise GuestCannot("two guests share one real NIC here, and the peer cannot route between them")
    with addressed(bench, (link, other), forward=True):
        bench.guest.ask(route_request(bench.network, other))
        partner.guest.ask(route_request(partner.network, link))
        yield other.guest_address


@contextlib.contextmanager
def _bridged(bench: Bench, partner: Bench) -> Iterator[str]:
    """The second guest's address on the bridge, and each a neighbour of the other.

    The peer has addresses too, but on their source links: what a workload makes ready may come from there.
    """
    link, other = bench.network.shared, partner.network.shared
    if link is None or other is None or {link.role, other.role} != {"shared"}:
        raise GuestCannot("no bridge of this machine joins its guests; leave 'path: bridge' out")
    with addressed(bench, (bench.network.sources[0], partner.network.sources[0])):
        bench.guest.ask(neighbour_request(link, other))
        partner.guest.ask(neighbour_request(other, link))
        yield other.guest_address


def neighbour_request(link: Link, other: Link) -> NetworkRequest:
    """Another guest as a permanent neighbour on the bridge, until the guest ends: nobody asks for it while it talks."""
    neighbour = Neighbour(address=other.guest_address, mac=other.guest_mac)
    address = f"{link.guest_address}/{link.ends().prefix_bits}"
    return NetworkRequest(interfaces=(Interface(mac=link.guest_mac, address=address, neighbours=(neighbour,)),))


def route_request(network: GuestNetwork, other: Link) -> NetworkRequest:
    """The route to another guest's source link, by the peer's end of one's own.

    It stays until the guest ends: without the peer's address nobody answers at its end.
    """
    subnet = f"{other.peer_address.rpartition('.')[0]}.0/{other.ends().prefix_bits}"
    return NetworkRequest(interfaces=(), routes=(Route(destination=subnet, via=network.sources[0].peer_address),))
