"""The data directory in real guests: on the host's disk, empty and cold at each trial's start, gone with the guest."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.support import guest_contract as contract
from tests.support import guest_kinds, guests
from tests.support.facts import assert_facts, refused
from tests.support.guests import Connected
from tests.support.present import present

from virtoll.agent.operations.programs import DataRequest
from virtoll.errors import AgentError, GuestError
from virtoll.lab.data import LocalVolume
from virtoll.lab.disks import DISKS
from virtoll.pipeline.data_directory import find_data_volume
from virtoll.pipeline.session import RunSession
from virtoll.platforms import PLATFORMS
from virtoll.platforms.base import DATA_PATH

INSIDE_LAB = "guests"
pytestmark = [pytest.mark.lab]
MIB = 2**20
# A folder and a disk; the others are the same two by other products.
KINDS = ["netns", "uml-raw", "qemu-tcg-data-ide"]
EXTENDED = [
    *(
        name
        for name, kind in guest_kinds.KINDS.items()
        if PLATFORMS[kind.platform].data_by is not None and not (kind.variant or kind.extended) and name not in KINDS
    ),
    "qemu-tcg-disk",
    "qemu-tcg-data-ahci",
    "qemu-tcg-data-nvme",
]


@pytest.fixture(scope="module", params=[*KINDS, *(pytest.param(kind, marks=pytest.mark.extended) for kind in EXTENDED)])
def live(request: pytest.FixtureRequest, run_session: RunSession) -> Iterator[Connected]:
    """A guest with a data directory."""
    with guests.running(request.param, run_session, data_bytes=contract.ROOM_BYTES) as started:
        yield started


@contract.checks(contract.OF_DATA)
def test_each_data_directory_keeps_the_contract(live: Connected, check: contract.Check) -> None:
    check(live)


def allocated_bytes(live: Connected) -> int:
    """What its files take of the host's disk."""
    room = present(live.data).volume
    assert isinstance(room, LocalVolume)
    return sum(os.fstat(file).st_blocks * 512 for file in room.files())


def test_what_is_written_in_the_guest_is_on_the_host(live: Connected) -> None:
    live.emptied()
    before = allocated_bytes(live)
    contract.write(live, "file", 4096)
    assert allocated_bytes(live) - before >= 4 * MIB
    live.emptied()
    assert allocated_bytes(live) - before < MIB, "what a trial leaves does not make the next one's disk another"


def test_its_disk_is_the_device_that_was_asked_for(live: Connected) -> None:
    """By the name that the guest's kernel gives such a device."""
    names = {"ide": "/dev/sd", "ahci": "/dev/sd", "nvme": "/dev/nvme"}
    request = DataRequest(path=DATA_PATH, empty=False, evict=False, trim=False)
    found = live.bench.guest.ask(request, guests.HANG_SECONDS)
    assert found.source.startswith(names.get(live.kind.parameters.get("data_disk", ""), ""))


def test_only_the_data_directory_is_ever_emptied(live: Connected) -> None:
    for path in ("/", "/usr", "/no/such"):
        with refused(path, error=AgentError):
            live.bench.guest.ask(DataRequest(path=path, empty=True, evict=True, trim=False), guests.HANG_SECONDS)


def test_it_is_gone_with_the_guest(run_session: RunSession) -> None:
    live = guests.start("netns", run_session, data_bytes=contract.ROOM_BYTES)
    folder = present(present(live.data).volume.folder)
    contract.write(live, "file", 1)
    assert [path.name for path in folder.iterdir()] == ["file"]
    live.guest.stop()
    assert not folder.exists()


def test_platforms_that_carry_none_say_so(run_session: RunSession) -> None:
    carrying = {name for name, kind in PLATFORMS.items() if kind.data_by is not None}
    containers = {"native", "netns", "runc", "runsc", "podman", "docker", "lxc", "nspawn", "openvz", "vserver"}
    assert containers | {"uml", "qemu-tcg", "virtualbox", "xen", "esxi"} <= carrying
    assert not carrying & {"libvirt", "ssh", "firecracker", "fake"}
    for name in ("libvirt", "fake"):
        room, refusal = find_data_volume(PLATFORMS[name], run_session.site, contract.ROOM_BYTES, 0)
        assert room is None
        assert_facts(refusal or "", name, "data directory")
    assert find_data_volume(PLATFORMS["libvirt"], run_session.site, 0, 0) == (None, None)
    room, refusal = find_data_volume(PLATFORMS["netns"], run_session.site, 2**60, 0)
    assert room is None
    assert_facts(refusal or "", DISKS)


def test_a_guest_without_one_goes_on(run_session: RunSession) -> None:
    live = guests.start("netns", run_session)
    assert live.bench.data.reach == "the guest's memory"
    assert live.bench.data_state(True) == {}
    with refused(DATA_PATH, error=GuestError):
        live.bench.guest.ask(DataRequest(path=DATA_PATH, empty=False, evict=False, trim=False), guests.HANG_SECONDS)
    live.guest.stop()
