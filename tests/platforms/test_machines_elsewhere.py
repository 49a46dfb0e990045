"""A machine on another host, which a shell of this one stands for: the contract, judged from outside that host.

The way there is a nested host's: files are copied, sockets reached by the agent's ``relay``, and the host's NICs, here
one end of the lab's pairs each, lead to its bridges. Its image is one with tools, which it has on a disk.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.support import guest_contract as contract
from tests.support import guests, machine
from tests.support.guests import Connected
from tests.support.present import present
from tests.support.tools_image import WORD

from virtoll.agent.links import peer_request
from virtoll.agent.operations.session import ClocksRequest
from virtoll.agent.timekeeper import echo_request
from virtoll.campaign.session import RunSession
from virtoll.campaign.sites import host_agent
from virtoll.errors import GuestDied, GuestError
from virtoll.hosts.remote_host import open_remote
from virtoll.hosts.remote_network import RemoteNetwork, RemoteNic
from virtoll.image.cache import tree_digest
from virtoll.lab.commands import Connection
from virtoll.lab.inside import wait_until
from virtoll.lab.network import plan_links
from virtoll.nested.machine import FIRST_OWNER
from virtoll.platforms.host import Site
from virtoll.platforms.process_guest import root_disk
from virtoll.stats.hops import CHATTER_FRAMES
from virtoll.workloads.forward import Forward

INSIDE_LAB = "guests"
pytestmark = [pytest.mark.lab, pytest.mark.root]
SOURCES = 3
SHELL = Connection("a shell", ("bash", "-c"), quoted=True)


@pytest.fixture(scope="module")
def elsewhere(run_session: RunSession, with_tools: Site) -> Iterator[RunSession]:
    """The lab's run session with the other host as the site of its guests."""
    network = with_tools.local_ports
    links = plan_links(FIRST_OWNER, SOURCES, sinks=SOURCES)
    with contextlib.ExitStack() as stack:
        stack.callback(network.remove, links)
        for link in links.links:
            network.host_port(link)
        with_tools.peer.ask(peer_request(links))
        nics = {one.name: RemoteNic(one.lab_interface, one.peer_interface, one.peer_mac) for one in links.links}
        host = stack.enter_context(open_remote(SHELL, with_tools.this_machine, with_tools.image.agent))
        counters = stack.enter_context(host_agent(host))
        there = RemoteNetwork(host, nics, run_session.site.network.peer_pid)
        site = replace(with_tools, host=host, network=there, counters=counters, cpus=())
        yield replace(run_session, site=site, sites=None)


@pytest.fixture(scope="module")
def live(elsewhere: RunSession) -> Iterator[Connected]:
    """One machine for all tests, with as many links out as in; the last test ends it."""
    wanted = guests.request("qemu-tcg")
    links = plan_links(wanted.network.links[0].owner, SOURCES, sinks=SOURCES)
    wanted = replace(wanted, network=links)
    with guests.running("qemu-tcg", elsewhere, wanted, data_bytes=contract.ROOM_BYTES) as started:
        yield started


@contract.checks((*contract.EVERYWHERE, *contract.ONCE_A_KIND, *contract.OF_DATA))
def test_it_keeps_the_contract(live: Connected, check: contract.Check) -> None:
    check(live)


def test_what_it_opens_are_copies_on_its_host(live: Connected) -> None:
    """The image's packages are on one, and cannot be written to; what is no part of them can."""
    scratch = str(live.site.host.scratch)
    disk = root_disk(live.site.image)
    opened = machine.held(emulator(live).pid)
    assert any(name.startswith(scratch) and name.endswith(disk.name) for name in opened)
    assert str(disk) not in opened
    agent, busybox = live.held.agent, "/usr/bin/busybox"
    assert guests.output_of(agent, busybox, "cat", WORD) == "from word\n"
    refused = guests.execute(agent, busybox, "touch", "/usr/share/word/written")
    assert (refused.status, b"Read-only file system" in refused.stderr) == (1, True)
    guests.output_of(agent, busybox, "touch", "/tmp/written")


def emulator(live: Connected) -> machine.Process:
    """The process that the other host has of it."""
    found = [one for one in machine.family(os.getpid()).processes if one.argv[0] == "qemu-system-x86_64"]
    (process,) = (one for one in found if live.bench.network.sink.guest_mac in " ".join(one.argv))
    return process


def test_frames_of_each_source_are_counted_on_its_host_on_a_way_of_their_own(live: Connected) -> None:
    """The host's NICs and the guest's ports, read by an agent over there, count what was forwarded."""
    wanted = guests.few_frames(sources=SOURCES, egress="each", frame_size_bytes=500)
    point = Forward(wanted).point(live.bench, guests.FEW_PER_SECOND).to_json()
    way = ["generator", "entry", "port-in", "guest-in", "guest-out", "port-out", "exit", "sink"]
    assert [hop["role"] for hop in point["hops"]] == way * SOURCES
    assert [hop["interface"] for hop in point["hops"] if hop["role"] == "sink"] == [
        link.peer_interface for link in live.bench.network.sinks
    ]
    forwarded = [arrived["forwarded_frames"] for arrived in point["sink"]["per_source"]]
    assert forwarded == [sent["offered_frames"] for sent in point["sources"]]
    assert all(forwarded)
    for hop in point["hops"]:
        counter = "tx_packets" if hop["direction"] == "out" else "rx_packets"
        grown = hop["after"][counter] - hop["before"].get(counter, 0)
        assert forwarded[hop["source"]] <= grown <= forwarded[hop["source"]] + CHATTER_FRAMES, hop


def test_parked_it_answers_nothing_and_then_goes_on(live: Connected) -> None:
    link = present(live.bench.network.marks)

    def answers() -> bool:
        return bool(live.held.peer.ask(echo_request(link, 1, guests.SECOND_NS)).round_trip_ns)

    wait_until(answers, guests.HANG_SECONDS, "an echo of a guest that runs")
    live.held.park()
    assert not answers()
    live.held.resume()
    wait_until(answers, guests.HANG_SECONDS, "an echo after it was continued")
    assert live.held.agent.ask(ClocksRequest(), guests.HANG_SECONDS).monotonic_ns


def test_killed_it_is_noticed_and_leaves_nothing_on_its_host(live: Connected) -> None:
    victim = emulator(live)
    os.kill(victim.pid, signal.SIGKILL)
    wait_until(lambda: not victim.alive, guests.HANG_SECONDS, "the end of what was killed")
    with pytest.raises(GuestDied):
        live.held.agent.ask(ClocksRequest(), guests.HANG_SECONDS)
    with contextlib.suppress(GuestError):
        live.held.resume()
    assert {"console.txt", "qemu.txt"} <= set(live.held.evidence())
    ways = live.site.network.endpoint_interfaces(live.bench.network)
    taps = {present(way.port) for way in ways.values()}
    assert len(taps) == len(live.bench.network.links)
    assert taps <= machine.interfaces()
    live.held.stop()
    live.held.stop()
    assert not taps & machine.interfaces()
    assert live.site.network.endpoint_interfaces(live.bench.network) == {}
    assert not present(present(live.data).volume.disk_path).exists()
    image = live.site.image
    assert tree_digest(image.root.parent) == image.digest.removeprefix("sha256:")
