"""A machine on a nested host, which a shell of this one stands for: the contract, judged from outside that host.

All but the emulated host is the product's: its site, the files that it has from its start, sockets that the agent's
``relay`` reaches, and bridges of its NICs, here one end of the lab's pairs each. The image is one with tools, which the
host has on a disk.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.support import guest_contract as contract
from tests.support import guests, machine
from tests.support.guest_kinds import added
from tests.support.guest_kinds import machine as machine_kind
from tests.support.guests import Connected
from tests.support.present import present
from tests.support.tools_image import WORD

from virtoll.agent.operations.session import ClocksRequest
from virtoll.agent.timekeeper import echo_request
from virtoll.errors import GuestDied, GuestError
from virtoll.image import GuestImage
from virtoll.image.cache import file_digest, tree_digest
from virtoll.lab.commands import Connection
from virtoll.lab.inside import wait_until
from virtoll.lab.local_network import Network
from virtoll.lab.network import GuestNetwork, plan_links
from virtoll.nested.machine import FIRST_OWNER
from virtoll.pipeline import sites
from virtoll.pipeline.session import RunSession
from virtoll.platforms.process_guest import root_disk
from virtoll.platforms.qemu.driver import QemuGuest
from virtoll.stats.hops import CHATTER_FRAMES
from virtoll.workloads.forward import Forward

INSIDE_LAB = "guests"
pytestmark = [pytest.mark.lab, pytest.mark.root]
SOURCES = 3
SHELL = Connection("a shell", ("bash", "-c"), quoted=True)
ELSEWHERE = machine_kind("qemu-tcg", host="nested:kvm")


@dataclass
class StandIn:
    """What is known of a nested host; ``asked``: whether it was to stop or to go on."""

    links: GuestNetwork
    baked: dict[str, Path]
    connection: Connection = SHELL
    asked: list[str] = field(default_factory=list)

    def park(self) -> None:
        self.asked.append("park")

    def resume(self) -> None:
        self.asked.append("resume")


@pytest.fixture(scope="module")
def disk_of_host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the files that the host has from its start."""
    return tmp_path_factory.mktemp("baked")


@pytest.fixture(scope="module")
def run_session(tools_image: GuestImage, disk_of_host: Path) -> Iterator[RunSession]:
    """The lab's run session, which boots no nested host."""

    @contextlib.contextmanager
    def booted(
        _image: object, number: int, _lab: object, files: Sequence[Path], network: Network, disk: Path | None
    ) -> Iterator[StandIn]:
        links = plan_links(FIRST_OWNER + number, SOURCES, sinks=SOURCES)
        copies = {file_digest(file): Path(shutil.copy(file, disk_of_host)) for file in (*files, present(disk))}
        host = StandIn(links, copies)
        try:
            for link in links.links:
                network.host_port(link)
            yield host
        finally:
            network.remove(links)
        assert host.asked == ["park", "resume", "park", "resume"], "it goes on to be left"

    with pytest.MonkeyPatch.context() as patch, added({"elsewhere": ELSEWHERE}):
        patch.setattr(sites, "prepare_nested_host", lambda *_, **__: None)
        patch.setattr(sites, "nested_machine", booted)
        with guests.run_session() as made:
            made.site.image = tools_image
            yield made


@pytest.fixture(scope="module")
def live(run_session: RunSession) -> Iterator[Connected]:
    """One machine for all tests, with as many links out as in; the last test ends it."""
    wanted = guests.request("elsewhere")
    links = plan_links(wanted.network.links[0].owner, SOURCES, sinks=SOURCES)
    wanted = replace(wanted, network=links)
    with (
        run_session.site_of(guests.choice("elsewhere")).awake(),
        guests.running("elsewhere", run_session, wanted, data_bytes=contract.ROOM_BYTES) as started,
    ):
        yield started


@contract.checks((*contract.EVERYWHERE, *contract.ONCE_A_KIND, *contract.OF_DATA))
def test_it_keeps_the_contract(live: Connected, check: contract.Check) -> None:
    check(live)


def test_what_it_is_started_with_its_host_has_from_its_own_start(live: Connected, disk_of_host: Path) -> None:
    """The image's packages are on a disk, and cannot be written to; what is no part of them can."""
    argv, opened = emulator(live).argv, machine.held(emulator(live).pid)
    assert {Path(argv[argv.index(option) + 1]).parent for option in ("-kernel", "-initrd")} == {disk_of_host}
    disk = root_disk(live.site.image)
    assert str(disk_of_host / disk.name) in opened
    assert str(disk) not in opened
    assert live.site.cpus == tuple(range(os.cpu_count() or 0))
    assert isinstance(live.held, QemuGuest)
    assert live.held.host_processes() is None, "they are not this machine's"
    assert not present(live.held.output_file).is_relative_to(live.site.host.scratch), "what it says comes back here"
    agent, busybox = live.held.agent, "/usr/bin/busybox"
    assert guests.output_of(agent, busybox, "cat", WORD) == "from word\n"
    refused = guests.execute(agent, busybox, "touch", "/usr/share/word/written")
    assert (refused.status, b"Read-only file system" in refused.stderr) == (1, True)
    guests.output_of(agent, busybox, "touch", "/tmp/written")


def emulator(live: Connected) -> machine.Process:
    """The process that the other host has of it."""
    found = [one for one in machine.family(os.getpid()).processes if one.argv[:1] == ("qemu-system-x86_64",)]
    (process,) = (one for one in found if live.bench.network.sink.guest_mac in " ".join(one.argv))
    return process


def test_each_sources_frames_are_counted_on_a_way_of_their_own(live: Connected) -> None:
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
