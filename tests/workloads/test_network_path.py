"""Where a guest's traffic goes: addresses of the peer, routes, and how a link is shaped."""

from __future__ import annotations

from virtoll.agent.operations.network import Interface, Route
from virtoll.lab.network import plan_links
from virtoll.lab.shaping import Shape
from virtoll.workloads.network_path import PathParameters, peer_with_addresses, peer_without_addresses, route_request


def test_a_links_shape_in_the_words_of_tc() -> None:
    assert Shape().plain
    tbf = "tbf rate 100000000bit burst 12500 latency 50ms"
    assert Shape(100_000_000).token_bucket() == tbf.split()
    assert Shape(1_000_000).token_bucket()[4] == "4614", "three frames at least"
    assert Shape(100_000_000).netem()[:3] == ["netem", "limit", "1000"]
    # 20 ms of the smallest frames are 2977 at 100 Mbit/s, which netem counts as in its queue.
    netem = "netem limit 3977 delay 20ms loss 0.5% rate 100000000bit"
    assert Shape(100_000_000, 20, 0.5).netem() == netem.split()


def test_the_peer_has_an_address_and_loses_it_again() -> None:
    link = plan_links(3).sources[0]
    there = peer_with_addresses((link,), forward=False)
    neighbour = {"address": "10.67.0.1", "mac": link.guest_mac}
    own = {"mac": link.peer_mac, "address": "10.67.0.2/24", "neighbours": [neighbour]}
    assert there.to_json() == {"op": "network", "interfaces": [own]}
    gone = peer_without_addresses((link,), forward=True)
    assert gone.interfaces == (Interface(mac=link.peer_mac, without_address=True),)
    assert gone.ip_forward is False
    other = plan_links(7).sources[0]
    assert route_request(plan_links(3), other).routes == (Route(destination="10.71.0.0/24", via="10.67.0.2"),)


def test_a_transfer_takes_as_long_as_the_slower_of_link_and_host() -> None:
    """And twenty times the delay, which is as much as TCP's start needs."""

    def seconds(**link: float) -> float:
        return PathParameters.model_validate(link).transfer_seconds(1e6, 1e8)

    assert seconds() == 0.01
    assert seconds(link_rate_bits_per_second=8_000_000) == 1.0
    assert seconds(link_rate_bits_per_second=8_000_000_000) == 0.01, "the link is not what bounds it"
    assert seconds(link_delay_ms=100) == 2.01
