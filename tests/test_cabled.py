"""Links to a host that is driven by its product's own API: through cables, and for that product alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from virtoll.errors import GuestError
from virtoll.hosts.cabled_network import CabledNetwork
from virtoll.hosts.remote_network import RemoteNic
from virtoll.lab.network import Link, plan_links

NICS = {
    name: RemoteNic(f"vmnic{number}", f"eth{number}", f"02:00:00:00:00:0{number}")
    for number, name in ((1, "in0"), (2, "out"), (3, "marks"))
}


def test_each_link_goes_by_the_nic_that_faces_the_hosts() -> None:
    planned = plan_links(4)
    reached = CabledNetwork("the host", NICS).reach(planned)
    assert [(one.peer_interface, one.peer_mac, one.trunk) for one in reached.links] == [
        (nic.peer_interface, nic.peer_mac, nic.name) for nic in NICS.values()
    ]
    assert [one.guest_mac for one in reached.links] == [one.guest_mac for one in planned.links]
    assert [one.ends() for one in reached.links] == [one.ends() for one in planned.links]


def test_a_link_without_a_cable_is_refused() -> None:
    with pytest.raises(GuestError, match="the host has no NIC for in1; it has: in0, out, marks"):
        CabledNetwork("the host", NICS).reach(plan_links(0, 2))


@pytest.mark.parametrize(
    "end",
    [
        lambda network, link: network.host_port(link),
        lambda network, link: network.tap_port(link),
        lambda network, link: network.raw_port(link),
        lambda network, link: network.namespace_port(link, 1),
    ],
)
def test_guests_of_other_products_are_refused(end: Callable[[CabledNetwork, Link], object]) -> None:
    with pytest.raises(GuestError, match="its link in0 ends on the host, which holds the guests of its own product"):
        end(CabledNetwork("the host", NICS), plan_links(0).links[0])


def test_nothing_is_made() -> None:
    network = CabledNetwork("the host", NICS)
    reached = network.reach(plan_links(0))
    assert [network.bridge_port(link) for link in reached.links] == ["vmnic1", "vmnic2", "vmnic3"]
    assert network.endpoint_interfaces(reached) == {}
    network.remove(reached)
    with pytest.raises(GuestError, match="does not lead to the host"):
        network.bridge_port(plan_links(0).links[0])
