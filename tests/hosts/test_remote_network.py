"""What another host is told of guests' links: bridges and taps as in nested hosts, promised and undone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.support.dom0 import Dom0
from tests.support.facts import refused

from virtoll.errors import GuestError
from virtoll.hosts import remote_network
from virtoll.hosts.remote_network import RemoteNetwork, RemoteNic
from virtoll.lab.attachments import EndpointInterfaces
from virtoll.lab.commands import ConnectedHost
from virtoll.lab.network import GuestNetwork, plan_links
from virtoll.lab.shaping import Shape, end_there

NICS = {
    name: RemoteNic(f"eth{number}", f"p180{name}", f"02:00:00:00:00:0{number}")
    for number, name in enumerate(("in0", "out", "marks"), 1)
}
BATCH = ["ip", "-batch", "-"]
MADE = "link add virtoll-in0 type bridge ageing_time 1000000000 mcast_snooping 0\n"
SET = """\
link set eth1 mtu 1400 up
link set eth1 master virtoll-in0
link set virtoll-in0 addrgenmode none
link set virtoll-in0 mtu 1400 up
"""
TAP = """\
tuntap add dev virtoll4in0 mode tap
link set virtoll4in0 addrgenmode none
link set virtoll4in0 mtu 1400 up
link set virtoll4in0 master virtoll-in0
"""
DELETE_BRIDGE, DELETE_TAP = (["ip", "link", "del", name] for name in ("virtoll-in0", "virtoll4in0"))


@pytest.fixture
def host() -> Dom0:
    return Dom0({})


def network_of(host: Dom0, beside: dict[str, RemoteNic] | None = None) -> RemoteNetwork:
    return RemoteNetwork(cast("Any", host), NICS, 1, beside)


def reached(network: RemoteNetwork, owner: int = 4) -> GuestNetwork:
    return network.reach(plan_links(owner, mtu_bytes=1400))


def failing_at(host: Dom0, *calls: int) -> None:
    """Those of its next calls of ``ip`` fail, counted from 1."""
    numbers = iter(range(1, 100))

    def answer() -> str:
        if next(numbers) in calls:
            raise GuestError("RTNETLINK answers: File exists")
        return ""

    host.others["ip"] = answer


def test_each_link_goes_by_its_nic_and_is_named_as_virtolls(host: Dom0) -> None:
    planned = plan_links(4, mtu_bytes=1400)
    links = reached(network_of(host)).links
    assert [(link.lab_interface, link.trunk, link.peer_interface, link.peer_mac) for link in links] == [
        (nic.name, nic.name, nic.peer_interface, nic.peer_mac) for nic in NICS.values()
    ]
    assert [link.bridge for link in links] == ["virtoll-in0", "virtoll-out", "virtoll-marks"]
    assert [link.port_interface for link in links] == ["virtoll4in0", "virtoll4out", "virtoll4marks"]
    assert [link.guest_mac for link in links] == [link.guest_mac for link in planned.links]
    with refused(host.name, "in1", "in0, out, marks", error=GuestError):
        network_of(host).reach(plan_links(4, 2))


def test_the_first_guest_beside_has_nics_and_bridges_of_its_own(host: Dom0) -> None:
    network = network_of(host, {"in0": RemoteNic("eth9", "p9", "02:00:00:00:00:09")})
    (link,) = network.reach(plan_links(5), neighbour=1).links
    assert (link.trunk, link.bridge) == ("eth9", "virtoll-b-in0")
    assert network.reach(plan_links(6), neighbour=2).links == ()
    assert network.are_of_neighbour(GuestNetwork((link,)))
    assert not network.are_of_neighbour(reached(network))


def test_a_bridge_is_promised_made_at_its_first_use_and_stays(host: Dom0) -> None:
    network = network_of(host)
    link = reached(network).links[0]
    assert network.bridge_port(link) == network.bridge_port(link) == "virtoll-in0"
    assert host.asked == [[*BATCH, MADE], [*BATCH, SET]]
    assert host.promised == [DELETE_BRIDGE]
    assert network.endpoint_interfaces(reached(network)) == {"in0": EndpointInterfaces("eth1", None)}
    network.bridge_port(link, "vif3")
    assert network.endpoint_interfaces(reached(network)) == {"in0": EndpointInterfaces("eth1", "vif3")}
    network.bridge_port(link)
    assert network.endpoint_interfaces(reached(network)) == {"in0": EndpointInterfaces("eth1", "vif3")}
    network.remove(reached(network))
    assert network.endpoint_interfaces(reached(network)) == {}
    assert (len(host.asked), host.promised) == (2, [DELETE_BRIDGE]), "the next guest has it again"


@pytest.mark.parametrize(
    ("failing", "asked", "promised"),
    [
        ((1,), [[*BATCH, MADE]], []),  # it is somebody else's
        ((2,), [[*BATCH, MADE], [*BATCH, SET], DELETE_BRIDGE], []),
        ((2, 3), [[*BATCH, MADE], [*BATCH, SET], DELETE_BRIDGE], [DELETE_BRIDGE]),
    ],
)
def test_a_bridge_that_cannot_be_made_is_removed_if_it_is_ours(
    host: Dom0, failing: tuple[int, ...], asked: list[list[str]], promised: list[list[str]]
) -> None:
    failing_at(host, *failing)
    network = network_of(host)
    with refused("File exists", error=GuestError):
        network.bridge_port(reached(network).links[0])
    assert (host.asked, host.promised) == (asked, promised)


@pytest.mark.parametrize("several", [False, True])
def test_a_tap_is_promised_and_gone_with_its_guest(host: Dom0, *, several: bool) -> None:
    network = network_of(host)
    links = reached(network)
    port = network.tap_port(links.links[0], several_queues=several)
    assert port.interface == "virtoll4in0"
    made = TAP.replace("mode tap", "mode tap multi_queue") if several else TAP
    assert host.asked[2:] == [[*BATCH, made]]
    assert host.promised == [DELETE_BRIDGE, DELETE_TAP]
    assert network.endpoint_interfaces(links) == {"in0": EndpointInterfaces("eth1", "virtoll4in0")}
    host.asked.clear()
    network.remove(links)
    assert host.asked == [["ip", "-force", "-batch", "-", "link del virtoll4in0\n"]]
    assert (host.promised, network.endpoint_interfaces(links)) == ([DELETE_BRIDGE], {})
    network.remove(links)
    assert len(host.asked) == 1


def test_what_another_host_cannot_do_is_refused(host: Dom0) -> None:
    network = network_of(host)
    link = reached(network).links[0]
    with refused("vfio", host.name, error=GuestError):
        network.tap_port(link, "0000:03:00.0")
    with refused("attachment: routed", host.name, error=GuestError):
        network.bridge_port(replace(link, attachment="routed"))
    with refused("link in0", host.name, error=GuestError):
        network.bridge_port(plan_links(4).links[0])
    assert (host.asked, host.promised) == ([], [])
    assert (network.local, network.shapable) == (None, network)
    with network.steered([link]):
        assert host.asked == [], "the guests' CPUs are another host's"


def test_a_host_that_is_the_guest_has_its_nics_own_addresses(host: Dom0) -> None:
    told = [{"ifname": f"eth{number}", "address": f"52:54:00:00:00:0{number}"} for number in (1, 2, 3)]
    host.others["ip"] = json.dumps(told)
    found = network_of(host).as_nics(reached(network_of(host)))
    assert [link.guest_mac for link in found.links] == [nic["address"] for nic in told]
    assert host.asked == [["ip", "-json", "-details", "link"]]


def nic(name: str, *flags: str, state: str = "UP", port: str | None = None) -> dict[str, Any]:
    """An interface as ``ip -json -details link`` tells it."""
    slave = {"linkinfo": {"info_slave_data": {"state": port}}} if port else {}
    return {"ifname": name, "flags": flags, "operstate": state, **slave}


def test_nics_are_lent_to_a_namespace_and_taken_back_into_their_bridges(
    host: Dom0, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = network_of(host)
    links = GuestNetwork(reached(network).links[:2])
    network.bridge_port(links.links[0])
    host.asked.clear()
    network.lend(links, "guest")
    lent = "".join(f"link set eth{number} nomaster\nlink set eth{number} netns guest up\n" for number in (1, 2))
    assert host.asked == [[*BATCH, lent]]
    assert network.giving_back(links, "guest") == [
        ["ip", "-netns", "guest", "link", "set", f"eth{number}", "netns", "1"] for number in (1, 2)
    ]
    host.asked.clear()
    up = [nic("eth1", "LOWER_UP", port="forwarding"), nic("eth2", "LOWER_UP", state="UNKNOWN")]
    looks = iter(
        [
            [],
            [nic("eth1", "LOWER_UP", port="learning"), up[1]],
            [nic("eth1", state="UP"), up[1]],
            [nic("eth1", "LOWER_UP", state="DOWN"), up[1]],
            up,
        ]
    )
    host.others["ip"] = lambda: json.dumps(next(looks)) if host.asked[-1][1] == "-json" else ""
    peers = [nic(f"p180{name}", "LOWER_UP") for name in ("in0", "out")]
    monkeypatch.setattr(ConnectedHost, "run", lambda *_: json.dumps(peers))
    network.take_back(links, "guest")
    back = [["ip", "-netns", "guest", "-batch", "-", "link set eth1 netns 1\nlink set eth2 netns 1\n"]]
    back += [[*BATCH, "link set eth1 master virtoll-in0\nlink set eth1 up\nlink set eth2 up\n"]]
    assert [argv for argv in host.asked if argv[1] != "-json"] == back
    assert list(looks) == [], "a port that learns, or has no carrier, passes nothing yet"


def test_where_nothing_is_lent_nothing_is_asked(host: Dom0) -> None:
    network = network_of(host)
    network.lend(GuestNetwork(()), "guest")
    network.take_back(GuestNetwork(()), "guest")
    assert (host.asked, host.promised) == ([], [])


@pytest.mark.parametrize("lent", [False, True])
def test_a_cable_is_shaped_at_both_ends_where_its_nic_is(
    host: Dom0, monkeypatch: pytest.MonkeyPatch, *, lent: bool
) -> None:
    network = network_of(host)
    links = GuestNetwork(reached(network).links[:1])
    if lent:
        network.lend(links, "guest")
    changed: list[tuple[object, ...]] = []
    ends: list[tuple[int, str]] = []

    def end_here(pid: int, interface: str) -> Any:
        ends.append((pid, interface))
        return end_there(lambda verb, words: changed.append((verb, *words)), lambda: lambda: None)

    monkeypatch.setattr(remote_network, "end_here", end_here)
    with network.shaped(links.links[0], Shape(rate_bits_per_second=1_000_000)):
        assert ends == [(1, "p180in0")]
        where = ["-netns", "guest"] if lent else []
        there = next(argv for argv in host.asked if argv[0] == "tc")
        command = ["tc", *where, "qdisc", "replace", "dev", "eth1", "root"]
        assert there[: len(command)] == command
        assert host.promised == [["tc", "qdisc", "del", "dev", "eth1", "root"]]
        assert changed
    assert host.promised == []
