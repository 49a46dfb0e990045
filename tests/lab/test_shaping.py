"""Links whose far end is on another host: what is set at both ends of the cable, what is held back, what is left.

A network namespace stands for that host.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import pytest
from tests.support.facts import refused
from tests.support.machine import END_SECONDS
from tests.support.namespaces import network_namespace

from virtoll.errors import GuestCannot, GuestDied, GuestError
from virtoll.hosts.cabled_network import CabledNetwork
from virtoll.hosts.remote_network import RemoteNic
from virtoll.hosts.remote_peer import end_at
from virtoll.hosts.undo import Undo
from virtoll.image.clone import built_agent
from virtoll.lab.commands import PIPED, ConnectedHost, Connection
from virtoll.lab.inside import end_process, wait_until
from virtoll.lab.local_network import Network
from virtoll.lab.network import GuestNetwork, over_trunks, plan_links
from virtoll.lab.shaping import Shape
from virtoll.platforms.process_guest import connect_stdio

INSIDE_LAB = "links"
pytestmark = pytest.mark.lab
SHAPE = Shape(rate_bits_per_second=20_000_000)
SENT_BYTES = 200_000
RECEIVE = """
import socket
with socket.create_server(("10.9.0.1", 7)) as server:
    print("there", flush=True)
    with server.accept()[0] as connection:
        print(sum(len(portion) for portion in iter(lambda: connection.recv(65536), b"")), flush=True)
"""
SEND = f"""
import socket
with socket.create_connection(("10.9.0.1", 7)) as connection:
    connection.sendall(bytes({SENT_BYTES}))
"""


@dataclass(frozen=True)
class Namespace:
    """A network namespace of its own, by a process in it, and how programs are run there."""

    pid: int
    host: ConnectedHost

    def ip(self, *lines: str) -> None:
        """Lines for ``ip -batch``."""
        self.host.run(["ip", "-batch", "-"], "test", stdin="".join(f"{line}\n" for line in lines).encode())

    def disciplines(self, interface: str) -> str:
        """As the function."""
        return disciplines(self.host, interface)


def disciplines(host: ConnectedHost, interface: str, *words: str) -> str:
    """What ``tc`` tells of those at an interface; with ``-s`` what they have let through, too."""
    return host.run(["tc", *words, "qdisc", "show", "dev", interface], "test")


@contextlib.contextmanager
def namespace(name: str) -> Iterator[Namespace]:
    with network_namespace() as pid:
        yield Namespace(pid, ConnectedHost(Connection(name, ("nsenter", f"--net=/proc/{pid}/ns/net", "--"))))


@pytest.fixture
def peer() -> Iterator[Namespace]:
    with namespace("the peer") as made:
        yield made


@pytest.fixture
def far() -> Iterator[Namespace]:
    with namespace("another host") as made:
        yield made


@pytest.fixture
def here() -> ConnectedHost:
    return ConnectedHost()


def streams(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdout is not None
    assert process.stdin is not None
    return process.stdout, process.stdin


def test_a_cable_to_another_host_is_shaped_at_both_ends_and_free_again(
    peer: Namespace, far: Namespace, here: ConnectedHost
) -> None:
    """After the trial, and where the connection ends in the midst of it; the NIC there is there all the time."""
    nics = [(f"vsnear{number}", f"vsfar{number}") for number in range(2)]
    for near, there in nics:
        here.run(["ip", "link", "add", near, "type", "veth", "peer", "name", there, "netns", str(far.pid)], "test")
    network = Network(peer.pid)
    command = [str(built_agent()), "--role", "peer", "--channel", "stdio"]
    process, undoing = far.host.spawn(command, "test", PIPED), far.host.spawn([*command[:1], "undo"], "test", PIPED)
    agent, undo = connect_stdio(process, "the agent"), Undo(far.host.name, *streams(undoing))
    try:
        agent.wait_ready(END_SECONDS)
        network.face({near: end_at(agent, undo, there) for near, there in nics})
        macs = [(there, f"02:00:00:00:00:0{number}") for number, (_, there) in enumerate(nics)]
        links = over_trunks(plan_links(0), [near for near, _ in nics], macs)
        for link, (near, there) in zip((links.sources[0], links.sink), nics, strict=True):
            plain = [disciplines(here, near), far.disciplines(there)]
            for _ in range(2):
                with network.shaped(link, SHAPE) as name:
                    assert name in ("netem", "tbf")
                    for said in (disciplines(here, near), far.disciplines(there)):
                        assert said.startswith(f"qdisc {name} ")
                        assert "rate 20Mbit" in said
                assert [disciplines(here, near), far.disciplines(there)] == plain
        near, there = nics[0]
        before = far.disciplines(there)
        with network.shaped(links.sources[0], SHAPE):
            assert far.disciplines(there) != before
            undo.close()  # as it is when the controller is killed
            wait_until(lambda: far.disciplines(there) == before, END_SECONDS, "the end of the discipline there")
        with refused("another host", "agent", error=GuestDied):
            network.shaped(links.sources[0], SHAPE).__enter__()
        assert [disciplines(here, near), far.disciplines(there)] == [before, before]
    finally:
        network.close()
        agent.close()
        end_process(process)
        end_process(undoing)
        for near, _ in nics:
            here.run(["ip", "link", "del", near], "test")


def test_what_arrives_by_a_cable_is_held_back_at_this_end(peer: Namespace, far: Namespace) -> None:
    """All of it, where nothing can be set at the other end; and the NIC is as it was after that."""
    peer.ip(
        f"link add vspeer type veth peer name vsfar netns {far.pid}",
        "address add 10.9.0.1/24 dev vspeer",
        "link set vspeer up",
    )
    far.ip("address add 10.9.0.2/24 dev vsfar", "link set vsfar up")
    network = CabledNetwork("the host", {"in0": RemoteNic("vmnic1", "vspeer", "02:00:00:00:00:01")}, peer.pid)
    (link,) = network.reach(GuestNetwork(plan_links(0).sources)).links
    plain = peer.disciplines("vspeer")
    try:
        peer.ip("link add vstried type ifb", "link del vstried")
    except GuestError:
        with refused("ifb", "link_...", error=GuestCannot):
            network.shaped(link, SHAPE).__enter__()
        assert peer.disciplines("vspeer") == plain
        return
    for _ in range(2):
        with network.shaped(link, SHAPE) as name:
            server = peer.host.spawn([sys.executable, "-c", RECEIVE], "test", PIPED)
            said, _ = streams(server)
            assert said.readline() == b"there\n"
            far.host.run([sys.executable, "-c", SEND], "test")
            assert int(said.readline()) == SENT_BYTES
            end_process(server)
            leaving, arriving = (disciplines(peer.host, name, "-s") for name in ("vspeer", "holding"))
            for one in (leaving, arriving):
                assert f"qdisc {name} " in one
                assert "rate 20Mbit" in one
            assert int(arriving.partition("Sent ")[2].split()[0]) > SENT_BYTES
        assert "holding" not in peer.host.run(["ip", "-brief", "link"], "test")
        assert "ingress" not in peer.disciplines("vspeer")
