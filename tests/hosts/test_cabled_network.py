"""Links to a host that is driven by its product's own API: through cables, and for that product alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.support.facts import refused

from virtoll.errors import GuestCannot, GuestError
from virtoll.hosts import cabled_network
from virtoll.hosts.cabled_network import CabledNetwork
from virtoll.hosts.remote_network import RemoteNic
from virtoll.lab.network import plan_links
from virtoll.lab.shaping import End, Shape
from virtoll.platforms.fake.site import model_site

NICS = {
    name: RemoteNic(f"vmnic{number}", f"eth{number}", f"02:00:00:00:00:0{number}")
    for number, name in ((1, "in0"), (2, "out"), (3, "marks"))
}


def test_each_link_goes_by_the_nic_that_faces_the_hosts() -> None:
    planned = plan_links(4)
    reached = CabledNetwork("the host", NICS, os.getpid()).reach(planned)
    assert [(one.peer_interface, one.peer_mac, one.trunk) for one in reached.links] == [
        (nic.peer_interface, nic.peer_mac, nic.name) for nic in NICS.values()
    ]
    assert [one.guest_mac for one in reached.links] == [one.guest_mac for one in planned.links]
    assert [one.ends() for one in reached.links] == [one.ends() for one in planned.links]


def test_a_link_without_a_cable_is_refused() -> None:
    with refused("the host", "in1", "in0, out, marks", error=GuestError):
        CabledNetwork("the host", NICS, os.getpid()).reach(plan_links(0, 2))


def test_a_guest_beside_has_no_links() -> None:
    assert CabledNetwork("the host", NICS, os.getpid()).reach(plan_links(4), neighbour=1).links == ()


def test_each_egress_link_has_a_cable_of_its_own() -> None:
    nics = {**NICS, "out1": RemoteNic("vmnic4", "eth4", "02:00:00:00:00:04")}
    reached = CabledNetwork("the host", nics, os.getpid()).reach(plan_links(4, sinks=2))
    assert [one.trunk for one in reached.sinks] == ["vmnic2", "vmnic4"]
    with refused("the host", "out1", "in0, out, marks", error=GuestError):
        CabledNetwork("the host", NICS, os.getpid()).reach(plan_links(4, sinks=2))


def test_guests_of_other_products_are_refused() -> None:
    network = CabledNetwork("the host", NICS, os.getpid())
    with refused("in0", "the host", error=GuestError):
        network.tap_port(plan_links(0).links[0])
    with refused("links", "host", error=GuestError):
        _ = replace(model_site(), network=network).local_ports


def test_nothing_is_made() -> None:
    network = CabledNetwork("the host", NICS, os.getpid())
    reached = network.reach(plan_links(0))
    assert [network.bridge_port(link) for link in reached.links] == ["vmnic1", "vmnic2", "vmnic3"]
    assert network.endpoint_interfaces(reached) == {}
    network.remove(reached)
    with refused("in0", "the host", error=GuestError):
        network.bridge_port(plan_links(0).links[0])


def test_a_sources_cable_is_shaped_at_this_end_in_both_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[tuple[str, int, str, str]] = []

    def end(way: str) -> Callable[[int, str], End]:
        return lambda pid, interface: lambda verb, _words: changed.append((way, pid, interface, verb))

    monkeypatch.setattr(cabled_network, "end_here", end("leaves"))
    monkeypatch.setattr(cabled_network, "arriving_here", end("arrives"))
    network = CabledNetwork("the host", NICS, 7)
    with network.shaped(network.reach(plan_links(0)).links[0], Shape(rate_bits_per_second=1_000_000)):
        assert {step[:3] for step in changed} == {("leaves", 7, "eth1"), ("arrives", 7, "eth1")}
        assert "del" not in {verb for *_, verb in changed}
    assert {step for step in changed if step[3] == "del"} == {
        ("leaves", 7, "eth1", "del"),
        ("arrives", 7, "eth1", "del"),
    }


def test_a_sinks_cable_is_not_shaped() -> None:
    """What arrives there is counted before it could be held back. Where nothing is asked for nothing is refused."""
    network = CabledNetwork("the host", NICS, os.getpid())
    sink = network.reach(plan_links(0)).sink
    with refused("the host", "link_...", error=GuestCannot):
        network.shaped(sink, Shape(rate_bits_per_second=1_000_000))
    with network.shaped(sink, Shape()) as name:
        assert name is None
