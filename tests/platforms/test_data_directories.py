"""The data directory in real guests: on the host's disk, empty and cold at each trial's start, gone with the guest."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.support import guests
from tests.support.facts import assert_facts, refused
from tests.support.guests import Connected

from virtoll.agent.operations.programs import DataRequest, ExecRequest
from virtoll.campaign.data_directory import find_data_volume
from virtoll.campaign.session import RunSession
from virtoll.errors import AgentError, GuestError
from virtoll.lab.data import LocalVolume
from virtoll.lab.disks import DISKS
from virtoll.platforms import PLATFORMS
from virtoll.platforms.base import DATA_PATH
from virtoll.workloads import WORKLOADS
from virtoll.workloads.base import Measurement

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.root]
MIB = 2**20
ROOM_BYTES = 16 * MIB
# A folder and a disk; the others are the same two by other products.
KINDS = ["netns", "uml-raw"]
EXTENDED = [
    *(
        name
        for name, kind in guests.KINDS.items()
        if PLATFORMS[kind.platform].data_by is not None and not (kind.variant or kind.extended) and name not in KINDS
    ),
    "qemu-tcg-disk",
]


@pytest.fixture(scope="module", params=[*KINDS, *(pytest.param(kind, marks=pytest.mark.extended) for kind in EXTENDED)])
def live(request: pytest.FixtureRequest, run_session: RunSession) -> Iterator[Connected]:
    """A guest with a data directory."""
    started = guests.start(request.param, run_session, data_bytes=ROOM_BYTES)
    yield started
    started.guest.stop()


def write(live: Connected, name: str, kibibytes: int) -> None:
    """Write a file in the guest, and flush it."""
    argv = ("/bin/dd", "if=/dev/urandom", f"of={DATA_PATH}/{name}", "bs=1024", f"count={kibibytes}", "conv=fsync")
    request = ExecRequest(argv=argv, timeout_ns=int(guests.HANG_SECONDS * 1e9), limit_bytes=4096)
    ended = live.bench.guest.ask(request, guests.HANG_SECONDS)
    assert ended.status == 0, ended


def zfg(live: Connected) -> Measurement:
    """A small trial of ZFG."""
    workload = WORKLOADS["zfg"].with_parameters({"size_bytes": MIB, "rounds": 2, "dump_bytes": 100_000})
    return guests.measured(workload, live.emptied)


def test_a_trial_finds_it_empty_cold_and_on_the_hosts_disk(live: Connected) -> None:
    assert live.data is not None
    room, host = live.data.volume, live.data.volume.file_system
    bench = live.emptied()
    assert bench.data.path == DATA_PATH
    assert bench.data.file_system not in ("", "tmpfs", "rootfs")
    expected = f"the host's disk ({host})" if room.on_disk else f"the host's memory ({host})"
    assert bench.data.reach == expected
    write(live, "first", 300)
    warm = bench.data_state(False)
    assert (warm["files"], warm["file_bytes"], warm["page_cache"]) == (1, 300 * 1024, "warm")
    if room.on_disk:
        cold = bench.data_state(True)
        told = room.resident() is not None
        state = ("cold", 0) if told else ("cold in the guest", None)
        assert (cold["page_cache"], cold["resident_on_host_bytes"]) == state
        assert cold["files"] == 1
    write(live, "second", 5)
    again = live.emptied().data_state(False)
    assert (again["files"], again["file_bytes"], again["resident_in_guest_bytes"] or 0) == (0, 0, 0)
    states = ("cold", "warm on the host", "cold in the guest")
    assert again["page_cache"] in states, "the file system's own blocks may be there"
    assert again["free_bytes"] >= ROOM_BYTES


def allocated_bytes(live: Connected) -> int:
    """What its files take of the host's disk."""
    assert live.data is not None
    room = live.data.volume
    assert isinstance(room, LocalVolume)
    return sum(os.fstat(file).st_blocks * 512 for file in room.files())


def test_what_is_written_in_the_guest_is_on_the_host(live: Connected) -> None:
    live.emptied()
    before = allocated_bytes(live)
    write(live, "file", 4096)
    assert allocated_bytes(live) - before >= 4 * MIB
    live.emptied()
    assert allocated_bytes(live) - before < MIB, "what a trial leaves does not make the next one's disk another"


def test_zfg_is_right_twice(live: Connected) -> None:
    for _ in range(2):
        measured = zfg(live)
        assert measured.problem is None
        assert measured.result is not None
        assert len(measured.result["sync_ns"]) == 2
        assert measured.result["state"]["files"] == 0
        assert measured.result["figures"]["bytes_per_second"] > 0


def test_only_the_data_directory_is_ever_emptied(live: Connected) -> None:
    for path in ("/", "/usr", "/no/such"):
        with refused(path, error=AgentError):
            live.bench.guest.ask(DataRequest(path=path, empty=True, evict=True, trim=False), guests.HANG_SECONDS)


def test_it_is_gone_with_the_guest(run_session: RunSession) -> None:
    live = guests.start("netns", run_session, data_bytes=ROOM_BYTES)
    assert live.data is not None
    folder = live.data.volume.folder
    assert folder is not None
    write(live, "file", 1)
    assert [path.name for path in folder.iterdir()] == ["file"]
    live.guest.stop()
    assert not folder.exists()


def test_platforms_that_carry_none_say_so(run_session: RunSession) -> None:
    carrying = {name for name, kind in PLATFORMS.items() if kind.data_by is not None}
    containers = {"native", "netns", "runc", "runsc", "podman", "docker", "lxc", "nspawn", "openvz", "vserver"}
    assert containers | {"uml", "qemu-tcg", "virtualbox", "xen", "esxi"} <= carrying
    assert not carrying & {"libvirt", "ssh", "firecracker", "fake"}
    for name in ("libvirt", "fake"):
        room, refusal = find_data_volume(PLATFORMS[name], run_session.site, ROOM_BYTES, 0)
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
