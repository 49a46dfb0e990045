"""A guest becomes a router of IPv6 or of a VLAN for a trial, and is as before after it."""

from __future__ import annotations

import pytest
from tests.support.facts import refused
from tests.support.traffic_trials import forwarding, forwarding_bench
from tests.support.workload_trials import ProgramGuest, measure

from virtoll.agent.operations.network import NetworkRequest
from virtoll.agent.operations.timekeeping import PathDelayRequest
from virtoll.errors import AgentError, GuestCannot, GuestDied
from virtoll.lab.network import plan_links
from virtoll.runfolder.frame_shape import FrameShape
from virtoll.workloads.router import router_request, routing, without_vlans

V6, TAGGED = FrameShape(frame_size_bytes=84, ip_version=6), FrameShape(frame_size_bytes=68, vlan=5)
LINKS = plan_links(0)


def test_untagged_ipv4_is_asked_of_nobody() -> None:
    guest, peer = ProgramGuest(), forwarding()
    with routing(forwarding_bench(peer, guest), FrameShape()):
        pass
    assert (guest.asked, peer.asked) == ([], [])


@pytest.mark.parametrize(("shape", "undone"), [(V6, []), (TAGGED, [without_vlans(LINKS)])])
def test_a_trials_addresses_are_there_before_it(shape: FrameShape, undone: list[NetworkRequest]) -> None:
    """IPv6 stays, a VLAN goes; each time every link must answer again."""
    guest, peer = ProgramGuest(), forwarding()
    with routing(forwarding_bench(peer, guest), shape):
        assert guest.asked == [router_request(LINKS, shape)]
        assert [echo.interface for echo in peer.requests(PathDelayRequest)] == ["p0in0", "p0out"]
    assert guest.asked[1:] == undone
    assert len(peer.requests(PathDelayRequest)) == 2 + 2 * len(undone)


@pytest.mark.parametrize(
    ("failure", "undone"),
    [(AgentError("unsupported", "no"), True), (AgentError("system", "no"), False), (GuestDied("gone"), False)],
)
def test_a_guest_that_goes_on_is_left_as_it_was(failure: Exception, undone: bool) -> None:
    guest = ProgramGuest()
    with pytest.raises(type(failure)), routing(forwarding_bench(forwarding(), guest), TAGGED):
        raise failure
    assert (guest.asked[1:] == [without_vlans(LINKS)]) == undone


@pytest.mark.parametrize("shape", [V6, TAGGED])
def test_routed_links_carry_untagged_ipv4_alone(shape: FrameShape) -> None:
    bench = forwarding_bench(forwarding(), links={"attachment": "routed"})
    with refused("ip_version 4", "vlan 0", "attachment bridge", error=GuestCannot):
        routing(bench, shape).__enter__()
    with routing(bench, FrameShape()):
        pass


def test_a_guest_without_links_cannot_route() -> None:
    bench = forwarding_bench(forwarding(), links={"role": "marks"})
    with refused("NIC", error=GuestCannot):
        measure("forward", bench)
