"""The lab's network: names and addresses by plan; links of each kind made and removed, inside a lab."""

from __future__ import annotations

import ipaddress
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.facts import refused
from tests.support.namespaces import network_namespace

from virtoll.errors import GuestError, LabError
from virtoll.lab.attachments import Port
from virtoll.lab.local_network import Network
from virtoll.lab.network import GuestNetwork, over_trunks, plan_links

INSIDE_LAB = "links"
pytestmark = pytest.mark.lab


def ip(*arguments: str, pid: int | None = None) -> str:
    enter = ["nsenter", "--target", str(pid), "--net", "--"] if pid is not None else []
    return subprocess.run([*enter, "ip", *arguments], capture_output=True, text=True, check=True).stdout


def links(pid: int | None = None) -> set[str]:
    lines = ip("-oneline", "link", "show", pid=pid).splitlines()
    return {line.split(": ")[1].partition("@")[0] for line in lines} - {"lo"}


@pytest.fixture
def somebody() -> Iterator[int]:
    """A process with a network namespace of its own."""
    with network_namespace() as pid:
        yield pid


@pytest.fixture
def network(somebody: int) -> Iterator[Network]:
    made = Network(somebody)
    yield made
    made.close()


def test_every_link_has_names_and_addresses_of_its_own() -> None:
    indices = (0, 1, 9, 63, 189)
    links = [link for index in indices for link in plan_links(index, 3, sinks=3).links]
    assert max(len(plan_links(index, shared=True).links[-1].outer_interface) for index in indices) <= 15
    assert len(links) == 5 * 7
    for values in (
        [link.guest_mac for link in links] + [link.peer_mac for link in links],
        [link.guest_address for link in links] + [link.peer_address for link in links],
        [
            name
            for link in links
            for name in (link.peer_interface, link.lab_interface, link.port_interface, link.bridge)
        ],
    ):
        assert len(set(values)) == len(values)
    ends = [link.ends(version, tagged=tagged) for link in links for version in (4, 6) for tagged in (False, True)]
    own = [ipaddress.ip_interface(f"{end}/{one.prefix_bits}") for one in ends for end in (one.guest, one.peer)]
    assert len(set(own)) == 2 * len(ends) == 2 * len({one.network for one in own})
    assert max(len(f"v{link.port_interface}") for link in links) <= 15, "the kernel's limit for a name"


def test_the_roles_of_a_guests_links() -> None:
    planned = plan_links(2, sources=2, mtu_bytes=1504)
    assert [link.role for link in planned.links] == ["source", "source", "sink", "marks"]
    assert [link.name for link in planned.sources] == ["in0", "in1"]
    assert planned.sink.name == "out"
    assert planned.sinks == (planned.sink,)
    assert {link.mtu_bytes for link in planned.links} == {1504}
    assert planned.marks is not None
    assert planned.marks.guest_address == "10.66.4.1"
    assert plan_links(2, marks=False).marks is None
    assert planned.shared is None
    several = [plan_links(index, shared=True).links[-1] for index in (0, 1, 189)]
    assert {link.role for link in several} == {"shared"}
    assert len({(link.peer_interface, link.lab_interface, link.bridge, link.peer_mac) for link in several}) == 1
    assert len({(link.guest_mac, link.guest_address, link.port_interface) for link in several}) == 3


def test_the_links_to_the_shared_nic_are_one_network_and_no_other_links() -> None:
    shared = [plan_links(index, shared=True).links[-1] for index in range(190)]
    own = [plan_links(index, 3, sinks=3).links for index in range(190)]
    others = {ipaddress.ip_network(f"{link.guest_address}/24", strict=False) for links in own for link in links}
    for version in (4, 6):
        ends = [link.ends(version) for link in shared]
        networks = {ipaddress.ip_interface(f"{one.guest}/{one.prefix_bits}").network for one in ends}
        assert len(networks) == 1
        assert not networks & others
        peer = {one.peer for one in ends}
        assert len({*peer, *(one.guest for one in ends)}) == 191
        assert all(ipaddress.ip_address(one) in network for network in networks for one in peer)


def test_links_towards_the_sink_come_after_the_sources() -> None:
    planned, plain = plan_links(2, 2, sinks=3), plan_links(2, 2)
    assert [(link.name, link.role, link.number) for link in planned.links] == [
        ("in0", "source", 0),
        ("in1", "source", 1),
        ("out", "sink", 3),
        ("out1", "sink", 6),
        ("out2", "sink", 7),
        ("marks", "marks", 4),
    ]
    assert planned.traffic == planned.links[:-1]
    assert planned.sinks == planned.links[2:5]
    assert planned.sink == planned.sinks[0]
    assert [link for link in planned.links if link.name not in ("out1", "out2")] == list(plain.links)


@pytest.mark.parametrize(
    ("index", "sources", "sinks"), [(-1, 1, 1), (190, 1, 1), (0, 0, 1), (0, 4, 1), (0, 3, 0), (0, 3, 4)]
)
def test_more_than_there_is_room_for_is_refused(index: int, sources: int, sinks: int) -> None:
    with refused(
        f"guest {index}", f"{sources} sources", f"{sinks} sinks", "190 guests", "3 sources", "3 sinks", error=LabError
    ):
        plan_links(index, sources, sinks=sinks)


@pytest.mark.parametrize(("sources", "sinks"), [(2, 2), (1, 1), (3, 1)])
def test_over_trunks_each_link_goes_by_the_nic_in_its_place(sources: int, sinks: int) -> None:
    """Sources first, then sinks; a link for which there is no NIC, and the marks', stay in the lab."""
    near = [f"near{number}" for number in range(sources + sinks)]
    far = [(f"far{number}", f"02:00:00:00:00:0{number}") for number in range(sources + sinks)]
    planned = plan_links(5, 3, sinks=2)
    reached = over_trunks(planned, near, far, sinks)
    assert [link.trunk for link in reached.sources[:sources]] == near[:sources]
    assert [link.trunk for link in reached.sinks[:sinks]] == near[sources:]
    assert [link.peer_mac for link in reached.sinks[:sinks]] == [mac for _, mac in far[sources:]]
    others = (*reached.sources[sources:], *reached.sinks[sinks:], reached.links[-1])
    assert {link.trunk for link in others} == {None}
    assert set(others) <= set(planned.links)


def test_a_host_port_is_a_veth_pair_to_the_peer(network: Network, somebody: int) -> None:
    planned = plan_links(0, mtu_bytes=1400)
    for link in planned.links:
        network.host_port(link)
    assert links() == {"l0in0", "l0out", "l0marks"}
    assert links(somebody) == {"p0in0", "p0out", "p0marks"}
    for link in planned.links:
        assert link.guest_mac in ip("link", "show", link.lab_interface)
        assert "mtu 1400" in ip("link", "show", link.peer_interface, pid=somebody)
        assert link.peer_mac in ip("link", "show", link.peer_interface, pid=somebody)
    network.remove(planned)
    assert links() == links(somebody) == set()


def test_a_namespace_port_goes_through_a_bridge_of_its_own(network: Network, somebody: int) -> None:
    planned = plan_links(1)
    with network_namespace() as guest:
        for link in planned.links:
            network.namespace_port(link, guest)
        assert links(guest) == {link.port_interface for link in planned.links}
        for link in planned.links:
            members = ip("-oneline", "link", "show", "master", link.bridge)
            assert len(members.splitlines()) == 2
            assert link.guest_mac in ip("link", "show", link.port_interface, pid=guest)
    network.remove(planned)
    assert links() == links(somebody) == set()
    network.remove(planned)


def test_a_tap_port_is_a_tap_in_a_bridge_of_its_own(network: Network) -> None:
    planned = plan_links(2)
    for link in planned.links:
        assert network.tap_port(link) == Port(interface=link.port_interface)
        assert link.port_interface in ip("link", "show", "master", link.bridge)
        assert Path("/sys/class/net", link.port_interface).exists() or "tun" in ip(
            "-details", "link", "show", link.port_interface
        )
    network.remove(planned)
    assert links() == set()


def test_a_link_that_cannot_be_made_costs_its_guest(network: Network) -> None:
    planned: GuestNetwork = plan_links(3)
    link = planned.sink
    network.host_port(link)
    with refused("link out", error=GuestError):
        network.host_port(link)
    network.remove(planned)
    with pytest.raises((GuestError, LabError)):
        network.namespace_port(link, 2**22 + 1)
    network.remove(planned)
    assert links() == set()


def test_guests_come_and_go_under_the_same_names(network: Network, somebody: int) -> None:
    planned = plan_links(4)
    for _ in range(3):
        for link in planned.links:
            network.tap_port(link)
        network.remove(planned)
    assert links() == links(somebody) == set()
