"""VMware ESXi: the driver against VMware's own simulator of the API, with a real machine under QEMU behind each VM.

What this does not show is ESXi itself: docs/platforms/esxi.md says what was tried on what.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pyVmomi import vim
from tests.platforms import test_data_directories as directories
from tests.platforms import test_guests as contract
from tests.support import experiments, guests
from tests.support.commands import virtoll
from tests.support.esxi import (
    DATASTORE,
    PASSWORD,
    PASSWORD_VARIABLE,
    EsxiHost,
    esxi_host,
    extent,
    inventory,
    session_of,
)
from tests.support.guests import ADDED, SECOND_NS, Connected, Kind
from tests.support.tools_image import WORD, small_tools_image

from virtoll.agent.operations.programs import ExecRequest
from virtoll.agent.operations.session import ClocksRequest
from virtoll.agent.timekeeper import echo_request
from virtoll.campaign.session import RunSession
from virtoll.errors import GuestDied, GuestError
from virtoll.image import boot_disk
from virtoll.lab.data import disk_bytes
from virtoll.lab.inside import Lab, wait_until
from virtoll.lab.network import plan_links
from virtoll.platforms.base import GuestStartError
from virtoll.platforms.esxi import Esxi, leftovers
from virtoll.platforms.esxi.data_disk import DESCRIPTOR_FILE, EXTENT_FILE, MEDIUM
from virtoll.platforms.esxi.datastore import Datastore
from virtoll.platforms.esxi.leftovers import remove_leftovers_by_api
from virtoll.platforms.esxi.parameters import EsxiParameters
from virtoll.platforms.esxi.serial import open_line, taken_ports
from virtoll.platforms.esxi.session import Session, open_session
from virtoll.platforms.esxi.specs import BOOT_FILE, ROOT_FILE, TAG, Line, _nic, kernel_line, machine_spec
from virtoll.platforms.esxi.switches import network_of, port_groups
from virtoll.platforms.host import Site
from virtoll.platforms.process_guest import root_disk

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.root]

BOOT_SECONDS = 900.0  # firmware and a CD-ROM drive, all of it translated
ETHERNET = vim.vm.device.VirtualEthernetCard
VARIANTS: dict[str, dict[str, Any]] = {
    "vmxnet3": {},
    "e1000e": {
        "nic": "e1000e",
        "serial": "call",
        "callback": "127.0.0.1",
        "memory_reservation": "full",
        "latency_sensitivity": "high",
        "cpu_reservation_mhz": 500,
    },
}


@pytest.fixture(scope="module", autouse=True)
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with guests.lab_record(tmp_path_factory.mktemp("record")) as folder:
        yield folder


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EsxiHost]:
    with esxi_host(tmp_path_factory.mktemp("esxi")) as started:
        for name, parameters in VARIANTS.items():
            ADDED[f"esxi-{name}"] = Kind(
                "esxi",
                started.parameters(**parameters),
                kernel="image",
                vlans=True,
                slow=True,
                variant=name != "vmxnet3",
                ready_seconds=BOOT_SECONDS,
            )
        yield started


@pytest.fixture(scope="module", params=list(VARIANTS))
def live(request: pytest.FixtureRequest, run_session: RunSession, host: EsxiHost) -> Iterator[Connected]:
    """One guest for all tests of its kind; the last test ends it."""
    before = inventory(host)
    name = f"esxi-{request.param}"
    started = guests.start(name, run_session, data_bytes=0 if ADDED[name].variant else directories.ROOM_BYTES)
    yield started
    started.held.stop()
    assert inventory(host) == before


def known(session: Session, name: str) -> Any:
    found = session.machine(name)
    assert found is not None
    return found


def test_it_is_ready_and_says_what_it_is(live: Connected) -> None:
    contract.test_it_is_ready_and_says_what_it_is(live)


def test_a_low_rate_is_forwarded_without_loss_and_the_books_balance(live: Connected) -> None:
    contract.test_a_low_rate_is_forwarded_without_loss_and_the_books_balance(live)


def test_it_forwards_in_both_directions_at_once(live: Connected) -> None:
    contract.test_it_forwards_in_both_directions_at_once(live)


def test_a_job_is_timed_from_outside(live: Connected) -> None:
    contract.test_a_job_is_timed_from_outside(live)


def test_a_job_is_timed_over_the_channel(live: Connected) -> None:
    contract.skip_variant(live)
    contract.test_a_job_is_timed_over_the_channel(live)


def test_data_goes_in_and_comes_back_byte_for_byte(live: Connected) -> None:
    contract.skip_variant(live)
    contract.test_data_goes_in_and_comes_back_byte_for_byte(live)


def test_a_trial_finds_its_data_directory_empty_and_cold(live: Connected) -> None:
    contract.skip_variant(live)
    directories.test_a_trial_finds_it_empty_cold_and_on_the_hosts_disk(live)


def test_zfg_is_right_twice_in_its_data_directory(live: Connected) -> None:
    contract.skip_variant(live)
    directories.test_zfg_is_right_twice(live)


def test_what_is_synced_in_its_data_directory_is_on_the_datastore(live: Connected, host: EsxiHost) -> None:
    contract.skip_variant(live)
    assert live.wanted.data is not None
    assert live.wanted.data.descriptor is None, "the room here is given back once its disk was uploaded"
    live.emptied()
    written = (live.site.image.root / "bin/busybox").read_bytes()
    argv = ("/bin/dd", "if=/bin/busybox", "of=/data/copy", "conv=fsync")
    request = ExecRequest(argv=argv, timeout_ns=600 * SECOND_NS, limit_bytes=4096)
    assert live.held.agent.ask(request, guests.HANG_SECONDS).status == 0
    ((_, reported),) = [one for one in host.seen if one[0] == "on" and one[1]["name"] in host.machines]
    (disk,) = reported["disks"]
    assert written[: 2**16] in extent(Path(disk["file"])).read_bytes()


def test_the_host_was_told_what_the_experiment_says(live: Connected, host: EsxiHost) -> None:
    (name,) = host.machines
    reported = next(machine for event, machine in host.seen if event == "on" and machine["name"] == name)
    model = {"vmxnet3": "VirtualVmxnet3", "e1000e": "VirtualE1000e", "e1000": "VirtualE1000"}
    parameters = EsxiParameters.model_validate(live.kind.parameters)
    lab = name[:20]
    assert [nic["model"] for nic in reported["nics"]] == [model[parameters.nic]] * 3
    assert [nic["mac"] for nic in reported["nics"]] == [link.guest_mac for link in live.bench.network.links]
    assert [nic["network"] for nic in reported["nics"]] == [f"{lab}-vmnic{number}" for number in (1, 2, 3)]
    assert reported["memory_mib"] == 256
    disks = [(one["controller"], one["unit"], Path(one["file"]).name) for one in reported["disks"] or []]
    assert disks == ([("VirtualAHCIController", 0, DESCRIPTOR_FILE)] if live.data is not None else [])
    with session_of(host) as session:
        config = known(session, name).config
        assert leftovers.is_ours(known(session, name))
        high = parameters.latency_sensitivity == "high"
        assert config.latencySensitivity.level == parameters.latency_sensitivity
        assert config.memoryAllocation.reservation == (256 if high else 0)
        assert config.cpuAllocation.reservation == (500 if high else 0)
        assert config.cpuAllocation.limit == -1
        assert list(config.cpuAffinity.affinitySet) == list(live.wanted.cpus)
        network = session.host.configManager.networkSystem.networkInfo
        made = [one for one in network.vswitch if one.name.startswith(lab)]
        assert [(one.name, list(one.spec.bridge.nicDevice), one.spec.mtu) for one in made] == [
            (f"{lab}-{uplink}", [uplink], 1500) for uplink in ("vmnic1", "vmnic2", "vmnic3")
        ]
        groups = [one.spec for one in network.portgroup if one.spec.name.startswith(lab)]
        assert len(groups) == 3
        for group in groups:
            security = group.policy.security
            assert security.allowPromiscuous
            assert security.macChanges
            assert security.forgedTransmits


def test_parked_it_is_suspended_and_then_goes_on_over_a_new_connection(live: Connected, host: EsxiHost) -> None:
    link = live.bench.network.marks
    assert link is not None
    (name,) = host.machines

    def answers() -> bool:
        return bool(live.held.peer.ask(echo_request(link, 1, SECOND_NS // 2), guests.HANG_SECONDS).round_trip_ns)

    def state() -> str:
        with session_of(host) as session:
            return str(known(session, name).runtime.powerState)

    wait_until(answers, guests.HANG_SECONDS, "an echo")
    live.held.park()
    live.held.park()
    assert state() == "suspended"
    assert asked(host, name, "query-status")["status"] == "paused"
    threads = virtual_cpus(host, name)
    wait_until(lambda: all(state == "S" for state, _ in ran(threads)), guests.HANG_SECONDS, "the rest of its CPUs")
    before = ran(threads)
    assert not answers()
    assert ran(threads) == before
    live.held.resume()
    assert state() == "poweredOn"
    wait_until(answers, guests.HANG_SECONDS, "an echo after it was continued")
    assert live.held.agent.ask(ClocksRequest(), guests.HANG_SECONDS).monotonic_ns
    assert ran(threads) != before
    assert [event for event, machine in host.seen if machine["name"] == name] == ["on", "suspend", "resume"]


def asked(host: EsxiHost, name: str, command: str) -> Any:
    """What the monitor of the machine behind a VM answers."""
    return host.machines[name].monitor.execute(command)


def virtual_cpus(host: EsxiHost, name: str) -> list[Path]:
    """The threads that are the CPUs of the machine behind a VM."""
    tasks = Path(f"/proc/{host.machines[name].process.pid}/task")
    return [tasks / str(one["thread-id"]) for one in asked(host, name, "query-cpus-fast")]


def ran(threads: list[Path]) -> list[tuple[str, int]]:
    """State and CPU time in ns of threads, as the kernel accounts it."""
    return [
        ((one / "stat").read_text().rpartition(")")[2].split()[0], int((one / "schedstat").read_text().split()[0]))
        for one in threads
    ]


def test_killed_it_is_noticed_and_its_console_is_kept(live: Connected, host: EsxiHost) -> None:
    """What the janitor would run has no password in it, and is withdrawn with the guest's orderly end."""
    if live.name != "esxi-e1000e":
        pytest.skip("tried with the last kind: it ends the guest")
    (argv,) = guests.promised()
    assert "virtoll.platforms.esxi.leftovers" in argv
    assert PASSWORD not in " ".join(argv)
    (machine,) = host.machines.values()
    machine.process.kill()
    with pytest.raises(GuestDied, match="ended while it was needed"):
        live.held.agent.ask(ClocksRequest(), guests.HANG_SECONDS)
    assert live.held.evidence()["console.txt"]
    live.held.stop()
    assert not host.machines
    assert guests.promised() == []


# From here on each test starts what it needs.


@pytest.fixture(scope="module")
def as_found(host: EsxiHost) -> tuple[dict[str, Any], list[str]]:
    """What is on the host and in the lab when the first of these tests begins."""
    return inventory(host), links()


@pytest.fixture
def unchanged(host: EsxiHost, as_found: tuple[dict[str, Any], list[str]]) -> Iterator[None]:
    """Whatever was refused, nothing on the host or in the lab is other than before."""
    yield
    assert (inventory(host), links()) == as_found


def links() -> list[str]:
    """The lab's own interfaces."""
    return sorted(path.name for path in Path("/sys/class/net").iterdir())


def refused(run_session: RunSession, parameters: dict[str, Any], site: Site | None = None, **changed: Any) -> str:
    """The sentence that a guest with these parameters is refused with; ``site``: another than the session's."""
    wanted = dataclasses.replace(guests.request("netns"), **changed)
    with pytest.raises(GuestError) as raised:
        Esxi(EsxiParameters.model_validate(parameters)).start(wanted, site or run_session.site)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_without_a_host_it_says_where_to_read(run_session: RunSession) -> None:
    found = Esxi(EsxiParameters()).probe(run_session.site)
    assert not found.available
    assert found.reason == "no ESXi host is named; 'virtoll show platform esxi' has the keys of an experiment"


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"user": "nobody"}, r"does not let nobody in: wrong user or password"),
        ({"password_from": "env:VIRTOLL_TEST_NO_SUCH"}, r"the environment has no VIRTOLL_TEST_NO_SUCH; export"),
        ({"password_from": "file:/nowhere/password"}, r"/nowhere/password cannot be read: No such file"),
        ({"server": "127.0.0.1:1"}, r"127\.0\.0\.1:1 cannot be reached: Connection refused"),
        ({"server": "no-such-host.invalid"}, r"no-such-host\.invalid is not known by that name"),
        ({"verify": "on"}, r"its certificate is not trusted here; give its 'thumbprint' \(([0-9A-F]{2}:){31}"),
        ({"thumbprint": "00:" * 31 + "00"}, r"thumbprint: .* shows the certificate [0-9A-F]{2}:"),
        ({"datastore": "elsewhere"}, r"datastore: elsewhere is not on .*; it has: LocalDS_0"),
        ({"uplinks": ["vmnic1", "vmnic2", "vmnic9"]}, r"vmnic9 is not on .*; it has: vmnic0, vmnic1"),
        ({"uplinks": ["vmnic0", "vmnic2", "vmnic3"]}, r"vmnic0 is in use by vSwitch0 of .*; name a free one"),
        ({"uplinks": ["vmnic1"]}, r"uplinks: 1 given and 3 needed, in this order: in0, out, marks"),
        (
            {"uplinks": None, "port_groups": ["VM Network", "b", "c"]},
            r"port_groups: b is not on .*it has: .*VM Network",
        ),
        ({"serial": "call", "callback": "192.0.2.1"}, r"callback: 192\.0\.2\.1 is no address of this machine"),
    ],
)
def test_what_is_wrong_with_the_host_is_one_sentence(
    run_session: RunSession, host: EsxiHost, changed: dict[str, Any], said: str
) -> None:
    assert re.search(said, refused(run_session, host.parameters(**changed)))


@pytest.mark.usefixtures("unchanged")
def test_a_password_that_others_may_read_is_refused(run_session: RunSession, host: EsxiHost, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n", encoding="utf-8")
    secret.chmod(0o644)
    parameters = host.parameters(password_from=f"file:{secret}")
    assert "can be read by others; chmod 0600" in refused(run_session, parameters)
    secret.chmod(0o600)
    with open_session(EsxiParameters.model_validate(parameters)) as session:
        assert session.version


def test_a_certificate_is_trusted_by_its_thumbprint(run_session: RunSession, host: EsxiHost) -> None:
    shown = re.search(r"\(([0-9A-F:]{95}),", refused(run_session, host.parameters(verify="on")))
    assert shown is not None
    with open_session(EsxiParameters.model_validate(host.parameters(verify="on", thumbprint=shown[1]))) as session:
        assert session.version


@pytest.mark.usefixtures("unchanged")
def test_what_does_not_fit_is_refused_before_anything_is_uploaded(run_session: RunSession, host: EsxiHost) -> None:
    assert re.search(
        r"has \d+ CPUs, and the guest is to be pinned on CPU 500", refused(run_session, host.parameters(), cpus=(500,))
    )
    taken = guests.request("netns")
    assert isinstance(run_session.site.host, Lab)
    name = f"{run_session.site.host.lab_id}-{taken.name.replace('/', '-')}"
    with session_of(host) as session:
        theirs = bare_machine(session, name, "somebody else's")
        assert f"a machine named {name} is there already" in refused(run_session, host.parameters(), name=taken.name)
        assert session.machine(name) is not None, "what Virtoll did not make is not touched"
        session.finish(theirs.Destroy_Task())
        Datastore(session).make_folder(name)
        assert f"[{DATASTORE}] {name} is there already" in refused(run_session, host.parameters(), name=taken.name)
        assert Datastore(session).folders(name) == [name]
        Datastore(session).remove_folder(name)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-free", str(2**20)], r"LocalDS_0 has 1 MiB free and a guest needs \d{3} MiB; remove something there"),
        (["-faults", "CreateVM_Task=RestrictedVersion"], r"its licence lets its API read only, as the free one does"),
        (["-faults", "AddPortGroup=NoPermission"], r"lacks the right VirtualMachine\.Inventory\.Create; docs/"),
        (["-faults", "PowerOnVM_Task=SystemError"], r"refused with SystemError: "),
    ],
)
def test_a_host_that_refuses_is_left_as_it_was(
    run_session: RunSession, tmp_path: Path, arguments: list[str], said: str
) -> None:
    with esxi_host(tmp_path, *arguments) as other:
        before = inventory(other), links()
        assert re.search(said, refused(run_session, other.parameters()))
        assert (inventory(other), links()) == before
        assert not other.machines
        assert guests.promised() == []


@pytest.mark.usefixtures("unchanged")
def test_a_guest_that_is_not_ready_in_time_is_removed(run_session: RunSession, host: EsxiHost) -> None:
    with pytest.raises(GuestStartError, match=r"was not ready within 0\.001 s") as raised:
        Esxi(EsxiParameters.model_validate(host.parameters())).start(guests.request("netns", 0.001), run_session.site)
    assert "console.txt" in raised.value.evidence


@pytest.fixture(scope="module")
def with_tools(run_session: RunSession, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The lab's site on an image that is no initramfs."""
    busybox = (run_session.site.image.root / "bin/busybox").read_bytes()
    image = small_tools_image(tmp_path_factory.mktemp("tools"), busybox)
    return dataclasses.replace(run_session.site, image=image)


@pytest.mark.usefixtures("unchanged")
def test_an_image_with_tools_is_a_cd_rom_of_its_own(with_tools: Site, host: EsxiHost) -> None:
    """The second drive behind the one that boots; a program of it runs, and it cannot be written to.

    The data directory is a disk beside it.
    """
    esxi = Esxi(EsxiParameters.model_validate(host.parameters()))
    room = with_tools.host.data_volume("disk", directories.ROOM_BYTES)
    guest = esxi.start(dataclasses.replace(guests.request("netns", BOOT_SECONDS), data=room), with_tools)
    try:
        (name,) = host.machines
        with session_of(host) as session:
            devices = known(session, name).config.hardware.device
            drives: list[Any] = [one for one in devices if isinstance(one, vim.vm.device.VirtualCdrom)]
            assert [(one.unitNumber, one.controllerKey, one.backing.fileName) for one in drives] == [
                (unit, 200, f"[{DATASTORE}] {name}/{file}") for unit, file in enumerate((BOOT_FILE, ROOT_FILE))
            ]
            (store,) = session.centre.datastoreFolder.childEntity
            uploaded = Path(store.summary.url) / name / ROOT_FILE
            assert uploaded.read_bytes() == root_disk(with_tools.image).read_bytes()
        for argv, status, said in (
            (("cat", WORD), 0, "from word\n"),
            (("grep", "/dev/sr1 / erofs ro", "/proc/mounts"), 0, "/dev/sr1 / erofs ro"),
            (("touch", f"{WORD}s"), 1, "Read-only file system"),
            (("grep", "/dev/sda /data ext4 rw", "/proc/mounts"), 0, "/dev/sda /data ext4 rw"),
            (("dd", f"if={WORD}", "of=/data/copy", "conv=fsync"), 0, ""),
        ):
            request = ExecRequest(argv=("/usr/bin/busybox", *argv), timeout_ns=600 * SECOND_NS, limit_bytes=4096)
            ended = guest.agent.ask(request, guests.HANG_SECONDS)
            assert (ended.status, said in (ended.stdout + ended.stderr).decode()) == (status, True)
    finally:
        guest.stop()


def test_room_is_needed_for_its_file_too_and_nothing_of_it_stays(
    run_session: RunSession, with_tools: Site, tmp_path: Path
) -> None:
    boot = boot_disk(with_tools.image, kernel_line(EsxiParameters(), root=True, data=False), drives=True)
    enough = boot.stat().st_size + 2 * guests.MEMORY_BYTES
    for number, (arguments, said) in enumerate(
        (
            (["-free", str(enough + 1)], r"LocalDS_0 has \d+ MiB free and a guest needs \d{3} MiB"),
            (["-faults", "PowerOnVM_Task=SystemError"], r"refused with SystemError: "),
        )
    ):
        with esxi_host(tmp_path / str(number), *arguments) as other:
            before = inventory(other)
            assert re.search(said, refused(run_session, other.parameters(), with_tools))
            assert inventory(other) == before


def test_room_is_needed_for_its_data_directory_too_and_nothing_of_it_stays(
    run_session: RunSession, tmp_path: Path
) -> None:
    """The disk is counted whole, though the file here has holes."""
    boot = boot_disk(run_session.site.image, kernel_line(EsxiParameters(), root=False, data=True), drives=True)
    enough = boot.stat().st_size + 2 * guests.MEMORY_BYTES
    for number, (arguments, said) in enumerate(
        (
            (["-free", str(enough + disk_bytes(directories.ROOM_BYTES) - 1)], r"MiB free and a guest needs \d{3} MiB"),
            (["-faults", "PowerOnVM_Task=SystemError"], r"refused with SystemError: "),
        )
    ):
        room = run_session.site.host.data_volume("disk", directories.ROOM_BYTES)
        with esxi_host(tmp_path / str(number), *arguments) as other:
            before = inventory(other)
            assert re.search(said, refused(run_session, other.parameters(), data=room))
            assert inventory(other) == before
        room.remove()


@pytest.mark.parametrize(
    ("root", "data", "words"),
    [
        (False, False, ["virtoll.channel=/dev/ttyS1"]),
        (True, False, ["virtoll.modules=sr_mod,ata_piix,erofs", "virtoll.root=/dev/sr1", "virtoll.disktype=erofs"]),
        (False, True, ["virtoll.modules=ahci,ext4", "virtoll.data=/dev/sda"]),
        (
            True,
            True,
            [
                "virtoll.modules=sr_mod,ata_piix,erofs,ahci,ext4",
                "virtoll.root=/dev/sr1",
                "virtoll.disktype=erofs",
                "virtoll.data=/dev/sda",
            ],
        ),
    ],
)
def test_the_kernel_is_told_of_the_drives_that_are_there(root: bool, data: bool, words: list[str]) -> None:
    assert kernel_line(EsxiParameters(), root=root, data=data).split()[-len(words) :] == words


def test_a_data_disk_is_a_flat_vmdk_of_a_whole_number_of_sectors() -> None:
    said = MEDIUM.descriptor(2**30)
    assert 'createType="vmfs"' in said
    assert f'RW {2**21} VMFS "{EXTENT_FILE}"\n' in said
    assert 'ddb.adapterType = "lsilogic"' in said
    assert 'ddb.geometry.cylinders = "130"' in said
    assert disk_bytes(3 * 2**30 + 1) % 2**20 == 0


def bare_machine(session: Session, name: str, note: str, networks: tuple[str, ...] = ()) -> Any:
    """A virtual machine that is never switched on."""
    spec = vim.vm.ConfigSpec(
        name=name,
        annotation=note,
        guestId="otherLinux64Guest",
        memoryMB=4,
        numCPUs=1,
        files=vim.vm.FileInfo(vmPathName=f"[{DATASTORE}] {name}/{name}.vmx"),
        deviceChange=[
            _nic("e1000", f"02:00:00:00:00:0{at}", network_of(session, one), -at - 1) for at, one in enumerate(networks)
        ],
    )
    return session.finish(session.centre.vmFolder.CreateVM_Task(config=spec, pool=session.pool))


@pytest.mark.usefixtures("unchanged")
def test_what_dead_labs_left_is_removed_and_nothing_else(host: EsxiHost) -> None:
    dead, alive = "virtoll-00000000dead", "virtoll-0000000a11fe"
    parameters = EsxiParameters.model_validate(host.parameters())
    with session_of(host) as session:
        for lab in (dead, alive):
            groups = port_groups(session, lab, plan_links(0).links[:1])
            session.parameters = parameters.model_copy(update={"uplinks": ("vmnic2",)})
            bare_machine(session, f"{lab}-one", f"{TAG}; and more", tuple(groups.values()))
        bare_machine(session, f"{dead}-theirs", "a machine of somebody who likes the name")
        for name in (f"{dead}-folder", "virtoll-notes"):
            Datastore(session).make_folder(name)
        for name in (f"{dead}-one", f"{dead}-folder"):
            for file in (ROOT_FILE, EXTENT_FILE, DESCRIPTOR_FILE):
                Datastore(session).upload(Path(__file__), f"{name}/{file}")
    removed = remove_leftovers_by_api(parameters, frozenset({alive}))
    assert removed == [f"machine {dead}-one", f"folder [{DATASTORE}] {dead}-folder"]
    with session_of(host) as session:
        left = set(session.machines())
        switches = {one.name for one in session.host.configManager.networkSystem.networkInfo.vswitch}
        assert {f"{alive}-one", f"{dead}-theirs"} <= left
        assert f"{alive}-vmnic2" in switches
        assert f"{dead}-vmnic1" not in switches
        session.finish(known(session, f"{dead}-theirs").Destroy_Task())
        assert Datastore(session).folders("virtoll-") == [f"{alive}-one", "virtoll-notes"]
        Datastore(session).remove_folder("virtoll-notes")
    assert remove_leftovers_by_api(parameters) == [f"machine {alive}-one"]


@pytest.mark.usefixtures("unchanged")
def test_clean_host_with_an_experiments_file_removes_what_is_ours_alone(host: EsxiHost, tmp_path: Path) -> None:
    """By the command line: the file has the credentials, its entries name one host, which is asked once."""
    dead, alive = "virtoll-00000000dead", "virtoll-0000000a11fe"
    with session_of(host) as session:
        for name, note in ((f"{dead}-one", TAG), (f"{alive}-one", TAG), (f"{dead}-theirs", "a pet"), ("pet", TAG)):
            bare_machine(session, name, note)
    entry = {"platform": "esxi", **host.parameters(nic=["vmxnet3", "e1000"])}
    file = experiments.write(tmp_path, platforms=[entry], baseline="esxi-vmxnet3")
    variables = {
        PASSWORD_VARIABLE: PASSWORD,
        "VIRTOLL_STATE": str(tmp_path / "state"),
        "VIRTOLL_CACHE": str(tmp_path / "cache"),
    }
    agent = [sys.executable, "-c", "import sys; print('there', flush=True); sys.stdin.read()", f"/tmp/{alive}/agent"]
    with subprocess.Popen(agent, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as living:
        assert living.stdout is not None
        living.stdout.readline()
        refused = virtoll("clean", "--host", file, changed={**variables, PASSWORD_VARIABLE: "wrong"})
        finished = virtoll("clean", "--host", file, changed=variables)
    assert refused.returncode == 2
    assert "does not let root in: wrong user or password; check 'user' and 'password_from'" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines() == [f"removed machine {dead}-one by the API of esxi-vmxnet3"]
    with session_of(host) as session:
        assert {f"{alive}-one", f"{dead}-theirs", "pet"} <= set(session.machines())
        for name in (f"{alive}-one", f"{dead}-theirs", "pet"):
            session.finish(known(session, name).Destroy_Task())


def test_a_file_without_a_host_to_clean_is_refused(tmp_path: Path) -> None:
    finished = virtoll("clean", "--host", experiments.write(tmp_path))
    assert finished.returncode == 2
    assert "names no host that is cleaned by its product's API (platform esxi); give 'local'" in finished.stderr
    assert len(finished.stderr.strip().splitlines()) == 1


MODELS = {"vmxnet3": "VirtualVmxnet3", "e1000e": "VirtualE1000e", "e1000": "VirtualE1000"}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("nic", MODELS)
def test_each_nic_is_the_device_that_was_asked_for(host: EsxiHost, nic: str) -> None:
    """As the host then has it: class, address, whether it is connected from the start, its port group."""
    parameters = EsxiParameters.model_validate(host.parameters(nic=nic))
    wanted, lab = guests.request("netns"), "virtoll-0123456789ab"
    links_wanted = wanted.network.links
    with session_of(host) as session:
        groups = port_groups(session, lab, links_wanted)
        networks = {link.name: network_of(session, groups[link.name]) for link in links_wanted}
        Datastore(session).make_folder(f"{lab}-nic")
        spec = machine_spec(f"{lab}-nic", wanted, parameters, networks, Line("127.0.0.1", 20000, True), cpu_mhz=2000)
        spec.deviceChange = [one for one in spec.deviceChange if isinstance(one.device, ETHERNET)]
        made = session.finish(session.centre.vmFolder.CreateVM_Task(config=spec, pool=session.pool))
        cards: list[Any] = [one for one in made.config.hardware.device if isinstance(one, ETHERNET)]
        assert [type(one).__name__.rpartition(".")[2] for one in cards] == [MODELS[nic]] * len(links_wanted)
        assert [one.macAddress for one in cards] == [link.guest_mac for link in links_wanted]
        assert {one.addressType for one in cards} == {"manual"}
        assert [one.backing.deviceName for one in cards] == [groups[link.name] for link in links_wanted]
        assert all(one.connectable.startConnected for one in cards)
        leftovers.remove_machine(session, f"{lab}-nic")


@pytest.mark.nested
def test_a_machine_with_e1000_forwards(run_session: RunSession, host: EsxiHost) -> None:
    """The third model, on the whole way: the other two have all tests."""
    ADDED["esxi-e1000"] = dataclasses.replace(ADDED["esxi-vmxnet3"], parameters=host.parameters(nic="e1000"))
    live = guests.start("esxi-e1000", run_session)
    try:
        (machine,) = host.machines.values()
        assert sum(word.startswith("e1000,") for word in machine.command) == 3
        contract.test_a_low_rate_is_forwarded_without_loss_and_the_books_balance(live)
    finally:
        live.held.stop()


@pytest.mark.usefixtures("unchanged")
def test_switches_stay_until_their_last_guest_has_gone(host: EsxiHost) -> None:
    lab = "virtoll-0123456789ab"
    with session_of(host) as session:
        groups = port_groups(session, lab, plan_links(0).links)
        assert port_groups(session, lab, plan_links(1).links) == groups
        for name in ("one", "two"):
            bare_machine(session, f"{lab}-{name}", TAG, tuple(groups.values()))
        leftovers.remove_machine(session, f"{lab}-one")
        assert set(groups.values()) <= set(session.networks())
        leftovers.remove_machine(session, f"{lab}-two")


def test_a_label_says_what_it_is_and_not_where(host: EsxiHost) -> None:
    given = host.parameters(nic=["vmxnet3", "e1000e"], verify="on", thumbprint=":".join(["AB"] * 20))
    asked = experiments.parsed(platforms=[{"platform": "esxi", **given}], baseline="esxi-vmxnet3")
    assert [one.label for one in asked.platforms] == ["esxi-vmxnet3", "esxi-e1000e"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"latency_sensitivity": "high"}, "needs all memory reserved; add 'memory_reservation: full'"),
        ({"port_groups": ["a", "b", "c"]}, "one of 'uplinks'"),
        ({"uplinks": None}, "one of 'uplinks'"),
        ({"uplinks": ["vmnic1", "vmnic1", "vmnic2"]}, "one is named twice"),
        ({"serial": "call"}, "'callback'"),
        ({"password_from": "secret"}, "password_from"),
        ({"datastore": None}, "'datastore' is needed"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(host: EsxiHost, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        EsxiParameters.model_validate(host.parameters(**changed))


def test_each_machine_is_heard_at_a_port_of_its_own(host: EsxiHost) -> None:
    taken = taken_ports(["tcp://:20000", "telnet://192.0.2.1:20001", "odd"])
    assert taken == {20000, 20001}
    line = open_line(EsxiParameters.model_validate(host.parameters()), "one", taken).line
    assert (line.uri, line.listens, line.host) == ("tcp://:20002", True, "127.0.0.1")
